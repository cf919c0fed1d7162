"""The maps that depend on the rank or on the whole spectrum."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from alem.linalg import (
    EXP,
    GAP,
    INVERSE_GAP,
    LOG,
    RANK_INCREMENT,
    Chain,
    ConvergenceError,
    InvalidMatrixError,
    RankScale,
    pushforward,
    solve_pushforward,
    spectral,
)
from tests.linalg.points import (
    POINTS,
    SEPARATED,
    Case,
    assert_close,
    central_difference,
    random,
    random_spd,
    random_symmetric,
    with_spectrum,
)

GAP_VALUES = (1.3, (0.8, -0.4), (0.6, 2.5))
FACTORS = (1.3, 0.5, 2.0)
SMOOTH = {
    "gap of log": Case(Chain(GAP, LOG), GAP_VALUES),
    "exp of inverse gap": Case(Chain(EXP, INVERSE_GAP), GAP_VALUES),
    "gap": Case(GAP, GAP_VALUES),
    "inverse gap": Case(INVERSE_GAP, GAP_VALUES),
}
ORDERED = {
    "rank increments of log": Case(Chain(RANK_INCREMENT, LOG), (FACTORS,)),
    "rank scale of log": Case(Chain(RankScale("exact"), LOG), (FACTORS,)),
    "rank increments": Case(RANK_INCREMENT, (FACTORS,)),
    "rank scale": Case(RankScale("exact"), (FACTORS,)),
}
# The smooth maps at every point; those with a kink at ties where eigenvalues are separated.
WHERE = [(name, SMOOTH[name], p, POINTS[p]) for name in SMOOTH for p in POINTS]
WHERE += [(name, ORDERED[name], p, SEPARATED[p]) for name in ORDERED for p in SEPARATED]
everywhere = pytest.mark.parametrize(
    ("case", "X"), [(c, X) for _, c, _, X in WHERE], ids=[f"{n} at {p}" for n, _, p, _ in WHERE]
)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


# --- derivatives ---------------------------------------------------------------------------------


@everywhere
def test_first_and_second_derivatives(case, X):
    X = X.clone().requires_grad_()

    def f(X, *p):
        return spectral(X, case.phi, *p)

    assert gradcheck(f, (X, *case.parameters()))
    assert gradgradcheck(f, (X, *case.parameters()), atol=1e-4)


@everywhere
def test_derivatives_of_the_pushforward_and_its_inverse(case, X):
    X, V = X.clone().requires_grad_(), random_symmetric(len(X)).requires_grad_()
    p = case.parameters()
    assert gradcheck(lambda X, V, *p: pushforward(X, V, case.phi, *p), (X, V, *p))
    assert gradcheck(lambda X, V, *p: solve_pushforward(X, V, case.phi, *p), (X, V, *p))


@everywhere
def test_the_pushforward_is_the_directional_derivative_and_its_inverse_undoes_it(case, X):
    V, p = random_symmetric(len(X)), case.parameters(requires_grad=False)
    moved = pushforward(X, V, case.phi, *p)
    f = lambda X: spectral(X, case.phi, *p)  # noqa: E731
    assert_close(0.1 * moved, central_difference(f, X, 0.1 * V), 1e-9)
    assert_close(torch.func.jvp(f, (X,), (V,))[1], moved)
    assert_close(solve_pushforward(X, moved, case.phi, *p), V)


@pytest.mark.parametrize("phi", [RANK_INCREMENT, RankScale("exact"), RankScale("broadened")])
@pytest.mark.parametrize("point", POINTS)
def test_equal_factors_are_smooth_at_ties(phi, point):
    """φ = 1.5 t there, so that derivatives in X are right everywhere."""
    X = POINTS[point].clone().requires_grad_()
    factors = torch.full((len(X),), 1.5, dtype=torch.float64)
    chain = Chain(phi, LOG)
    assert_close(spectral(X, chain, factors), 1.5 * spectral(X, LOG))
    assert gradcheck(lambda X: spectral(X, chain, factors), (X,))
    assert gradgradcheck(lambda X: spectral(X, chain, factors), (X,), atol=1e-4)


@pytest.mark.parametrize("ties", ["exact", "broadened"])
@pytest.mark.parametrize("spectrum", [(2.0, 2.0, 5.0), (2.0, 2.0 + 1e-9, 5.0)])
def test_factors_equal_at_a_tie_are_smooth_there(ties, spectrum):
    """Where nothing tears the tied eigenvalues apart, the others' factors do not matter."""
    X = with_spectrum(*spectrum).requires_grad_()
    factors = torch.tensor([2.0, 2.0, 3.0], dtype=torch.float64)
    chain = Chain(RankScale(ties), LOG)
    assert gradcheck(lambda X: spectral(X, chain, factors), (X,))
    assert gradgradcheck(lambda X: spectral(X, chain, factors), (X,), atol=1e-4)


