"""One training at a time, from a seed of its own."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator

import numpy as np
import torch

_ONE_AT_A_TIME = threading.RLock()


@contextlib.contextmanager
def generators_kept() -> Iterator[None]:
    """Leave the global generators as they were: a fit follows from its own ``random_state`` alone.

    They and torch's default dtype belong to the process, so threads wait for each other here.
    """
    with _ONE_AT_A_TIME:
        python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (the global one is meant)
        try:
            with torch.random.fork_rng():
                yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002
