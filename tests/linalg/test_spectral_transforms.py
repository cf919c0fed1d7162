"""Spectral functions under torch.func and torch.compile."""

from __future__ import annotations

import pytest
import torch

from alem import linalg
from alem.linalg import LOG, POWER, SINH_ARCSINH, Chain, pushforward, solve_pushforward, spectral
from tests.linalg.points import MAPS, POINTS, assert_close, random_spd, random_symmetric, with_spectrum

cases = pytest.mark.parametrize("case", MAPS.values(), ids=MAPS.keys())
OPERATIONS = {
    "spectral": lambda X, V, *rest: spectral(X, *rest),
    "pushforward": pushforward,
    "solve": solve_pushforward,
}


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()


def loss(case, operation="spectral", n=3):
    """A scalar function of X and the parameters."""
    weight, V = random_symmetric(n, seed=8), random_symmetric(n)

    def f(X, *p):
        return (weight * OPERATIONS[operation](X, V, case.phi, *p)).sum()

    return f


# --- torch.func ----------------------------------------------------------------------------------


@cases
@pytest.mark.parametrize("operation", ["spectral", "pushforward"])
def test_grad(case, operation):
    X = POINTS["triple"]
    p = case.parameters()
    f = loss(case, operation, n=4)
    every = tuple(range(1 + len(p)))
    found = torch.func.grad(f, argnums=every)(X, *(v.detach() for v in p))
    X = X.clone().requires_grad_()
    for a, b in zip(found, torch.autograd.grad(f(X, *p), (X, *p)), strict=True):
        assert_close(a, b)


@cases
def test_vmap_and_vmap_of_grad(case):
    X = torch.stack([POINTS["identity"], POINTS["diag(2,2,5)"], POINTS["gap 1e-9"]])
    p = case.parameters(requires_grad=False)
    f = loss(case)
    values = torch.func.vmap(lambda X: spectral(X, case.phi, *p))(X)
    assert_close(values, spectral(X, case.phi, *p))
    gradients = torch.func.vmap(torch.func.grad(lambda X: f(X, *p)))(X)
    assert_close(gradients, torch.stack([torch.func.grad(f)(x, *p) for x in X]))


def test_vmap_over_parameters():
    X = random_spd(3)
    p = torch.tensor([-0.5, 0.3, 2.0], dtype=torch.float64)
    f = loss(MAPS["power"])
    one_by_one = torch.stack([spectral(X, POWER, q) for q in p])
    assert_close(torch.func.vmap(lambda q: spectral(X, POWER, q))(p), one_by_one)
    gradients = torch.func.vmap(torch.func.grad(f, argnums=(0, 1)), (None, 0))(X, p)
    for i, q in enumerate(p):
        for a, b in zip(gradients, torch.func.grad(f, argnums=(0, 1))(X, q), strict=True):
            assert_close(a[i], b)


@cases
def test_jvp_in_the_matrix_and_the_parameters(case):
    X = POINTS["diag(2,2,5)"]
    p = case.parameters(requires_grad=False)
    dots = tuple(torch.full_like(v, 0.3 + 0.1 * i) for i, v in enumerate(p))
    V = random_symmetric(3)
    value, moved = torch.func.jvp(lambda X, *p: spectral(X, case.phi, *p), (X, *p), (V, *dots))
    h = 1e-5
    ahead, behind = (
        spectral(X + s * V, case.phi, *(v + s * d for v, d in zip(p, dots, strict=True))) for s in (h, -h)
    )
    assert_close(value, spectral(X, case.phi, *p))
    assert_close(moved, (ahead - behind) / (2 * h), 1e-8)


def test_vmap_of_jvp():
    X, V = random_spd(4, 3), random_symmetric(4, 3)
    moved = torch.func.vmap(lambda X, V: torch.func.jvp(linalg.log, (X,), (V,))[1])(X, V)
    assert_close(moved, pushforward(X, V, LOG))


def test_hessian_by_reverse_over_reverse():
    X = POINTS["triple"]
    f = loss(MAPS["log"], n=4)
    hessian = torch.func.jacrev(torch.func.grad(f))(X)
    V = random_symmetric(4, seed=5)
    h = 1e-5
    expected = (torch.func.grad(f)(X + h * V) - torch.func.grad(f)(X - h * V)) / (2 * h)
    assert_close(torch.einsum("ijkl,kl->ij", hessian, V), expected, 1e-8)


# --- torch.compile -------------------------------------------------------------------------------


def assert_compiles(f, X, p, backend="aot_eager"):
    """Compiled in one graph, forward and backward equal what eager gives; so without gradients."""
    compiled = torch.compile(f, fullgraph=True, backend=backend)
    inputs = (X.clone().requires_grad_(), *p)
    expected, found = f(*inputs), compiled(*inputs)
    assert_close(found, expected)
    for a, b in zip(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs), strict=True):
        assert_close(a, b)
    with torch.no_grad():
        assert_close(compiled(*inputs), expected)


@cases
def test_compiles_in_one_graph(case):
    X = torch.stack([POINTS["diag(2,2,5)"], POINTS["separated"]])
    assert_compiles(loss(case), X, case.parameters())


@pytest.mark.parametrize(
    ("operation", "name"), [("pushforward", "sinh-arcsinh of log"), ("solve", "power")]
)
def test_the_pushforward_and_its_inverse_compile_in_one_graph(operation, name):
    case = MAPS[name]
    X = torch.stack([2 * torch.eye(2).double(), with_spectrum(0.3, 1.5)])
    assert_compiles(loss(case, operation, n=2), X, case.parameters())


def test_compiles_with_inductor():
    """Log alone, the smallest: the code generator takes its time."""
    assert_compiles(loss(MAPS["log"], n=2), with_spectrum(2.0, 2.0), (), backend="inductor")


def test_compiles_with_gradients_for_the_parameters_only():
    chain = Chain(SINH_ARCSINH, LOG)
    X, p = random_spd(2, 3), MAPS["sinh-arcsinh of log"].parameters()

    def f(*p):
        return spectral(X, chain, *p).pow(2).sum()

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for a, b in zip(torch.autograd.grad(compiled(*p), p), torch.autograd.grad(f(*p), p), strict=True):
        assert_close(a, b)


def test_a_tangent_in_the_parameters_is_not_differentiated_again_in_silence():
    """Its decomposition is held fixed, so that a gradient in X would be zero, and wrong."""
    X, p = random_spd(3), [torch.tensor(v, dtype=torch.float64) for v in (1.3, 0.7, 1.6)]
    phi, one = Chain(SINH_ARCSINH, LOG), torch.ones((), dtype=torch.float64)

    def tangent(X):
        f = lambda delta: spectral(X, phi, p[0], delta, p[2]).sum()  # noqa: E731
        return torch.func.jvp(f, (p[1],), (one,))[1]

    assert torch.isfinite(tangent(X))
    for differentiate in (torch.func.grad(tangent), torch.func.jacfwd(tangent)):
        with pytest.raises(NotImplementedError, match="by reverse mode"):
            differentiate(X)


def test_a_vjp_can_be_differentiated_after_its_transform_has_ended() -> None:
    X = random_spd(3).requires_grad_()
    G = random_symmetric(3)
    _, pull = torch.func.vjp(linalg.log, X)
    (found,) = torch.autograd.grad(pull(G)[0].square().sum(), X)
    (gradient,) = torch.autograd.grad(linalg.log(X), X, G, create_graph=True)
    (expected,) = torch.autograd.grad(gradient.square().sum(), X)
    torch.testing.assert_close(found, expected)