def test_neutral_parameters_give_the_identity():
    X = random_symmetric(4)
    ones = torch.ones(4, dtype=torch.float64)
    neutral = (tensor(1.0)[0], tensor(0.0, 0.0), tensor(1.0, 3.0))
    assert_close(spectral(X, RANK_INCREMENT, ones), X)
    assert_close(spectral(X, RankScale(), ones), X)
    assert_close(spectral(X, GAP, *neutral), X)
    assert_close(spectral(X, INVERSE_GAP, *neutral), X)


# --- rank scale ----------------------------------------------------------------------------------


def singular_part(ties: str, gap: float, dtype: torch.dtype = torch.float64) -> float:
    """K_12 − ā of factors (1, 2) at t = (1, 1 + gap): what 1/gap, or its substitute, multiplies."""
    t = torch.tensor([1.0, 1.0 + gap], dtype=dtype)
    gaps = t[:, None] - t
    factors = torch.tensor([1.0, 2.0], dtype=dtype)
    return float(RankScale(ties).first(t, gaps, factors).loewner[0, 1]) - 1.5


@pytest.mark.parametrize(("widths", "bias"), [(10, 1 / 101), (1, 0.5), (0.1, 100 / 101)])
def test_the_bias_of_broadening_is_the_documented_one(widths, bias):
    gap = widths * 1e-4
    broadened, exact = singular_part("broadened", gap), singular_part("exact", gap)
    assert 1 - broadened / exact == pytest.approx(bias, rel=1e-6)


def test_the_width_of_broadening_follows_the_rounding_of_large_spectra():
    """δ is 1e-4, or a hundred roundings of the largest where that is more."""
    t = torch.tensor([1000.0, 1000.0 + 0.0625], dtype=torch.float32)
    delta = 100 * torch.finfo(torch.float32).eps * float(t[1])
    reciprocal = RankScale("broadened").reciprocal_gaps(t, t[:, None] - t)[1, 0]
    assert float(reciprocal) == pytest.approx(0.0625 / (0.0625**2 + delta**2), rel=1e-5)


def test_a_tie_gives_the_mean_factor_over_the_eigenvalue():
    sigma = 2.0
    K = Chain(RankScale("broadened"), LOG).first(
        tensor(sigma, sigma), torch.zeros(2, 2, dtype=torch.float64), tensor(1.0, 2.0)
    )
    assert K.loewner[0, 1] == pytest.approx(1.5 / sigma)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("gap", [0.0, 1e-16, 1e-12, 1e-8, 1e-4, 1.0])
def test_broadened_derivatives_are_finite(gap, dtype):
    X = with_spectrum(2.0, 2.0 + gap, 5.0).to(dtype).requires_grad_()
    factors = torch.tensor([1.0, 2.0, 0.5], dtype=dtype, requires_grad=True)
    Y = spectral(X, Chain(RankScale("broadened"), LOG), factors)
    first = torch.autograd.grad(Y.pow(2).sum(), (X, factors), create_graph=True)
    second = torch.autograd.grad(sum(g.pow(2).sum() for g in first), (X, factors))
    assert all(bool(torch.isfinite(g).all()) for g in (*first, *second))


@pytest.mark.parametrize("shape", [(), (2, 2)], ids=str)
def test_exact_derivatives_at_ties_of_unequal_factors_raise(shape):
    X = SEPARATED["separated"].repeat(*shape, 1, 1).clone()
    index = tuple(1 for _ in shape)
    X[index] = POINTS["diag(2,2,5)"]
    X.requires_grad_()
    chain = Chain(RankScale("exact"), LOG)
    unequal, equal_at_the_tie = tensor(1.0, 2.0, 3.0), tensor(2.0, 2.0, 3.0)
    Y = spectral(X, chain, unequal)
    with pytest.raises(InvalidMatrixError, match="unequal factors") as caught:
        Y.sum().backward()
    assert caught.value.index == index
    spectral(X, chain, equal_at_the_tie).sum().backward()
    assert bool(torch.isfinite(X.grad).all())


