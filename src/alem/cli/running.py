"""What commands that run experiments have in common."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alem.cli.arguments import command_line
from alem.cli.errors import UsageError
from alem.cli.progress import progress

if TYPE_CHECKING:
    from alem.experiments import Run
    from alem.experiments.ledger import Record


def require_folders(*folders: Path) -> None:
    """Make the first, and raise UsageError unless all are or can be written to: before hours are spent."""
    folders[0].mkdir(parents=True, exist_ok=True)
    for folder in folders:
        if folder.exists() and not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise UsageError(f"{folder} must be a folder that can be written to; choose another --out")


def execute(
    runs: Sequence[Run], folder: Path, arguments: argparse.Namespace, networks: Path | None = None
) -> list[Record]:
    """The records of ``runs`` from the ledger in ``folder``, after making those it lacks, with a bar."""
    from alem.experiments import Ledger, run_grid
    from alem.experiments.grid import processes

    ledger = Ledger(folder)
    present = ledger.records()
    missing = [run for run in runs if run.key() not in present]
    parallel = min(processes(arguments.jobs, arguments.device, len(runs)), len(missing)) > 1
    require_folders(folder, folder / "unfinished", *([networks] if networks else []))
    with progress(missing, parallel) as bar:
        return run_grid(
            runs,
            ledger,
            jobs=arguments.jobs,
            device=arguments.device,
            command=command_line(),
            say=bar.say,
            watch=bar.watch,
            networks=networks,
        )
