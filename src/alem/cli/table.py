"""``alem table``: a table of the paper or of the studies beyond it, from the data to the printed page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alem.cli.arguments import add_running, count, rate
from alem.cli.errors import UsageError, arguments_of, require_training, say
from alem.cli.running import execute, require_backend, require_files

if TYPE_CHECKING:
    from alem.experiments import Run, Table
    from alem.experiments.ledger import Record

HELP = "run a table of the paper on your copy of its data, and print it beside the paper's numbers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which table, where its data are, and what to change."""
    parser.add_argument("name", help="of the table (alem list)")
    add_table_arguments(parser)
    parser.add_argument("--row", action="append", default=[], help="this row only, may be repeated")


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """What tables and figures take."""
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="[NAME=]PATH",
        help="file or folder of a data set; with its name where the table has several",
    )
    parser.add_argument("--seeds", type=count, help="how many; by default as many as the paper")
    parser.add_argument("--epochs", type=count, help="in place of the protocol's, to try something out")
    parser.add_argument(
        "--metric-lr", type=rate, help="in place of the rows' own; 1/30 and 1 are of interest"
    )
    add_running(parser, "results")


def run(arguments: argparse.Namespace) -> int:
    """0; what goes wrong is raised."""
    require_training()
    from alem.experiments import complexity
    from alem.experiments.report import write_whole
    from alem.experiments.tabulate import legend, markdown, text

    path = arguments.out / f"{arguments.name}.md"
    require_files(path)
    changed = bool(arguments.row) or is_trial(arguments)
    if arguments.name == "complexity":
        if arguments.data or arguments.seeds or changed:
            raise UsageError("table complexity is measured on made-up matrices and takes --out only")
        measured = complexity.measure()
        page, shown = complexity.markdown(measured), complexity.text(measured)
    else:
        table = find_table(arguments.name)
        records, differs = run_table(table, arguments, arguments.row)
        changed |= differs
        page, shown = markdown(table, records), f"{text(table, records)}\n\n{legend(table)}"
    say(shown)
    if changed:  # the page is that of the whole table
        say(f"\n{path} is written without --row, --epochs and --metric-lr, and of its own data only")
    else:
        write_whole(path, page)
        say(f"\nwritten to {path}")
    return 0


def is_trial(arguments: argparse.Namespace) -> bool:
    """Whether the protocol is not that of the table."""
    return bool(arguments.epochs or arguments.metric_lr)


def find_table(name: str) -> Table:
    """The table of that name."""
    from alem.experiments import TABLES

    if name not in TABLES:
        raise UsageError(f"no table is called {name!r}; there are {', '.join(TABLES)}, complexity")
    return TABLES[name]


def run_table(
    table: Table, arguments: argparse.Namespace, rows: Sequence[str] = ()
) -> tuple[dict[tuple[str, str], list[Record]], bool]:
    """The records of each cell, and whether the data are others than those of the table.

    Records are made where they are missing, each data set's in a ledger of its own.
    """
    require_backend(arguments)
    paths = _paths(table, arguments.data)
    known = [row.label for row in table.rows]
    for row in rows:
        if row not in known:
            raise UsageError(f"table {table.name} has no row {row!r}; it has {', '.join(known)}")
    from alem.experiments.baselines import require_baseline

    changes: dict[str, Any] = {
        key: value
        for key, value in (("epochs", arguments.epochs), ("metric_lr", arguments.metric_lr))
        if value is not None
    }
    with arguments_of(f"table {table.name}"):
        cells = table.cells(paths, arguments.seeds, rows, changes)
        for run_ in (r for runs in cells.values() for r in runs[:1]):  # what is amiss is said before hours
            run_.split.places(run_.source.load(), run_.seed)
            if not run_.method.is_network:
                require_baseline(run_.method)
    left = [name for name in table.data if name not in paths]
    if left:
        say(f"without {', '.join(left)}: its columns are left out (--data NAME=PATH)")
    if changes:
        say(f"not the protocol of the table: {', '.join(f'{k} {v:g}' for k, v in changes.items())}")
    differences = {
        column.protocol.differs(column.protocol.source(paths[column.protocol.name]).load())
        for column in table.columns
        if column.protocol.name in paths
    } - {None}
    for difference in differences:
        say(f"not the data of the table: {difference}")
    # Seed after seed, so that an interrupted grid has every method.
    by_folder: dict[str, list[Run]] = {}
    for run_ in sorted((r for runs in cells.values() for r in runs), key=lambda r: r.seed):
        by_folder.setdefault(run_.source.name or "", []).append(run_)
    found: dict[str, Record] = {}
    for name, runs in by_folder.items():
        unique = list({r.key(): r for r in runs}.values())
        for record in execute(unique, arguments.out / name, arguments):
            found[record["key"]] = record
    return {cell: [found[r.key()] for r in runs] for cell, runs in cells.items()}, bool(differences)


def _paths(table: Table, given: Sequence[str]) -> dict[str, str]:
    if not given:
        raise UsageError(
            f"table {table.name} needs its data: --data {'PATH' if len(table.data) == 1 else 'NAME=PATH'}, "
            f"for {', '.join(table.data)}"
        )
    paths: dict[str, str] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or Path(text).exists():
            if len(table.data) > 1:
                raise UsageError(
                    f"table {table.name} has {', '.join(table.data)}: say which, as NAME={text}"
                )
            name, path = table.data[0], text
        if name not in table.data:
            raise UsageError(f"table {table.name} takes no data called {name!r}; {', '.join(table.data)}")
        if name in paths:
            raise UsageError(f"--data is given twice for {name}; a table takes each data set once")
        paths[name] = path
    return paths
