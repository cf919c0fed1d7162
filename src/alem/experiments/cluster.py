"""Runs on the workers of a Dask cluster; a worker makes one at a time."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from uuid import uuid4

import torch

from alem.data import DataError
from alem.experiments.baselines import MissingPackageError
from alem.experiments.ledger import Record
from alem.experiments.run import Run
from alem.training import CheckpointError, History

try:
    from distributed import Client, Future, KilledWorker, Status, Worker, get_worker, rpc, wait
    from distributed.comm.core import CommClosedError
except ModuleNotFoundError as error:
    raise MissingPackageError("runs on a cluster need Dask: pip install 'alem[cluster]'") from error

# Seconds: for a scheduler and a first worker to answer; after which workers that have joined get runs.
ANSWER, LOOK = 10.0, 5.0
# Runs in one process would share its random generators and its threads.
_one_at_a_time = threading.Lock()


class ClusterError(ConnectionError):
    """A cluster is not there, or a run has not come back from it."""


@contextmanager
def connected(scheduler: str) -> Iterator[Client]:
    """A client of the cluster whose scheduler has that address, once there are workers."""
    try:
        # The client would wait for ever for a server of another kind. In a thread: a notebook has a loop.
        with ThreadPoolExecutor(1) as pool:
            what = pool.submit(asyncio.run, _identity(scheduler)).result()
        if what != "Scheduler":
            raise ValueError(f"there is a {what}")
        client = Client(scheduler, timeout=ANSWER, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # the last for tls without a configuration
        why = f"not in {ANSWER:g} s" if isinstance(error, TimeoutError) else str(error)
        raise ClusterError(f"no Dask scheduler answers at {scheduler!r} ({why})") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=ANSWER)
        except TimeoutError as error:
            raise ClusterError(
                f"the scheduler at {scheduler} has no workers; start some with: dask worker {scheduler}"
            ) from error
        yield client


async def _identity(address: str) -> str:
    async with rpc(address) as server:
        return (await asyncio.wait_for(server.identity(), ANSWER))["type"]


# Not through joblib's backend for Dask: it is not called back for errors of Dask's own, so that a run which
# ends every worker it is given to never comes back, and the grid waits for ever (joblib 1.6).
def run_on_cluster(
    runs: Iterable[tuple[str, Run]],
    scheduler: str,
    jobs: int | None,
    device: str,
    unfinished: Path,
    command: str,
) -> Generator[Record | Exception, None, None]:
    """Records in the order in which they are finished, or why there is none; ``runs`` with their keys.

    At most ``jobs`` are under way at a time, and one for each worker; checkpoints are in ``unfinished``.
    """
    todo = iter(runs)
    flying: dict[Future[Record], str] = {}
    folder = Path(os.path.abspath(unfinished))
    folder.mkdir(parents=True, exist_ok=True)
    with connected(scheduler) as client:  # to leave it gives up what is under way
        try:
            while True:
                # Not more than workers: what waits behind another is blamed too when the worker is lost.
                workers = len(client.nthreads())
                most = max(1, min(jobs or workers, workers))
                for key, run in islice(todo, max(0, most - len(flying))):
                    here = replace(run, source=run.source.from_anywhere())
                    # By a name of its own: a task of that run may be left of a command that was killed.
                    name, checkpoint = f"{key}-{uuid4().hex}", folder / f"{key}.safetensors"
                    flying[client.submit(attempt, here, key, device, checkpoint, command, key=name)] = key
                if not flying:
                    return
                with suppress(TimeoutError), client.as_current():
                    wait(list(flying), LOOK, "FIRST_COMPLETED")
                for future in [future for future in flying if future.done()]:
                    yield _outcome(future, flying.pop(future))
        except (CancelledError, CommClosedError) as error:
            raise ClusterError(
                f"the scheduler at {scheduler} is gone; what had arrived is kept, and the same command "
                "makes the rest"
            ) from error


def _outcome(future: Future[Record], key: str) -> Record | Exception:
    error = future.exception()
    if isinstance(error, KilledWorker):
        return ClusterError(
            f"run {key} is given up: {error.allowed_failures + 1} workers died while they were at it, the "
            f"last at {error.last_worker.address}; their logs may say why, too little memory say"
        )
    return error if isinstance(error, Exception) else future.result()


def attempt(run: Run, key: str, device: str, checkpoint: Path, command: str) -> Record:
    """The record of ``run``, made by the worker that calls this, with as many threads as it has."""
    worker = get_worker()
    wanted = WhileWanted(worker, str(worker.get_current_task()))
    with _one_at_a_time:
        wanted()
        torch.set_num_threads(worker.state.nthreads)
        try:
            if not (checkpoint.parent.is_dir() and os.access(checkpoint.parent, os.W_OK)):
                raise ClusterError(
                    f"{checkpoint.parent} is no folder there that can be written to; choose an --out that "
                    "all workers share"
                )
            if run.key() != key:
                raise ClusterError(f"{run.source.path} has other data there, or alem is of another version")
            return run.execute(device, checkpoint, wanted, command)
        except (OSError, DataError, CheckpointError, MissingPackageError) as error:
            raise ClusterError(f"on the worker at {worker.address}: {error}") from error


@dataclass(frozen=True)
class WhileWanted:
    """Ends a run, at the end of an epoch, whose command is gone or whose worker is being closed."""

    worker: Worker
    task: str

    def __call__(self, history: History | None = None) -> None:
        task = self.worker.state.tasks.get(self.task)
        known = task is not None and task.state == "executing"
        if not known or self.worker.status in (Status.closing, Status.closed, Status.failed):
            raise ClusterError(f"nobody waits for {self.task} any more; another may have taken it up")
