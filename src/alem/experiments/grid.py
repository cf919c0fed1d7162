"""Many runs over the cores of a machine or of a cluster; what is in the ledger is not run again."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import distributed

from alem.experiments.ledger import Ledger, Record
from alem.experiments.run import Run
from alem.training import History, Watch, are_shared

UNFINISHED = "unfinished"
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
    scheduler: str | None = None,
) -> list[Record]:
    """The records of ``runs``, in their order, after making those that the ledger does not have.

    ``jobs`` processes, by default one for each core, share the cores: each computes with cores/jobs
    threads, however many of the runs are still to be made, so that what is resumed ends in the same bits.
    ``say`` gets each new record, how many are done and how many there are to do; ``watch`` the
    history after each epoch, if there is one process only. A run that is interrupted leaves a checkpoint
    in the folder of the ledger and goes on from it the next time; one that fails does not keep the others
    from being made, and its error is raised at the end. Trained networks are kept in ``networks``, each by
    the key of its run, or dropped.

    With ``scheduler``, the address of one of Dask, its workers make the runs, each one at a time with as
    many threads as it has; ``jobs`` is how many are under way. Only this process writes to the ledger,
    whose folder they must share for checkpoints. A worker that is lost costs the run that it was at, with
    which another goes on.

    In the processes of ``torchrun`` all make the same runs together, one after the other, and the first
    writes; there an error ends all of them.
    """
    if scheduler is not None and are_shared():
        raise ValueError(
            "runs on a cluster cannot be shared by the processes of torchrun; take one of them"
        )
    runs = list(runs)
    keys = [run.key() for run in runs]
    present = ledger.records()
    missing = {key: run for key, run in zip(keys, runs, strict=True) if key not in present}
    sharing = processes(jobs, device, len(runs))
    threads = max(1, min(torch.get_num_threads(), _cores() // sharing))
    failures: list[Exception] = []
    done = 0
    with closing(Claims(ledger, networks)) as claims:
        claims.tidy(key for key in keys if key in present)
        left = missing
        while left:
            todo = claims.of(left)
            if scheduler is None:
                made = _execute(todo, ledger, min(sharing, len(missing)), threads, device, command, watch)
            else:
                from alem.experiments.cluster import run_on_cluster

                made = run_on_cluster(todo, scheduler, jobs, device, ledger.folder / UNFINISHED, command)
            with closing(made):
                for key, outcome in made:
                    if isinstance(outcome, Exception):
                        if are_shared():
                            raise outcome
                        failures.append(outcome)
                        claims.give_up(key)
                        continue
                    if is_first():
                        ledger.add(outcome)
                    claims.settle(key)
                    _wait_for_all()
                    done += 1
                    if say is not None:
                        say(outcome, done, len(missing))
            left = claims.wait()
    if failures:
        failures[0].add_note(f"{len(failures)} of {len(missing)} runs failed; the others are kept")
        raise failures[0]
    records = ledger.records()
    return [records[key] for key in keys]


def processes(jobs: int | None, device: str, runs: int) -> int:
    """How many processes are used: as many as asked for, or one a core, and one on an accelerator."""
    if are_shared():
        return 1
    return max(1, min(jobs or (_cores() if device == "cpu" else 1), runs))


def _execute(
    todo: Iterable[tuple[str, Run]],
    ledger: Ledger,
    jobs: int,
    threads: int,
    device: str,
    command: str,
    watch: Watch | None,
) -> Generator[Record | Exception, None, None]:
    """Records in the order in which they are finished, or why there is none."""
    if jobs <= 1:
        before = torch.get_num_threads()
        try:
            for key, run in todo:
                yield _attempt(run, device, _checkpoint(ledger.folder, key), command, threads, watch)
        finally:
            torch.set_num_threads(before)
        return
    from joblib import Parallel, delayed

    watch = While(os.getpid())
    pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=jobs)
    yield from pool(
        delayed(_attempt)(run, device, _checkpoint(ledger.folder, key), command, threads, watch)
        for key, run in todo
    )


def _attempt(
    run: Run,
    device: str,
    checkpoint: Path,
    command: str,
    threads: int,
    watch: Watch | None,
) -> Record | Exception:
    torch.set_num_threads(threads)
    try:
        return run.execute(device, checkpoint, watch, command)
    except Exception as error:
        return error


@dataclass(frozen=True)
class While:
    """Ends a worker, at the end of an epoch, whose parent is gone: another may have taken up its run."""

    parent: int

    def __call__(self, history: History) -> None:
        if os.getppid() != self.parent:
            os._exit(1)


def is_first() -> bool:
    """Whether this process is the one that writes."""
    return not are_shared() or os.environ["RANK"] == "0"


def _wait_for_all() -> None:
    if are_shared() and distributed.is_initialized():
        distributed.barrier()


def _keep(checkpoint: Path, networks: Path | None) -> None:
    """Move the network of a finished run to its place, or remove it."""
    if networks is not None and checkpoint.exists():
        networks.mkdir(parents=True, exist_ok=True)
        os.replace(checkpoint, networks / checkpoint.name)
    checkpoint.unlink(missing_ok=True)


def _checkpoint(folder: Path, key: str) -> Path:
    return folder / UNFINISHED / f"{key}.safetensors"


def _cores() -> int:
    """Those that this process may use, by its affinity and by the quota of its container."""
    from joblib import cpu_count

    return int(cpu_count())
