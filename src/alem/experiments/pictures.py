"""The figures of the paper: which runs each shows, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from alem.experiments.figures import curves, learned
from alem.experiments.figures.style import Looks
from alem.experiments.summary import Row


@dataclass(frozen=True)
class Picture:
    """Rows of a table, drawn."""

    title: str
    table: str
    rows: tuple[str, ...]
    draw: Callable[[Sequence[Row], Looks], Any]


FIGURES = {
    "fpha-curves": Picture(
        "Accuracy curves on FPHA, with and without ALog",
        "fpha",
        ("SPDNet", "ALog-MUL", "ALog-DIV", "ALog-RELU"),
        curves,
    ),
    "hdm05-parameters": Picture("What ALog-MUL learns on HDM05, by rank", "hdm05", ("ALog-MUL",), learned),
    "fpha-parameters": Picture("What ALog-MUL learns on FPHA, by rank", "fpha", ("ALog-MUL",), learned),
}
