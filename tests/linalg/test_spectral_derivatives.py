"""First and second derivatives of spectral functions, above all at repeated eigenvalues."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from alem import linalg
from alem.linalg import (
    INVERSE_SQRT,
    LOG,
    SQRT,
    Clamp,
    jet,
    pushforward,
    solve_jet,
    solve_pushforward,
    spectral,
)
from tests.linalg.points import (
    MAPS,
    POINTS,
    assert_close,
    central_difference,
    random_spd,
    random_symmetric,
    with_spectrum,
)

cases = pytest.mark.parametrize("case", MAPS.values(), ids=MAPS.keys())
points = pytest.mark.parametrize("point", POINTS)
# clamp flattens: where an eigenvalue lies below the minimum its derivative has no inverse
INVERTIBLE = {name: case for name, case in MAPS.items() if "clamp" not in name}
invertible = pytest.mark.parametrize("case", INVERTIBLE.values(), ids=INVERTIBLE.keys())


@cases
@points
def test_first_and_second_derivatives(case, point):
    X = POINTS[point].clone().requires_grad_()

    def f(X, *p):
        return spectral(X, case.phi, *p)

    assert gradcheck(f, (X, *case.parameters()))
    assert gradgradcheck(f, (X, *case.parameters()), atol=1e-4)


@cases
@points
def test_derivatives_of_the_pushforward(case, point):
    X = POINTS[point].clone().requires_grad_()
    V = random_symmetric(len(X)).requires_grad_()
    assert gradcheck(lambda X, V, *p: pushforward(X, V, case.phi, *p), (X, V, *case.parameters()))


@invertible
@points
def test_derivatives_of_its_inverse(case, point):
    X = POINTS[point].clone().requires_grad_()
    W = random_symmetric(len(X)).requires_grad_()

    def f(X, W, *p):
        return solve_pushforward(X, W, case.phi, *p)

    assert gradcheck(f, (X, W, *case.parameters()))


@cases
@points
def test_three_ways_to_the_directional_derivative(case, point):
    X, p = POINTS[point], case.parameters(requires_grad=False)
    V = random_symmetric(len(X))

    def f(X):
        return spectral(X, case.phi, *p)

    found = pushforward(X, V, case.phi, *p)
    assert_close(torch.func.jvp(f, (X,), (V,))[1], found)
    if point != "identity" or case is not MAPS["clamp"]:
        assert_close(central_difference(f, X, 0.1 * V), 0.1 * found, 1e-9)


@invertible
@points
def test_the_inverse_undoes_the_pushforward(case, point):
    X, p = POINTS[point], case.parameters(requires_grad=False)
    V = random_symmetric(len(X))
    value, W = jet(X, V, case.phi, *p)
    again, solved = solve_jet(X, W, case.phi, *p)
    assert_close(solved, V)
    assert_close(value, spectral(X, case.phi, *p))
    assert_close(again, value)


def test_the_derivative_of_the_log_at_the_identity_is_the_identity():
    V = random_symmetric(3)
    assert_close(pushforward(torch.eye(3, dtype=torch.float64), V, LOG), V)


def test_the_derivative_of_the_log_at_a_tie_is_known():
    """log[2, 2] = 1/2, log[2, 5] = log(5/2)/3."""
    V = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    a = torch.tensor(2.5, dtype=torch.float64).log() / 3
    expected = torch.tensor([[0.5, 0.5, a], [0.5, 0.5, a], [a, a, 0.2]], dtype=torch.float64)
    assert_close(pushforward(POINTS["diag(2,2,5)"], V, LOG), expected)


# --- order three ---------------------------------------------------------------------------------


@cases
def test_a_third_derivative_raises_instead_of_being_wrong(case):
    X = random_spd(3).requires_grad_()
    p = case.parameters()
    (first,) = torch.autograd.grad(spectral(X, case.phi, *p).pow(2).sum(), X, create_graph=True)
    (second,) = torch.autograd.grad(first.pow(2).sum(), X, create_graph=True)
    with pytest.raises(NotImplementedError, match="order one and two"):
        torch.autograd.grad(second.sum(), X)


def test_a_third_derivative_in_a_parameter_raises_too():
    X = random_spd(3)
    p = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(linalg.power(X, p).pow(2).sum(), p, create_graph=True)
    (second,) = torch.autograd.grad(first, p, create_graph=True)
    with pytest.raises(NotImplementedError, match="order one and two"):
        torch.autograd.grad(second, p)


def test_a_third_derivative_of_torch_func_raises_too():
    def f(X):
        return linalg.log(X).pow(3).sum()

    def g(X):
        return torch.func.grad(f)(X).pow(3).sum()

    def h(X):
        return torch.func.grad(g)(X).pow(2).sum()

    torch.func.grad(g)(random_spd(3))
    with pytest.raises(NotImplementedError, match="order one and two"):
        torch.func.grad(h)(random_spd(3))


# --- one matrix does not disturb another ----------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("scale", [1e8, 1e-8])
@pytest.mark.parametrize("name", ["log", "sqrt", "inverse sqrt", "power", "sinh-arcsinh of log"])
def test_the_gradient_of_a_matrix_is_the_same_alone_and_in_a_batch(name, scale, dtype):
    """A tolerance relative to the largest of the batch would wipe the small ones out."""
    case = MAPS[name]
    X = with_spectrum(1e-4, 1e-4, 2e-4, 1.0).to(dtype)
    weight = random_symmetric(4).to(dtype)
    p = tuple(v.detach().to(dtype) for v in case.parameters())

    def gradients(X):
        X = X.clone().requires_grad_()
        (first,) = torch.autograd.grad((weight * spectral(X, case.phi, *p)).sum(), X, create_graph=True)
        (second,) = torch.autograd.grad((weight * first).sum(), X)
        return first.detach(), second

    for alone, batched in zip(gradients(X[None]), gradients(torch.stack([X, scale * X])), strict=True):
        eps = torch.finfo(dtype).eps
        assert float((alone[0] - batched[0]).abs().max() / alone.abs().max()) <= 5 * eps


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scaling_the_data_never_changes_the_rule(scale):
    """D log(sX)[sV] = D log(X)[V] and its derivative, to rounding, near ties and far from them."""
    X, V = with_spectrum(1.0, 1.0 + 1e-9, 1.01, 1.1, 3.0), random_symmetric(5)

    def derivatives(X, V):
        X = X.clone().requires_grad_()
        moved = pushforward(X, V, LOG)
        return moved, torch.autograd.grad((moved * random_symmetric(5, seed=9)).sum(), X)[0]

    first, second = derivatives(X, V)
    scaled_first, scaled_second = derivatives(scale * X, scale * V)
    assert_close(scaled_first, first, 1e-13)
    assert_close(scale * scaled_second, second, 1e-12)


# --- the second derivative as matrix products ----------------------------------------------------

SPECTRA = {
    "separated": [0.1 * 1.7**k for k in range(12)],
    "ladder": [1.01**k for k in range(12)],  # every neighbour close, the ends not
    "clusters": [0.5, 0.5, 0.5 + 1e-9, 1, 1.01, 1.014, 2, 2, 5, 7, 7 + 1e-12, 20],
    "graded": [1e-6, 1.001e-6, 1e-3, 1.0, 1.0001, 1e3, 1e3, 1.01e3, 2e3, 1e5, 1e6, 1.002e6],
    "equal": [3.0] * 12,
}


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize(
    "phi", [LOG, SQRT, INVERSE_SQRT, Clamp(1.005)], ids=["log", "sqrt", "inverse sqrt", "clamp"]
)
def test_the_second_derivative_is_the_sum_over_second_differences(phi, spectrum):
    x = torch.tensor([SPECTRA[spectrum]], dtype=torch.float64)
    left, right = random_symmetric(12, seed=1), random_symmetric(12, seed=2)
    # as large as the differences they multiply, so that no entry hides behind another
    size = (x[:, :, None] * x[:, None, :]).sqrt()
    left, right = size * left, size * right
    weight = phi.divided2(x[..., :, None, None], x[..., None, :, None], x[..., None, None, :])
    terms = weight * left[..., :, :, None] * right[..., None, :, :]
    expected = terms.sum(-2) + terms.sum(-2).mT
    scale = terms.abs().sum(-2) + terms.abs().sum(-2).mT
    if isinstance(phi, Clamp):  # straight pieces: its small entries are differences of large ones
        scale = scale.max()
    gaps = x[..., :, None] - x[..., None, :]
    found = phi.second(x, gaps, left, right)
    assert float(((found - expected).abs() / scale.clamp(min=1e-300)).max()) < 5e-12
    everywhere = torch.func.vmap(phi.second)(x, gaps, left, right)  # takes no short cut
    assert float(((found - everywhere).abs() / scale.clamp(min=1e-300)).max()) < 5e-12
