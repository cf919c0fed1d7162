"""``alem report``: a page about runs that are there."""

from __future__ import annotations

import argparse
from pathlib import Path

from alem.cli.errors import UsageError, say

HELP = "write the report of runs that have been made"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which runs, and where to write."""
    parser.add_argument("runs", nargs="+", type=Path, help="folders with runs.jsonl")
    parser.add_argument("--out", type=Path, help="folder for the report; the first of runs by default")
    parser.add_argument("--title", default="Runs of alem")


def run(arguments: argparse.Namespace) -> int:
    """0; what goes wrong is raised."""
    from alem.experiments import Ledger
    from alem.experiments.ledger import FILE
    from alem.experiments.report import write_report

    records = []
    folders = [path.parent if path.name == FILE and path.is_file() else path for path in arguments.runs]
    for folder in folders:
        ledger = Ledger(folder)
        found = list(ledger.records().values())
        if not found:
            raise UsageError(f"{ledger.path} holds no finished run; alem train and alem table make some")
        records += found
    for path in write_report(records, arguments.out or folders[0], arguments.title)[:2]:
        say(path)
    return 0
