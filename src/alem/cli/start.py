"""``alem`` from its first moment on: what signals do, before anything that takes a while is imported."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

# Ctrl-C, to be told to end, and a terminal that is closed.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
INTERRUPTED = 130

_Handler = Callable[[int, FrameType | None], object]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    try:
        with _on_signals(_leave):
            from alem.cli import commands
        with _on_signals(_interrupt):
            return commands.run(argv)
    except BrokenPipeError:  # whoever read the output has seen enough, as in `alem list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _leave(number: int, frame: FrameType | None) -> None:
    """Nothing has begun. An exception might be swallowed, or become another, by modules being imported."""
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """To be told to end is to be interrupted: workers are stopped, checkpoints stay."""
    raise KeyboardInterrupt


@contextmanager
def _on_signals(handler: _Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # where signals cannot be handled
        yield
        return
    # What is ignored stays so, as under nohup.
    before = {s: signal.getsignal(s) for s in SIGNALS if signal.getsignal(s) != signal.SIG_IGN}
    for each in before:
        signal.signal(each, handler)
    try:
        yield
    finally:
        for each, old in before.items():
            signal.signal(each, old)
