"""Many runs over the cores of a machine or of a cluster; what is in the ledger is not run again."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from pathlib import Path

import torch
from torch import distributed

from alem.experiments.claims import UNFINISHED, Claims, is_first
from alem.experiments.ledger import Ledger, Record
from alem.experiments.run import Run
from alem.experiments.workers import end_with, without_interrupts
from alem.training import Watch, are_shared

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

    Several commands may share a folder: a run that another is at is waited for, after all others, and made
    only if that other ends without a result.

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
        claims.tidy(present.keys() & {*keys})
        left = missing
        while left:
            todo = claims.of(left)
            if scheduler is None:
                made = _execute(todo, claims, min(sharing, len(left)), threads, device, command, watch)
            else:
                from alem.experiments.cluster import run_on_cluster

                made = run_on_cluster(todo, scheduler, jobs, device, ledger.folder / UNFINISHED, command)
            with closing(made):
                for outcome in made:
                    if isinstance(outcome, Exception):
                        if are_shared():
                            raise outcome
                        failures.append(outcome)
                        continue
                    if is_first():
                        ledger.add(outcome)
                    claims.settle(outcome["key"])
                    _wait_for_all()
                    done += 1
                    if say is not None:
                        say(outcome, done, len(missing))
            left = claims.put_off()
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
    claims: Claims,
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
                yield _attempt(run, device, claims.checkpoint(key), command, threads, watch, None)
        finally:
            torch.set_num_threads(before)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=jobs)
    with without_interrupts():
        made = pool(
            delayed(_attempt)(run, device, claims.checkpoint(key), command, threads, None, os.getpid())
            for key, run in todo
        )
    try:
        yield from made
    except BrokenProcessPool:
        raise ChildProcessError(
            "a process that was making runs has been killed, for want of memory say; what is finished is "
            "kept, and the same command makes the rest, with fewer --jobs if need be"
        ) from None


def _attempt(
    run: Run,
    device: str,
    checkpoint: Path,
    command: str,
    threads: int,
    watch: Watch | None,
    parent: int | None,
) -> Record | Exception:
    if parent is not None:
        end_with(parent)
    torch.set_num_threads(threads)
    try:
        return run.execute(device, checkpoint, watch, command)
    except Exception as error:
        return error


def _wait_for_all() -> None:
    if are_shared() and distributed.is_initialized():
        distributed.barrier()


def _cores() -> int:
    """Those that this process may use, by its affinity and by the quota of its container."""
    from joblib import cpu_count

    return int(cpu_count())
