"""What all figures share: colours, sheets of panels, and how a line with its band is drawn."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alem.experiments.baselines import MissingPackageError
from alem.experiments.summary import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.floating[Any]]

# Okabe and Ito's colours, but for black and yellow: one of a light and a dark page would swallow them.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", "--", ":", "-.")
GREY = "#8a8a8a"
# Stand-ins that :mod:`alem.experiments.figures.svg` replaces: the colours of text and of the page.
INK, PAPER = "#1a1b1c", "#fdfcfb"
WIDTH = 9.0  # inches: at 96 points of a screen to the inch, a page
COLUMNS = 3


class Look(NamedTuple):
    """How a method is drawn, in every figure."""

    colour: str
    dash: str


Looks = Mapping[str, Look]


def looks(rows: Sequence[Row]) -> dict[str, Look]:
    """A colour, and after six methods another dash, for each group; baselines are grey."""
    networks = [row for row in rows if not row.is_baseline]
    found = {row.group: Look(GREY, ":") for row in rows if row.is_baseline}
    pairs = itertools.cycle(Look(colour, dash) for dash in DASHES for colour in COLOURS)
    return found | {row.group: look for row, look in zip(networks, pairs, strict=False)}


def available() -> bool:
    """Whether there is a matplotlib to draw with."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def sheet(height: float, width: float = WIDTH) -> Iterator[Figure]:
    """An empty figure in the house style, of so many inches."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError("figures are drawn by matplotlib: pip install matplotlib") from error
    # A figure without pyplot keeps no global state and asks for no screen.
    with matplotlib.rc_context(_style()):
        yield Figure(figsize=(width, height), layout="constrained")


@contextmanager
def panels(rows: Sequence[Row], height: float) -> Iterator[tuple[Figure, list[Any]]]:
    """A figure with a small panel for each row, titled with its label."""
    columns = max(1, min(COLUMNS, len(rows)))
    lines = max(1, math.ceil(len(rows) / columns))
    with sheet(height * lines + 0.7, WIDTH * max(columns, 2) / COLUMNS) as figure:
        axes = list(figure.subplots(lines, columns, squeeze=False).flat)
        for axis, row in zip(axes, rows, strict=False):
            axis.set_title(broken(row.label, 28))
        for axis in axes[len(rows) :]:
            axis.remove()
        yield figure, axes[: len(rows)]


def line(axis: Any, x: Array, middle: Array, deviation: Array | None, look: Look, label: str) -> None:
    """A line, and a band of one deviation to either side."""
    axis.plot(x, middle, look.dash, color=look.colour, label=label)
    if deviation is not None:
        axis.fill_between(
            x, middle - deviation, middle + deviation, color=look.colour, alpha=0.18, linewidth=0
        )


def share(figure: Figure, entries: Looks, x: str, y: str) -> None:
    """What all panels share: the names of the axes, and above them the kinds of lines."""
    from matplotlib import lines

    kinds: Any = lines.Line2D
    figure.supxlabel(x, fontsize=9)
    figure.supylabel(y, fontsize=9)
    handles = [kinds([], [], color=look.colour, linestyle=look.dash) for look in entries.values()]
    figure.legend(handles, list(entries), loc="outside upper right", ncols=len(entries), frameon=False)


def deviation(values: Array) -> Array | None:
    """The sample standard deviation over the first axis; None for a single one."""
    return values.std(0, ddof=1) if len(values) > 1 else None


def methods_axis(axis: Any, rows: Sequence[Row]) -> None:
    """A line for each method, downwards."""
    axis.set_yticks(range(len(rows)), [broken(row.label, 44) for row in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.grid(visible=False, axis="y")


def methods_height(rows: Sequence[Row]) -> float:
    """Inches for :func:`methods_axis`."""
    return 1.0 + 0.27 * len(rows)


def broken(label: str, width: int) -> str:
    """A label in lines of at most ``width`` letters, where it has spaces."""
    return plain(textwrap.fill(label, width, break_long_words=False, break_on_hyphens=False))


def plain(text: str) -> str:
    """Text that matplotlib does not take for a formula."""
    return text.replace("$", r"\$")


def _style() -> Any:
    return {
        "font.size": 9,
        "font.family": ["DejaVu Sans"],
        "axes.titlesize": 9,
        "axes.titleweight": "bold",
        "axes.labelsize": 9,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "legend.fontsize": 8,
        "lines.linewidth": 1.4,
        "lines.dash_capstyle": "butt",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.15,
        "grid.linewidth": 0.7,
        "axes.axisbelow": True,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color"), INK),
        **dict.fromkeys(("ytick.color", "grid.color"), INK),
        "figure.facecolor": PAPER,
        "axes.facecolor": "none",
        "savefig.facecolor": PAPER,
    }
