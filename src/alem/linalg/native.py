"""The library's own C++, through ctypes: an eigensolver for batches and functions of spectra.

It is optional. Where it was not built, :func:`instruction_sets` is empty and nothing else may be called;
who calls it has asked: ``native_prefers`` in :mod:`alem.linalg.eigh`, and :mod:`alem.linalg.spectral`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import alem.linalg
from alem.linalg.spectral_map import Stage

NOT_CONVERGED, NOT_FINITE = 1, 2
DTYPES = {torch.float32: "f32", torch.float64: "f64"}


_is_forked = False


def _after_fork() -> None:
    """The threads of torch's OpenMP do not survive a fork, used by this library before or not."""
    global _is_forked
    _is_forked = True
    if _library.cache_info().currsize and _library() is not None:
        _library().alem_leave_openmp()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _library() -> Any:
    # In an editable installation the library lies in another folder than this file.
    for folder in alem.linalg.__path__:
        try:
            library = ctypes.CDLL(str(Path(folder, "_native.so")))
        except OSError:  # not built, or built for another machine
            continue
        library.alem_isa.argtypes, library.alem_isa.restype = [ctypes.c_int], ctypes.c_char_p
        if _is_forked:
            library.alem_leave_openmp()
        return library
    return None


@cache
def _function(name: str, dtype: torch.dtype) -> Any:
    function = getattr(_library(), f"alem_{name}_{DTYPES[dtype]}")
    pointer, integer, number = ctypes.c_void_p, ctypes.c_int, ctypes.c_double
    long = ctypes.c_int64
    matrices: list[Any] = [pointer, *[long] * 5]
    function_of: list[Any] = [pointer, *matrices, pointer, integer, pointer]
    last: list[Any] = [integer, ctypes.c_char_p]  # threads, instruction set
    arguments: dict[str, list[Any]] = {
        "eigh": [*matrices, pointer, pointer, pointer, *last, integer],
        "bound": [*matrices, number, pointer, *last, integer],
        "function": [*function_of, pointer, *last],
        "derivative": [*function_of, pointer, *[long] * 3, integer, *[pointer] * 3, long, *last],
    }
    function.argtypes, function.restype = arguments[name], None
    return function


@cache
def instruction_sets() -> tuple[str, ...]:
    """Those of this machine that the solver was built for, the widest first; empty without the library."""
    library = _library()
    names: list[str] = []
    while library is not None and (name := library.alem_isa(len(names))):
        names.append(name.decode())
    return tuple(names)


