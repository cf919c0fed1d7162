"""Many runs over the cores of a machine; what is in the ledger is not run again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from alem.experiments.ledger import Ledger, Record
from alem.experiments.run import Run
from alem.training import Watch

Say = Callable[[Record, int, int], None]


def run_grid(
    runs: Iterable[Run],
    ledger: Ledger,
    jobs: int | None = None,
    device: str = "cpu",
    command: str = "",
    say: Say | None = None,
    watch: Watch | None = None,
    networks: Path | None = None,
) -> list[Record]:
    """The records of ``runs``, in their order, after making those that the ledger does not have.

    ``jobs`` processes, by default one for each core, share the cores: each computes with cores/jobs
    threads. ``say`` gets each new record, how many are done and how many there are to do; ``watch`` the
    history after each epoch, if there is one process only. A run that is interrupted leaves a checkpoint
    in the folder of the ledger and goes on from it the next time. Trained networks are kept in
    ``networks``, each by the key of its run, or dropped.
    """
    runs = list(runs)
    keys = [run.key() for run in runs]
    present = ledger.records()
    missing = {key: run for key, run in zip(keys, runs, strict=True) if key not in present}
    jobs = processes(jobs, device, len(missing))
    made = _execute(missing, ledger.folder, jobs, device, command, watch)
    for done, record in enumerate(made, start=1):
        unfinished = _checkpoint(ledger.folder, record["key"])
        if networks is not None and unfinished.exists():
            networks.mkdir(parents=True, exist_ok=True)
            os.replace(unfinished, networks / unfinished.name)
        ledger.add(record)
        unfinished.unlink(missing_ok=True)
        if say is not None:
            say(record, done, len(missing))
    records = ledger.records()
    return [records[key] for key in keys]


def processes(jobs: int | None, device: str, runs: int) -> int:
    """How many processes are used: as many as asked for, or one a core, and one on an accelerator."""
    return max(1, min(jobs or (_cores() if device == "cpu" else 1), runs))


def _execute(
    missing: dict[str, Run], folder: Path, jobs: int, device: str, command: str, watch: Watch | None
) -> Iterable[Record]:
    """Records in the order in which they are finished."""
    if jobs == 1:
        for key, run in missing.items():
            yield run.execute(device, _checkpoint(folder, key), watch, command)
        return
    from joblib import Parallel, delayed

    threads = max(1, _cores() // jobs)
    pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=jobs)
    yield from pool(
        delayed(_in_a_process)(run, device, _checkpoint(folder, key), command, threads)
        for key, run in missing.items()
    )


def _in_a_process(run: Run, device: str, checkpoint: Path, command: str, threads: int) -> Record:
    torch.set_num_threads(threads)
    return run.execute(device, checkpoint, command=command)


def _checkpoint(folder: Path, key: str) -> Path:
    return folder / "unfinished" / f"{key}.safetensors"


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
