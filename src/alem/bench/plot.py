"""The run as a picture, if matplotlib is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alem.bench.result import Result


def plot(results: list[Result], path: Path) -> bool:
    """Draw speed-ups and growth; False without matplotlib, or with nothing to draw."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("agg")
    from matplotlib import pyplot

    timed = [r for r in results if r.ratio is not None]
    panels = [draw for draw, rows in PANELS if any(r.row in rows for r in timed)]
    if not panels:
        return False
    with matplotlib.rc_context({"svg.hashsalt": "alem", "font.size": 9}):
        figure, axes = pyplot.subplots(1, len(panels), figsize=(6 * len(panels), 5), squeeze=False)
        for draw, axis in zip(panels, axes[0], strict=True):
            draw(axis, timed)
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)
    return True


def _eigh(axis: Any, results: list[Result]) -> None:
    curves: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for r in results:
        if r.row == "eigh" and r.spectrum == "well conditioned" and r.ratio:
            batch, n = map(int, r.case.split("×"))
            curves.setdefault((r.dtype, batch), []).append((n, r.ratio))
    for (dtype, batch), points in sorted(curves.items()):
        style = "-" if dtype == "float32" else "--"
        axis.plot(*zip(*sorted(points), strict=True), style, marker=".", label=f"{dtype} batch {batch}")
    axis.axhline(1.0, color="black", linewidth=0.5)
    axis.set(xscale="log", yscale="log", xlabel="n", ylabel="torch / alem", title="eigh")
    axis.legend(fontsize=6, ncols=2)


def _bars(axis: Any, results: list[Result]) -> None:
    own = [r for r in results if r.row in ("step", "liebn", "geometry", "sgd") and r.dtype == "float32"]
    own = own or [r for r in results if r.row in ("step", "liebn", "geometry", "sgd")]
    names = [f"{r.case} {r.spectrum if r.row == 'step' else ''} ({r.peer})" for r in own]
    axis.barh(range(len(own)), [r.ratio for r in own], color="tab:blue")
    axis.set_yticks(range(len(own)), names, fontsize=5)
    axis.invert_yaxis()
    axis.axvline(1.0, color="black", linewidth=0.5)
    axis.set(xscale="log", xlabel="peer / alem", title=f"steps, layers, means, {own[0].dtype}")


def _growth(axis: Any, results: list[Result]) -> None:
    curves: dict[tuple[str, str], list[Result]] = {}
    for r in results:
        if r.series:
            curves.setdefault((r.series, r.dtype), []).append(r)
    dtype = next(iter(curves))[1]
    for i, ((series, of), points) in enumerate(curves.items()):
        if of != dtype:
            continue
        points = sorted(points, key=lambda r: r.x or 0.0)
        x = [r.x for r in points]
        axis.plot(x, [r.alem.median for r in points if r.alem], f"C{i}-", marker=".", label=series)
        axis.plot(x, [r.theirs.median for r in points if r.theirs], f"C{i}:", label=points[0].peer)
    axis.set(xscale="log", yscale="log", ylabel="seconds", title=f"growth, {dtype}")
    axis.legend(fontsize=6)


PANELS = (
    (_eigh, {"eigh"}),
    (_bars, {"step", "liebn", "geometry", "sgd"}),
    (_growth, {"growth"}),
)
