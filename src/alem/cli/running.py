"""What commands that run experiments have in common."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

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


def require_files(*files: Path) -> None:
    """Raise UsageError unless all can be written, as far as that can be seen before hours are spent."""
    for file in files:
        if file.is_dir():
            raise UsageError(f"{file} is a folder, where a file would be written; choose another --out")
        if file.parent.exists() and not (file.parent.is_dir() and os.access(file.parent, os.W_OK)):
            raise UsageError(f"{file.parent} must be a folder that can be written to; choose another --out")


def require_backend(arguments: argparse.Namespace, processes: int = 1) -> None:
    """Raise unless what is to make the runs goes together, and is there."""
    on_cluster = arguments.backend == "dask"
    if on_cluster != (arguments.scheduler is not None):
        raise UsageError("--backend dask and --scheduler ADDRESS go together; one is without the other")
    if not on_cluster:
        return
    from alem.training import are_shared

    if processes > 1 or are_shared():
        raise UsageError(
            "--backend dask gives runs to workers, and --devices shares each; take one of them"
        )
    from alem.experiments.cluster import connected

    with connected(arguments.scheduler):
        pass


def start_processes(devices: int, nodes: int) -> NoReturn:
    """Give this command to ``torchrun``, which starts it in so many processes; does not return."""
    where = ["--standalone"]
    if nodes > 1:
        try:
            address, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
        except KeyError as missing:
            raise UsageError(
                f"--nodes needs {missing.args[0]} in the environment: where the first machine is reached"
            ) from None
        where = ["--rdzv-backend=c10d", f"--rdzv-endpoint={address}:{port}"]
    run = ["-m", "torch.distributed.run", *where, f"--nnodes={nodes}", f"--nproc-per-node={devices}"]
    sys.stdout.flush()
    # After -- nothing is taken for an option of torchrun's.
    os.execv(sys.executable, [sys.executable, *run, "-m", "--", "alem", *sys.argv[1:]])


def execute(
    runs: Sequence[Run], folder: Path, arguments: argparse.Namespace, networks: Path | None = None
) -> list[Record]:
    """The records of ``runs`` from the ledger in ``folder``, after making those it lacks, with a bar."""
    from alem.experiments import Ledger, run_grid
    from alem.experiments.grid import processes

    ledger = Ledger(folder)
    present = ledger.records()
    missing = [run for run in runs if run.key() not in present]
    parallel = (
        arguments.scheduler is not None
        or min(processes(arguments.jobs, arguments.device, len(runs)), len(missing)) > 1
    )
    require_folders(folder, folder / "unfinished", *([networks] if networks else []))
    if ledger.path.exists() and not os.access(
        ledger.path, os.W_OK
    ):  # the one file that is written in place
        raise UsageError(f"{ledger.path} must be a file that can be written to; choose another --out")
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
            scheduler=arguments.scheduler,
        )
