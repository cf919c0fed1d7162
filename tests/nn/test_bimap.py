from __future__ import annotations

import pytest
import torch

from alem import geometry, nn
from alem.linalg import InvalidMatrixError

from ..geometry.conftest import spd


@pytest.mark.parametrize(("n_in", "n_out"), [(6, 3), (4, 4), (3, 1), (1, 1)])
def test_it_is_a_congruence_with_orthonormal_rows(n_in: int, n_out: int) -> None:
    layer = nn.BiMap(n_in, n_out).double()
    W, S = layer.weight, spd(2, 3, n=n_in)
    assert W.shape == (n_out, n_in)
    torch.testing.assert_close(W @ W.mT, torch.eye(n_out, dtype=W.dtype), atol=1e-6, rtol=0)
    torch.testing.assert_close(layer(S), W @ S @ W.mT)
    geometry.check_spd(layer(S))


def test_it_starts_orthonormal_to_rounding_in_the_dtype_asked_for() -> None:
    W = nn.BiMap(20, 10, dtype=torch.float64).weight
    assert W.dtype == torch.float64
    torch.testing.assert_close(W @ W.mT, torch.eye(10, dtype=W.dtype), atol=1e-13, rtol=0)


def test_it_starts_at_the_leading_eigenvectors_of_a_positive_matrix() -> None:
    torch.manual_seed(4)
    W = nn.BiMap(8, 3, dtype=torch.float64).weight.detach()
    torch.manual_seed(4)
    V = torch.rand(8, 8, dtype=torch.float64)
    U = torch.linalg.svd(V @ V.mT)[0][:, :3]
    torch.testing.assert_close(W.mT @ W, U @ U.mT)
    torch.testing.assert_close((W @ U).abs(), torch.eye(3, dtype=W.dtype))


def test_more_dimensions_out_than_in_are_filled_with_the_identity() -> None:
    layer = nn.BiMap(3, 5, dtype=torch.float64)
    S, T = spd(4, n=3, seed=1), spd(4, n=3, seed=2)
    spectrum = torch.linalg.eigvalsh(layer(S))
    expected = torch.cat([torch.linalg.eigvalsh(S), torch.ones(4, 2, dtype=S.dtype)], -1).sort()[0]
    torch.testing.assert_close(spectrum, expected)
    W, lem = layer.weight, geometry.LogEuclidean()
    torch.testing.assert_close(lem.chart(layer(S)), W @ lem.chart(S) @ W.mT, atol=1e-12, rtol=0)
    torch.testing.assert_close(lem.dist(layer(S), layer(T)), lem.dist(S, T))
    torch.testing.assert_close(layer(lem.compose(S, T)), lem.compose(layer(S), layer(T)))
    torch.testing.assert_close(layer(torch.eye(3, dtype=S.dtype)), torch.eye(5, dtype=S.dtype))


def test_bad_input_is_named() -> None:
    layer = nn.BiMap(4, 2)
    with pytest.raises(InvalidMatrixError, match=r"BiMap was made for n = 4 .* \(2, 3, 3\)"):
        layer(torch.eye(3).expand(2, 3, 3))
    with pytest.raises(
        InvalidMatrixError, match=r"BiMap holds torch.float32 and got matrices of torch.float64"
    ):
        layer(torch.eye(4, dtype=torch.float64))
    with pytest.raises(InvalidMatrixError, match="covariance"):
        layer(torch.randn(4, 100))
    with pytest.raises(ValueError, match="size 1 at least"):
        nn.BiMap(4, 0)
