"""Square matrices of MATLAB's formats 4 and 5; all else in a file is passed over without being looked at.

SciPy's reader follows whatever a file says, beyond the end of its tables, and then ends the process.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alem.data.errors import DataError
from alem.data.limits import open_file, require_memory

_PACKED, _MATRIX = 15, 14
_COMPLEX = 0x800
# How numbers are stored, by their codes, and the classes of arrays that hold nothing but numbers.
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_NUMBERS = range(6, 16)
# In format 4 by the third digit of the type.
_OLD_TYPES = ("f8", "f4", "i4", "i2", "u2", "u1")
# Bytes in which flags, dimensions and the name of a variable end.
_HEAD = 2**10


class Square(NamedTuple):
    """A square matrix in a file: its name, its size, and where it is."""

    name: str
    n: int
    parts: int
    order: str
    # Of format 5 the element from its tag on, packed or not; of format 4 the numbers, with their type.
    element: bytes
    packed: bool
    old: str | None = None


def read_square(path: Path) -> NDArray[Any]:
    """The one square matrix of a MATLAB file, of two rows or more, whatever its name."""
    with open_file(path) as stream:
        data = stream.read()
    squares = list(_squares(data, path))
    if len(squares) != 1:
        names = ", ".join(square.name for square in squares)
        raise DataError(
            f"{path} must hold one square matrix, and holds {len(squares)}"
            + (f" ({names})" if squares else "")
            + "; store only the one that is meant"
        )
    (square,) = squares
    require_memory(path, 16 * square.n**2, len(data))
    return _old(square) if square.old else _numbers(square)


def _squares(data: bytes, path: Path) -> Iterator[Square]:
    if len(data) < 20:
        raise EOFError("it ends within its header")
    if 0 in data[:4]:
        yield from _old_squares(data)
        return
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if order is None:
        raise ValueError("no file of MATLAB")
    if data[125 if order == "<" else 124] != 1:
        raise DataError(f"{path} is in MATLAB's format 7.3; save it again in MATLAB with -v7")
    at = 128
    while at < len(data):
        kind, size = struct.unpack_from(order + "II", data, at)
        element = data[at + 8 : at + 8 + size] if kind == _PACKED else data[at : at + 8 + size]
        if len(element) < size:
            raise EOFError("it ends within a variable")
        packed = kind == _PACKED
        square = _square(_begin(element, _HEAD) if packed else element, element, packed, order)
        if square is not None:
            yield square
        at += 8 + size


def _begin(packed: bytes, size: int) -> bytes:
    """The first ``size`` bytes of what is packed."""
    return zlib.decompressobj().decompress(packed, size)


def _square(head: bytes, element: bytes, packed: bool, order: str) -> Square | None:
    """What a variable is, if it is a square matrix."""
    kind, _ = struct.unpack_from(order + "II", head)
    _, flags, at = _part(head, 8, order)
    if kind != _MATRIX or len(flags) < 4:
        raise ValueError("a variable that is none")
    (word,) = struct.unpack_from(order + "I", flags)
    if word & 0xFF not in _NUMBERS:
        return None
    _, sizes, at = _part(head, at, order)
    shape = struct.unpack(f"{order}{len(sizes) // 4}i", sizes)
    _, name, at = _part(head, at, order)
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 2:
        return None
    return Square(name.decode("latin1"), shape[0], 2 if word & _COMPLEX else 1, order, element, packed)


def _part(data: bytes, at: int, order: str) -> tuple[int, bytes, int]:
    """Code and content of the part that begins at ``at``, and where the next begins."""
    word, size = struct.unpack_from(order + "II", data, at)
    if word >> 16:  # four bytes at most stand within the tag
        size, start, end = word >> 16, at + 4, at + 8
        if size > 4:
            raise ValueError("a tag that is none")
    else:
        start, end = at + 8, at + 8 + -(-size // 8) * 8
    if start + size > len(data):
        raise EOFError("it ends within a variable")
    return word & 0xFFFF, data[start : start + size], end


def _numbers(square: Square) -> NDArray[Any]:
    """The matrix of format 5, as it was stored."""
    n, order, element = square.n, square.order, square.element
    if square.packed:
        # No more than numbers of this size can take, whatever follows.
        element = _begin(element, _HEAD + 16 * n**2)
    at = 8
    for _ in range(3):
        _, _, at = _part(element, at, order)
    found = []
    for _ in range(square.parts):
        code, content, at = _part(element, at, order)
        values = np.frombuffer(content, order + _TYPES[code])
        found.append(values.reshape(n, n, order="F"))
    return _joined(found)


def _old_squares(data: bytes) -> Iterator[Square]:
    """Format 4: a type, rows, columns, whether complex, length of the name; name; numbers."""
    at = 0
    while at < len(data):
        order = "<" if 0 <= struct.unpack_from("<i", data, at)[0] <= 5000 else ">"
        kind, rows, columns, is_complex, length = struct.unpack_from(order + "5i", data, at)
        type_ = _OLD_TYPES[kind // 10 % 10]
        parts = 2 if is_complex else 1
        size = rows * columns * parts * np.dtype(type_).itemsize
        start = at + 20 + length
        if min(rows, columns, length, kind) < 0 or start + size > len(data):
            raise EOFError("it ends within a variable")
        if kind % 10 == 0 and rows == columns > 1:
            name = data[at + 20 : start].rstrip(b"\0").decode("latin1")
            yield Square(name, rows, parts, order, data[start : start + size], False, type_)
        at = start + size


def _old(square: Square) -> NDArray[Any]:
    assert square.old is not None
    values = np.frombuffer(square.element, square.order + square.old)
    parts = values.reshape(square.parts, -1)
    found = [part.reshape(square.n, square.n, order="F") for part in parts]
    return _joined(found)


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Real and imaginary part; a product with i would make NaN of what is infinite."""
    if len(parts) == 1:
        return parts[0]
    joined = np.empty(parts[0].shape, np.result_type(parts[0], np.complex64))
    joined.real, joined.imag = parts
    return joined