def test_an_exact_derivative_is_refused_up_to_a_hundred_roundings():
    eps = torch.finfo(torch.float64).eps
    for roundings, refused in ((64, True), (256, False)):
        t = tensor(1.0, 1.0 + roundings * eps)
        if refused:
            with pytest.raises(InvalidMatrixError):
                RankScale("exact").first(t, t[:, None] - t, tensor(1.0, 2.0))
        else:
            RankScale("exact").first(t, t[:, None] - t, tensor(1.0, 2.0))


def test_the_policy_for_ties_is_checked():
    with pytest.raises(ValueError, match="'exact' or 'broadened'"):
        RankScale("ignored")


# --- rank increments -----------------------------------------------------------------------------

factors = st.lists(st.floats(0.01, 100.0), min_size=4, max_size=4)


@settings(max_examples=50, deadline=None)
@given(c=factors, t=st.lists(st.floats(-20, 20), min_size=4, max_size=4))
def test_the_inverse_of_rank_increments_has_the_reciprocal_factors(c, t):
    c, t = tensor(*c), tensor(*sorted(t))
    there = RANK_INCREMENT.values(t, c)
    assert bool((there.diff() >= 0).all())
    back = RANK_INCREMENT.values(there, 1 / c)
    assert float((back - t).abs().max()) <= 1e-12 * (1 + float(there.abs().max() / c.min()))


def test_the_derivative_of_rank_increments_at_ties_is_a_generalised_jacobian():
    """The mean of the factors between two equal eigenvalues lies between the one-sided slopes."""
    c = tensor(1.3, 0.5, 2.0, 0.8)
    t = tensor(0.4, 1.0, 1.0, 1.0)
    K = RANK_INCREMENT.first(t, t[:, None] - t, c).loewner
    assert float(K[1, 2]) == 2.0
    assert float(K[2, 3]) == pytest.approx(0.8)
    assert float(K[1, 3]) == pytest.approx(1.4)
    assert float(K[0, 3]) == pytest.approx(0.5)
    X = torch.diag(t.exp()).requires_grad_()
    Y = spectral(X, Chain(RANK_INCREMENT, LOG), c)
    (gradient,) = torch.autograd.grad(Y.pow(2).sum(), X, create_graph=True)
    assert bool(torch.isfinite(gradient).all())


# --- the gap map ---------------------------------------------------------------------------------

BENT = {
    "gentle": (1.3, (0.8, -0.4), (0.6, 2.5)),
    "steep": (0.5, (50.0, 20.0), (0.05, 3.0)),
    "nearly flat": (1.0, (-0.6, -0.39), (0.5, 5.0)),
    "slow": (0.01, (3.0, -0.004), (0.3, 20.0)),
}
bent = pytest.mark.parametrize("values", BENT.values(), ids=BENT.keys())


@bent
@settings(max_examples=25, deadline=None)
@given(t=st.lists(st.floats(-30, 30), min_size=1, max_size=6))
def test_the_inverse_gap_map_undoes_the_gap_map(values, t):
    p = Case(GAP, values).parameters(requires_grad=False)
    t = tensor(*sorted(t))
    x = GAP.values(t, *p)
    size = 1 + float(t.abs().max())
    assert float((GAP.values(INVERSE_GAP.values(x, *p), *p) - x).abs().max()) < 1e-12 * size * 50
    assert float((INVERSE_GAP.values(x, *p) - t).abs().max()) < 1e-9 * size


@bent
def test_the_gap_map_of_matrices_and_its_inverse(values):
    p = Case(GAP, values).parameters(requires_grad=False)
    X = random_spd(3, 4)
    there = spectral(X, Chain(GAP, LOG), *p)
    assert_close(spectral(there, Chain(EXP, INVERSE_GAP), *p), X, 1e-9)


