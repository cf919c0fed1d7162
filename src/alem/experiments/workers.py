"""What becomes of the processes that make runs when one of them, or the command, ends before its time."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

QUIET = {getattr(signal, name) for name in ("SIGINT", "SIGHUP") if hasattr(signal, name)}
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
    """Workers that are started in here never hear of Ctrl-C, nor that their terminal is closed.

    A terminal says so to all of them. The command hears of it when the block ends, and ends them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    from joblib.externals.loky.backend.resource_tracker import ensure_running

    before = signal.pthread_sigmask(signal.SIG_BLOCK, QUIET)
    try:
        for track in (resource_tracker.ensure_running, ensure_running):
            track()  # whoever starts the first unblocks SIGINT
        signal.pthread_sigmask(signal.SIG_BLOCK, QUIET)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
