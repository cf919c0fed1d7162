"""The run as lines on a screen, as JSON and as a page."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from alem.bench.alone.timing import Times
from alem.bench.result import SCHEMA, Result
from alem.bench.targets import verdicts

HEADS = {
    "eigh": "Eigendecomposition",
    "step": "A training step of SPDNet",
    "liebn": "LieBN, forward and backward",
    "geometry": "Means and distances",
    "sgd": "A step of Riemannian SGD",
    "logs": "Learned logarithms",
    "growth": "Growth",
    "memory": "Memory",
}
NOTES = {
    "eigh": """\
`batch×n`, against `torch.linalg.eigh` at its best thread count. The error is that of the reconstruction,
‖UΛUᵀ − X‖/‖X‖, over torch's.""",
    "step": """\
Forward, backward and optimiser with the same weights, layers and batch, 10 classes. ReEig stands after
every BiMap but the last; on rank-deficient input, where there is only one BiMap, also between it and the
logarithm, as it always does in spd_learn's own SPDNet. spd_learn runs at its best thread count and
orthogonal map (cayley or householder) with torch's fused SGD, alem with `RiemannianSGD`. Rank-deficient:
ReEig raises eigenvalues after the first BiMap. Low rank: its floor is an eigenvalue after every BiMap;
there the gradients of the BiMaps are a matter of rounding, and only loss and head are compared.""",
    "liebn": """\
spd_learn's layer, here with two Karcher iterations for AIM, leaves mean and variance out of its gradient;
alem's mean has converged and its gradient is the true one. Outputs agree to 1e-3.""",
    "geometry": "pyRiemann on NumPy arrays, geoopt on tensors, each with its own default tolerances.",
    "sgd": "Against geoopt's canonical Stiefel manifold and its SPD manifold.",
    "logs": "A whole training step with a learned logarithm against that with LogEig, both in alem.",
    "growth": "In one process only. The exponent is fitted to the upper half of each curve.",
    "memory": "What an eager step keeps from its forward to its backward pass; on CUDA the peak allocated.",
}


