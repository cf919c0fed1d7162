from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alem import geometry
from alem.geometry import MomentSum, blocks
from alem.linalg import InvalidMatrixError

from .conftest import FLAT, learned_metric, spd


@pytest.fixture(params=FLAT)
def m(request: pytest.FixtureRequest) -> geometry.PullbackMetric:
    return learned_metric(request.param, 4)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_any_tree_of_merges_is_the_sum_of_all(sizes: list[int], random: object) -> None:
    m = geometry.GapLogEuclidean()
    X = spd(sum(sizes), n=3)
    w = torch.rand(len(X), generator=torch.Generator().manual_seed(1), dtype=X.dtype) + 0.01
    parts = [MomentSum(m).add(a, b) for a, b in zip(X.split(sizes), w.split(sizes), strict=True)]
    while len(parts) > 1:
        i = random.randrange(len(parts) - 1)
        parts[i : i + 2] = [copy.deepcopy(parts[i + 1]).merge(parts[i])]
    with torch.no_grad():
        torch.testing.assert_close(parts[0].mean, m.mean(X, w), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(parts[0].variance, m.variance(X, weights=w), rtol=1e-12, atol=1e-14)


def test_small_dispersions_about_a_far_mean_keep_their_digits(m: geometry.PullbackMetric) -> None:
    """Σ‖Y‖² − N‖mean‖² would have none."""
    P = spd(n=4) * 1e3
    step = 1e-7 * torch.randn(200, 4, 4, generator=torch.Generator().manual_seed(0), dtype=P.dtype)
    with torch.no_grad():
        X = m.exp(P, step + step.mT)
        total = MomentSum(m)
        for block in X.split(17):
            total.add(block)
        expected = m.variance(X)
    torch.testing.assert_close(total.variance, expected, rtol=1e-6, atol=0.0)


def test_adding_nothing_changes_nothing(m: geometry.PullbackMetric) -> None:
    X = spd(5, n=4)
    total = MomentSum(m).add(X[:0]).add(X, torch.zeros(5))
    assert total.weight == 0
    for ask in ("mean", "variance"):
        with pytest.raises(ValueError, match="nothing has a mean"):
            getattr(total, ask)
    one = MomentSum(m).add(X)
    torch.testing.assert_close(one.merge(total).mean, MomentSum(m).add(X).mean, rtol=0, atol=0)


def test_sums_of_different_metrics_do_not_add(m: geometry.PullbackMetric) -> None:
    X = spd(5, n=4)
    for other in (geometry.LogEuclidean(a=2.0), geometry.LogEuclidean(a=1.0, b=0.5)):
        with pytest.raises(ValueError, match="different metrics"):
            MomentSum(m).add(X).merge(MomentSum(other).add(X))
    moved = copy.deepcopy(m)
    for parameter in moved.parameters():
        parameter.data.add_(0.01)
        with pytest.raises(ValueError, match="different metrics"):
            MomentSum(m).add(X).merge(MomentSum(moved).add(X))


def test_it_travels_between_processes(m: geometry.PullbackMetric) -> None:
    X = spd(9, n=4)
    total = pickle.loads(pickle.dumps(MomentSum(m).add(X[:4]))).merge(MomentSum(m).add(X[4:]))
    with torch.no_grad():
        torch.testing.assert_close(total.mean, m.mean(X), rtol=1e-12, atol=1e-12)


def test_of_float32_sums_are_kept_in_double_precision() -> None:
    X = spd(n=3, dtype=torch.float32).expand(70_000, 3, 3)
    total = MomentSum(geometry.LogEuclidean()).add(X)
    torch.testing.assert_close(total.mean, X[0], rtol=1e-5, atol=1e-6)
    assert float(total.variance) < 1e-12


def test_what_is_added_is_checked_and_added_whole_or_not_at_all(
    m: geometry.PullbackMetric, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "PIECE", 10 * 8 * 16)
    X = spd(40, n=4)
    total = MomentSum(m).add(X)
    bad, skew = X.clone(), X.clone()
    bad[35, 0, 0] = torch.nan
    skew[35, 0, 1] += 1
    for wrong in (bad, skew):
        with pytest.raises(InvalidMatrixError, match="matrix 35 "):
            total.add(wrong)
    for weights in ([-1.0], [float("nan")], [1.0, 1.0]):
        with pytest.raises(InvalidMatrixError, match="weight"):
            total.add(X[:1], torch.tensor(weights))
    for shape in (X[0], X.reshape(2, 20, 4, 4), X.numpy()):
        with pytest.raises(InvalidMatrixError, match="as tensors"):
            total.add(shape)
    assert total.weight == 40


def test_parameters_that_have_changed_meanwhile_are_noticed(m: geometry.PullbackMetric) -> None:
    if not list(m.parameters()):
        pytest.skip("nothing to change")
    m, X = copy.deepcopy(m), spd(9, n=4)
    total = MomentSum(m).add(X)
    with torch.no_grad():
        next(m.parameters()).add_(0.1)
    with pytest.raises(ValueError, match="other parameters"):
        total.add(X)


def test_a_mean_that_is_no_sum_says_so() -> None:
    with pytest.raises(TypeError, match="no sum"):
        MomentSum(geometry.AffineInvariant())
