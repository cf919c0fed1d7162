from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from alem import geometry
from alem.geometry import Blocks, blocks
from alem.linalg import InvalidMatrixError

from .conftest import learned_metric, spd


@pytest.fixture
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "PIECE", 5 * 8 * 16)


def moments_of(name: str, X: list[torch.Tensor], w: list[torch.Tensor]) -> geometry.Moments:
    return learned_metric(name, 4).moments(list(zip(X, w, strict=True)))


def test_moments_of_blocks_are_those_of_all(name: str, few_at_a_time: None) -> None:
    m, X = learned_metric(name, 4), spd(60, n=4)
    w = torch.rand(60, dtype=X.dtype).detach()
    w[::7] = 0.0
    cuts = (0, 1, 13, 13, 44, 60)  # one of them empty
    parts = [(X[i:j], w[i:j]) for i, j in itertools.pairwise(cuts)]
    found = m.moments(parts)
    with torch.no_grad():
        torch.testing.assert_close(found.mean, m.mean(X, w), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(found.variance, m.variance(X, weights=w), rtol=1e-10, atol=1e-10)
    assert found.weight == pytest.approx(float(w.sum()), rel=1e-14)
    unweighted = m.moments([X[:50], X[50:]], dispersion=False)
    with torch.no_grad():
        torch.testing.assert_close(unweighted.mean, m.mean(X), rtol=1e-10, atol=1e-10)
    assert unweighted.variance is None
    assert unweighted.weight == 60


def test_the_precision_is_that_of_the_matrices(name: str) -> None:
    m = learned_metric(name, 4, torch.float32)
    X = spd(30, n=4, dtype=torch.float32)
    found = m.moments([X[:9], X[9:]])
    assert found.mean.dtype == found.variance.dtype == torch.float32
    with torch.no_grad():
        torch.testing.assert_close(found.mean, m.mean(X), rtol=2e-5, atol=2e-5)


def test_arrays_of_numpy_will_do_read_only_ones_too() -> None:
    X = spd(12, n=3)
    array = X.numpy().copy()
    array.flags.writeable = False
    expected = geometry.LogEuclidean().mean(X)
    found = geometry.LogEuclidean().moments([array[:5], (array[5:], np.ones(7))])
    torch.testing.assert_close(found.mean, expected, rtol=1e-12, atol=1e-12)


def test_errors_name_the_place_among_all_matrices(name: str, few_at_a_time: None) -> None:
    m, X = learned_metric(name, 4), spd(40, n=4)
    X[33] -= 10 * float(X[33].trace()) * torch.eye(4, dtype=X.dtype)
    w = torch.ones(40, dtype=X.dtype)
    w[30:33] = 0  # what does not count shifts nothing
    with pytest.raises(InvalidMatrixError, match=r"matrix 33 .*not positive definite") as caught:
        m.moments([X[:20], (X[20:], w[20:])])
    assert caught.value.index == (33,)
    w[33] = 0
    m.moments([X[:20], (X[20:], w[20:])])


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_a_bad_weight_is_named(name: str, bad: float) -> None:
    X, w = spd(10, n=4), torch.ones(5)
    w[2] = bad
    with pytest.raises(InvalidMatrixError, match=r"weight of matrix 7 is .*finite and not negative"):
        learned_metric(name, 4).moments([X[:5], (X[5:], w)])


def test_what_is_no_block_is_refused(name: str) -> None:
    m, X = learned_metric(name, 4), spd(10, n=4)
    with pytest.raises(TypeError, match=r"pass \[X\]"):
        m.moments(X)
    with pytest.raises(
        InvalidMatrixError, match=r"blocks of matrices \(k, n, n\), got one of shape \(4, 4\)"
    ):
        m.moments(list(X))
    with pytest.raises(InvalidMatrixError, match="needs weights"):
        m.moments([(X, torch.ones(9))])
    with pytest.raises(InvalidMatrixError, match="no blocks"):
        m.moments([])
    with pytest.raises(ValueError, match="all weights are 0"):
        m.moments([(X, torch.zeros(10))])
    with pytest.raises(InvalidMatrixError, match=r"size 3|made for n = 4"):
        m.moments([X, spd(10, n=3)])
    with pytest.raises(InvalidMatrixError, match="float32 or float64"):
        m.moments([X.long()])


def test_a_generator_can_be_gone_through_once() -> None:
    X = spd(6)
    assert not Blocks(iter([X])).can_repeat
    assert Blocks([X]).can_repeat


def test_a_metric_may_have_no_mean_over_blocks() -> None:
    class Other(geometry.LogEuclidean):
        moments = geometry.Metric.moments

    with pytest.raises(NotImplementedError, match="Other has no mean over blocks"):
        Other().moments([spd(3)])
