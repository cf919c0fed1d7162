"""Functions of spectra in native/, against the formulas in torch that every other device uses."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from alem import linalg
from alem.linalg import (
    EXP,
    GAP,
    INVERSE_GAP,
    LOG,
    POWER,
    RANK_INCREMENT,
    SINH_ARCSINH,
    SQRT,
    Chain,
    Clamp,
    Multiple,
    RankScale,
    SpectralMap,
    native,
)
from alem.linalg.spectral_map import differences
from tests.linalg.points import random, random_spd, random_symmetric

# The package has functions of these names.
spectral_module = importlib.import_module("alem.linalg.spectral")

pytestmark = pytest.mark.skipif(not native.instruction_sets(), reason="the native library was not built")

DTYPES = [torch.float32, torch.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype)[6:])
sizes = pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 16, 17, 33, 70])

SINH_LOG, GAP_LOG = Chain(SINH_ARCSINH, LOG), Chain(GAP, LOG)
MAPS: dict[str, Callable[[int], tuple[SpectralMap, tuple[Tensor, ...]]]] = {
    "log": lambda n: (LOG, ()),
    "exp": lambda n: (EXP, ()),
    "clamp": lambda n: (Clamp(0.5), ()),
    "log of clamp": lambda n: (Chain(LOG, Clamp(0.5)), ()),
    "log to base 2": lambda n: (Chain(Multiple(1 / 0.6931471805599453), LOG), ()),
    "scale of log": lambda n: (Chain(RankScale(of_logarithms=True), LOG), (1 + 0.3 * random(n),)),
    "scale": lambda n: (RankScale(), (1 + 0.3 * random(n),)),
    "sinh of log": lambda n: (SINH_LOG, numbers(1.3, 0.7, 0.6)),
    "sinh of log of clamp": lambda n: (Chain(SINH_LOG, Clamp(0.3)), numbers(0.8, 1.7, 2.6)),
    "exp of sinh": lambda n: (Chain(EXP, SINH_ARCSINH), numbers(0.8, 0.7, 1.6)),
    "increments of log": lambda n: (Chain(RANK_INCREMENT, LOG), ((0.3 * random(n)).exp(),)),
    "exp of increments": lambda n: (Chain(EXP, RANK_INCREMENT), ((0.3 * random(n)).exp(),)),
    "exp of scale": lambda n: (Chain(EXP, RankScale()), (0.5 + 0.1 * random(n),)),
    "clamp of exp": lambda n: (Chain(Clamp(2.0), EXP), ()),
    "gap of log": lambda n: (GAP_LOG, gap_numbers()),
    "gap of log of clamp": lambda n: (Chain(GAP_LOG, Clamp(0.4)), gap_numbers()),
}
maps = pytest.mark.parametrize("name", MAPS)


def numbers(*values: float) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(value, dtype=torch.float64) for value in values)


def gap_numbers() -> tuple[Tensor, ...]:
    return (
        torch.tensor(1.2, dtype=torch.float64),
        torch.tensor([0.1, 0.2, -0.05, 0.3], dtype=torch.float64),
        torch.tensor([1.0, 2.0, 4.0, 7.0], dtype=torch.float64),
    )


def frame(n: int, dtype: torch.dtype, batch: int = 5) -> tuple[Tensor, Tensor]:
    """Eigenvalues from 0.1 to 5, some equal and some nearly so, and eigenvectors."""
    x = torch.linspace(0.1, 5, n, dtype=torch.float64).expand(batch, n).clone()
    if n > 4:
        x[:, 1] = x[:, 0]
        x[1:, 3] = x[1:, 2] * (1 + 1e-9)
        x[2:, 4] = x[2:, 3]
    U = torch.linalg.qr(random(batch, n, n)).Q
    return x.to(dtype), U.to(dtype)


def made(name: str, n: int, dtype: torch.dtype) -> tuple[SpectralMap, tuple[Tensor, ...], native.Map]:
    phi, parameters = MAPS[name](n)
    parameters = tuple(p.to(dtype) for p in parameters)
    stages = phi.stages(n, *parameters)
    assert stages is not None
    return phi, parameters, native.Map(stages)


def assert_near(found: Tensor, expected: Tensor, units: float = 60) -> None:
    """In units of the last place of the largest entry; the reference has rounding of its own."""
    bound = units * torch.finfo(found.dtype).eps * max(1.0, float(expected.abs().max()))
    assert found.dtype == expected.dtype
    assert float((found - expected).abs().max()) <= bound


@maps
@dtypes
@sizes
def test_values(n: int, dtype: torch.dtype, name: str) -> None:
    x, U = frame(n, dtype)
    phi, parameters, native_map = made(name, n, dtype)
    expected = (U * phi.values(x, *parameters)[..., None, :]) @ U.mT
    for isa in native.instruction_sets():
        found = native.function(x, U, native_map, isa=isa)
        assert torch.equal(found, found.mT)
        assert_near(found, expected)


@maps
@dtypes
@sizes
@pytest.mark.parametrize("adjoint", [True, False], ids=["adjoint", "apply"])
def test_derivatives(adjoint: bool, n: int, dtype: torch.dtype, name: str) -> None:
    x, U = frame(n, dtype)
    G = random(5, n, n, seed=4).to(dtype)
    phi, parameters, native_map = made(name, n, dtype)
    differential = phi.first(x, differences(x), *parameters)
    inside = U.mT @ linalg.symmetrize(G) @ U
    expected = U @ (differential.adjoint(inside) if adjoint else differential.apply(inside)) @ U.mT
    for isa in native.instruction_sets():
        found, _ = native.derivative(x, U, native_map, G, adjoint, isa=isa)
        assert found is not None
        assert torch.equal(found, found.mT)
        assert_near(found, expected)


@maps
@dtypes
@sizes
def test_gradients_of_parameters(n: int, dtype: torch.dtype, name: str) -> None:
    x, U = frame(n, dtype)
    G = random(5, n, n, seed=4).to(dtype)
    phi, parameters, native_map = made(name, n, dtype)
    count = sum(p.numel() for p in parameters)
    assert native_map.is_trainable == (count > 0 and not name.startswith("exp"))
    if not native_map.is_trainable:
        return
    inside = (U.mT @ linalg.symmetrize(G) @ U).diagonal(dim1=-2, dim2=-1).double()
    for p in (free := tuple(p.double().requires_grad_() for p in parameters)):
        p.retain_grad()
    (phi.values(x.double(), *free) * inside).sum().backward()
    expected = torch.cat([p.grad.reshape(-1) for p in free if p.grad is not None]).to(dtype)
    for isa in native.instruction_sets():
        nothing, found = native.derivative(x, U, native_map, G, wanted=False, parameters=count, isa=isa)
        assert nothing is None
        assert found is not None
        assert_near(found, expected, units=200)


@dtypes
@pytest.mark.parametrize("name", ["log", "exp", "clamp"])
def test_divided_differences_lose_no_digit_at_any_gap(name: str, dtype: torch.dtype) -> None:
    """Read off with U = I and a matrix of ones, against the tested ones in torch."""
    gaps = torch.logspace(-18, 8 if name == "log" else 1, 40, dtype=torch.float64)
    phi, _, native_map = made(name, 2, dtype)
    for low in (1e-6, 0.5, 1.0, 5.0):  # e⁵⁵ is a float still
        x = torch.stack([torch.full_like(gaps, low), low * (1 + gaps)], -1).to(dtype)
        U = torch.eye(2, dtype=dtype).expand(40, 2, 2)
        K = phi.first(x, differences(x)).loewner
        finite = K.isfinite()
        for isa in native.instruction_sets():
            found, _ = native.derivative(x, U, native_map, torch.ones_like(U), isa=isa)
            assert found is not None
            off = ((found - K).abs() / K.abs().clamp(min=torch.finfo(dtype).tiny))[finite]
            assert float(off.max()) <= 8 * torch.finfo(dtype).eps


@dtypes
def test_extreme_eigenvalues(dtype: torch.dtype) -> None:
    limits = torch.finfo(dtype)
    x = torch.tensor([limits.tiny, 1e-20, 1.0, 1e20, limits.max / 4], dtype=dtype)
    found = native.function(x, torch.eye(5, dtype=dtype), made("log", 5, dtype)[2]).diagonal()
    torch.testing.assert_close(found, x.log(), rtol=4 * limits.eps, atol=0)
    x = torch.tensor([-1e4, -50.0, 0.0, 50.0], dtype=dtype)
    found = native.function(x, torch.eye(4, dtype=dtype), made("exp", 4, dtype)[2]).diagonal()
    torch.testing.assert_close(found, x.exp(), rtol=4 * limits.eps, atol=0)
    infinite = native.function(1e4 + x[:1] * 0, torch.eye(1, dtype=dtype), made("exp", 1, dtype)[2])
    assert infinite.item() == torch.inf


@dtypes
def test_what_has_no_value_stays_without(dtype: torch.dtype) -> None:
    x = torch.tensor([-1.0, 0.0, torch.inf, torch.nan], dtype=dtype)[:, None]
    U = torch.ones(4, 1, 1, dtype=dtype)

    def values(phi: SpectralMap, *parameters: Tensor) -> Tensor:
        return native.function(x, U, native.Map(phi.stages(1, *parameters) or ()))[:, 0, 0]

    torch.testing.assert_close(values(LOG), x[:, 0].log(), equal_nan=True)
    torch.testing.assert_close(values(EXP), x[:, 0].exp(), equal_nan=True)
    nan = torch.full((1,), torch.nan, dtype=dtype)
    assert bool(values(RANK_INCREMENT, nan).isnan().all())
    assert bool(values(Chain(EXP, RANK_INCREMENT), nan).isnan().all())
    assert bool(values(SINH_ARCSINH, *nan.expand(3))[:2].isnan().all())


@dtypes
def test_divided_differences_of_values_closer_than_they_are_known(dtype: torch.dtype) -> None:
    """Behind another stage the gap is known to more digits than the values."""
    eps, parameters = torch.finfo(dtype).eps, (torch.tensor([1.0, 5.0], dtype=dtype),)
    U, ones = torch.eye(2, dtype=dtype), torch.ones(2, 2, dtype=dtype)
    for gap in (eps / 4, eps, 10 * eps):
        x = torch.tensor([1.0, 1.0 + gap], dtype=dtype)
        above = native.derivative(x, U, native.Map(Chain(Clamp(1.5), EXP).stages(2)), ones)[0]
        expected = native.derivative(x, U, native.Map(EXP.stages(2)), ones)[0]
        torch.testing.assert_close(above, expected, rtol=4 * eps, atol=0)
    tied = torch.ones(2, dtype=dtype)
    phi = Chain(EXP, RankScale())
    found = native.derivative(tied, U, native.Map(phi.stages(2, *parameters) or ()), ones)[0]
    torch.testing.assert_close(found, phi.first(tied, differences(tied), *parameters).loewner)
    for v in (-2e-25, -1e-25):  # whose product is 0 in single precision
        x = torch.tensor([1e-25, v], dtype=dtype)
        three = tuple(torch.ones(3, dtype=dtype))
        found = native.derivative(x, U, native.Map(SINH_ARCSINH.stages(2, *three) or ()), ones)[0]
        torch.testing.assert_close(found, ones)


@dtypes
def test_any_strides_and_batches(dtype: torch.dtype) -> None:
    x, U = frame(6, dtype, batch=12)
    G, native_map = random_symmetric(12, 6).to(dtype), made("gap of log", 6, dtype)[2]
    expected = native.function(x, U, native_map), native.derivative(x, U, native_map, G)[0]

    def check(x: Tensor, U: Tensor, G: Tensor) -> None:
        assert torch.equal(native.function(x, U, native_map).reshape(12, 6, 6), expected[0])
        found = native.derivative(x, U, native_map, G)[0]
        assert found is not None
        assert found.shape == U.shape
        assert torch.equal(found.reshape(12, 6, 6), expected[1])

    check(x.mT.contiguous().mT, U.mT.contiguous().mT, G.mT.contiguous().mT)
    check(x.reshape(3, 4, 6), U.reshape(3, 4, 6, 6), G.reshape(3, 4, 6, 6))
    wide = torch.zeros(12, 9, 9, dtype=dtype)
    wide[:, 2:8, 1:7] = G
    check(x, U.movedim(0, -1).contiguous().movedim(-1, 0), wide[:, 2:8, 1:7])
    ones = torch.ones((), dtype=dtype).expand(12, 6, 6)
    found, dense = (native.derivative(x, U, native_map, A)[0] for A in (ones, ones.contiguous()))
    assert torch.equal(found, dense)
    empty = native.function(x[:0], U[:0], native_map)
    assert empty.shape == (0, 6, 6)
    none, gradient = native.derivative(x[:0], U[:0], native_map, G[:0], parameters=9)
    assert none is not None
    assert torch.equal(gradient, torch.zeros(9, dtype=dtype))


@dtypes
def test_a_given_matrix_of_differences(dtype: torch.dtype) -> None:
    _, U = frame(20, dtype, batch=7)
    K, V = random_symmetric(7, 20).to(dtype), random_symmetric(20).to(dtype)
    expected = U @ (K * (U.mT @ V @ U)) @ U.mT
    assert_near(native.hadamard(U, K, V), expected)
    assert_near(native.hadamard(U, K.mT, V.expand(7, 20, 20)), expected)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@dtypes
def test_threads_do_not_change_a_bit(dtype: torch.dtype, threads: Callable[[int], None]) -> None:
    x, U = frame(30, dtype, batch=61)
    G, native_map = random_symmetric(61, 30).to(dtype), made("sinh of log", 30, dtype)[2]
    threads(1)
    expected = native.derivative(x, U, native_map, G, parameters=3)
    for count in (2, 3, 8):
        threads(count)
        found = native.derivative(x, U, native_map, G, parameters=3)
        assert torch.equal(found[0], expected[0])
        assert torch.equal(found[1], expected[1])


# --- where it is used ----------------------------------------------------------------------------


def test_what_the_library_does_not_have_stays_in_torch() -> None:
    number = torch.tensor(0.3)
    assert SQRT.stages(3) is None
    assert POWER.stages(3, number) is None
    assert INVERSE_GAP.stages(3, *gap_numbers()) is None
    assert Chain(POWER, LOG).stages(3, number) is None
    assert RankScale("exact").stages(3, torch.ones(3)) is None
    assert RankScale().stages(3, torch.ones(4, 3)) is None, "a set of factors for each matrix"
    assert SINH_ARCSINH.stages(3, *torch.ones(3, 4)) is None


@pytest.mark.parametrize("size", [1, 2, 4])
def test_parameters_of_another_length_stay_in_torch(size: int) -> None:
    """Which broadcasts one number, and refuses the others."""
    wrong = torch.ones(size)
    assert RankScale().stages(3, wrong) is None
    assert RANK_INCREMENT.stages(3, wrong) is None
    assert GAP.stages(3, torch.tensor(1.0), torch.ones(4), wrong) is None or size == 4
    X = random_spd(2, 3).float()
    if size == 1:
        torch.testing.assert_close(linalg.spectral(X, Chain(RankScale(), LOG), wrong), linalg.log(X))
    else:
        with pytest.raises(RuntimeError, match="size of tensor"):
            linalg.spectral(X, Chain(RankScale(), LOG), wrong)


def test_two_stages_that_couple_eigenvalues_stay_in_torch() -> None:
    """As a batch norm under one metric and a logarithm of another make, once fused."""
    c, d = (0.3 * random(4)).exp().requires_grad_(), (0.3 * random(4, seed=1)).exp().requires_grad_()
    phi = Chain(RANK_INCREMENT, Chain(LOG, Chain(EXP, RANK_INCREMENT)))
    assert phi.stages(4, c, d) is None
    X = random_symmetric(3, 4).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda X, c, d: linalg.spectral((X + X.mT) / 2, phi, c, d), (X, c, d), fast_mode=True
    )


def test_mixed_dtypes_are_left_to_torch_which_refuses_them() -> None:
    X, V = random_spd(2, 4), random_symmetric(2, 4)
    with pytest.raises(RuntimeError, match="expected scalar type"):
        linalg.pushforward(X, V.float(), LOG)
    with pytest.raises(RuntimeError, match="expected scalar type"):
        linalg.displacement(X.float(), V, LOG)


@maps
def test_with_and_without_the_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, gradients and second derivatives, through the autograd Functions."""
    X = random_spd(3, 6)
    phi, parameters = MAPS[name](6)

    def everything() -> list[Tensor]:
        Y, free = X.clone().requires_grad_(), [p.clone().requires_grad_() for p in parameters]
        F = linalg.spectral(Y, phi, *free)
        G = random_symmetric(3, 6)
        first = torch.autograd.grad(F, [Y, *free], G)
        again = torch.autograd.grad(linalg.spectral(Y, phi, *free), [Y, *free], G, create_graph=True)
        second = torch.autograd.grad(sum((g * g).sum() for g in again), [Y, *free])
        pushed = linalg.pushforward(Y.detach(), G, phi, *(p.detach() for p in free))
        return [F, *first, *again, *second, pushed]

    calls = 0
    derivative = native.derivative

    def counted(*args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        return derivative(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(native, "derivative", counted)
    found = everything()
    assert calls >= 3
    monkeypatch.setattr(native, "instruction_sets", lambda: ())
    for a, b in zip(found, everything(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


def test_large_matrices_and_other_dtypes_do_not_go_there() -> None:
    n = spectral_module._LARGEST_NATIVE
    assert spectral_module._is_for_native(torch.ones(n))
    assert not spectral_module._is_for_native(torch.ones(n + 1))
    assert not spectral_module._is_for_native(torch.ones(n, dtype=torch.float16))
    assert not spectral_module._is_for_native(torch.ones(n, device="meta"))
    assert not spectral_module._is_for_native(torch.ones(0))
