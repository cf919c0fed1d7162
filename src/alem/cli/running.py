"""What commands that run experiments have in common."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alem.cli.arguments import command_line
from alem.cli.progress import progress

if TYPE_CHECKING:
    from alem.experiments import Run
    from alem.experiments.ledger import Record


def execute(
    runs: Sequence[Run], folder: Path, arguments: argparse.Namespace, networks: Path | None = None
) -> list[Record]:
    """The records of ``runs`` from the ledger in ``folder``, after making those it lacks, with a bar."""
    from alem.experiments import Ledger, run_grid
    from alem.experiments.grid import processes

    ledger = Ledger(folder)
    present = ledger.records()
    missing = [run for run in runs if run.key() not in present]
    jobs = processes(arguments.jobs, arguments.device, len(missing))
    folder.mkdir(parents=True, exist_ok=True)  # before hours are spent
    with progress(missing, parallel=jobs > 1) as bar:
        return run_grid(
            runs,
            ledger,
            jobs=jobs,
            device=arguments.device,
            command=command_line(),
            say=bar.say,
            watch=bar.watch,
            networks=networks,
        )
