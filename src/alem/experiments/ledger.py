"""Results on disk: one line of JSON for each finished run, in one file."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alem.experiments.record import require_record
from alem.linalg.errors import shown

Record = dict[str, Any]
FILE = "runs.jsonl"
FORMAT = 1


class LedgerError(ValueError):
    """A file of results cannot be read."""

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


class Ledger:
    """The runs in ``folder``/runs.jsonl; a line is added whole, and two processes may add at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / FILE
        self._read_to = 0
        self._records: dict[str, Record] = {}

    def records(self) -> dict[str, Record]:
        """All records by key, in the order in which they were added; reads what is new."""
        if not self.path.exists():
            return self._records
        if not self.path.is_file():  # to open a pipe would wait
            raise LedgerError(f"{self.path} is no regular file; choose another folder")
        with self.path.open("rb") as file:
            file.seek(self._read_to)
            text = file.read()
        end = text.rfind(b"\n") + 1  # what follows is being written, or was cut off
        for i, line in enumerate(text[:end].splitlines()):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                if not isinstance(record, dict) or record.get("format") != FORMAT:
                    raise ValueError("format")
                require_record(record)
            except (ValueError, RecursionError) as error:
                raise LedgerError(
                    f"{self.path}: record {len(self._records) + 1} (line {i + 1} of those read last) is no "
                    f"result of a run in the format of this version ({str(error)[:100]}); remove the "
                    "line to have the run again"
                ) from None
            self._records.setdefault(record["key"], record)
        self._read_to += end
        return self._records

    def add(self, record: Record) -> None:
        """Append one record; an unfinished line that a crash has left is removed first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        # Of a path that is no text the halves of characters become escapes of JSON.
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        with self._locked() as handle, _of(self.path):
            size = os.fstat(handle).st_size
            whole = _end_of_last_line(handle, size)
            if whole != size:
                os.ftruncate(handle, whole)
            os.lseek(handle, 0, os.SEEK_END)
            done = 0
            while done < len(line):
                done += os.write(handle, line[done:])
            os.fsync(handle)

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


@contextlib.contextmanager
def _of(path: Path) -> Iterator[None]:
    """What the system says of a handle does not name the file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


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
