"""Commands that are killed again and again, and what is lost: ``python -m benchmarks.faults``.

``alem train`` and ``alem table`` are killed with SIGKILL at random moments, every other time with their
workers, until they come to their end. Their results and networks are held against those of the same command
undisturbed, to the last bit but for times; epochs that were made again are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from alem import data, experiments, geometry
from alem.experiments import Ledger, Run
from alem.experiments import run as running
from alem.experiments import table as tables
from alem.training import History, Watch, read_header, read_tensors

TRACE, EVERY = "FAULTS_TRACE", "FAULTS_EVERY"
OFTEN = 0.0  # seconds between checkpoints: one after each epoch
# Of a record, what follows from the clock or from how it was asked for.
OF_THE_DAY = {"seconds", "command", "versions"}
PATIENCE = 5.0  # seconds within which nothing of a killed command is left


class Counted(Run):
    """One that leaves a line in a file after each epoch, and is saved as often as the environment says."""

    def execute(
        self,
        device: str = "cpu",
        checkpoint: Path | None = None,
        watch: Watch | None = None,
        command: str = "",
    ) -> dict[str, Any]:
        """Train and test; the record."""
        key = self.key()

        def traced(history: History) -> bool | None:
            with open(os.environ[TRACE], "ab", buffering=0) as file:
                file.write(f"{key} {len(history)} {time.time()}\n".encode())
            return watch(history) if watch is not None else None

        every = json.loads(os.environ[EVERY])
        before = running.fit
        setattr(running, "fit", partial(before, saved_every=every))  # noqa: B010 (of another module)
        try:
            return super().execute(device, checkpoint, traced, command)
        finally:
            setattr(running, "fit", before)  # noqa: B010


def command() -> int:
    """``alem`` with runs that are counted."""
    from alem import cli

    for module in (experiments, tables):
        setattr(module, "Run", Counted)  # noqa: B010
    return cli.main()


@dataclass
class Outcome:
    """What came of it: ``again`` and ``lost`` are epochs and seconds, each time that a run went on."""

    kills: int = 0
    starts: int = 0
    again: list[int] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        said = (
            f"killed {self.kills} times: epochs of a run made again {max(self.again, default=0)} at most, "
        )
        said += (
            f"{sum(self.again)} in all; {max(self.lost, default=0.0):.2f} s from the first to the last; "
        )
        return said + ("; ".join(self.wrong) or "results, networks and files are those of the undisturbed")


def torment(
    words: Sequence[str], folder: Path, kills: int, seed: int = 0, every: float | None = OFTEN
) -> Outcome:
    """Run ``alem words --out …`` undisturbed, and killed so many times.

    Each fourth kill falls somewhere in the time that it takes to start, the others after as much work as
    makes the last of them come before the end.
    """
    draw, outcome, sessions = random.Random(seed), Outcome(), []
    calm, killed, trace = folder / "calm", folder / "killed", folder / "trace"
    begin = time.time()
    _start(words, calm, folder / "calm-trace", every).wait()
    moments = [float(line.split()[2]) for line in (folder / "calm-trace").read_text().splitlines()]
    to_start, at_work = moments[0] - begin, moments[-1] - moments[0]
    while True:
        size = trace.stat().st_size if trace.exists() else 0
        process = _start(words, killed, trace, every)
        sessions.append(process.pid)
        outcome.starts += 1
        try:
            if outcome.kills == kills:
                code = process.wait()
            elif outcome.kills % 4 == 3:
                code = process.wait(draw.uniform(0.0, to_start))
            else:
                while process.poll() is None and (not trace.exists() or trace.stat().st_size == size):
                    time.sleep(0.01)
                code = process.wait(draw.uniform(0.0, 2 * at_work / kills))
            if code:
                outcome.wrong.append(f"it ended with {code}")
            break
        except subprocess.TimeoutExpired:
            end: Callable[[int, int], None] = os.killpg if outcome.kills % 2 else os.kill
            end(process.pid, signal.SIGKILL)
            process.wait()
            outcome.kills += 1
            if outcome.kills % 3 and alive(process.pid, PATIENCE):
                outcome.wrong.append(f"processes are left of kill {outcome.kills}")
    if any(pid for session in sessions for pid in alive(session, PATIENCE)):
        outcome.wrong.append("processes are left at the end")
    outcome.again, outcome.lost = _made_again(trace)
    outcome.wrong += differences(calm, killed)
    return outcome


def differences(calm: Path, killed: Path) -> list[str]:
    """What is not the same in two folders of results."""
    wrong = []
    files = [sorted(str(f.relative_to(each)) for f in each.rglob("*")) for each in (calm, killed)]
    if files[0] != files[1]:
        wrong.append(f"other files: {sorted({*files[0]} ^ {*files[1]})}")
    for ledger in calm.rglob("runs.jsonl"):
        other = killed / ledger.relative_to(calm)
        keys = [json.loads(line)["key"] for line in other.read_text("utf-8").splitlines()]
        if len({*keys}) != len(keys):
            wrong.append(f"{other.name} has a result twice")
        records = [Ledger(each.parent).records() for each in (ledger, other)]
        if {k: _same(r) for k, r in records[0].items()} != {k: _same(r) for k, r in records[1].items()}:
            wrong.append(f"other results in {other.relative_to(killed)}")
    for network in calm.rglob("networks/*"):
        other = killed / network.relative_to(calm)
        (a, _), (b, _) = read_tensors(network), read_tensors(other)
        if a.keys() != b.keys() or not all(torch.equal(a[key], b[key]) for key in a):
            wrong.append(f"other numbers in {network.name}")
        if _same(read_header(network)) != _same(read_header(other)):
            wrong.append(f"another header in {network.name}")
    return wrong


def _same(record: dict[str, Any]) -> dict[str, Any]:
    history = {key: values for key, values in record["history"].items() if key != "seconds"}
    return {key: value for key, value in record.items() if key not in OF_THE_DAY} | {"history": history}


def _start(words: Sequence[str], out: Path, trace: Path, every: float | None) -> subprocess.Popen[bytes]:
    """In a session of its own, by which its workers are found."""
    code = "import sys; from benchmarks.faults import command; sys.exit(command())"
    return subprocess.Popen(
        [sys.executable, "-c", code, *words, "--out", str(out)],
        env={**os.environ, TRACE: str(trace), EVERY: json.dumps(every)},
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def alive(session: int, patience: float) -> list[int]:
    """The processes of a session that are left after waiting for their end."""
    until = time.monotonic() + patience
    while (left := list(_members(session))) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def _members(session: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(") ")
        except OSError:  # it has just ended
            continue
        state, _, _, own, *_ = rest.split()
        if int(own) == session and state != "Z":
            yield int(name.split()[0])


def _made_again(trace: Path) -> tuple[list[int], list[float]]:
    """Each time that a run went on: epochs that it made again, and seconds from the first to the last."""
    made: dict[str, list[tuple[int, float]]] = {}
    again, lost = [], []
    for line in trace.read_text().splitlines():
        key, epoch, moment = line.split()
        before = made.setdefault(key, [])
        if before and int(epoch) <= before[-1][0]:
            again.append(before[-1][0] - int(epoch) + 1)
            first = [when for e, when in before if e == int(epoch)]
            lost.append(before[-1][1] - first[-1])
        before.append((int(epoch), float(moment)))
    return again, lost


def made_up(path: Path, samples: int = 60, n: int = 8) -> Path:
    """A data set of three classes with an official split, in a file."""
    X = geometry.sample_wishart(samples, n=n, generator=torch.Generator().manual_seed(0)).double()
    y = torch.arange(samples) % 3
    for k in range(3):
        X[y == k, k, k] += 5.0
    data.save(data.dataset(path.stem, X, y, train=torch.arange(samples) % 9 < 6), path)
    return path


def trainings(path: Path, epochs: int, seeds: int = 3, jobs: int = 2) -> list[str]:
    """A command that trains two networks with several seeds."""
    words = f"train --recipe paper --log ln,mul --seeds {seeds} --jobs {jobs} --epochs {epochs} --data"
    return [*words.split(), str(path)]


def sweep(path: Path, epochs: int, seeds: int = 2) -> list[str]:
    """A command that makes three rows of a table."""
    words = f"table fpha --seeds {seeds} --jobs 2 --epochs {epochs} --data {shlex.quote(str(path))}"
    return [*shlex.split(words), *["--row", "SPDNet", "--row", "ALog-MUL", "--row"], "log-Euclidean ridge"]


def main() -> None:
    """Both commands, saved after each epoch and as often as they are by themselves."""
    parser = argparse.ArgumentParser(description="kill commands at random moments")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=1000)
    arguments = parser.parse_args()
    for every in (OFTEN, None):
        for name in ("train", "table"):
            with tempfile.TemporaryDirectory() as there:
                folder = Path(there)
                if name == "train":
                    words = trainings(made_up(folder / "small.npz"), arguments.epochs)
                else:
                    path = made_up(folder / "fpha.npz", n=40)
                    words = sweep(path, max(1, arguments.epochs // 4))
                outcome = torment(words, folder, arguments.kills, arguments.seed, every)
            saved = "after each epoch" if every == OFTEN else "once a second"
            print(f"alem {name}, saved {saved}, {outcome}", flush=True)


if __name__ == "__main__":
    main()
