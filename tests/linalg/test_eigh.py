"""The door to the eigensolvers: which is taken, what is raised, and the derivatives."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from alem import linalg
from alem.linalg import InvalidMatrixError, native
from tests.linalg.points import random_symmetric, with_spectrum

# The package has a function of that name.
door = importlib.import_module("alem.linalg.eigh")
DTYPES = [torch.float32, torch.float64]


@pytest.fixture(params=["with", "without"])
def _library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of an installation."""
    if request.param == "without":
        monkeypatch.setattr(native, "instruction_sets", lambda: ())
    elif not native.instruction_sets():
        pytest.skip("the native eigensolver was not built")


@pytest.fixture
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_library", "_two_threads")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [(3, 3), (1, 5, 5), (2, 9, 9), (40, 12, 12), (2, 20, 30, 30), (3, 150, 150), (0, 4, 4)],
    ids=str,
)
def test_it_decomposes_whichever_way(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    X = random_symmetric(*shape[:-1]).to(dtype)
    values, U = linalg.eigh(X + torch.full_like(X, 7.0).triu(1))  # of which nothing is read
    tolerance = 30 * shape[-1] ** 0.5 * torch.finfo(dtype).eps
    torch.testing.assert_close(U * values[..., None, :] @ U.mT, X, rtol=0, atol=tolerance)
    torch.testing.assert_close(linalg.eigvalsh(X), values, rtol=0, atol=tolerance)
    assert bool((values.diff(dim=-1) >= 0).all())


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("shape", [(30, 6, 6), (2, 6, 6), (6, 6)], ids=str)
def test_what_is_not_finite_is_named(shape: tuple[int, ...], value: float) -> None:
    X = random_symmetric(*shape[:-1])
    X[..., 4, 2] = value
    X[..., 2, 4] = value
    with pytest.raises(InvalidMatrixError, match="entries that are NaN or infinite") as raised:
        linalg.eigh(X)
    assert raised.value.index is not None


def test_a_matrix_the_native_solver_gives_up_is_solved_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    X = random_symmetric(40, 6)
    expected = torch.linalg.eigvalsh(X)
    given_up: list[Tensor] = []

    def gives_up(X: Tensor, vectors: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        values, U = torch.linalg.eigh(X)
        info = torch.zeros(X.shape[:-2], dtype=torch.int32)
        info[7] = native.NOT_CONVERGED
        values[7], U[7] = torch.nan, torch.nan
        given_up.append(info)
        return values, U if vectors else U[..., 0], info

    monkeypatch.setattr(native, "eigh", gives_up)
    monkeypatch.setattr(native, "instruction_sets", lambda: ("made up",))
    values, U = linalg.eigh(X)
    assert given_up
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(U * values[..., None, :] @ U.mT, X)
    monkeypatch.setattr(door, "_torch", lambda X, vectors: refuses(X))
    with pytest.raises(InvalidMatrixError, match="matrix 7 failed by two methods, though it is finite"):
        linalg.eigh(X)


def refuses(X: Tensor) -> tuple[Tensor, Tensor]:
    raise torch.linalg.LinAlgError("linalg.eigh: the algorithm failed to converge")


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_lapack_gives_up_is_solved_by_jacobi(
    batch: tuple[int, ...], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = torch.randn(*batch, 5, 5, generator=torch.Generator().manual_seed(0), dtype=dtype)
    X = X + X.mT
    expected = torch.linalg.eigvalsh(X)
    monkeypatch.setattr(native, "instruction_sets", lambda: ())
    monkeypatch.setattr(torch.linalg, "eigh", refuses)
    monkeypatch.setattr(torch.linalg, "eigvalsh", refuses)
    values, U = linalg.eigh(X)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(values, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(U * values[..., None, :] @ U.mT, X, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(linalg.eigvalsh(X), values, rtol=0, atol=0)
    monkeypatch.setattr(door, "jacobi", lambda X: None)
    with pytest.raises(InvalidMatrixError, match="failed by two methods, though it is finite") as caught:
        linalg.eigh(X)
    assert caught.value.index == (0,) * len(batch)


def test_which_batches_go_to_the_native_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The edges that were measured: see docs/performance.md."""
    monkeypatch.setattr(native, "instruction_sets", lambda: ("made up",))

    def goes(batch: int, n: int, dtype: torch.dtype = torch.float32) -> bool:
        return door.native_prefers(torch.empty(batch, n, n, dtype=dtype))

    assert goes(30, 30)
    assert goes(8, 128)
    assert not goes(7, 128)
    assert goes(4, 128, torch.float64)
    assert not goes(3, 128, torch.float64)
    assert not goes(1000, 129)
    assert not goes(1, 30)
    assert goes(2, 24)
    assert not goes(2, 23)
    assert not goes(30, 30, torch.float16)
    assert not goes(0, 30)


def test_the_backend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "instruction_sets", lambda: ("avx2", "baseline"))
    assert door.backend() == door.Backend("native avx2", True)
    monkeypatch.setattr(native, "instruction_sets", lambda: ())
    slow = door.backend("cpu")
    assert not slow.fast
    assert "install a C++ compiler" in slow.reason
    monkeypatch.setattr(door.cusolver, "_library", lambda: None)
    assert "CUDA 12.6" in door.backend("cuda").reason
    assert "no solver" in door.backend("mps").reason


POINTS = {"separated": with_spectrum(0.3, 1.5, 4.0), "batch": random_symmetric(2, 4)}


@pytest.mark.parametrize("point", POINTS)
def test_derivatives_of_both_orders(point: str) -> None:
    X = POINTS[point].clone().requires_grad_()

    def values_and_projectors(A: Tensor) -> tuple[Tensor, Tensor]:
        values, U = linalg.eigh((A + A.mT) / 2)
        return values, U[..., :1] * U[..., :1].mT  # whatever the sign of an eigenvector

    assert gradcheck(values_and_projectors, (X,), check_forward_ad=True)
    assert gradgradcheck(values_and_projectors, (X,))


def test_eigenvalues_have_a_derivative_where_they_meet() -> None:
    X = torch.eye(3, dtype=torch.float64).requires_grad_()
    (gradient,) = torch.autograd.grad(linalg.eigvalsh(X).sum(), X)
    torch.testing.assert_close(gradient, torch.eye(3, dtype=torch.float64))


def test_no_graph_is_made_where_none_is_asked_for() -> None:
    X = random_symmetric(3, 4).requires_grad_()
    with torch.no_grad():
        assert not linalg.eigvalsh(X).requires_grad
    assert linalg.eigvalsh(X).requires_grad
