"""The library's own eigensolver for batches: C++ with one matrix in each SIMD lane, through ctypes.

It is optional. Where it was not built, :func:`instruction_sets` is empty and nothing else may be called;
:mod:`alem.linalg.eigh` decides.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import alem.linalg

NOT_CONVERGED, NOT_FINITE = 1, 2
DTYPES = {torch.float32: "f32", torch.float64: "f64"}


@cache
def _library() -> Any:
    # In an editable installation the library lies in another folder than this file.
    for folder in alem.linalg.__path__:
        try:
            library = ctypes.CDLL(str(Path(folder, "_native.so")))
        except OSError:  # not built, or built for another machine
            continue
        library.alem_isa.argtypes, library.alem_isa.restype = [ctypes.c_int], ctypes.c_char_p
        return library
    return None


@cache
def _function(name: str, dtype: torch.dtype) -> Any:
    function = getattr(_library(), f"alem_{name}_{DTYPES[dtype]}")
    pointer, integer, number = ctypes.c_void_p, ctypes.c_int, ctypes.c_double
    results: dict[str, list[Any]] = {"eigh": [pointer, pointer, pointer], "bound": [number, pointer]}
    sizes: list[Any] = [ctypes.c_int64] * 5
    function.argtypes = [pointer, *sizes, *results[name], integer, ctypes.c_char_p, integer]
    function.restype = None
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
    flat = X.reshape(X.shape[:-2].numel(), n, n)
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
    flat = X.reshape(X.shape[:-2].numel(), n, n)
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


def _name(isa: str | None) -> bytes | None:
    if isa is None:
        return None
    if isa not in instruction_sets():
        raise ValueError(f"this machine has {', '.join(instruction_sets())}, and not {isa}")
    return isa.encode()