def test_the_gap_map_commutes_with_scaling():
    """φ(t + a) = φ(t) + c·a: scaling a matrix shifts its image."""
    p = SMOOTH["gap"].parameters(requires_grad=False)
    t = tensor(-1.0, 0.3, 0.3, 2.0)
    assert_close(GAP.values(t + 5, *p), GAP.values(t, *p) + 5 * p[0])


@pytest.mark.parametrize("ratio", [1e4, 1e7])
def test_the_inverse_gap_map_is_found_however_steep_the_map(ratio):
    """The digits that φ loses of the mean are lost for good; nothing else is."""
    p = tensor(1.0)[0], tensor(ratio, 0.3 * ratio), tensor(0.5, 3.0)
    t = random(50, 4, seed=4).mul_(3).sort(-1)[0]
    found = INVERSE_GAP.values(GAP.values(t, *p), *p)
    assert float((found - t).abs().max()) < 1e-14 * ratio


@pytest.mark.parametrize("broken", ["target", "parameter"])
def test_the_inverse_gap_map_says_when_it_does_not_converge(broken):
    x = torch.stack([tensor(0.0, 1.0), tensor(0.3, torch.nan if broken == "target" else 0.4)])
    v = tensor(torch.nan if broken == "parameter" else 2.0)
    with pytest.raises(ConvergenceError, match=r"matrix [01] in \d+ steps") as caught:
        INVERSE_GAP.values(x, tensor(1.0)[0], v, tensor(1.0))
    assert broken == "parameter" or "matrix 1 " in str(caught.value)


def test_a_gap_map_that_is_no_chart_is_found_out():
    with pytest.raises(ConvergenceError, match="Σ min"):
        INVERSE_GAP.values(tensor(0.0, 0.1), tensor(1.0)[0], tensor(-1.5), tensor(1.0))


def test_the_inverse_gap_map_under_vmap():
    case = SMOOTH["exp of inverse gap"]
    p = case.parameters(requires_grad=False)
    X = torch.stack([random_symmetric(3), torch.zeros(3, 3).double(), POINTS["diag(2,2,5)"]])
    f = lambda X, *p: spectral(X, case.phi, *p)  # noqa: E731
    loss = lambda X, *p: f(X, *p).sum()  # noqa: E731
    assert_close(torch.func.vmap(lambda X: f(X, *p))(X), f(X, *p))
    gradients = torch.func.vmap(torch.func.grad(lambda X: loss(X, *p)))(X)
    assert_close(gradients, torch.stack([torch.func.grad(loss)(x, *p) for x in X]))
    c = tensor(1.0, 1.5)
    over_c = torch.func.vmap(lambda c: f(X, c, *p[1:]))(c)
    assert_close(over_c, torch.stack([f(X, one, *p[1:]) for one in c]))


@pytest.mark.parametrize(
    "name", ["gap of log", "exp of inverse gap", "rank increments of log", "rank scale of log"]
)
def test_compiles_in_one_graph(name):
    torch._dynamo.reset()
    case = {**SMOOTH, **ORDERED}[name]
    weight = random_symmetric(3)
    inputs = (SEPARATED["separated"].clone().requires_grad_(), *case.parameters())

    def f(X, *p):
        return (weight * spectral(X, case.phi, *p)).sum()

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    found, expected = compiled(*inputs), f(*inputs)
    assert_close(found, expected)
    for a, b in zip(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs), strict=True):
        assert_close(a, b)


def test_the_general_second_derivative_carries_the_gaps():
    """K_12 of unequal factors is their jump over the gap, which rounded logarithms know to ten digits."""
    sigma = torch.tensor([2.0, 2.0 + 1e-9, 3.0], dtype=torch.float64)
    t, a = sigma.log(), torch.tensor([1.0, 2.0, 1.5], dtype=torch.float64)
    gaps = LOG.first(sigma, sigma[:, None] - sigma).loewner * (sigma[:, None] - sigma)
    left, right = torch.zeros(3, 3).double(), torch.zeros(3, 3).double()
    left[0, 1] = left[1, 0] = right[1, 2] = right[2, 1] = 1.0
    K = RankScale("exact").first(t, gaps, a).loewner
    expected = (K[0, 1] - K[1, 2]) / gaps[0, 2]
    found = RankScale("exact").second(t, gaps, left, right, a)[0, 2]
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)
    assert abs(float((t[1] - t[0]) / gaps[1, 0]) - 1) > 1e-11  # what the rounded logarithms would say