def record(
    results: Iterable[Result], machine: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything a run has to say, as data."""
    results = list(results)
    return {
        "schema": SCHEMA,
        "machine": dict(machine),
        "options": dict(options),
        "results": [r.to_json() for r in results],
        "growth": exponents(results),
        "targets": verdicts(results, str(options["device"])),
    }


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write the whole file or leave the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(unfinished, path)


def exponents(results: Iterable[Result]) -> list[dict[str, Any]]:
    """The slope of log time over log x on the upper half of each series, of both sides."""
    curves: dict[tuple[str, str], list[Result]] = {}
    for r in results:
        if r.series and r.ratio is not None:
            curves.setdefault((r.series, r.dtype), []).append(r)
    fits = []
    for (series, dtype), points in curves.items():
        upper = sorted(points, key=lambda r: r.x or 0.0)[-max(3, math.ceil(len(points) / 2)) :]
        if len(upper) < 2:
            continue
        x = [r.x for r in upper if r.x]
        mine = [r.alem.median for r in upper if r.alem]
        other = [r.theirs.median for r in upper if r.theirs]
        fits.append(
            {
                "series": series,
                "dtype": dtype,
                "from": x[0],
                "to": x[-1],
                "alem": slope(x, mine),
                "peer": slope(x, other),
                "against": upper[0].peer,
            }
        )
    return fits


def slope(x: list[float], y: list[float]) -> float:
    """The exponent k of the power law y = c·xᵏ nearest in logarithms."""
    u, v = [math.log(a) for a in x], [math.log(b) for b in y]
    centre_u, centre_v = sum(u) / len(u), sum(v) / len(v)
    above = sum((a - centre_u) * (b - centre_v) for a, b in zip(u, v, strict=True))
    return above / sum((a - centre_u) ** 2 for a in u)


def amount(value: float, unit: str = "s") -> str:
    """A number with three digits and a unit."""
    if unit == "B":
        return f"{value / 2**20:.2f} MiB"
    for factor, name in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1 or name == "µs":
            return f"{value * factor:.3g} {name}"
    raise AssertionError


def spread(times: Times | None, unit: str) -> str:
    """Median and quartiles."""
    if times is None:
        return ""
    if times.blocks == 1:
        return amount(times.median, unit)
    return f"{amount(times.median, unit)} ({amount(times.low, unit)} – {amount(times.high, unit)})"


def line(r: Result) -> str:
    """A result on a screen."""
    head = f"{r.row:8} {r.case:32} {r.dtype:7} {r.spectrum:16}"
    if r.alem is None or r.theirs is None or r.ratio is None:
        return f"{head} {r.status}: {r.reason}"
    where = "" if r.alone is None else "alone" if r.theirs == r.alone else "together"
    return (
        f"{head} alem {amount(r.alem.median, r.unit):>10}  {r.peer} {amount(r.theirs.median, r.unit):>10}"
        f"  ×{r.ratio:.2f}  {where}"
    ).rstrip()


def target_lines(data: Mapping[str, Any]) -> list[str]:
    """The targets as rows of a table."""
    lines = ["| target | at least | worst | where | |", "|---|---:|---:|---|---|"]
    for t in data["targets"]:
        at_most = t["target"].startswith(("a learned", "eigh's"))
        asked = f"{'at most ' if at_most else ''}{t['least']:g}×"
        asked += f", aim {t['aim']:g}×" if t["aim"] else ""
        if t["reached"] is None:
            lines.append(f"| {t['target']} | {asked} | | | not measured |")
            continue
        verdict = f"{'reached' if t['reached'] else '**missed**'}, {t['margin']:+.0%}"
        lines.append(f"| {t['target']} | {asked} | {t['value']:.2f}× | {t['where']} | {verdict} |")
    return lines


def page(data: Mapping[str, Any], results: list[Result], command: str, plot: str | None) -> str:
    """The run in Markdown."""
    facts = data["machine"]
    device = facts["device"]
    lines = [
        f"# Speed on {'the CPU' if device == 'cpu' else device}",
        "",
        "Medians over blocks of calls, with quartiles. alem and the peer run in turn in one process; the "
        "peer also runs in a process of its own without alem, and its time is the smaller of the two. Both "
        "are checked on the same inputs first. Above ×1 alem is faster.",
        "",
        f"Made by `{command}` on: " + ", ".join(f"{k} {v}" for k, v in facts.items()) + ".",
        "",
        *([f"![speed]({plot})", ""] if plot else []),
        "## Targets",
        "",
        "The worst of the measured cases counts, over all spectra.",
        "",
        *target_lines(data),
    ]
    for row in HEADS:
        own = [r for r in results if r.row == row]
        if own:
            lines += ["", f"## {HEADS[row]}", "", NOTES[row], "", *_table(row, own)]
            if row == "growth":
                lines += ["", *_growth_table(data["growth"])]
    return "\n".join(lines) + "\n"


def _table(row: str, results: list[Result]) -> list[str]:
    extra = " error |" if row == "eigh" else ""
    lines = [
        f"| case | dtype | spectrum | alem | peer | | ratio |{extra}",
        "|---|---|---|---:|---:|---|---:|" + ("---:|" if extra else ""),
    ]
    for r in results:
        start = f"| {r.case} | {r.dtype} | {r.spectrum} |"
        if r.ratio is None:
            lines.append(f"{start} {r.status}: {r.reason} | | {r.peer} | |" + (" |" if extra else ""))
            continue
        setting = ", ".join(f"{k} {v}" for k, v in r.setting.items())
        peer = f"{r.peer}{f' ({setting})' if setting else ''}"
        cells = f" {spread(r.alem, r.unit)} | {spread(r.theirs, r.unit)} | {peer} | ×{r.ratio:.2f} |"
        lines.append(start + cells + (f" ×{r.checks['error ratio']:.2f} |" if extra else ""))
    return lines


def _growth_table(fits: list[dict[str, Any]]) -> list[str]:
    lines = ["| time against | dtype | range | alem's exponent | peer's | |", "|---|---|---|---:|---:|---|"]
    for f in fits:
        reach = f"{f['from']:g} – {f['to']:g}"
        cells = [f["series"], f["dtype"], reach, f"{f['alem']:.2f}", f"{f['peer']:.2f}", f["against"]]
        lines.append(f"| {' | '.join(cells)} |")
    return lines
