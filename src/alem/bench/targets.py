"""What the library is to reach, as ratios, and whether a run reached it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from alem.bench.result import Result

# Of a peer's time to alem's.
Number = Callable[[Result], float | None]


@dataclass(frozen=True)
class Target:
    """At least ``least`` (or at most, of an error) for the worst of the results that ``of`` selects."""

    text: str
    device: str
    least: float
    of: Callable[[Result], bool]
    aim: float | None = None
    number: Number = lambda result: result.ratio
    at_most: bool = False

    def verdict(self, results: Iterable[Result]) -> dict[str, Any]:
        """Reached or missed, by how much, and where it is worst."""
        found = [(value, r) for r in results if self.of(r) and (value := self.number(r)) is not None]
        answer: dict[str, Any] = {"target": self.text, "least": self.least, "aim": self.aim}
        if not found:
            return {**answer, "reached": None}
        worst = max if self.at_most else min
        value, result = worst(found, key=lambda pair: pair[0])
        reached = value <= self.least if self.at_most else value >= self.least
        where = " ".join(filter(None, (result.case, result.dtype, result.spectrum)))
        margin = self.least / value - 1 if self.at_most else value / self.least - 1
        return {**answer, "reached": reached, "value": value, "margin": margin, "where": where}


def _eigh(size: str, dtype: str | None = None) -> Callable[[Result], bool]:
    return lambda r: r.row == "eigh" and r.case == size and dtype in (None, r.dtype)


def _step(where: Callable[[Result], bool]) -> Callable[[Result], bool]:
    return lambda r: r.row == "step" and where(r)


def _shallow(r: Result) -> bool:
    return r.case.count(",") == 1


def _friendly(r: Result) -> bool:
    return r.spectrum in ("well conditioned", "clustered")


def _eigh_errors(r: Result) -> float | None:
    return r.checks.get("error ratio")


def _extra_cost(r: Result) -> float | None:
    return None if r.ratio is None else 1 / r.ratio


TARGETS = (
    Target("eigh 256×30 float32", "cpu", 7.0, _eigh("256×30", "float32")),
    Target("eigh 256×30 float64", "cpu", 5.0, _eigh("256×30", "float64")),
    Target("eigh 30×30", "cpu", 5.0, _eigh("30×30")),
    Target("eigh 256×64 float32", "cpu", 3.5, _eigh("256×64", "float32")),
    Target("eigh 256×64 float64", "cpu", 3.0, _eigh("256×64", "float64")),
    Target("eigh 256×93 float32", "cpu", 2.5, _eigh("256×93", "float32")),
    Target("eigh 256×93 float64", "cpu", 2.0, _eigh("256×93", "float64")),
    Target("eigh anywhere", "cpu", 0.95, lambda r: r.row == "eigh"),
    Target("steps, friendly", "cpu", 2.0, _step(lambda r: _shallow(r) and _friendly(r)), aim=3.0),
    Target("steps, friendly, deep", "cpu", 3.0, _step(lambda r: not _shallow(r) and _friendly(r)), aim=4.0),
    Target("steps, ReEig active", "cpu", 1.5, _step(lambda r: not _friendly(r)), aim=2.5),
    Target("eigh 2048×75", "cuda", 200.0, _eigh("2048×75")),
    Target("eigh 30×93", "cuda", 50.0, _eigh("30×93")),
    Target("step {93,30} batch 30", "cuda", 10.0, _step(lambda r: r.case == "{93,30} batch 30")),
    Target(
        "step {93,70,50,30} batch 30", "cuda", 40.0, _step(lambda r: r.case == "{93,70,50,30} batch 30")
    ),
    Target(
        "step {93,70,50,30} batch 256", "cuda", 150.0, _step(lambda r: r.case == "{93,70,50,30} batch 256")
    ),
    Target("step {75,60,45} batch 256", "cuda", 250.0, _step(lambda r: r.case == "{75,60,45} batch 256")),
    Target("steps anywhere", "cuda", 1.0, _step(lambda r: True)),
    Target(
        "a learned logarithm's step over LogEig's",
        "any",
        1.05,
        lambda r: r.row == "logs",
        number=_extra_cost,
        at_most=True,
    ),
    Target(
        "eigh's error over torch's",
        "any",
        1.0,
        lambda r: r.row == "eigh",
        number=_eigh_errors,
        at_most=True,
    ),
)


def verdicts(results: Iterable[Result], device: str) -> list[dict[str, Any]]:
    """For each target of that kind of device."""
    results = [r for r in results if r.status == "timed"]
    kind = device.split(":")[0]
    return [target.verdict(results) for target in TARGETS if target.device in (kind, "any")]
