"""How fast alem is beside its peers, with the same inputs and the same answers.

A row is a function in :mod:`alem.bench.rows` that yields cases, listed in ``ROWS``. A case has alem's
side, a :class:`~alem.bench.alone.task.Task`, and a peer, a function of :mod:`alem.bench.alone` that makes
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from alem.bench import report, suite
from alem.bench.alone.task import Task
from alem.bench.case import Case, Check, Options, Ourselves, Peer, agree
from alem.bench.machine import machine
from alem.bench.plot import plot
from alem.bench.result import Result
from alem.bench.rows import ROWS

__all__ = ["ROWS", "Case", "Check", "Options", "Ourselves", "Peer", "Result", "Task", "agree", "run"]


def run(
    options: Options,
    rows: Iterable[str] = ROWS,
    out: Path | None = None,
    name: str = "speed",
    command: str = "alem bench",
    say: Callable[[str], None] = print,
) -> list[Result]:
    """Run rows, saying each result as it comes.

    With ``out``, ``name``.json is written there after every result, whole, so that an interrupted run
    keeps what it has; at the end also ``name``.md and, with matplotlib, ``name``.svg.
    """
    rows = list(rows)
    facts = machine(options.device)
    asked = {"rows": rows, "device": options.device, "dtypes": list(options.dtypes), "quick": options.quick}
    results: list[Result] = []

    def each(result: Result) -> None:
        results.append(result)
        say(report.line(result))
        if out is not None:
            report.write_json(out / f"{name}.json", report.record(results, facts, asked))

    say(", ".join(f"{key} {value}" for key, value in facts.items()))
    try:
        suite.run((case for row in rows for case in ROWS[row](options)), options.device, each)
    finally:
        data = report.record(results, facts, asked)
        say("")
        for text in report.target_lines(data):
            say(text)
        if out is not None and results:
            report.write_json(out / f"{name}.json", data)
            drawn = plot(results, out / f"{name}.svg")
            if not drawn:
                say("no plot: matplotlib is not installed, or no row that has one was run")
            picture = f"{name}.svg" if drawn else None
            (out / f"{name}.md").write_text(report.page(data, results, command, picture), encoding="utf-8")
            say(f"written: {out / name}.json, .md" + (", .svg" if drawn else ""))
    return results
