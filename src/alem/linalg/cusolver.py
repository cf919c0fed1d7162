"""cuSOLVER's batched symmetric eigensolver, called in the library that torch has loaded.

``torch.linalg.eigh`` decomposes matrices larger than 32×32 one after the other on CUDA and waits for
each batch, to look at its failure codes. ``cusolverDnXsyevBatched`` (CUDA 12.6 and later) takes the batch
at once. It is called here on torch's current stream with memory from torch's allocator; nothing waits for
the device, so that a CUDA graph can capture the call.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import threading
import weakref
from typing import Any

import torch
from torch import Tensor

# The most memory in bytes that one call may ask for beside its input and output: the batch is divided.
WORKSPACE = 2**29
# The most matrices of one call: CUDA 13.0 refuses 65,536, earlier ones were seen to refuse 40,000.
BATCH = 2**14
# The most bytes of matrices of one call: what a 32-bit offset reaches.
BYTES = 2**31 - 1
# The n up to which the batched algorithm is the fast one. Beyond it any batch takes as long as 5 to 9
# single matrices, and batches of fewer than ALONE are solved one by one.
SMALL = {torch.float32: 256, torch.float64: 128}
ALONE = 7
# The n for which a single matrix, given to a slower algorithm by cuSOLVER, is solved twice instead.
TWICE = range(33, 129)
# The n up to which cuSOLVER is faster on the upper triangle; beyond it is by a tenth on the lower.
UPPER = 32

_KINDS = {torch.float32: 0, torch.float64: 1}  # CUDA_R_32F, CUDA_R_64F
_STATUS = {
    1: "not initialised",
    2: "allocation failed",
    3: "invalid value",
    4: "architecture mismatch",
    5: "mapping error",
    6: "execution failed",
    7: "internal error",
    8: "matrix type not supported",
    9: "not supported",
}


def prefers(X: Tensor) -> bool:
    """Whether X `(..., n, n)`, float32 or float64 on CUDA, is to be decomposed here and not by torch.

    Wherever the solver exists. It was measured 2 to 500 times faster than torch 2.11 on an H200 for
    batches and n > 32, and as fast for single matrices. For n ≤ 32, where torch calls it too, it is as
    fast up to 2,000 matrices; beyond that, dividing the batch costs up to half a millisecond, which not
    to wait for the device repays.
    """
    return X.dtype in _KINDS and _library() is not None


def eigh(X: Tensor, vectors: bool = True) -> tuple[Tensor, Tensor | None, Tensor]:
    """Eigenvalues `(..., n)` in ascending order, eigenvectors `(..., n, n)` or None, and codes `(...)`.

    A code (int32) is 0 where the iteration converged; a matrix with a NaN gets one that is not, and
    eigenvalues that are NaN. Only the lower triangle of X `(..., n, n)` is read. No derivative.
    """
    *batch, n, _ = X.shape
    if n in TWICE and math.prod(batch) == 1:
        values, U, info = eigh(X.expand(2, *X.shape), vectors)
        return values[0], None if U is None else U[0], info[0]
    # cuSOLVER reads memory by columns: what it takes for the upper triangle is the lower one by rows.
    A = (X if n <= UPPER else X.mT).detach().clone(memory_format=torch.contiguous_format)
    values = A.new_empty(*batch, n)
    info = torch.empty(batch, dtype=torch.int32, device=X.device)
    if n == 0:
        info.zero_()
    elif info.numel():
        _solve(A, values, info, vectors)
    return values, A.mT if vectors else None, info


def _solve(A: Tensor, values: Tensor, info: Tensor, vectors: bool) -> None:
    """Eigenvectors over A, by rows, and the rest; in parts that fit."""
    library, (n, N) = _library(), (A.shape[-1], info.numel())
    if library is None:
        raise RuntimeError("the cuSOLVER that torch has loaded has no cusolverDnXsyevBatched")
    with torch.cuda.device(A.device):
        handle = _handle(library, A.device.index)
        call = (int(vectors), n, _KINDS[A.dtype])
        part, bytes_ = _division(handle, call, N, A)
        work = torch.empty(bytes_, dtype=torch.uint8, device=A.device)
        stream = torch.cuda.current_stream().cuda_stream
        for start in range(0, N, part):
            handle.solve(
                *call,
                A.data_ptr() + start * n * n * A.itemsize,
                values.data_ptr() + start * n * A.itemsize,
                info.data_ptr() + start * info.itemsize,
                min(part, N - start),
                work,
                stream,
            )


def _division(handle: _Handle, call: tuple[int, int, int], N: int, A: Tensor) -> tuple[int, int]:
    """How many matrices of N to solve at a time, and the bytes that they need."""
    n = call[1]
    part = 1 if n > SMALL[A.dtype] and N < ALONE else min(N, BATCH, max(1, BYTES // (n * n * A.itemsize)))
    bytes_, _ = handle.workspace(*call, part)
    if part == N and bytes_ <= WORKSPACE:
        return part, bytes_
    part = min(part, max(1, part * WORKSPACE // max(1, bytes_)))
    part = math.ceil(N / math.ceil(N / part))  # equal parts, but for the last
    return part, max(handle.workspace(*call, count)[0] for count in {part, N % part or part})


class _Handle:
    """cuSOLVER's state on one device, of one thread at a time."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._handle, self._params = ctypes.c_void_p(), ctypes.c_void_p()
        self._sizes: dict[tuple[int, int, int, int], tuple[int, int]] = {}
        # Memory on the host; kept, because a captured graph may read it again.
        self._host: dict[int, Any] = {0: None}
        _check("cusolverDnCreate", library.cusolverDnCreate(ctypes.byref(self._handle)))
        _check("cusolverDnCreateParams", library.cusolverDnCreateParams(ctypes.byref(self._params)))

    def workspace(self, vectors: int, n: int, kind: int, count: int) -> tuple[int, int]:
        """The bytes that so many matrices need on the device and on the host."""
        key = (vectors, n, kind, count)
        if key not in self._sizes:
            device, host = ctypes.c_size_t(), ctypes.c_size_t()
            status = self._library.cusolverDnXsyevBatched_bufferSize(
                self._handle,
                self._params,
                vectors,
                _triangle(n),
                n,
                kind,
                None,
                n,
                kind,
                None,
                kind,
                ctypes.byref(device),
                ctypes.byref(host),
                count,
            )
            _check("cusolverDnXsyevBatched_bufferSize", status)
            self._sizes[key] = device.value, host.value
        return self._sizes[key]

    def solve(
        self,
        vectors: int,
        n: int,
        kind: int,
        A: int,
        values: int,
        info: int,
        count: int,
        work: Tensor,
        stream: int,
    ) -> None:
        bytes_, host = self.workspace(vectors, n, kind, count)
        if host not in self._host:
            self._host[host] = ctypes.create_string_buffer(host)
        _check("cusolverDnSetStream", self._library.cusolverDnSetStream(self._handle, stream))
        status = self._library.cusolverDnXsyevBatched(
            self._handle,
            self._params,
            vectors,
            _triangle(n),
            n,
            kind,
            A,
            n,
            kind,
            values,
            kind,
            work.data_ptr(),
            bytes_,
            self._host[host],
            host,
            info,
            count,
        )
        _check("cusolverDnXsyevBatched", status)


