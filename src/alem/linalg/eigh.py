"""Batched eigendecomposition of symmetric matrices: the only place in the library that decomposes.

Which solver does it depends on the device, on n and on the size of the batch, never on the number of
threads. :func:`backend` says which solvers there are.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from alem.linalg import cusolver, failures, native
from alem.linalg.autograd import Function, apply, opaque
from alem.linalg.errors import InvalidMatrixError, matrix_name, require_finite
from alem.linalg.jacobi import jacobi
from alem.linalg.precision import full_precision


@full_precision
def eigh(X: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues in ascending order `(..., n)` and orthonormal eigenvectors `(..., n, n)`.

    X = U diag(λ) Uᵀ. Only the lower triangle of X `(..., n, n)` is read. A matrix with a NaN or an
    infinity raises :class:`InvalidMatrixError` on the CPU. Differentiable where the eigenvalues are
    distinct, and the eigenvalues by themselves everywhere. Functions of matrices are better differentiated
    as such: see :func:`alem.linalg.spectral`.
    """
    return apply(_Eigh, X) if _may_be_differentiated(X) else decompose(X, True)


@full_precision
def eigvalsh(X: Tensor) -> Tensor:
    """Eigenvalues of symmetric matrices, ascending, `(..., n)`; as :func:`eigh` otherwise."""
    return apply(_Eigh, X)[0] if _may_be_differentiated(X) else decompose(X, False)[0]


def _may_be_differentiated(X: Tensor) -> bool:
    return (
        (X.requires_grad and torch.is_grad_enabled())
        or torch._C._functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
    )


