"""What a file may ask for: a regular file, and memory in proportion to its size."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from alem.data.errors import DataError

# Equal matrices compress a thousandfold and are no attack: so much is free for a file of any size.
FREE = 2**30
# Beyond it, times the size of the file. Text becomes 30 times as large as objects of Python, a byte as a
# double 8 times, and measured matrices compress to a half.
RATIO = 64
# Bytes of an entry beside its numbers: its name and its place as objects of Python.
ENTRY = 128


def require_memory(path: Path, needed: int, size: int) -> None:
    """Raise DataError if a file of ``size`` bytes asks for more memory than it may."""
    if needed > max(FREE, RATIO * size):
        raise DataError(
            f"{path} has {size} bytes and asks for {min(needed, 2**80) / 2**30:.3g} GiB of memory; a file "
            f"may ask for {FREE / 2**30:.3g} GiB, or {RATIO} times its size: fetch it again, or store it "
            "uncompressed if it is meant to be so"
        )


def open_file(path: Path) -> BinaryIO:
    """A regular file, for reading; a pipe or a device, which might never end, is a DataError.

    Links are followed: a folder is its user's.
    """

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait for a writer

    stream = open(path, "rb", opener=opener)  # noqa: SIM115 (whoever asked closes it)
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise DataError(f"{path} is no regular file, but a pipe or a device; give a file")
    return stream


def size_of(stream: BinaryIO) -> int:
    """Bytes of an open file."""
    return os.fstat(stream.fileno()).st_size


def read_text(path: Path, encoding: str) -> str:
    """The text of a regular file."""
    with open_file(path) as stream:
        return stream.read().decode(encoding)
