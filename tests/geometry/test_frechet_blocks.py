from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from alem import geometry
from alem.geometry import Blocks, frechet_blocks
from alem.linalg.errors import ConvergenceError, InvalidMatrixError

from .conftest import spd

METRICS = {"aim": geometry.AffineInvariant(), "bwm": geometry.BuresWasserstein()}


@pytest.fixture(params=METRICS)
def m(request: pytest.FixtureRequest) -> geometry.Metric:
    return METRICS[request.param]


@pytest.fixture(autouse=True)
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frechet_blocks, "SAMPLE_BYTES", 0)
    monkeypatch.setattr(frechet_blocks, "SAMPLE_LEAST", 64)


class Counted(Blocks):
    """Counts the passes."""

    passes = 0

    def map(self, f: Callable) -> Iterator:
        self.passes += 1
        return super().map(f)


def check(m: geometry.Metric, X: Tensor, w: Tensor, size: int, passes: int) -> None:
    blocks = Counted(list(zip(X.split(size), w.split(size), strict=True)))
    found = m.moments(blocks)
    expected = m.mean(X, w)
    assert float(m.dist(found.mean, expected)) < 1e-9 * max(1.0, float(expected.trace()) ** 0.5)
    torch.testing.assert_close(found.variance, m.variance(X, expected, w), rtol=1e-10, atol=0.0)
    assert blocks.passes <= passes


def ones(X: Tensor) -> Tensor:
    return torch.ones(len(X), dtype=X.dtype)


def test_many_matrices_take_about_ten_passes(m: geometry.Metric) -> None:
    X = spd(3000, n=5)
    check(m, X, torch.rand(3000, dtype=X.dtype), 250, 12)


def test_sorted_and_far_apart(m: geometry.Metric) -> None:
    """One block is not like another, so that a sample of the first would say nothing of the rest."""
    X = spd(1000, n=4)
    X = torch.cat([X[:500] * 1e-3, m.geodesic(torch.eye(4, dtype=X.dtype), X[500:], 0.2) * 50])
    check(m, X, ones(X), 100, 20)


def test_one_weight_larger_than_all_others(m: geometry.Metric) -> None:
    X, w = spd(1000, n=4), torch.full((1000,), 1e-3, dtype=torch.float64)
    w[789] = 30.0
    check(m, X, w, 100, 12)


def test_outliers_that_the_sample_may_miss(m: geometry.Metric) -> None:
    X = spd(2000, n=4)
    X[::500] = geometry.LogEuclidean().scale(X[::500], 3.0)
    check(m, X, ones(X), 300, 20)


def test_equal_matrices(m: geometry.Metric) -> None:
    P = spd(n=4)
    found = m.moments([P.expand(100, 4, 4)] * 3)
    torch.testing.assert_close(found.mean, P, rtol=1e-11, atol=1e-11)
    assert 0 <= float(found.variance) < 1e-20


def test_as_many_as_the_sample_are_averaged_at_once(m: geometry.Metric) -> None:
    X = spd(64, n=4)
    blocks = Counted(X.split(30))
    found = m.moments(blocks)
    assert blocks.passes == 1
    torch.testing.assert_close(found.mean, m.mean(X), rtol=1e-12, atol=1e-12)
    assert m.moments(iter(X.split(30))).weight == 64


def test_more_need_several_passes(m: geometry.Metric) -> None:
    X = spd(65, n=4)
    with pytest.raises(TypeError, match=r"several passes .* a list of blocks"):
        m.moments(iter(X.split(30)))


def test_how_blocks_are_cut_does_not_matter(m: geometry.Metric) -> None:
    X = spd(500, n=3)
    one, other = m.moments(X.split(500)), m.moments(X.split(7))
    torch.testing.assert_close(one.mean, other.mean, rtol=1e-10, atol=1e-10)


def test_no_convergence_is_an_error(m: geometry.Metric, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frechet_blocks, "newton", lambda equation, R, evaluate, passes: evaluate(R))
    with pytest.raises(ConvergenceError, match=r"passes over the blocks: Newton decrement .*wanted"):
        m.moments(spd(500, n=3).split(100))


def test_asymmetric_matrices_are_found(m: geometry.Metric) -> None:
    X = spd(200, n=3)
    X[150, 0, 1] += 1
    with pytest.raises(InvalidMatrixError, match=r"matrix 150 .*not symmetric"):
        m.moments(X.split(100))


def test_weights_of_the_sample_sum_to_about_those_of_all() -> None:
    """Priority sampling is unbiased: the mean over many samples is within its error."""
    generator = torch.Generator().manual_seed(0)
    w = torch.rand(400, generator=generator, dtype=torch.float64) ** 3
    X = torch.eye(2, dtype=torch.float64).expand(400, 2, 2)
    sums = []
    for seed in range(200):
        sample = frechet_blocks._sample(seed, X, w)
        assert len(sample.X) == 64
        sums.append(float(sample.weighted()[1].sum()))
    estimate = torch.tensor(sums)
    assert abs(float(estimate.mean() - w.sum())) < 4 * float(estimate.std()) / 200**0.5
    assert float(estimate.std()) < 0.2 * float(w.sum())


def test_a_sample_too_small_for_the_data_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 of 600 matrices of condition 1e6 that point every way say little of the Bures–Wasserstein mean."""
    monkeypatch.setattr(frechet_blocks, "SAMPLE_BYTES", 500 * 8 * 256)
    monkeypatch.setattr(frechet_blocks, "SHARE", 0.0)
    G = torch.Generator().manual_seed(0)
    U = torch.linalg.qr(torch.randn(600, 16, 16, generator=G, dtype=torch.float64))[0]
    x = torch.exp((torch.rand(600, 16, generator=G, dtype=torch.float64) - 0.5) * 13.8)
    X = (U * x[:, None, :]) @ U.mT
    check(METRICS["bwm"], (X + X.mT) / 2, ones(X), 100, 30)
