"""The table of results, and what of it needs a word."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from alem.experiments.baselines import MissingPackageError
from alem.experiments.naming import label
from alem.experiments.report.blocks import Block, Bullets, Paragraph, Table
from alem.experiments.summary import Row, paired_test

PAIRED = 3  # shared seeds; with two, Student's distribution has one degree of freedom
RANDOM = ("half", "part")  # splits that follow from the seed
NOTE = (
    "Accuracy over the whole test set after the last epoch, in percent: mean ± sample standard deviation "
    "over seeds; a training that ended early counts with its last whole epoch. The best mean stands out. "
    "“Against” is the difference in points of percent: the mean over shared seeds with the two-sided p of "
    f"a paired t-test where there are {PAIRED} of them or more (n, if not all of the row), else the "
    "difference of the means. A baseline of one seed on a fixed split stands for every seed. No p is "
    "corrected for the number of comparisons."
)


def results(rows: Sequence[Row]) -> list[Block]:
    """The table, what it means, and why trainings have stopped."""
    against = references(rows)
    head = ["method", "accuracy,\u00a0%", "seeds", "stopped early", "parameters", "seconds per run"]
    head += [f"against {row.label}" for row in against]
    first = best(rows)
    strong = frozenset(i for i, row in enumerate(rows) if first is not None and row.mean == first.mean)
    table = [
        [
            row.label,
            accuracy(row),
            f"{row.n}",
            f"{len(row.stopped)}" if row.stopped else "–",
            "–" if row.parameters is None else f"{row.parameters:,}",
            f"{row.seconds:.3g}" if row.seconds < 100 else f"{row.seconds:.0f}",
            *("" if row is other else difference(row, other) for other in against),
        ]
        for row in rows
    ]
    blocks: list[Block] = [Table(head, table, strong=strong), Paragraph(NOTE)]
    remarks = [
        f"{row.label}, seed {record['config']['seed']}: stopped early, {record['stopped']}"
        for row in rows
        for record in row.records
        if record["stopped"] is not None
    ]
    remarks += [
        f"{row.label}: left out {many(row.unfinished, 'seed')}, for which folds or groups are missing"
        for row in rows
        if row.unfinished
    ]
    return [*blocks, Bullets(remarks)] if remarks else blocks


def accuracy(row: Row) -> str:
    """Mean ± deviation in percent."""
    if not row.n:
        return "unfinished"
    return f"{100 * row.mean:.2f}" + ("" if row.deviation is None else f" ± {100 * row.deviation:.2f}")


def best(rows: Sequence[Row]) -> Row | None:
    """The row of the highest mean, the first of equals; None if no seed of any is complete."""
    return max((row for row in rows if row.n), key=lambda row: row.mean, default=None)


def references(rows: Sequence[Row]) -> list[Row]:
    """What all others are compared with: SPDNet or the first network, and the best of what is none."""
    networks = [row for row in rows if row.n and not row.is_baseline]
    networks.sort(key=lambda row: label(row.records[0]) != "SPDNet")
    baseline = best([row for row in rows if row.is_baseline])
    return [*networks[:1], *([] if baseline is None else [baseline])]


def difference(row: Row, other: Row) -> str:
    """In points of percent; p where there are enough shared seeds, n where these are not all of the row."""
    if not (row.n and other.n):
        return ""
    a, b = _by_seed(row, other), _by_seed(other, row)
    points, test = row.mean - other.mean, ""
    if len(a.keys() & b.keys()) >= PAIRED:
        with contextlib.suppress(MissingPackageError):
            p, n, points = paired_test(a, b)
            shared = "" if n == row.n else f", n = {n}"
            test = f" ({'p < 0.001' if p < 1e-3 else f'p = {p:.3f}'}{shared})"
    return f"{100 * points:+.2f}".replace("-", "−") + test


def _by_seed(row: Row, other: Row) -> dict[int, float]:
    """Its accuracies; those of a baseline for every seed of the other where nothing is random in it."""
    kind = row.records[0]["config"].get("split", {}).get("kind", "given")
    if row.is_baseline and row.n == 1 and kind not in RANDOM:
        return dict.fromkeys(other.accuracies, row.mean)
    return row.accuracies


def many(items: Sequence[object], what: str) -> str:
    """A few items in words: "seed 3", "seeds 0, 2"."""
    return f"{what}{'' if len(items) == 1 else 's'} {', '.join(map(str, items))}"