@opaque("alem::decompose")
def decompose(X: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    """:func:`eigh` without derivatives; the eigenvectors, if they are not wanted, have shape `(..., 0)`."""
    if X.is_cuda and cusolver.prefers(X):
        values, U, info = cusolver.eigh(X, vectors)
        failures.record(info)
        return values, _absent(X) if U is None else U
    if X.device.type != "cpu":
        return _torch(X, vectors)
    if native_prefers(X):
        return _native(X, vectors)
    # LAPACK may return finite nonsense for a NaN. A sum that is finite proves that there is none.
    if not math.isfinite(X.sum().item()):
        require_finite(X)
    try:
        return _threaded(X, vectors) if _is_worth_threads(X) else _torch(X, vectors)
    except LinAlgError:
        return _one_by_one(X, vectors)


@decompose.register_fake
def _(X: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    return X.new_empty(X.shape[:-1]), X.new_empty(X.shape).mT if vectors else _absent(X)


@decompose.register_vmap
def _(info: Any, in_dims: tuple[int, None], X: Tensor, vectors: bool) -> tuple[Any, tuple[int, int]]:
    return decompose(X.movedim(in_dims[0], 0), vectors), (0, 0)


def _absent(X: Tensor) -> Tensor:
    return X.new_empty(*X.shape[:-2], 0)


def _torch(X: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    if not vectors:
        return torch.linalg.eigvalsh(X), _absent(X)
    values, U = torch.linalg.eigh(X)
    return values, U


# The native solver.

_LARGEST = 128  # beyond, LAPACK is up to date on speed and ahead in accuracy


def native_prefers(X: Tensor) -> bool:
    """Whether the native solver is there and was measured to be the fastest for such a batch.

    A register holds 8 floats or 4 doubles on most machines. With few lanes in use it loses to LAPACK, the
    sooner the larger the matrices are; and a batch of tiny ones is too short to call for.
    """
    n = X.shape[-1]
    batch = X.numel() // max(1, n * n)
    lanes = 32 // X.element_size()
    return (
        X.dtype in native.DTYPES
        and n <= _LARGEST
        and batch * 128 >= lanes * n
        and batch * n >= 48
        and batch > 1
        and bool(native.instruction_sets())
    )


def _native(X: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    values, U, info = native.eigh(X, vectors)
    if bool(info.any()):
        require_finite(X)
        for place in (info != 0).nonzero().tolist():  # as good as never: by another method, then
            index = tuple(place)
            try:
                values[index], U[index] = _torch(X[index], vectors)
            except LinAlgError as error:
                raise _failed(index) from error
    return values, U


def _one_by_one(X: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    """Each matrix by itself, and the one that LAPACK does not solve by Jacobi's rotations."""
    values, U = X.new_empty(X.shape[:-1]), X.new_empty(X.shape if vectors else (*X.shape[:-2], 0))
    for index in np.ndindex(X.shape[:-2]):
        try:
            values[index], U[index] = _torch(X[index], vectors)
        except LinAlgError as error:
            found = jacobi(X[index])
            if found is None:
                raise _failed(index) from error
            values[index] = found[0]
            if vectors:
                U[index] = found[1]
    return values, U


def _failed(index: tuple[int, ...]) -> InvalidMatrixError:
    return InvalidMatrixError(
        f"the eigendecomposition of {matrix_name(index)} failed by two methods, though it is finite; scale "
        "it to entries of about 1, or drop it",
        index,
    )


# LAPACK with threads over the batch.


def _is_worth_threads(X: Tensor) -> bool:
    """Below, what other threads of torch are still waiting for gets into the way of these."""
    batch = X.shape[:-2].numel()
    return torch.get_num_threads() > 1 and batch >= 16 and batch * X.shape[-1] ** 3 >= 1_000_000


@cache
def _executor(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "alem-eigh")


if hasattr(os, "register_at_fork"):  # a child has the executor and none of its threads
    os.register_at_fork(after_in_child=_executor.cache_clear)


def _threaded(X: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    """torch takes one matrix after the other, with all threads at each, which is slower."""
    threads, n = torch.get_num_threads(), X.shape[-1]

    def part(Y: Tensor) -> tuple[Tensor, Tensor]:
        torch.set_num_threads(1)  # of this thread, and of those yet to come
        return _torch(Y, vectors)

    first, *others = X.reshape(-1, n, n).tensor_split(threads)
    try:
        pending = _executor(threads - 1).map(part, others)
        parts = [part(first), *pending]
    finally:
        torch.set_num_threads(threads)
    values = torch.cat([values for values, _ in parts]).reshape(X.shape[:-1])
    if not vectors:
        return values, _absent(X)
    return values, torch.cat([U.mT for _, U in parts]).reshape(X.shape).mT


class _Eigh(Function):
    """Eigenvalues and eigenvectors, to be differentiated as often as one likes."""

    @staticmethod
    def forward(X: Tensor) -> tuple[Tensor, Tensor]:
        return decompose(X.detach(), True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output)
        ctx.save_for_forward(*output)

    @staticmethod
    def backward(ctx: Any, values_grad: Tensor | None, U_grad: Tensor | None) -> Tensor | None:
        values, U = ctx.saved_tensors
        middle = None if values_grad is None else torch.diag_embed(values_grad)
        if U_grad is not None:
            turned = (U.mT @ U_grad) * _reciprocal_gaps(values)
            middle = turned if middle is None else middle + turned
        return None if middle is None else U @ middle @ U.mT


class _EighWithForwardMode(_Eigh):
    """The same with forward-mode differentiation, which Dynamo does not accept in a Function."""

    @staticmethod
    def jvp(ctx: Any, V: Tensor) -> tuple[Tensor, Tensor]:
        values, U = ctx.saved_tensors
        frame = U.mT @ V @ U
        return frame.diagonal(dim1=-2, dim2=-1).clone(), U @ (frame * _reciprocal_gaps(values))


_Eigh.eager = _EighWithForwardMode


def _reciprocal_gaps(values: Tensor) -> Tensor:
    """1/(λ_j − λ_i), and 0 for equal ones: for what does not depend on the choice of their eigenvectors."""
    gaps = values[..., None, :] - values[..., :, None]
    tied = gaps == 0
    return torch.where(tied, 0.0, 1.0 / torch.where(tied, 1.0, gaps))


@dataclass(frozen=True)
class Backend:
    """What decomposes batches on a device; ``reason`` says why it is not the fast one, and what to do."""

    name: str
    fast: bool
    reason: str = ""


def backend(device: torch.device | str = "cpu") -> Backend:
    """The solver of batches of common sizes on a device."""
    device = torch.device(device)
    if device.type == "cpu":
        if native.instruction_sets():
            return Backend(f"native {native.instruction_sets()[0]}", True)
        return Backend(
            "torch, threads over the batch",
            False,
            "the native eigensolver was not built; install a C++ compiler (GCC or Clang) and CMake, then "
            "install alem again",
        )
    if device.type == "cuda":
        if cusolver._library() is not None:
            return Backend("cuSOLVER batched", True)
        return Backend(
            "torch", False, "cuSOLVER has no batched solver here; use a torch built for CUDA 12.6 or later"
        )
    return Backend("torch", False, f"there is no solver of alem's own for {device.type}")
