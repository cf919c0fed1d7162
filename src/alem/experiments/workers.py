"""What becomes of the processes that make runs when one of them, or the command, ends before its time."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

LOOK = 0.5  # seconds between two looks at the parent


@lru_cache(maxsize=1)
def end_with(parent: int) -> None:
    """This process ends within a second of its parent, whatever it is at: another may take up its run."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes that are started in here never hear of Ctrl-C, which a terminal sends to all of them.

    The one that starts them hears of it when the block ends, and ends them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
