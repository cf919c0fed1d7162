"""Files and folders that are there whole or not at all, and locks that end with their process."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # no locks there: one process at a time, and what a killed one has left stays
    fcntl = None  # type: ignore[assignment]

_NO_LOCK = -1
_BINARY = getattr(os, "O_BINARY", 0)  # elsewhere bytes are written as they are


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """A file to be written, which takes the place of ``path`` when the block ends, or leaves it as it was.

    It is written beside its place, under a hidden name, and flushed to the disk before it is renamed. What
    processes that were killed have left of the same file is removed.
    """
    with about(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        clear(path.parent, path.name)
        part, handle = _begin_file(path)
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
                if fcntl is not None:  # as long as it is locked nobody takes it for a leftover
                    os.replace(part, path)
            if fcntl is None:
                os.replace(part, path)
            flush(path.parent)
        finally:
            _remove(part)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """The same for a folder: that which is given becomes ``path``, with what has been written into it."""
    with about(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        clear(path.parent, path.name)
        part, handle = _begin_folder(path)
        try:
            yield part
            flush(part)
            os.replace(part, path)
            flush(path.parent)
        finally:
            if handle is not None:
                os.close(handle)
            _remove(part)


@contextmanager
def written(file: Path) -> Iterator[BinaryIO]:
    """A new file that is on the disk when the block ends."""
    with file.open("xb") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())


def flush(folder: Path) -> None:
    """Make the names in a folder last, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def clear(folder: Path, name: str = "*") -> None:
    """Remove what killed processes have left of ``name`` in ``folder``, not what is being written."""
    for part in folder.glob(".*.part" if name == "*" else f".{glob.escape(name)}.*.part"):
        with suppress(OSError):  # in use, or another has removed it
            handle = os.open(part, os.O_RDONLY)
            try:
                if _lock(handle, wait=False):
                    _remove(part)
            finally:
                os.close(handle)


def claim(path: Path) -> int | None:
    """Hold the file ``path`` until :func:`release` or the end of the process; None if another holds it."""
    with about(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        while fcntl is not None:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            if not _lock(handle, wait=False):
                os.close(handle)
                return None
            if _is_at(handle, path):
                return handle
            os.close(handle)  # it was released, and removed, in between
        return _NO_LOCK


def release(path: Path, handle: int) -> None:
    """Let go of what :func:`claim` has given."""
    if handle != _NO_LOCK:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        os.close(handle)


@contextmanager
def about(path: Path) -> Iterator[None]:
    """What the system says of a handle names no file, and of a hidden one not what the user knows."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, *_hidden(error, path)):
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _hidden(error: OSError, path: Path) -> list[str]:
    named = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None
    ours = named is not None and any(part.startswith(f".{path.name}.") for part in named.parts)
    return [error.filename] if ours else []


def _begin_file(path: Path) -> tuple[Path, int]:
    while True:
        part = _beside(path)
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        with suppress(OSError):  # disks without locks: what is left there stays
            _lock(handle)
        if fcntl is None or _is_at(handle, part):
            return part, handle
        os.close(handle)  # it was taken for a leftover before it was locked


def _begin_folder(path: Path) -> tuple[Path, int | None]:
    while True:
        part = _beside(path)
        part.mkdir()
        if fcntl is None:
            return part, None
        with suppress(FileNotFoundError):
            handle = os.open(part, os.O_RDONLY)
            with suppress(OSError):
                _lock(handle)
            if _is_at(handle, part):
                return part, handle
            os.close(handle)


def _beside(path: Path) -> Path:
    """A name in the same folder, thus on the same disk, that readers take for hidden."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def _lock(handle: int, wait: bool = True) -> bool:
    """Whether the lock was had; it is given up when the handle is closed."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Whether ``path`` still is the file that was opened."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _remove(part: Path) -> None:
    with suppress(OSError):
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)
