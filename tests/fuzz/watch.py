"""What a reader did while it read: the lines it passed, what it asked of the system, memory and time."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import alem

SOURCES = str(Path(alem.__file__).parent)
Edge = tuple[CodeType, int, int]

# Whatever runs code, starts a process, reaches for the network or changes files.
_FORBIDDEN = (
    "pickle.find_class", "exec", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn",
    "os.spawn", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate",
    "os.chmod", "os.chown", "subprocess.Popen", "socket.connect", "socket.bind", "socket.getaddrinfo",
    "shutil.", "ctypes.dlopen", "webbrowser.", "urllib.", "tempfile.", "marshal.loads",
)  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Forbidden(BaseException):
    """Something was done that no file may cause; no reader can catch it."""


class Hangs(BaseException):
    """It takes longer than it may."""


class Guard:
    """Raises Forbidden, while it is on, at whatever runs code or changes files outside ``free``."""

    def __init__(self) -> None:
        self.free: Path | None = None
        self.seen: str | None = None
        self._on = False
        sys.addaudithook(self._hook)  # for good: Python has no way to take one away

    @contextlib.contextmanager
    def on(self, free: Path | None = None) -> Iterator[None]:
        self.free, self.seen, self._on = free, None, True
        try:
            yield
        finally:
            self._on = False
            if self.seen is not None:  # also where a reader that catches everything has caught it
                raise Forbidden(self.seen)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._on and self._is_forbidden(event, arguments):
            # Modules that are imported late are the program's, not the file's.
            if _importing(sys._getframe(1)):
                return
            self.seen = f"{event} {arguments!r:.200}"
            raise Forbidden(self.seen)

    def _is_forbidden(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, int):  # a handle of what was opened before, and looked at then
                return False
            changes = bool(flags & _WRITING) or any(c in "wax+" for c in mode or "")
            return changes and not self._is_free(path)
        if event == "compile":  # what becomes a tree and nothing else has this name
            return arguments[1] != "<unknown>"
        return event.startswith(_FORBIDDEN) and not (
            event in ("os.rename", "os.mkdir", "os.remove") and self._is_free(arguments[0])
        )

    def _is_free(self, path: object) -> bool:
        return (
            self.free is not None
            and isinstance(path, (str, os.PathLike))
            and (self.free == Path(path) or self.free in Path(path).parents)
        )


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def traced(edges: set[Edge]) -> Iterator[None]:
    """Adds to ``edges`` each pair of lines of the library that followed one another."""

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(SOURCES):
            return None
        before = 0

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal before
            if event == "line":
                edges.add((code, before, frame.f_lineno))
                before = frame.f_lineno
            return line

        return line

    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(None)


@contextlib.contextmanager
def in_time(seconds: float) -> Iterator[None]:
    """Raises Hangs if it takes longer."""

    def late(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Memory:
    """The most memory that was held at once since :meth:`start`, beyond what was held then; Linux only."""

    def __init__(self) -> None:
        self._known = Path("/proc/self/clear_refs").exists()
        self._before = 0

    def start(self) -> None:
        if self._known:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # the peak is what is held now
            self._before = _status("VmRSS")

    def grown(self) -> int:
        return _status("VmHWM") - self._before if self._known else 0


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return 1024 * int(line.split()[1])
    return 0
