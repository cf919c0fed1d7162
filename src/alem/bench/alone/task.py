"""What a side of a comparison is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class Task(NamedTuple):
    """Something to time, and what it computes, asked for once before the first run."""

    run: Callable[[], object]
    values: Callable[[], dict[str, Tensor]]
    warm_up: int = 1  # runs that are not like the later ones
