"""Values of spectral functions against other libraries, their properties and their errors."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from alem import linalg
from alem.linalg import (
    EXP,
    LOG,
    POWER,
    SINH_ARCSINH,
    Chain,
    InvalidMatrixError,
    NotPositiveDefiniteError,
    native,
    pushforward,
    solve_pushforward,
    spectral,
)
from tests.linalg.points import (
    MAPS,
    POINTS,
    assert_close,
    random,
    random_spd,
    random_symmetric,
    rotation,
    with_spectrum,
)

# The package has a function of that name.
spectral_module = importlib.import_module("alem.linalg.spectral")

cases = pytest.mark.parametrize("case", MAPS.values(), ids=MAPS.keys())

# --- other ways to the same ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (linalg.log, scipy.linalg.logm),
        (linalg.exp, scipy.linalg.expm),
        (linalg.sqrt, scipy.linalg.sqrtm),
        (linalg.inverse_sqrt, lambda X: np.linalg.inv(scipy.linalg.sqrtm(X))),
        (lambda X: linalg.power(X, 0.3), lambda X: scipy.linalg.fractional_matrix_power(X, 0.3)),
        (lambda X: linalg.power(X, -1.7), lambda X: scipy.linalg.fractional_matrix_power(X, -1.7)),
    ],
    ids=["log", "exp", "sqrt", "inverse sqrt", "power 0.3", "power -1.7"],
)
def test_agrees_with_scipy(ours, theirs):
    X = random_spd(2, 5)
    expected = torch.tensor(np.stack([np.real(theirs(x)) for x in X.numpy()]))
    assert_close(ours(X), expected, 1e-12)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(linalg.log, mp.logm), (linalg.exp, mp.expm), (linalg.sqrt, mp.sqrtm)],
    ids=["log", "exp", "sqrt"],
)
def test_agrees_with_mpmath(ours, theirs):
    X = with_spectrum(0.01, 1.0, 1.0 + 1e-7, 3.0)
    with mp.workdps(40):
        exact = theirs(mp.matrix(X.tolist()))
        expected = torch.tensor([float(mp.re(e)) for e in exact], dtype=torch.float64).view(4, 4)
    assert_close(ours(X), expected, 5e-14)


def test_clamp_raises_the_small_eigenvalues_and_leaves_the_others():
    X = with_spectrum(-1.0, 0.5, 2.0, 3.0)
    assert_close(linalg.eigvalsh(linalg.clamp(X, 1.5)), torch.tensor([1.5, 1.5, 2.0, 3.0]).double())
    assert_close(linalg.clamp(X, -2.0), X)


@pytest.mark.parametrize("low", [[], [1], [0, 2, 5], [0, 1, 2, 3, 4, 5]], ids=str)
def test_clamp_decomposes_only_what_has_no_certificate(
    low: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is exact, in value and gradient."""
    X = random_spd(6, 4, cond=9.0)  # eigenvalues from 1/3 to 3
    X[low] -= torch.eye(4, dtype=X.dtype)
    decompose, seen = spectral_module.decompose, []

    def counted(Y: torch.Tensor, vectors: bool) -> object:
        seen.append(len(Y))
        return decompose(Y, vectors)

    monkeypatch.setattr(spectral_module, "decompose", counted)
    ours, theirs = (X.clone().requires_grad_() for _ in range(2))
    found = linalg.clamp(ours, 0.1)
    assert seen == ([len(low)] if low else [])
    expected = spectral(theirs, linalg.Clamp(0.1))
    assert_close(found, expected)
    G = random_symmetric(6, 4)
    for a, b in zip(
        torch.autograd.grad(found, ours, G), torch.autograd.grad(expected, theirs, G), strict=True
    ):
        assert_close(a, b)


def test_clamp_goes_by_the_symmetric_part() -> None:
    X = torch.tensor([[1.0, 10.0], [0.0, 1.0]], dtype=torch.float64)  # whose lower triangle is that of I
    assert_close(linalg.clamp(X, 0.1), spectral(X, linalg.Clamp(0.1)))


def test_log_to_a_base():
    X = random_spd(3)
    assert_close(linalg.log(X, base=2.0), linalg.log(X) / np.log(2.0))
    assert_close(linalg.log(X, base=0.5), -linalg.log(X, base=2.0))
    for base in (1.0, 0.0, -2.0, float("nan")):
        with pytest.raises(ValueError, match="base of a logarithm"):
            linalg.log(X, base=base)


def test_the_inverse_of_sinh_arcsinh():
    t = torch.linspace(-9, 9, 7, dtype=torch.float64)
    p = tuple(torch.tensor(v, dtype=torch.float64) for v in (1.3, 0.6, 0.4))
    there = SINH_ARCSINH.values(t, *p)
    assert_close(SINH_ARCSINH.values(there, *SINH_ARCSINH.inverse_parameters(*p)), t, 1e-13)


# --- properties ----------------------------------------------------------------------------------

eigenvalues = st.lists(st.floats(0.05, 20.0), min_size=1, max_size=5)
seeds = st.integers(0, 10_000)


