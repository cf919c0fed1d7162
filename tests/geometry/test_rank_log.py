"""The paper's chart: what it computes, where its inverse is exact, how it says that it is not."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import Tensor

from alem import geometry, linalg
from alem.geometry import AdaptiveLogEuclidean, NotADiffeomorphismWarning, RankLog

from .conftest import spd, sym

A = torch.tensor([1.4, 0.6, 1.0, 2.0], dtype=torch.float64)


def alem(multipliers: Tensor, **options: str) -> AdaptiveLogEuclidean:
    m = AdaptiveLogEuclidean(multipliers.numel(), **options).double()
    with torch.no_grad():
        m.diffeo.weight.copy_(multipliers)
    return m


def diag(*logs: float) -> Tensor:
    return torch.diag(torch.tensor(logs, dtype=torch.float64).exp())


@pytest.mark.parametrize(
    ("rule", "value"),
    [("mul", A), ("div", 1 / A), ("relu", (1 / A).exp()), ("exp", A.log())],
)
def test_every_rule_computes_the_same_logarithm(rule: str, value: Tensor) -> None:
    m, P = alem(value, rule=rule), spd(3)
    x, U = torch.linalg.eigh(P)
    expected = U @ torch.diag_embed(A * x.log()) @ U.mT
    torch.testing.assert_close(m.chart(P), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(m.diffeo.multipliers(), A)
    assert m.diffeo.weight.shape == (4,)


@pytest.mark.parametrize("rule", RankLog.RULES)
def test_every_rule_starts_at_the_natural_logarithm(rule: str) -> None:
    m, P = AdaptiveLogEuclidean(4, rule=rule).double(), spd(3)
    torch.testing.assert_close(m.chart(P), linalg.log(P), rtol=1e-6, atol=1e-6)
    assert m.is_diffeo


def test_is_diffeo_only_for_equal_multipliers() -> None:
    assert alem(torch.full((4,), -0.7, dtype=torch.float64)).is_diffeo
    assert not alem(A).is_diffeo


def test_the_branch_finds_the_way_back_where_the_sorted_inverse_does_not() -> None:
    m, P = alem(A), spd(50, seed=3)
    X, branch = m.chart(P), m.diffeo.branch(P)
    torch.testing.assert_close(m.unchart(X, branch), P, rtol=1e-9, atol=1e-9)
    assert m.in_chart(X, branch).all()
    with pytest.warns(NotADiffeomorphismWarning):
        sorted_inverse = m.unchart(X)
    wrong = (sorted_inverse - P).abs().amax((-2, -1)) > 1e-6
    assert wrong.any()


def test_in_chart_says_where_the_sorted_inverse_is_exact() -> None:
    m, X = alem(A), sym(200, n=4, seed=9)
    with pytest.warns(NotADiffeomorphismWarning):
        back = m.chart(m.unchart(X))
    exact = (back - X).abs().amax((-2, -1)) < 1e-8
    assert exact.any()
    assert not exact.all()
    assert torch.equal(m.in_chart(X), exact)


@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
def test_coordinates_are_recalled_whatever_the_chart_does_to_them() -> None:
    m, X = alem(torch.tensor([1.4, -0.6, 1.0, 2.0], dtype=torch.float64)), sym(200, n=4, seed=9)
    T, order = m.diffeo.keep(X)
    torch.testing.assert_close(linalg.exp(T), m.unchart(X), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(m.diffeo.recall(T, order), X, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(m.chart(linalg.exp(T)), X, atol=1e-3)
    with torch.no_grad():  # in the chart as it is then: its multipliers have moved, their order is the same
        m.diffeo.weight.mul_(torch.tensor([1.1, 2.0, 0.9, 1.3]))
    x, U = torch.linalg.eigh(X)
    expected = (U * (x * torch.tensor([1.1, 2.0, 0.9, 1.3]))[..., None, :]) @ U.mT
    torch.testing.assert_close(m.diffeo.recall(T, order), expected, rtol=1e-9, atol=1e-9)


def test_a_true_chart_keeps_a_point() -> None:
    diffeo, X = geometry.GapLogEuclidean().double().diffeo, sym(5, n=4)
    P, order = diffeo.keep(X)
    assert order is None
    torch.testing.assert_close(P, diffeo.unchart(X))
    torch.testing.assert_close(diffeo.recall(P), X)


def test_on_its_domain_the_round_trip_is_exact_without_a_branch() -> None:
    m = alem(torch.tensor([1.0, 1.5, 2.0], dtype=torch.float64))
    P = diag(0.5, 1.0, 2.0)  # A_i t_i ascending
    with pytest.warns(NotADiffeomorphismWarning, match="for 0 of 1 matrices none exists"):
        torch.testing.assert_close(m.unchart(m.chart(P)), P)


def test_exp_uses_the_rank_of_its_base_point() -> None:
    m, P = alem(torch.tensor([2.0, 1.0], dtype=torch.float64)), diag(1.0, 1.5)
    zero = torch.zeros(2, 2, dtype=torch.float64)
    torch.testing.assert_close(m.exp(P, zero), P)
    V = torch.tensor([[0.1, 0.2], [0.2, -0.1]], dtype=torch.float64)
    slope = torch.func.jvp(lambda V: m.exp(P, V), (zero,), (V,))[1]
    torch.testing.assert_close(slope, V)
    torch.testing.assert_close(m.exp(P, m.log(P, m.exp(P, 0.01 * V))), m.exp(P, 0.01 * V))


def test_a_geodesic_starts_at_its_base_point() -> None:
    m, P, Q = alem(torch.tensor([2.0, 1.0], dtype=torch.float64)), diag(1.0, 1.5), diag(1.1, 1.4)
    torch.testing.assert_close(m.geodesic(P, Q, 0.0), P)


def test_exact_ties_are_judged_against_the_largest_eigenvalue() -> None:
    """Two eigenvalues a millionth apart are not resolved beside one 1e12 times as large."""
    close, factors = [1e-12, 1e-12 * (1 + 1e-6)], torch.tensor([1.0, 1.5, 2.0], dtype=torch.float64)
    m = alem(factors, ties="exact")
    apart = torch.diag(torch.tensor([*close, 1e-11], dtype=torch.float64)).requires_grad_()
    torch.autograd.grad(m.chart(apart).sum(), apart)
    beside = torch.diag(torch.tensor([*close, 1.0], dtype=torch.float64)).requires_grad_()
    with pytest.raises(linalg.InvalidMatrixError, match="equal eigenvalues"):
        torch.autograd.grad(m.chart(beside).sum(), beside)


def test_the_warning_comes_once_and_can_be_an_error() -> None:
    m, X = alem(A), sym(20, n=4)
    with pytest.warns(NotADiffeomorphismWarning, match=r"for [1-9]\d* of 20 matrices none exists"):
        m.unchart(X)
    m.unchart(X)  # warnings are errors here: a second one would raise
    strict = alem(A)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotADiffeomorphismWarning)
        for _ in range(2):
            with pytest.raises(NotADiffeomorphismWarning):
                strict.mean(spd(5))


def test_nothing_is_decided_inside_transforms_and_compiled_graphs() -> None:
    m, X = alem(A), sym(20, n=4)
    torch.func.vmap(m.unchart)(X)
    torch.compile(m.unchart, fullgraph=True, backend="eager")(X)
    m.in_chart(X)  # and asking is no reason to warn either


def test_equal_multipliers_never_warn() -> None:
    m = alem(torch.full((4,), 1.3, dtype=torch.float64))
    X, P = sym(20, n=4), spd(20)
    assert m.in_chart(X).all()
    torch.testing.assert_close(m.chart(m.unchart(X)), X, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(m.compose(P, m.invert(P)), torch.eye(4).double().expand(20, 4, 4))


@pytest.mark.parametrize(
    ("rule", "bad"), [("mul", 0.0), ("div", 0.0), ("mul", math.nan), ("exp", math.inf)]
)
def test_a_multiplier_that_is_no_logarithm_is_an_error(rule: str, bad: float) -> None:
    m = AdaptiveLogEuclidean(4, rule=rule).double()
    with torch.no_grad():
        m.diffeo.weight[2] = bad
    with pytest.raises(linalg.InvalidMatrixError, match="multiplier 2"):
        m.chart(spd())


def test_relu_stays_away_from_bases_that_are_no_bases() -> None:
    m = AdaptiveLogEuclidean(3, rule="relu").double()
    with torch.no_grad():
        m.diffeo.weight.copy_(torch.tensor([1.0, -5.0, 2.0]))
    multipliers = m.diffeo.multipliers()
    expected = [1 / math.log(1 + 1e-6), 1 / math.log(1e-6), 1 / math.log(2.0)]
    torch.testing.assert_close(multipliers, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=0)
    assert torch.isfinite(m.chart(spd(n=3))).all()


def test_the_policy_at_ties_is_selectable() -> None:
    P = diag(1.0, 1.0, 2.0).requires_grad_()
    factors = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)
    with pytest.raises(linalg.InvalidMatrixError, match="ties='broadened'"):
        torch.autograd.grad(alem(factors, ties="exact").chart(P).sum(), P)
    (grad,) = torch.autograd.grad(alem(factors, ties="broadened").chart(P).sum(), P)
    assert torch.isfinite(grad).all()
    with pytest.raises(ValueError, match="ties must be"):
        geometry.metric("alem", n=3, ties="ignore")
    with pytest.raises(ValueError, match="rule must be one of"):
        geometry.metric("alem", n=3, rule="square")
