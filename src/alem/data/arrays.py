"""Arrays as files hold them, made into real matrices of single or double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alem.data import limits
from alem.data.errors import DataError

# Of the largest real part: a larger imaginary part is no rounding.
ROUNDING = 1e-10


def real(array: NDArray[Any], path: Path, what: str = "matrix") -> NDArray[Any]:
    """``array`` itself if it is native float32 or float64, else in double precision.

    Complex numbers pass if their imaginary part is rounding, as what eigenvectors of MATLAB leave.
    """
    if array.dtype.kind == "c":
        size = float(np.abs(array.imag).max(initial=0.0))
        if not size <= ROUNDING * float(np.abs(array.real).max(initial=0.0)):
            raise DataError(
                f"{path}: the {what} is complex, with an imaginary part up to {size:.3g}; take the part "
                "that is meant"
            )
        array = array.real
    if array.dtype.kind not in "fiub":
        raise DataError(f"{path}: the {what} holds {array.dtype}, not numbers; store it as float64")
    if array.dtype in (np.float32, np.float64):
        return array
    with np.errstate(over="ignore"):  # infinite is what the matrices are then refused for
        return array.astype(np.float64)


def square(array: NDArray[Any], path: Path, n: int | None = None) -> NDArray[Any]:
    """One real matrix `(n, n)` of the size of those before; leading dimensions of 1 are dropped."""
    matrix = real(array, path)
    while matrix.ndim > 2 and matrix.shape[0] == 1:
        matrix = matrix[0]
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise DataError(f"{path}: expected a square matrix, got shape {array.shape}")
    if n is not None and len(matrix) != n:
        raise DataError(
            f"{path} is {len(matrix)}×{len(matrix)} and the files before it are {n}×{n}; all must have one "
            "size: move it away, or read the sizes apart"
        )
    return matrix


def stacked(files: Sequence[Path], read: Callable[[Path], NDArray[Any]]) -> NDArray[Any]:
    """One matrix per file, `(N, n, n)`; of single precision only if all of them are."""
    matrices = np.empty((0, 0, 0))
    for i, file in enumerate(files):
        matrix = square(read(file), file, len(matrices[0]) if i else None)
        if i == 0:
            needed = 8 * len(files) * matrix.size
            if needed > limits.FREE:  # the sizes of many files take a while
                limits.require_memory(file.parent, needed, sum(each.stat().st_size for each in files))
            matrices = np.empty((len(files), *matrix.shape), matrix.dtype)
        elif matrix.dtype.itemsize > matrices.dtype.itemsize:
            before, matrices = matrices[:i], np.empty(matrices.shape, matrix.dtype)
            matrices[:i] = before  # what has not been read yet is no number to convert
        matrices[i] = matrix
    return matrices


def described(arrays: Mapping[str, NDArray[Any]], path: Path) -> dict[str, Any]:
    """What a store knows of the samples beside matrices and labels, as keywords of ``dataset``."""
    for key, array in arrays.items():
        if array.ndim == 0:
            raise DataError(f"{path}: {key} is a single value; there must be one entry for each sample")
    known: dict[str, Any] = {
        key: texts(arrays[key], path, key) for key in ("classes", "names") if key in arrays
    }
    if "train" in arrays:
        known["train"] = arrays["train"]
    columns = {key: array for key, array in arrays.items() if key not in ("classes", "names", "train")}
    return {**known, "columns": columns}


def texts(array: NDArray[Any], path: Path, what: str) -> list[str]:
    """Entries `(k,)` of any kind as text; bytes are UTF-8."""
    if array.ndim != 1:
        raise DataError(f"{path}: {what} must be one for each, got shape {array.shape}")
    try:
        decoded = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except UnicodeDecodeError:
        raise DataError(f"{path}: {what} are bytes that are no text; store them as strings") from None
    return decoded.astype(str).tolist()


def unpack(triu: NDArray[Any], path: Path) -> NDArray[Any]:
    """Upper triangles row by row `(N, n(n+1)/2)`, as ``numpy.triu_indices`` has them, to `(N, n, n)`."""
    packed = real(triu, path, "array triu")
    size = packed.shape[-1] if packed.ndim == 2 else 0
    n = (math.isqrt(8 * size + 1) - 1) // 2
    if n == 0 or n * (n + 1) // 2 != size:
        raise DataError(
            f"{path}: triu must hold upper triangles (N, n(n+1)/2), and {triu.shape} has no such length"
        )
    matrices = np.empty((len(packed), n, n), packed.dtype)
    i, j = np.triu_indices(n)
    matrices[:, i, j] = packed
    matrices[:, j, i] = packed
    return matrices
