"""Blocks of calls in turn, and the best of several settings."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from .task import Task

Clock = Callable[[], float]
Setting = Mapping[str, Any]

BLOCK = 0.01  # seconds: long beside the clock's resolution and a call of Python
LONG = 0.1  # seconds: a call of this length is measured well enough to plan by
FEWEST, MOST = 5, 200  # blocks
FEWEST_LONG = 3  # blocks of calls above a second


class Side(NamedTuple):
    """A function to time, and torch's thread count while it runs."""

    run: Callable[[], object]
    threads: int | None = None


class Times(NamedTuple):
    """Seconds of a call: median and quartiles over blocks."""

    median: float
    low: float
    high: float
    blocks: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Times:
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0], 1)
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, low, high, len(samples))


def clock_for(device: str) -> Clock:
    """A clock that first waits for what has been asked of the device."""
    if torch.device(device).type != "cuda":
        return time.perf_counter

    def synchronised() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return synchronised


def alternate(sides: Sequence[Side], seconds: float, clock: Clock = time.perf_counter) -> list[list[float]]:
    """Seconds per call of each side in many blocks, the sides in turn, for about that long in all."""
    calls = []
    expected = 0.0
    for side in sides:
        with _threads(side.threads):
            once = duration(side.run, clock)
        calls.append(max(1, math.ceil(BLOCK / once)) if once > 0 else 1)
        expected += calls[-1] * once
    fewest = FEWEST_LONG if expected > 1.0 else FEWEST
    rounds = min(MOST, max(fewest, round(seconds / expected))) if expected > 0 else MOST
    samples: list[list[float]] = [[] for _ in sides]
    with _no_collection():
        for _ in range(rounds):
            for side, count, taken in zip(sides, calls, samples, strict=True):
                with _threads(side.threads):
                    if count > 1:
                        side.run()  # brings back to the caches what the other side drove out
                    start = clock()
                    for _ in range(count):
                        side.run()
                    taken.append((clock() - start) / count)
    return samples


def duration(run: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Seconds of a call: the shortest of a few after a first one, or of two if they are long."""
    taken: list[float] = []
    while len(taken) < 4 and not (len(taken) == 2 and taken[1] > LONG):
        start = clock()
        run()
        taken.append(clock() - start)
    return min(taken)


def best_setting(
    build: Callable[[Setting], Task], settings: Sequence[Setting], clock: Clock = time.perf_counter
) -> tuple[Task, Setting]:
    """The task under the setting with which it is fastest."""
    if len(settings) == 1:
        return build(settings[0]), settings[0]
    tried = []
    for setting in settings:
        with _threads(setting.get("threads")):
            tried.append(duration(build(setting).run, clock))
    setting = settings[tried.index(min(tried))]
    return build(setting), setting


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    if count is None or count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Garbage collection would fall on one side or the other."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
