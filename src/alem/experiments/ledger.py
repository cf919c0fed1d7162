"""Results on disk: one line of JSON for each finished run, in one file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alem.experiments.record import require_record
from alem.files import about
from alem.linalg.errors import shown

Record = dict[str, Any]
FILE = "runs.jsonl"
FORMAT = 1
# The end of a line, after all else; lines from before there were checksums lack it.
_CHECKSUM = b',"checksum":"%s"}'
_END = len(_CHECKSUM % (b"0" * 16))


class LedgerError(ValueError):
    """A file of results cannot be read."""

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


class Ledger:
    """The runs in ``folder``/runs.jsonl; a line is added whole, and two processes may add at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / FILE
        self._read_to = self._lines = 0
        self._records: dict[str, Record] = {}
        self._reading = threading.Lock()

    def records(self) -> dict[str, Record]:
        """All records by key, in the order in which they were added; reads what is new."""
        with self._reading:
            if not self.path.exists():
                return self._records
            if not self.path.is_file():  # to open a pipe would wait
                raise LedgerError(f"{self.path} is no regular file; choose another folder")
            with self.path.open("rb") as file:
                file.seek(self._read_to)
                *lines, rest = file.read().split(b"\n")
            for line in lines:
                if line.strip():
                    record = self._record(line, self._lines + 1)
                    self._records.setdefault(record["key"], record)
                self._read_to += len(line) + 1
                self._lines += 1
            if text := _unended(rest):
                record = _parsed(text)
                self._records.setdefault(record["key"], record)
            return self._records

    def add(self, record: Record) -> bool:
        """Append one record, unless another process has added it; whether that was done.

        An unfinished line that a crash has left is removed first. Where the disk is full the file stays as
        it was.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        # Of a path that is no text the halves of characters become escapes of JSON.
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "backslashreplace"
        )
        line = text[:-1] + _CHECKSUM % _digest(text) + b"\n"
        with about(self.path), self._locked() as handle:
            with contextlib.suppress(LedgerError):  # it does not keep what is finished from being added
                if record["key"] in self.records():
                    return False
            size = os.fstat(handle).st_size
            whole = _end_of_last_line(handle, size)
            os.lseek(handle, whole, os.SEEK_SET)
            if text := _unended(_read(handle, size - whole)):
                whole, line = whole + len(text), b"\n" + line
            try:
                os.ftruncate(handle, whole)
                os.lseek(handle, 0, os.SEEK_END)
                _write(handle, line)
                os.fsync(handle)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.ftruncate(handle, whole)
                raise
        return True

    def _record(self, line: bytes, number: int) -> Record:
        try:
            return _parsed(line)
        except LedgerError as error:
            raise LedgerError(
                f"{self.path}: line {number} {error}; remove the line to have the run again"
            ) from None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                import fcntl
            except ImportError:  # no locks there: one command at a time
                yield handle
            else:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield handle
        finally:
            os.close(handle)


def _parsed(line: bytes) -> Record:
    """The record of a line, if it is one and as it was written."""
    text, given = line, b""
    if line[-_END:].startswith(_CHECKSUM[:13]):
        text, given = line[:-_END] + b"}", line[-_END:]
    try:
        record = json.loads(text)
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise ValueError("format")
        require_record(record)
    except (ValueError, RecursionError) as error:
        raise LedgerError(
            f"is no result of a run in the format of this version ({str(error)[:100]})"
        ) from None
    if "checksum" in record or (given and given != _CHECKSUM % _digest(text)):
        raise LedgerError(
            "was changed after it was written: its checksum is that of another (without its checksum "
            "a line counts as it is)"
        )
    return record


def _unended(rest: bytes) -> bytes:
    """The record that ``rest``, after the last newline, is but for its own; nothing if it is half of one.

    An editor may have dropped the newline, or a disk have made another byte of it.
    """
    for text in (rest, rest[:-1]):
        with contextlib.suppress(LedgerError):
            _parsed(text)
            return text
    return b""


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=8).hexdigest().encode()


def _write(handle: int, line: bytes) -> None:
    done = 0
    while done < len(line):
        done += os.write(handle, line[done:])


def _read(handle: int, size: int) -> bytes:
    parts = b""
    while size > len(parts) and (part := os.read(handle, size - len(parts))):
        parts += part
    return parts


def _end_of_last_line(handle: int, size: int) -> int:
    """The size without an unfinished last line."""
    block = 1 << 16
    end = size
    while end > 0:
        start = max(0, end - block)
        os.lseek(handle, start, os.SEEK_SET)
        text = os.read(handle, end - start)
        place = text.rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0