@cases
@settings(max_examples=15, deadline=None)
@given(spectrum=eigenvalues, seed=seeds)
def test_a_change_of_frame_passes_through(case, spectrum, seed):
    X = torch.diag(torch.tensor(spectrum, dtype=torch.float64))
    Q = rotation(len(spectrum), seed=seed)
    p = case.parameters(requires_grad=False)
    assert_close(spectral(Q @ X @ Q.mT, case.phi, *p), Q @ spectral(X, case.phi, *p) @ Q.mT, 1e-11)


@settings(max_examples=40, deadline=None)
@given(spectrum=eigenvalues, seed=seeds)
def test_exp_undoes_log_and_the_trace_of_the_log_is_the_log_determinant(spectrum, seed):
    X = with_spectrum(*spectrum, seed=seed)
    assert_close(linalg.exp(linalg.log(X)), X, 1e-13)
    trace = linalg.log(X).diagonal(dim1=-2, dim2=-1).sum()
    assert_close(trace, torch.linalg.slogdet(X).logabsdet, 1e-12)


@settings(max_examples=30, deadline=None)
@given(spectrum=eigenvalues, seed=seeds, p=st.floats(-2, 2), q=st.floats(-2, 2))
def test_powers_multiply(spectrum, seed, p, q):
    X = with_spectrum(*spectrum, seed=seed)
    expected = linalg.power(X, p + q)
    size = linalg.power(X, p).norm() * linalg.power(X, q).norm()
    assert float((linalg.power(X, p) @ linalg.power(X, q) - expected).norm() / size) < 1e-13


# --- shapes and dtypes ---------------------------------------------------------------------------


@cases
def test_only_the_symmetric_part_counts(case):
    X = random_spd(3)
    skewed = X + 0.1 * (random(3, 3) - random(3, 3).mT)
    p = case.parameters(requires_grad=False)
    assert_close(spectral(skewed, case.phi, *p), spectral(X, case.phi, *p))
    skewed.requires_grad_()
    (gradient,) = torch.autograd.grad((spectral(skewed, case.phi, *p) * random(3, 3)).sum(), skewed)
    assert_close(gradient, gradient.mT)
    assert gradient.abs().max() > 0.01


@cases
def test_one_by_one_matrices_are_numbers(case):
    x = torch.tensor([[[0.4]], [[2.5]]], dtype=torch.float64, requires_grad=True)
    p = case.parameters()
    Y = spectral(x, case.phi, *p)
    assert_close(Y[..., 0], case.phi.values(x[..., 0].detach(), *p))
    torch.autograd.grad(Y.sum(), (x, *p))


@cases
def test_an_empty_batch_stays_empty(case):
    X = torch.zeros(0, 3, 3, dtype=torch.float64, requires_grad=True)
    p = case.parameters()
    Y = spectral(X, case.phi, *p)
    gradients = torch.autograd.grad(Y.sum(), (X, *p))
    assert Y.shape == gradients[0].shape == (0, 3, 3)
    assert all(bool((g == 0).all()) for g in gradients[1:])


@cases
def test_float32_stays_float32(case):
    X = random_spd(2, 3).float().requires_grad_()
    p = tuple(v.detach().float().requires_grad_() for v in case.parameters())
    Y = spectral(X, case.phi, *p)
    V = pushforward(X, torch.ones_like(X), case.phi, *p)
    gradients = torch.autograd.grad((Y * V).sum(), (X, *p))
    assert all(t.dtype == torch.float32 for t in (Y, V, *gradients))
    double = spectral(X.detach().double(), case.phi, *(v.detach().double() for v in p))
    assert_close(Y.double(), double, 1e-5)


def test_gradient_for_the_parameters_only():
    X = random_spd(4, 3)
    p = torch.full((4,), 0.7, dtype=torch.float64, requires_grad=True)
    Y = linalg.power(X, p)
    (gradient,) = torch.autograd.grad(Y.sum(), p)
    expected = (linalg.power(X, p) @ linalg.log(X)).sum((-2, -1))
    assert_close(gradient, expected)


def test_leading_dimensions_broadcast_in_power_and_pushforward():
    X, V = random_spd(3), random_symmetric(2, 3)
    p = torch.tensor([0.5, 2.0], dtype=torch.float64)
    assert_close(linalg.power(X, p), torch.stack([linalg.power(X, 0.5), linalg.power(X, 2.0)]))
    moved = pushforward(X, V, LOG)
    assert moved.shape == (2, 3, 3)
    assert_close(moved[1], pushforward(X, V[1], LOG))
    assert_close(solve_pushforward(X, moved, LOG), V)


