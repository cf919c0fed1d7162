"""From the records of a table's cells to lines of text and of Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alem.experiments.ledger import Record
from alem.experiments.summary import paired_test, summarise
from alem.experiments.table import Published, Table

Records = Mapping[tuple[str, str], Sequence[Record]]


@dataclass(frozen=True)
class Cell:
    """A method in a setting: percentages by seed, of the table's statistic and of the last epoch."""

    percent: dict[int, float]
    last: dict[int, float]
    stopped: int
    published: Published | None
    baseline: bool

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return statistics.fmean(self.percent.values())

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation over the seeds; None for one."""
        return statistics.stdev(self.percent.values()) if len(self.percent) > 1 else None

    @property
    def differs(self) -> bool:
        """Whether the mean is farther from the paper's than the paper's own deviation."""
        if self.published is None or self.published.deviation is None:
            return False
        return abs(self.mean - self.published.mean) > self.published.deviation


def cells(table: Table, records: Records) -> dict[tuple[str, str], Cell]:
    """The cells that have records."""
    places = {column.label: i for i, column in enumerate(table.columns)}
    found: dict[tuple[str, str], Cell] = {}
    for (row_label, column_label), own in records.items():
        if not own:
            continue
        (row,) = summarise(own)
        last = {seed: 100 * value for seed, value in row.accuracies.items()}
        if not last:
            continue
        asked = table.row(row_label)
        numbers = asked.published
        place = places[column_label]
        percent = last
        if table.tail > 1 and not asked.is_baseline:
            percent = last | {
                record["config"]["seed"]: 100 * statistics.median(tested[-table.tail :])
                for record in own
                if (tested := record["history"]["test_accuracy"])
            }
        found[row_label, column_label] = Cell(
            percent,
            last,
            len(row.stopped),
            numbers[place] if place < len(numbers) else None,
            asked.is_baseline,
        )
    return found


def lines(table: Table, records: Records) -> list[list[str]]:
    """The table as rows of text, the head first."""
    filled = cells(table, records)
    columns = [c.label for c in table.columns if any(key[1] == c.label for key in filled)]
    head = ["method"]
    for label in columns:
        head += [label, "paper"] if _has_paper(table, filled, label) else [label]
        head += [f"against {other}" for other in table.against] if len(columns) == 1 else []
        head += ["seeds"] if len(columns) == 1 else []
    head += ["mean"] if table.average else []
    out = [head]
    for row in table.rows:
        own = [filled.get((row.label, label)) for label in columns]
        if not any(own):
            continue
        line = [row.label]
        for label, cell in zip(columns, own, strict=True):
            line.append("" if cell is None else _number(table, cell))
            if _has_paper(table, filled, label):
                line.append("" if cell is None else _paper(cell))
            if len(columns) == 1:
                for other in table.against:
                    line.append(_against(cell, filled.get((other, label)), same=other == row.label))
                line.append("" if cell is None else "–" if cell.baseline else str(len(cell.percent)))
        if table.average:
            line.append(f"{statistics.fmean(cell.mean for cell in own if cell):.2f}" if all(own) else "")
        out.append(line)
    return out


def markdown(table: Table, records: Records) -> str:
    """The table with its title and what its signs mean."""
    head, *rest = lines(table, records)
    rule = ["---"] + ["---:"] * (len(head) - 1)
    body = "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rest))
    return f"# {table.title}\n\n{body}\n\n{legend(table)}\n"


def text(table: Table, records: Records) -> str:
    """The table in columns, for a terminal."""
    rows = lines(table, records)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def line(row: list[str]) -> str:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)),
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([table.title, "", line(rows[0]), "-" * len(line(rows[0])), *map(line, rows[1:])])


def legend(table: Table) -> str:
    """What the numbers are."""
    last = "of the last epoch" if table.tail == 1 else f"as the median of the last {table.tail} epochs"
    parts = [
        f"Accuracy in percent {last} over all samples tested on, mean ± standard deviation over the seeds."
    ]
    if table.tail > 1:
        parts.append("In brackets the last epoch.")
    if any(any(row.published) for row in table.rows):
        parts.append("≠ marks a mean farther from the paper's than the paper's own deviation.")
    if table.average:
        parts.append("Mean: over the columns.")
    if table.against:
        parts.append(
            "Against: the difference to that row, and the p of a paired t-test over the seeds; a baseline "
            "without seeds stands for each of them."
        )
    return " ".join(parts)


def _has_paper(table: Table, filled: Mapping[tuple[str, str], Cell], column: str) -> bool:
    return any(cell.published for (_, label), cell in filled.items() if label == column)


def _number(table: Table, cell: Cell) -> str:
    number = f"{cell.mean:.2f}" + ("" if cell.deviation is None else f" ± {cell.deviation:.2f}")
    if table.tail > 1 and not cell.baseline:
        number += f" ({statistics.fmean(cell.last.values()):.2f})"
    return number + (f", {cell.stopped} stopped" if cell.stopped else "")


def _paper(cell: Cell) -> str:
    if cell.published is None:
        return ""
    deviation = cell.published.deviation
    number = f"{cell.published.mean:.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")
    return number + (" ≠" if cell.differs else "")


def _against(cell: Cell | None, other: Cell | None, same: bool) -> str:
    if cell is None or other is None or same:
        return ""
    a, b = cell.percent, other.percent
    # On a fixed split a baseline has one answer, whatever the seed of the other.
    if cell.baseline and len(a) == 1:
        a = dict.fromkeys(b, cell.mean)
    if other.baseline and len(b) == 1:
        b = dict.fromkeys(a, other.mean)
    shared = a.keys() & b.keys()
    difference = (
        statistics.fmean(a[seed] - b[seed] for seed in shared) if shared else cell.mean - other.mean
    )
    if len(shared) < 3:
        return f"{difference:+.2f}"
    p = paired_test(a, b).p
    return f"{difference:+.2f} (p {'< 0.001' if p < 1e-3 else f'= {p:.3f}'})"
