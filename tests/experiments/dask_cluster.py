"""A real Dask cluster of processes on this machine, and runs that leave traces."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Worker

from alem.experiments import Method, Run, Source
from alem.experiments.cluster import connected
from alem.training import History, Recipe, Watch

ROOT = Path(__file__).parents[2]
# A run is given up when it has ended two workers.
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "OMP_NUM_THREADS": "1",
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
}


class Cluster:
    """A scheduler and workers, each a process, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._contact = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")
        self.workers: list[subprocess.Popen[bytes]] = []
        until(self._contact.exists)
        self.address = str(json.loads(self._contact.read_text())["address"])

    def have(self, workers: int) -> None:
        """At least so many workers; those that were lost are replaced."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        for _ in range(workers - len(self.workers)):
            self.add("--nthreads", "1")
        with connected(self.address) as client:
            until(lambda: len(client.nthreads()) == len(self.workers))

    def add(self, *options: str) -> subprocess.Popen[bytes]:
        """One worker more."""
        self.workers.append(self._start("worker", "--no-nanny", *options))
        return self.workers[-1]

    def close(self) -> None:
        """End all processes."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        common = ["--scheduler-file", str(self._contact), "--dashboard-address", ":0"]
        with (self.folder / f"{what}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{what}", *common, *options],
                cwd=self.folder,
                env={**os.environ, **ENVIRONMENT},
                stdout=log,
                stderr=log,
            )


@dataclass(frozen=True)
class Traced(Run):
    """A run that notes each of its epochs in the file ``trace``, and may be slow, or end its process."""

    trace: str = ""
    pause: float = 0.0
    fatal: bool = False

    def execute(
        self,
        device: str = "cpu",
        checkpoint: Path | None = None,
        watch: Watch | None = None,
        command: str = "",
    ) -> dict[str, Any]:
        def note(history: History) -> bool | None:
            with open(self.trace, "a") as file:
                file.write(f"{self.key()} {os.getpid()} {len(history)}\n")
            if self.fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(self.pause)
            return watch(history) if watch is not None else None

        return super().execute(device, checkpoint, note, command)


def traced(trace: Path) -> dict[str, dict[int, list[int]]]:
    """By run and process, the epochs in a trace."""
    found: dict[str, dict[int, list[int]]] = {}
    for line in trace.read_text().splitlines() if trace.exists() else ():
        key, process, epoch = line.split()
        found.setdefault(key, {}).setdefault(int(process), []).append(int(epoch))
    return found


def runs_of(path: str, trace: Path, seeds: int, epochs: int = 3, pause: float = 0.0) -> list[Traced]:
    """One for each seed, on the file at ``path``."""
    method = Method("SPDNet", (4,), {"dropout": 0.5}, Recipe(epochs=epochs, batch_size=10, lr=5e-2))
    return [Traced(Source(path), method, seed=k, trace=str(trace), pause=pause) for k in range(seeds)]


def commanded(path: str, trace: Path, pause: float) -> list[Traced]:
    """Three runs and one that is long."""
    (long,) = runs_of(path, trace, 1, epochs=200, pause=pause)
    return [*runs_of(path, trace, 3), long]


def epochs(trace: Path, run: Run) -> list[int]:
    """All that were made of a run, in whichever process."""
    return [epoch for made in traced(trace)[run.key()].values() for epoch in made]


def busy(dask_worker: Worker) -> int:
    """How many tasks a worker is at."""
    return len(dask_worker.active_threads)


def until(what: Callable[[], object]) -> None:
    """Wait for it, a minute at most."""
    patience = time.monotonic() + 60
    while not what():
        assert time.monotonic() < patience, "it did not happen"
        time.sleep(0.05)