_local = threading.local()
_unused: dict[int, list[_Handle]] = {}


def _handle(library: Any, device: int) -> _Handle:
    """The handle of this thread; when the thread ends another may take it, graphs may still refer to it."""
    handles: dict[int, _Handle] = _local.__dict__.setdefault("handles", {})
    if device not in handles:
        unused = _unused.setdefault(device, [])
        handles[device] = unused.pop() if unused else _Handle(library)
        weakref.finalize(threading.current_thread(), unused.append, handles[device]).atexit = False
    return handles[device]


def _triangle(n: int) -> int:
    """CUBLAS_FILL_MODE_UPPER or CUBLAS_FILL_MODE_LOWER."""
    return 1 if n <= UPPER else 0


def _check(function: str, status: int) -> None:
    if status != 0:
        raise RuntimeError(f"{function} of cuSOLVER returned {status} ({_STATUS.get(status, 'unknown')})")


@functools.cache
def _library() -> Any:
    """The library with the types of its functions, or None where there is no batched solver in it."""
    if torch.version.cuda is None or not torch.cuda.is_available():
        return None
    torch.linalg.cholesky_ex(torch.eye(2, device="cuda"))  # torch loads the library when it needs it
    library = _loaded()
    if library is None or not hasattr(library, "cusolverDnXsyevBatched"):
        return None
    pointer, i64, size, i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_int
    matrices = [pointer, pointer, i32, i32, i64, i32, pointer, i64, i32, pointer, i32]
    sizes = ctypes.POINTER(size)
    library.cusolverDnSetStream.argtypes = [pointer, pointer]
    library.cusolverDnXsyevBatched_bufferSize.argtypes = [*matrices, sizes, sizes, i64]
    library.cusolverDnXsyevBatched.argtypes = [*matrices, pointer, size, pointer, size, pointer, i64]
    return library


def _loaded() -> Any:
    """The cuSOLVER in this process: by its name, of CUDA 12 or 13, else from the list of mapped files."""
    if not hasattr(os, "RTLD_NOLOAD"):
        return None
    for name in ("libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"):
        try:
            return ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:
            continue
    try:
        with open("/proc/self/maps") as maps:
            path = next((line.split()[-1] for line in maps if "/libcusolver.so" in line), None)
    except OSError:
        return None
    return None if path is None else ctypes.CDLL(path)