def eigh(
    X: Tensor, vectors: bool = True, isa: str | None = None, lanes: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Eigenvalues `(..., n)`, eigenvectors `(..., n, n)`, and an integer `(...)`, 0 where all is well.

    X `(..., n, n)` is on the CPU, in float32 or float64, with any strides; only its lower triangle is read.
    Where the integer is NOT_CONVERGED or NOT_FINITE the result is NaN. The result does not depend on the
    number of threads, which is torch's, nor on the other matrices of the batch, nor on ``lanes``, how many
    matrices are solved at once (0: as many as suit). Without ``vectors`` there are none, `(..., 0)`.
    """
    n = X.shape[-1]
    flat = X.resolve_neg().reshape(X.shape[:-2].numel(), n, n)
    values = X.new_empty(X.shape[:-1])
    rows = X.new_empty(X.shape if vectors else (*X.shape[:-2], 0))  # an eigenvector in each
    info = torch.empty(X.shape[:-2], dtype=torch.int32)
    _function("eigh", X.dtype)(
        flat.data_ptr(),
        len(flat),
        n,
        *flat.stride(),
        values.data_ptr(),
        rows.data_ptr() if vectors else None,
        info.data_ptr(),
        torch.get_num_threads(),
        _name(isa),
        lanes,
    )
    return values, rows.mT if vectors else rows, info


def exceeds(X: Tensor, minimum: float, isa: str | None = None, lanes: int = 0) -> Tensor:
    """Whether X − minimum·I has a Cholesky factor, booleans `(...)`; as :func:`eigh` otherwise."""
    n = X.shape[-1]
    flat = X.resolve_neg().reshape(X.shape[:-2].numel(), n, n)
    info = torch.empty(X.shape[:-2], dtype=torch.int32)
    _function("bound", X.dtype)(
        flat.data_ptr(),
        len(flat),
        n,
        *flat.stride(),
        minimum,
        info.data_ptr(),
        torch.get_num_threads(),
        _name(isa),
        lanes,
    )
    return info == 0


# As in native/problem.h.
_STAGES = ("clamp", "log", "exp", "multiple", "scale", "sinh", "increment", "gap")


class Map:
    """A function of the spectrum as the library takes it, at most one of its stages coupled."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.names = tuple(stage.name for stage in stages)
        numbers: list[float] = []
        for stage in stages:
            for value in stage.numbers:
                if isinstance(value, Tensor):
                    numbers += value.reshape(-1).tolist()
                else:
                    numbers.append(value)
        self._stages = (ctypes.c_int32 * len(stages))(*map(_STAGES.index, self.names))
        self._numbers = (ctypes.c_double * len(numbers))(*numbers)

    @property
    def is_trainable(self) -> bool:
        """Whether the library has the gradient in what can be learned: only the last stage can."""
        fixed = ("clamp", "log", "exp", "multiple")
        return all(name in fixed for name in self.names[:-1]) and self.names[-1] not in fixed

    def arguments(self) -> tuple[Any, int, Any]:
        """Those of the library's functions."""
        return self._stages, len(self._stages), self._numbers


def function(x: Tensor, U: Tensor, map_: Map, isa: str | None = None) -> Tensor:
    """U diag(φ(x)) Uᵀ of eigenvalues `(..., n)` and eigenvectors `(..., n, n)`, on the CPU."""
    out = x.new_empty(U.shape)
    x, U = _frame(x, U)
    _function("function", x.dtype)(
        *_described(x, U), *map_.arguments(), out.data_ptr(), torch.get_num_threads(), _name(isa)
    )
    return out


def derivative(
    x: Tensor,
    U: Tensor,
    map_: Map,
    G: Tensor,
    adjoint: bool = True,
    wanted: bool = True,
    parameters: int = 0,
    isa: str | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """DFᵀ[G] `(..., n, n)`, or DF[G], of F = U diag(φ(x)) Uᵀ, if ``wanted``, along the symmetric part of G.

    With the number of ``parameters`` of the last stage also the gradient of ⟨G, F⟩ in them, `(parameters)`,
    summed over the batch.
    """
    out = x.new_empty(U.shape) if wanted else None
    x, U = _frame(x, U)
    flat = G.reshape(U.shape)
    gradient = x.new_empty(len(flat), parameters) if parameters else None
    _function("derivative", x.dtype)(
        *_described(x, U),
        *map_.arguments(),
        flat.data_ptr(),
        *flat.stride(),
        adjoint,
        None,
        None if out is None else out.data_ptr(),
        None if gradient is None else gradient.data_ptr(),
        parameters,
        torch.get_num_threads(),
        _name(isa),
    )
    return out, None if gradient is None else gradient.sum(0)


_NOTHING = Map(())


def hadamard(U: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """U (K ⊙ (UᵀVU)) Uᵀ for symmetric K and V `(..., n, n)`, all of which broadcast."""
    n = U.shape[-1]
    out = U.new_empty(torch.broadcast_shapes(U.shape, K.shape, V.shape))
    batch = out.shape[:-2].numel()
    U, K, V = (A.expand(out.shape).reshape(batch, n, n) for A in (U, K, V))
    K = K.contiguous()
    _function("derivative", U.dtype)(
        None,
        U.data_ptr(),
        batch,
        n,
        *U.stride(),
        *_NOTHING.arguments(),
        V.data_ptr(),
        *V.stride(),
        True,
        K.data_ptr(),
        out.data_ptr(),
        None,
        0,
        torch.get_num_threads(),
        None,
    )
    return out


def _frame(x: Tensor, U: Tensor) -> tuple[Tensor, Tensor]:
    """With one dimension for the batch."""
    batch, n = x.shape[:-1].numel(), x.shape[-1]
    return x.reshape(batch, n).contiguous(), U.reshape(batch, n, n)


def _described(x: Tensor, U: Tensor) -> tuple[int, ...]:
    return x.data_ptr(), U.data_ptr(), *x.shape, *U.stride()


def _name(isa: str | None) -> bytes | None:
    if isa is None:
        return None
    if isa not in instruction_sets():
        raise ValueError(f"this machine has {', '.join(instruction_sets())}, and not {isa}")
    return isa.encode()
