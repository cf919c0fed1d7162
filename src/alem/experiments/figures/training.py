"""Accuracy and loss over the epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from alem.experiments.figures.style import INK, Array, Look, Looks, line, panels, plain, share, sheet
from alem.experiments.summary import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {"test_accuracy": "test accuracy", "train_accuracy": "training accuracy", "loss": "loss"}


def has_history(rows: Sequence[Row]) -> list[Row]:
    """The rows that were trained for an epoch at least."""
    return [row for row in rows if _longest(row)]


def curves(rows: Sequence[Row], looks: Looks, what: str = "test_accuracy") -> Figure:
    """A line of the history, ``what``, for each method; of accuracies also the second half, closer.

    Lines are means over seeds, bands one deviation; a cross is where a training has stopped.
    """
    rows = has_history(rows)
    columns = 3 if max((len(row.label) for row in rows), default=0) < 36 else 2
    with sheet(3.6 + 0.2 * math.ceil(len(rows) / columns)) as figure:
        axes = figure.subplots(1, 1 if what == "loss" else 2, squeeze=False)[0]
        late = []
        for row in rows:
            middle, spread = _over_seeds(row, what)
            for axis in axes:
                line(axis, _epochs(middle), middle, spread, looks[row.group], plain(row.label))
                _crosses(axis, row, what, looks[row.group])
            late.append(middle[len(middle) // 2 :])
        percent = "" if what == "loss" else ", %"
        for axis in axes:
            axis.set(xlabel="epoch", ylabel=f"{NAMES[what]}{percent}")
            axis.margins(x=0.02)
            axis.xaxis.get_major_locator().set_params(integer=True)
            if what == "loss" and any((values > 0).any() for values in late):
                axis.set_yscale("log")
        axes[0].set_title(f"{NAMES[what].capitalize()}, all epochs")
        if len(axes) > 1:
            axes[1].set_title("The second half, closer")
            end = max(map(_longest, rows), default=1)
            axes[1].set_xlim(end / 2, end * 1.01)
            _zoom(axes[1], np.concatenate(late))
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False
        )
    return figure


def training(rows: Sequence[Row], looks: Looks) -> Figure:
    """For each method in a panel of its own, test accuracy and, dotted, training accuracy."""
    rows = has_history(rows)
    with panels(rows, 1.75) as (figure, axes):
        for row, axis in zip(rows, axes, strict=True):
            for what, dash in (("test_accuracy", "-"), ("train_accuracy", ":")):
                middle, spread = _over_seeds(row, what)
                line(
                    axis, _epochs(middle), middle, spread, Look(looks[row.group].colour, dash), NAMES[what]
                )
            _crosses(axis, row, "test_accuracy", looks[row.group])
            axis.set_ylim(0, 103)
            axis.xaxis.get_major_locator().set_params(integer=True)
        share(figure, {"test": Look(INK, "-"), "training": Look(INK, ":")}, "epoch", "accuracy, %")
    return figure


def _longest(row: Row) -> int:
    return max(len(record["history"].get("loss", ())) for record in row.records)


def _epochs(values: Array) -> Array:
    return 1.0 + np.arange(len(values))


def _over_seeds(row: Row, what: str) -> tuple[Array, Array | None]:
    """Mean and deviation over the seeds that came so far; folds of a seed weigh by their samples."""
    factor = 1.0 if what == "loss" else 100.0
    seeds: dict[int, list[tuple[int, Array]]] = {}
    for record in row.records:
        values = np.full(_longest(row), np.nan)
        own = record["history"].get(what, ())
        values[: len(own)] = own
        weight = record["tested" if what == "test_accuracy" else "trained"]
        seeds.setdefault(record["config"]["seed"], []).append((weight, values))
    lines = []
    for runs in seeds.values():
        weights = np.array([[weight] for weight, _ in runs]) * ~np.isnan([values for _, values in runs])
        total = weights.sum(0)
        values = (weights * np.nan_to_num([values for _, values in runs])).sum(0)
        lines.append(np.where(total > 0, values / np.maximum(total, 1), np.nan))
    stacked = np.ma.masked_invalid(np.array(lines) * factor)
    spread = stacked.std(0, ddof=1) if len(lines) > 1 else None
    return stacked.mean(0).filled(np.nan), None if spread is None else spread.filled(0.0)


def _crosses(axis: Any, row: Row, what: str, look: Look) -> None:
    factor = 1.0 if what == "loss" else 100.0
    ends = [r["history"][what] for r in row.records if r["stopped"] is not None and r["history"].get(what)]
    axis.plot([len(end) for end in ends], [factor * end[-1] for end in ends], "x", color=look.colour)


def _zoom(axis: Any, values: Array) -> None:
    """Limits without the lowest twentieth: one method that fails would flatten all others."""
    low, high = np.nanquantile(values, [0.05, 1.0])
    margin = max(0.1 * (high - low), 0.5)
    axis.set_ylim(max(low - margin, 0.0), min(high + margin, 101.0))
