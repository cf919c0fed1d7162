"""A comparison: what is timed, against whom, and when the two agree."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from alem.bench.alone.task import Task
from alem.bench.alone.timing import Setting

Values = dict[str, Tensor]
Check = Callable[[Values, Values], dict[str, float]]


class Disagreement(Exception):
    """The two sides do not compute the same, so their times cannot be compared."""


class MissingPeer(Exception):
    """The other side is not installed."""


@dataclass(frozen=True)
class Options:
    """What is asked of the suite."""

    device: str = "cpu"
    dtypes: tuple[str, ...] = ("float32", "float64")
    quick: bool = False

    @property
    def on_cpu(self) -> bool:
        return torch.device(self.device).type == "cpu"

    @property
    def threads(self) -> tuple[int, ...]:
        """The thread counts a peer is tried with: 1, 2, 4, … and all."""
        all_of_them = torch.get_num_threads()
        if not self.on_cpu:
            return (all_of_them,)
        counts = {2**k for k in range(all_of_them.bit_length())} | {all_of_them}
        return tuple(sorted(c for c in counts if c <= all_of_them))


@dataclass(frozen=True)
class Peer:
    """The other side: ``build``, as ``"module:function"`` of :mod:`alem.bench.alone`, makes its task.

    ``settings`` are further arguments to choose the fastest from; ``"threads"`` is torch's thread count.
    """

    package: str
    build: str
    arguments: dict[str, Any]
    settings: Sequence[Setting] = ({},)
    alone: bool = True  # whether it is also timed in a process of its own

    @property
    def label(self) -> str:
        return self.package

    def task(self, setting: Setting) -> Task:
        """The other side in this process."""
        if importlib.util.find_spec(self.package) is None:
            raise MissingPeer(f"{self.package} is not installed")
        module, function = self.build.split(":")
        make = getattr(importlib.import_module(f"alem.bench.alone.{module}"), function)
        return make(**self.arguments, **{k: v for k, v in setting.items() if k != "threads"})


@dataclass(frozen=True)
class Ourselves:
    """Another way of doing it in alem, as the other side."""

    label: str
    make: Callable[[], Task]
    settings: Sequence[Setting] = ({},)
    alone: bool = False

    def task(self, setting: Setting) -> Task:
        """The other side in this process."""
        return self.make()


def agree(float32: float, float64: float) -> Check:
    """Each value within a relative distance (of norms) that depends on the dtype."""
    limits = {torch.float32: float32, torch.float64: float64}

    def check(ours: Values, theirs: Values) -> dict[str, float]:
        distances = {}
        for name in ours.keys() & theirs.keys():
            a, b = ours[name], theirs[name]
            distances[name] = float((a - b).norm() / b.norm())
            if not distances[name] <= limits[b.dtype]:
                off = f"{distances[name]:.1e}, and {limits[b.dtype]:.0e} is allowed"
                raise Disagreement(f"{name}: alem and the peer differ by {off}")
        return distances

    return check


@dataclass(frozen=True)
class Case:
    """A line of the table. ``ours`` makes alem's side; ``series`` and ``x`` place it on a curve."""

    row: str
    name: str
    dtype: str
    spectrum: str
    ours: Callable[[], Task]
    peer: Peer | Ourselves
    check: Check
    seconds: float = 1.0
    unit: str = "s"  # or "B", bytes that the step keeps
    series: str = ""
    x: float | None = None