# --- one after the other -------------------------------------------------------------------------


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    ("outer", "inner", "values"),
    [
        (POWER, LOG, None),
        (EXP, LOG, ()),
        (SINH_ARCSINH, LOG, (1.2, 0.7, 0.9)),
        (LOG, POWER, (0.6,)),
    ],
    ids=["power of log", "exp of log", "sinh-arcsinh of log", "log of power"],
)
def test_a_chain_is_one_map_after_the_other(outer, inner, values, point):
    X = POINTS[point] + (0 if values is not None else 2 * torch.eye(len(POINTS[point])))
    X = X.requires_grad_()
    p = tuple(torch.tensor(v).double().requires_grad_() for v in (values or ()))
    p = p if values is not None else (torch.tensor(2.0).double().requires_grad_(),)
    k = inner.n_parameters
    weight = random_symmetric(len(X))

    def derivatives(Y):
        first = torch.autograd.grad((weight * Y).sum(), (X, *p), create_graph=True)
        second = torch.autograd.grad((weight * first[0]).sum(), (X, *p), allow_unused=True)
        return [Y, *first, *(torch.zeros(()) if g is None else g for g in second)]

    chained = derivatives(spectral(X, Chain(outer, inner), *p))
    stepwise = derivatives(spectral(spectral(X, inner, *p[:k]), outer, *p[k:]))
    for a, b in zip(chained, stepwise, strict=True):
        assert_close(a, b, 1e-9)


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)], ids=str)
@pytest.mark.parametrize("smallest", [0.0, -0.5])
@pytest.mark.parametrize(
    "f", [linalg.log, linalg.sqrt, linalg.inverse_sqrt, lambda X: linalg.power(X, 0.5)]
)
def test_what_is_not_positive_definite_is_named(f, smallest, shape):
    X = torch.eye(3, dtype=torch.float64).repeat(*shape, 1, 1)
    index = tuple(size - 1 for size in shape)
    X[index] = torch.diag(torch.tensor([2.0, smallest, 1.0]))
    with pytest.raises(NotPositiveDefiniteError, match="not positive definite") as caught:
        f(X)
    assert caught.value.index == index
    assert f"{smallest:.3g}" in str(caught.value)


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)], ids=str)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_not_finite_is_named(value, shape):
    X = torch.eye(3, dtype=torch.float64).repeat(*shape, 1, 1)
    index = tuple(size - 1 for size in shape)
    X[(*index, 1, 1)] = value
    for f in (linalg.log, linalg.exp, linalg.eigvalsh):
        with pytest.raises(InvalidMatrixError, match="NaN or infinite") as caught:
            f(X)
        assert caught.value.index == index


def test_nothing_is_inspected_in_transforms_and_compiled_graphs():
    bad = torch.diag(torch.tensor([-1.0, 1.0, 2.0], dtype=torch.float64)).repeat(2, 1, 1)
    assert torch.isnan(torch.func.vmap(linalg.log)(bad)).any()
    compiled = torch.compile(linalg.log, backend="aot_eager", fullgraph=True)
    assert torch.isnan(compiled(bad)).any()


def test_only_linalg_decomposes():
    source = Path(linalg.__file__).parents[1]
    names = "eigh|eigvalsh|eig|eigvals|cholesky|cholesky_ex|svd|svdvals"
    call = rf"\b(torch|np|numpy|scipy)\.(linalg\.)?({names})\b"
    assert re.search(call, "x, U = torch.linalg.eigh(P)")
    # The benchmarks time torch and the peers.
    files = [f for f in source.rglob("*.py") if not {"linalg", "bench"} & set(f.relative_to(source).parts)]
    for file in files:
        for line in file.read_text().splitlines():
            assert not re.search(call, line), f"{file}: {line}"
    assert files


@pytest.mark.parametrize("native_is_there", [True, False])
def test_what_is_too_large_for_a_float_is_an_error_that_names_it(
    native_is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native_is_there:
        monkeypatch.setattr(native, "instruction_sets", lambda: ())
    X = torch.eye(3, dtype=torch.float32).repeat(4, 1, 1)
    X[2] *= 89.0  # e⁸⁹ is more than a float holds
    with pytest.raises(
        InvalidMatrixError, match=r"matrix 2 of the result.* too large for torch.float32"
    ) as at:
        linalg.exp(X)
    assert at.value.index == (2,)
    assert linalg.exp(X * (88.0 / 89.0)).isfinite().all()
    V = X.clone()
    V[1, 0, 0] = torch.nan
    with pytest.raises(InvalidMatrixError, match=r"matrix 1 .* NaN or infinite"):
        linalg.pushforward(X, V, linalg.LOG)
    with pytest.raises(InvalidMatrixError, match=r"of the result"):
        linalg.solve_pushforward(1e30 * X.abs(), 1e30 * X, linalg.LOG)


def test_second_derivatives_in_single_precision_reach_as_far_as_their_values() -> None:
    """Third powers of 1e-30 are no floats, but ⟨V, d²log(P)[V]⟩ = −‖V‖²/p² for P = pI is one."""
    for p in (1e-30, 1.0, 1e30):
        P = (p * torch.eye(3)).requires_grad_()
        V = p * torch.eye(3)
        pushed = linalg.pushforward(P, V, linalg.LOG)
        (grad,) = torch.autograd.grad(pushed.sum(), P)
        torch.testing.assert_close(grad.diagonal(), torch.full((3,), -1 / p), rtol=1e-5, atol=0.0)
