"""What was learned about the geometry: parameters of charts, and spectra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from alem.experiments.figures.style import (
    DASHES,
    GREY,
    INK,
    Array,
    Look,
    Looks,
    deviation,
    line,
    panels,
    plain,
    share,
)
from alem.experiments.ledger import Record
from alem.experiments.summary import Row
from alem.geometry import GapLog

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Of exponents, and of what is drawn of them: its square is still a double.
_FAR, _DRAWN = 50.0, 1e100


class Learned(NamedTuple):
    """Numbers of one chart: what they are, a name for each (None: they go by rank), where they began."""

    what: str
    names: tuple[str, ...] | None
    values: Array
    start: Array


def has_learned(rows: Sequence[Row]) -> list[Row]:
    """The rows with learned parameters of a chart."""
    return [row for row in rows if any(record["learned"] for record in _whole(row, "learned"))]


def has_spectra(rows: Sequence[Row]) -> list[Row]:
    """The rows whose records hold spectra."""
    return [row for row in rows if _whole(row, "spectra")]


def learned(rows: Sequence[Row], looks: Looks) -> Figure:
    """What each learned logarithm or metric has become: means over runs, with one deviation.

    A_i by rank where there is a number for each rank, named parameters otherwise; grey is the start.
    """
    rows = has_learned(rows)
    with panels(rows, 2.2) as (figure, axes):
        for row, axis in zip(rows, axes, strict=True):
            charts = _charts(row)
            for i, (chart, runs) in enumerate(charts.items()):
                look = Look(looks[row.group].colour, DASHES[i % len(DASHES)])
                values = np.clip([run.values for run in runs], -_DRAWN, _DRAWN)
                if runs[0].names is None:
                    x = 1.0 + np.arange(values.shape[1])
                    axis.axhline(runs[0].start[0], color=GREY, linewidth=0.8)
                    line(axis, x, values.mean(0), deviation(values), look, plain(chart))
                else:
                    _points(axis, runs[0], values, look, plain(chart), (i + 0.5) / len(charts) - 0.5)
            first = next(iter(charts.values()))[0]
            axis.set(xlabel="rank i, ascending" if first.names is None else "", ylabel=first.what)
            if len(charts) > 1:
                axis.legend(fontsize=6, framealpha=0.0)
    return figure


def spectra(rows: Sequence[Row], looks: Looks) -> Figure:
    """Eigenvalues by rank of what enters the last logarithm, as ln σ and grey, and of what leaves it.

    Medians over the test samples and bands from 5 % to 95 %, averaged over runs.
    """
    rows = has_spectra(rows)
    with panels(rows, 1.9) as (figure, axes):
        for row, axis in zip(rows, axes, strict=True):
            for key, colour, dash in (("before", GREY, "--"), ("after", looks[row.group].colour, "-")):
                found = [record["spectra"][key] for record in _whole(row, "spectra")]
                low, middle, high = np.mean(found, axis=0)
                x = 1.0 + np.arange(len(middle))
                axis.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
                axis.plot(x, middle, dash, color=colour)
        kinds = {"ln σ before": Look(GREY, "--"), "after": Look(INK, "-")}
        share(figure, kinds, "rank, ascending", "eigenvalue")
    return figure


def _whole(row: Row, key: str) -> list[Record]:
    """The records of trainings that came to their end and have something under ``key``."""
    return [record for record in row.records if record["stopped"] is None and record.get(key)]


def _charts(row: Row) -> dict[str, list[Learned]]:
    found: dict[str, list[Learned]] = {}
    for record in _whole(row, "learned"):
        for name, chart in record["learned"].items():
            short = name.removeprefix("layers.").removesuffix(".diffeo").removesuffix(".metric")
            found.setdefault(short, []).append(_learned(chart))
    return found


def _learned(chart: Mapping[str, Any]) -> Learned:
    """The numbers as the formulas of :mod:`alem.geometry` have them."""
    # Many are exponents; of what has run away only the direction is of interest.
    parameters = {key: _clipped(values) for key, values in chart["parameters"].items()}
    if "multipliers" in chart:
        values = _clipped(chart["multipliers"])
        return Learned("multiplier $A_i$", None, values, np.ones_like(values))
    kind, theta = chart["kind"], parameters.get("theta", np.empty(0))
    if kind == "SinhArcsinhLog":
        return Learned("parameter", ("c", "δ", "s"), np.exp(theta), np.ones(3))
    if kind == "RankIncrementLog":
        return Learned("factor $c_i$ of a gap", None, np.exp(theta), np.ones_like(theta))
    if kind == "AdaptiveCholeskyLog":
        return Learned("multiplier $A_i$", None, np.exp(theta), np.ones_like(theta))
    if kind == "GapLog":
        K = len(parameters["log_width"])
        c = np.exp(theta[:1])
        v = c / K * np.expm1(GapLog.STEP_SIZE * theta[1:])
        names = ("c", *(f"$v_{k + 1}$" for k in range(K)), *(f"$s_{k + 1}$" for k in range(K)))
        start = np.concatenate([[1.0], np.zeros(K), np.exp(np.linspace(0.0, 2.0, K))])
        return Learned("parameter", names, np.concatenate([c, v, np.exp(parameters["log_width"])]), start)
    values = np.concatenate(list(parameters.values()))
    names = tuple(plain(f"{key} {i + 1}") for key, own in parameters.items() for i in range(len(own)))
    return Learned("parameter", names, values, np.full(len(values), np.nan))


def _clipped(values: Sequence[float]) -> Array:
    return np.clip(np.asarray(values, dtype=float), -_FAR, _FAR)


def _points(axis: Any, of: Learned, values: Array, look: Look, label: str, aside: float) -> None:
    assert of.names is not None
    x = 1.0 + np.arange(len(of.names))
    axis.plot(x, of.start, "_", color=GREY, markersize=14)
    axis.errorbar(
        x + 0.6 * aside,
        values.mean(0),
        deviation(values),
        fmt="o",
        color=look.colour,
        markersize=4,
        label=label,
    )
    axis.set_xticks(x, of.names)
    if np.abs(values).max() > 10:  # one that has grown would hide the others
        axis.set_yscale("symlog", linthresh=1.0)
        axis.set_ylim(min(1.5 * values.min(), -0.3), 2.0 * max(values.max(), 1.0))
    axis.set_xlim(0.4, len(x) + 0.6)
    axis.grid(visible=False, axis="x")
