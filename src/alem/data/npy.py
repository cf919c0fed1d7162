"""NumPy's own format: the header is read first, and what it announces is held against what is there."""

from __future__ import annotations

import io
import math
import tokenize
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as numpy_format
from numpy.typing import NDArray

from alem.data.errors import DataError, reading
from alem.data.limits import ENTRY, open_file, require_memory, size_of

# Of versions 1 and 2, which hold anything but named fields.
_READ = {(1, 0): numpy_format.read_array_header_1_0, (2, 0): numpy_format.read_array_header_2_0}
# Bytes in which a header must end; NumPy writes 128.
_HEADER = 2**13


class Header(NamedTuple):
    """What a ``.npy`` file announces, and where its numbers begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    start: int

    @property
    def stored(self) -> int:
        """Bytes of the numbers in the file."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def held(self) -> int:
        """Bytes of the array once it is read: numbers as doubles, text as text, an entry as an object."""
        width = self.dtype.itemsize * (4 if self.dtype.kind == "S" else 1)
        return math.prod(self.shape) * max(width, 8) + ENTRY * (self.shape[0] if self.shape else 1)


def read_header(stream: IO[bytes], size: int, path: Path, what: str) -> Header:
    """The header at the beginning of ``size`` bytes; a DataError if it announces more than is there."""
    head = io.BytesIO(stream.read(_HEADER))
    if head.read(6) != b"\x93NUMPY":
        raise DataError(f"{path}: {what} is no .npy array (numpy.save writes such); check the path")
    head.seek(0)
    try:
        shape, fortran, dtype = _READ[numpy_format.read_magic(head)](head, max_header_size=_HEADER)
    except KeyError:
        raise DataError(
            f"{path}: {what} is of a version of .npy that plain numbers have not; store it as such"
        ) from None
    # What ast, numpy.dtype and the parser were seen to raise.
    except (
        ValueError, TypeError, SyntaxError, MemoryError, RecursionError, OverflowError, tokenize.TokenError
    ):  # fmt: skip
        raise DataError(f"{path}: {what} has a header that is damaged; fetch it again") from None
    if dtype.hasobject:
        raise DataError(
            f"{path}: {what} holds Python objects, which are not read because they may run code; store it "
            "as numbers, or as strings with astype(str)"
        )
    if dtype.kind not in "biufcSUMm" or dtype.subdtype is not None:
        raise DataError(f"{path}: {what} holds {str(dtype)[:60]}; store it as plain numbers or strings")
    header = Header(tuple(map(int, shape)), dtype, fortran, head.tell())
    if min(header.shape, default=0) < 0 or header.stored > size - header.start:
        raise DataError(
            f"{path}: {what} announces more numbers than there are; it is damaged or cut short: fetch it "
            "again"
        )
    return header


def read_array(stream: IO[bytes], path: Path, what: str) -> NDArray[Any]:
    """The array that begins here, after its header has been looked at; text in it is text."""
    array: NDArray[Any] = numpy_format.read_array(stream, allow_pickle=False)
    if array.dtype.kind == "U" and array.nbytes:
        points = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if points.max() > 0x10FFFF:
            raise DataError(f"{path}: {what} holds text that is none; it is damaged: fetch it again")
    return array


def read_npy(path: Path, *, mapped: bool = False) -> NDArray[Any]:
    """The array in a ``.npy`` file; ``mapped``, a page is read when looked at and copied when written."""
    with reading(path), open_file(path) as stream:
        header = read_header(stream, size_of(stream), path, "the array")
        if mapped and header.stored:
            order = "F" if header.fortran else "C"
            return np.memmap(stream, header.dtype, "c", header.start, header.shape, order)  # type: ignore[call-overload]
        require_memory(path, header.held, size_of(stream))
        stream.seek(0)
        return read_array(stream, path, "the array")
