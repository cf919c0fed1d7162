"""Methods beside each other: accuracies, times; and what one of them confuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from alem.experiments.figures.style import INK, Array, Looks, methods_axis, methods_height, plain, sheet
from alem.experiments.figures.training import has_history
from alem.experiments.ledger import Record
from alem.experiments.summary import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = 20  # classes; more names do not fit beside a matrix
NEAR = 0.15  # below the best; at more, differences between the good ones are no longer seen
DRAWN = 500  # classes; more are not told apart, and take long
COUNTED = 12  # classes; more numbers do not fit into its cells


def accuracies(rows: Sequence[Row], looks: Looks) -> Figure:
    """The accuracy of each seed as a dot; the mean as a bar with one deviation to either side.

    Of methods far below the best only the number is shown, at the edge.
    """
    rows = [row for row in rows if row.n]
    near = max(row.mean for row in rows) - NEAR
    with sheet(methods_height(rows)) as figure:
        axis = figure.subplots()
        for place, row in enumerate(rows):
            colour = looks[row.group].colour
            if row.mean < near:
                edge = axis.get_yaxis_transform()
                axis.text(
                    0.005, place, f"← {100 * row.mean:.2f}", transform=edge, va="center", color=colour
                )
                continue
            values = [100 * value for value in row.accuracies.values()]
            axis.plot(values, [place] * len(values), "o", color=colour, alpha=0.45, markersize=4.5)
            spread = None if row.deviation is None else 100 * row.deviation
            axis.errorbar(100 * row.mean, place, xerr=spread, fmt="|", color=colour, markersize=13)
        methods_axis(axis, rows)
        axis.set(xlabel="accuracy after the last epoch, %", title="Accuracy")
    return figure


def timings(rows: Sequence[Row], looks: Looks) -> Figure:
    """Seconds per epoch: quartiles, and the range from 5 % to 95 %, of all epochs of all runs."""
    rows = has_history(rows)
    with sheet(methods_height(rows)) as figure:
        axis = figure.subplots()
        for place, row in enumerate(rows):
            seconds = [value for record in row.records for value in record["history"].get("seconds", ())]
            colour = looks[row.group].colour
            axis.boxplot(
                seconds,
                positions=[place],
                orientation="horizontal",
                widths=0.55,
                whis=(5, 95),
                showfliers=False,
                patch_artist=True,
                boxprops={"facecolor": colour, "alpha": 0.5, "edgecolor": colour},
                medianprops={"color": INK},
                whiskerprops={"color": colour},
                capprops={"color": colour},
            )
        methods_axis(axis, rows)
        axis.set_xlim(left=0)
        axis.set(xlabel="seconds per epoch, evaluation included", title="Time")
    return figure


def confusion(row: Row) -> Figure:
    """Which class the samples of each class are taken for, over all seeds, as shares of the class."""
    counts, classes = confusion_counts(row.records)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    with sheet(5.8, 7.0) as figure:
        axis = figure.subplots()
        image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=1, interpolation="none")
        axis.grid(visible=False)
        if len(classes) <= COUNTED:
            for i, j in zip(*counts.nonzero(), strict=True):
                colour = "#ffffff" if shares[i, j] > 0.5 else "#111111"
                axis.text(j, i, f"{counts[i, j]:.0f}", ha="center", va="center", color=colour, fontsize=8)
        named = len(classes) <= NAMED
        places = range(0, len(classes), 1 if named else 5 if len(classes) <= 60 else 10)
        names = [plain(_short(classes[i])) if named else f"{i}" for i in places]
        counted = "" if named else ", counted from 0"
        axis.set_xticks(places, names, rotation=90 if max(map(len, names)) > 3 else 0)
        axis.set_yticks(places, names)
        axis.set(xlabel=f"recognised as{counted}", ylabel=f"class{counted}", title=plain(row.label))
        bar = figure.colorbar(image, ax=axis, shrink=0.8)
        bar.set_label("share of the class")
        bar.outline.set_visible(False)
    return figure


def confusion_counts(records: Sequence[Record]) -> tuple[Array, list[str]]:
    """How often each class, down, was taken for each, across; and the names of the classes."""
    classes = [str(name) for name in records[0]["classes"]]
    counts = np.zeros((len(classes), len(classes)))
    for record in records:
        if record["predictions"] is not None:
            np.add.at(counts, (record["targets"], record["predictions"]), 1)
    return counts, classes


def _short(name: str, width: int = 18) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"
