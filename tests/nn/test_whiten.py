from __future__ import annotations

import pytest
import torch

from alem import geometry, models, nn
from alem.linalg import InvalidMatrixError

from ..geometry.conftest import spd


def test_the_mean_of_the_training_matrices_becomes_the_identity() -> None:
    X = spd(40, n=5)
    layer = nn.Whiten(5, dtype=X.dtype)
    layer.calibrate([X[:7], X[7:].reshape(3, 11, 5, 5)])
    eye = torch.eye(5, dtype=X.dtype)
    torch.testing.assert_close(layer(X).mean(0), eye)
    torch.testing.assert_close(layer.root @ X.mean(0) @ layer.root, eye)
    torch.testing.assert_close(layer.root, layer.root.mT)


def test_it_is_an_isometry_of_the_affine_invariant_metric() -> None:
    X = spd(10, n=4)
    layer = nn.Whiten(4, dtype=X.dtype)
    layer.calibrate([X])
    aim = geometry.AffineInvariant()
    torch.testing.assert_close(aim.dist(layer(X[:5]), layer(X[5:])), aim.dist(X[:5], X[5:]))


def test_it_does_nothing_before_and_its_root_travels_with_the_state() -> None:
    X = spd(6, n=3)
    layer = nn.Whiten(3, dtype=X.dtype)
    torch.testing.assert_close(layer(X), X)
    layer.calibrate([X])
    other = nn.Whiten(3, dtype=X.dtype)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(X), layer(X))
    assert not list(layer.parameters())


def test_what_it_refuses() -> None:
    with pytest.raises(ValueError, match="Whiten needs a whole number n of 1 or more"):
        nn.Whiten(0)
    layer = nn.Whiten(3, dtype=torch.float64)
    with pytest.raises(ValueError, match="a matrix at least"):
        layer.calibrate([])
    with pytest.raises(InvalidMatrixError):
        layer.calibrate([spd(4, n=5)])
    with pytest.raises(InvalidMatrixError, match=r"not positive definite|singular"):
        layer.calibrate([torch.zeros(4, 3, 3, dtype=torch.float64)])
    with pytest.raises(InvalidMatrixError):
        layer(spd(4, n=5))


def test_a_network_shows_it_what_comes_out_of_the_layers_before() -> None:
    X = spd(12, n=4) * torch.linspace(1, 100, 12, dtype=torch.float64)[:, None, None]
    net = models.SPDNet([4, 3], 2, trace_norm=True, whiten=True).double()
    net.calibrate([X[:5], X[5:]])
    scaled = net.layers.trace_norm(X)
    whitened = net.layers.whiten(scaled)
    torch.testing.assert_close(whitened.mean(0), torch.eye(4, dtype=torch.float64))
    models.SPDNet([4, 3], 2).double().calibrate([X])  # nothing to show it to
