from __future__ import annotations

import pytest
import torch
from sklearn.covariance import ledoit_wolf

from alem import geometry, nn
from alem.linalg import InvalidMatrixError

from ..geometry.conftest import spd


def test_covpool_is_the_covariance() -> None:
    x = torch.randn(2, 3, 4, 50, dtype=torch.float64)
    C = nn.CovPool()(x)
    assert C.shape == (2, 3, 4, 4)
    torch.testing.assert_close(C[1, 2], torch.cov(x[1, 2], correction=0))


def test_covpool_shrinks() -> None:
    x = torch.randn(2, 8, 5, dtype=torch.float64)
    C = nn.CovPool(shrinkage="ledoit-wolf")(x)
    geometry.check_spd(C)
    torch.testing.assert_close(C[1], torch.from_numpy(ledoit_wolf(x[1].T.numpy())[0]))
    geometry.check_spd(nn.CovPool(shrinkage=0.1)(x))
    geometry.check_spd(nn.CovPool(loading=1e-3)(x))
    raw = nn.CovPool(assume_centered=True)(x)
    torch.testing.assert_close(raw, x @ x.mT / 5)


@pytest.mark.parametrize("options", [{"shrinkage": "lw"}, {"shrinkage": 2.0}, {"loading": -1.0}])
def test_covpool_refuses_bad_options_when_it_is_made(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"shrinkage|loading"):
        nn.CovPool(**options)


def test_tracenorm_makes_the_mean_eigenvalue_one() -> None:
    S = spd(2, 3)
    T = nn.TraceNorm()(S)
    torch.testing.assert_close(torch.linalg.eigvalsh(T).mean(-1), torch.ones(2, 3, dtype=S.dtype))
    torch.testing.assert_close(nn.TraceNorm()(1e-30 * S), T)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_tracenorm_names_the_matrix_it_cannot_scale(bad: float) -> None:
    S = spd(3)
    S[1] = bad * torch.eye(4)
    with pytest.raises(InvalidMatrixError, match="matrix 1 has a mean eigenvalue of") as error:
        nn.TraceNorm()(S)
    assert error.value.index == (1,)
