"""The rows of the suite: each a function from the options to its cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from alem.bench.case import Case, Options
from alem.bench.rows import eigh, geometry, growth, liebn, logs, memory, sgd, step

Row = Callable[[Options], Iterator[Case]]

ROWS: dict[str, Row] = {
    "eigh": eigh.cases,
    "step": step.cases,
    "liebn": liebn.cases,
    "geometry": geometry.cases,
    "sgd": sgd.cases,
    "logs": logs.cases,
    "growth": growth.cases,
    "memory": memory.cases,
}
