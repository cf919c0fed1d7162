"""Vectors of symmetric and lower-triangular matrices: isometries and their inverses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyriemann.geometry.tangentspace import upper
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from alem.linalg.errors import InvalidMatrixError
from alem.linalg.vectorize import (
    matrix_dim,
    sym_to_tril,
    symmetrize,
    tril_to_sym,
    unvec_tril,
    unvech,
    vec_tril,
    vech,
    vech_dim,
)

FUNCTIONS = [symmetrize, vech, vec_tril, tril_to_sym, sym_to_tril]
INVERSES = [unvech, unvec_tril]
each_map = pytest.mark.parametrize("f", FUNCTIONS + INVERSES)


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def argument(f, *batch: int) -> Tensor:
    """Something f takes: 3×3 matrices, or vectors of length 6."""
    return random(*batch, 6) if f in INVERSES else random(*batch, 3, 3)


def frobenius(X: Tensor, Y: Tensor) -> Tensor:
    return (X * Y).sum((-2, -1))


def test_order_and_scale() -> None:
    r = np.sqrt(2)
    X = torch.tensor([[1.0, 2, 4], [2, 3, 5], [4, 5, 6]], dtype=torch.float64)
    np.testing.assert_array_equal(vech(X), [1, 2 * r, 3, 4 * r, 5 * r, 6])
    np.testing.assert_array_equal(vec_tril(X), [1, 2, 3, 4, 5, 6])
    Z = torch.tensor([[1.0, 0, 0], [2, 3, 0], [4, 5, 6]], dtype=torch.float64)
    assert torch.equal(unvec_tril(torch.arange(1.0, 7.0).double()), Z)
    np.testing.assert_allclose(
        tril_to_sym(Z), [[1, r, 2 * r], [r, 3, 2.5 * r], [2 * r, 2.5 * r, 6]], rtol=1e-15
    )
    np.testing.assert_array_equal(sym_to_tril(X), [[1, 0, 0], [2 * r, 3, 0], [4 * r, 5 * r, 6]])


def test_vech_has_pyriemanns_entries() -> None:
    X = symmetrize(random(5, 4, 4))
    np.testing.assert_array_equal(np.sort(vech(X)), np.sort(upper(X.numpy())))


@settings(max_examples=50, deadline=None)
@given(n=st.integers(0, 12), batch=st.lists(st.integers(0, 3), max_size=2), seed=st.integers(0, 99))
def test_isometries_and_inverses(n: int, batch: list[int], seed: int) -> None:
    X, Y = (symmetrize(random(*batch, n, n, seed=s)) for s in (seed, seed + 100))
    Z, W = (random(*batch, n, n, seed=s).tril() for s in (seed, seed + 100))
    close = torch.testing.assert_close
    close((vech(X) * vech(Y)).sum(-1), frobenius(X, Y))
    close((vec_tril(Z) * vec_tril(W)).sum(-1), frobenius(Z, W))
    close(frobenius(tril_to_sym(Z), tril_to_sym(W)), frobenius(Z, W))
    close(frobenius(sym_to_tril(X), sym_to_tril(Y)), frobenius(X, Y))
    assert vech(X).shape == vec_tril(Z).shape == (*batch, vech_dim(n))
    # √2 and back: two roundings.
    exact = {"rtol": 2 * torch.finfo(torch.float64).eps, "atol": 0.0}
    close(unvech(vech(X)), X, **exact)
    close(tril_to_sym(sym_to_tril(X)), X, **exact)
    close(sym_to_tril(tril_to_sym(Z)), Z, **exact)
    close(unvec_tril(vec_tril(Z)), Z, rtol=0, atol=0)
    close(vec_tril(sym_to_tril(X)), vech(X), rtol=0, atol=0)
    close(unvech(vech(X)), unvech(vech(X)).mT, rtol=0, atol=0)


def test_the_upper_triangle_is_not_read() -> None:
    X = random(4, 4)
    for f in (vech, vec_tril, tril_to_sym, sym_to_tril):
        assert torch.equal(f(X), f(X.tril()))


def test_symmetrize_is_exact_and_does_not_overflow() -> None:
    X = random(7, 5, 5)
    assert torch.equal(symmetrize(X), 0.5 * (X + X.mT))
    assert torch.equal(symmetrize(X), symmetrize(X).mT)
    huge = torch.full((2, 2), torch.finfo(torch.float32).max)
    assert torch.equal(symmetrize(huge), huge)


@given(st.integers(0, 10**6))
def test_dimensions(n: int) -> None:
    assert matrix_dim(vech_dim(n)) == n


@pytest.mark.parametrize(("m", "below", "above"), [(2, 1, 3), (4, 3, 6), (5, 3, 6), (11, 10, 15)])
def test_lengths_that_are_not_triangular(m: int, below: int, above: int) -> None:
    for f in INVERSES:
        with pytest.raises(InvalidMatrixError, match=rf"length {m} .* {below} \(.* {above} \("):
            f(torch.zeros(2, m))


@pytest.mark.parametrize("bad", [torch.zeros(3), torch.zeros(2, 3), torch.eye(2).long()])
def test_shape_and_dtype_are_checked(bad: Tensor) -> None:
    for f in (vech, vec_tril, tril_to_sym, sym_to_tril):
        with pytest.raises(InvalidMatrixError):
            f(bad)


@each_map
def test_derivatives(f) -> None:
    x = argument(f, 2).requires_grad_()
    assert gradcheck(f, x)
    assert gradgradcheck(f, x)


@each_map
def test_vmap_and_compile(f) -> None:
    x = argument(f, 4)
    torch.testing.assert_close(torch.func.vmap(f)(x), f(x), rtol=0, atol=0)
    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    x.requires_grad_()
    torch.testing.assert_close(compiled(x), f(x))
    expected = torch.autograd.grad(f(x).square().sum(), x)
    torch.testing.assert_close(torch.autograd.grad(compiled(x).square().sum(), x), expected)


@each_map
def test_compile_with_dynamic_shapes(f) -> None:
    compiled = torch.compile(f, backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (3, 4, 5):
        x = random(n, vech_dim(n)) if f in INVERSES else random(2, n, n)
        torch.testing.assert_close(compiled(x), f(x))


@each_map
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_is_kept(f, dtype: torch.dtype) -> None:
    x = argument(f, 2).to(dtype)
    assert f(x).dtype == dtype
    tolerance = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(f(x).double(), f(x.double()), rtol=tolerance, atol=tolerance)


def test_transposed_and_expanded_inputs() -> None:
    X = random(3, 4, 4)
    assert torch.equal(vech(X.mT), vech(X.mT.contiguous()))
    v = random(6)
    assert torch.equal(unvech(v.expand(5, 6)), unvech(v).expand(5, 3, 3))
