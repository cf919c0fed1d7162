"""Grids on a real cluster: scheduler and workers are processes, some of which are killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("distributed", reason="there is no Dask: pip install 'alem[cluster]'")

from alem import data
from alem.experiments import Ledger, Method, Run, Source, cluster, grid, run_grid
from alem.experiments.cluster import ClusterError, attempt, connected
from alem.training import Recipe
from tests.experiments.conftest import small
from tests.experiments.dask_cluster import (
    ENVIRONMENT,
    Cluster,
    busy,
    commanded,
    epochs,
    runs_of,
    traced,
    until,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal there")


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


@pytest.fixture
def three(processes: Cluster) -> Cluster:
    processes.have(3)
    return processes


@pytest.fixture
def one(processes: Cluster) -> Cluster:
    """One worker at least: to start them is what takes time here."""
    processes.have(1)
    return processes


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def same(record: dict[str, Any]) -> dict[str, Any]:
    """What has to be the same wherever it is computed: all but the time."""
    history = {key: values for key, values in record["history"].items() if key != "seconds"}
    return {**record, "history": history, "seconds": None}


def lines(ledger: Ledger) -> list[str]:
    return [json.loads(line)["key"] for line in ledger.path.read_text("utf-8").splitlines()]


@pytest.mark.usefixtures("one_thread")
def test_a_cluster_gives_what_this_process_gives(three: Cluster, tmp_path: Path) -> None:
    method = Method("SPDNet", (5,), {"log": "gap"}, Recipe(epochs=2, batch_size=200))
    runs = [Run(Source("digits"), replace(method, dims=(k,)), seed=s) for k in (4, 5) for s in range(4)]
    runs.append(Run(Source("digits"), Method("log-euclidean")))
    said: list[tuple[str, int, int]] = []
    ledger, networks = Ledger(tmp_path / "there"), tmp_path / "networks"
    there = run_grid(
        runs,
        ledger,
        say=lambda record, done, of: said.append((record["key"], done, of)),
        networks=networks,
        scheduler=three.address,
    )
    here = run_grid(runs, Ledger(tmp_path / "here"), jobs=1)
    assert [same(record) for record in there] == [same(record) for record in here]
    assert lines(ledger) == [key for key, _, _ in said], "written as they arrive"
    assert sorted(lines(ledger)) == sorted(run.key() for run in runs)
    assert [(done, of) for _, done, of in said] == [(k, 9) for k in range(1, 10)]
    assert len(list(networks.iterdir())) == 8
    assert not list((tmp_path / "there" / "unfinished").iterdir())


@pytest.mark.usefixtures("one_thread")
def test_a_worker_that_is_killed_costs_only_the_run_it_was_at(
    three: Cluster, small_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trace, ledger = tmp_path / "trace", Ledger(Path("out"))  # relative, and workers are elsewhere
    quick = runs_of(small_file.name, trace, seeds=9, pause=0.1)
    slow = replace(runs_of(small_file.name, trace, 1, epochs=60)[0], pause=0.05)
    checkpoint = tmp_path / "out" / "unfinished" / f"{slow.key()}.safetensors"

    def kill() -> int:
        until(checkpoint.exists)
        (victim,) = traced(trace)[slow.key()]
        os.kill(victim, signal.SIGKILL)
        return victim

    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill)
        records = run_grid([slow, *quick], ledger, scheduler=three.address)
    assert sorted(lines(ledger)) == sorted(run.key() for run in [slow, *quick]), "each once"
    made = traced(trace)
    assert [len(made[run.key()]) for run in quick] == [1] * 9
    first, second = made[slow.key()].values()
    assert next(iter(made[slow.key()])) == killed.result()
    assert 1 < second[0] <= first[-1] + 1, "from its checkpoint"
    assert second[-1] == 60
    undisturbed = replace(slow, pause=0.0, trace=os.devnull).execute()
    assert same(records[0]) == same(undisturbed)


def test_to_interrupt_the_command_ends_what_is_under_way(
    processes: Cluster, small_file: Path, tmp_path: Path
) -> None:
    processes.have(2)
    trace, ledger = tmp_path / "trace", Ledger(tmp_path / "out")

    def interrupt(*_: object) -> None:
        until(lambda: long.key() in traced(trace))
        raise KeyboardInterrupt

    quick, long = runs_of(str(small_file), trace, 1) + runs_of(str(small_file), trace, 1, 10_000, 0.05)
    with pytest.raises(KeyboardInterrupt):
        run_grid([quick, long], ledger, say=interrupt, scheduler=processes.address)
    assert lines(ledger) == [quick.key()]
    with connected(processes.address) as client:
        until(lambda: not any(client.run(busy).values()))
    assert not any((ledger.folder / "unfinished").glob(".*")), "nor half a checkpoint"


def test_a_run_that_ends_every_worker_fails_alone(three: Cluster, small_file: Path, tmp_path: Path) -> None:
    trace, ledger = tmp_path / "trace", Ledger(tmp_path / "out")
    fatal, *others = runs_of(str(small_file), trace, seeds=6)
    with pytest.raises(ClusterError, match=f"run {fatal.key()} is given up: 2 workers died") as raised:
        run_grid([replace(fatal, fatal=True), *others], ledger, scheduler=three.address)
    assert "1 of 6 runs failed; the others are kept" in raised.value.__notes__[0]
    assert sorted(lines(ledger)) == sorted(run.key() for run in others)
    assert len(traced(trace)[fatal.key()]) == 2


def test_a_command_that_is_killed_has_lost_nothing_and_leaves_nobody_working(
    one: Cluster, small_file: Path, tmp_path: Path
) -> None:
    trace, ledger = tmp_path / "trace", Ledger(tmp_path / "out")
    code = (
        "from pathlib import Path\n"
        "from alem.experiments import Ledger, run_grid\n"
        "from tests.experiments.dask_cluster import commanded\n"
        f"run_grid(commanded({str(small_file)!r}, Path({str(trace)!r}), 0.05), "
        f"Ledger(Path({str(ledger.folder)!r})), scheduler={one.address!r})"
    )
    command = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **ENVIRONMENT})
    *quick, slow = commanded(str(small_file), trace, 0.0)
    until(lambda: len(ledger.records()) == 3 and list(ledger.folder.glob("unfinished/[!.]*")))
    command.kill()
    command.wait()
    with connected(one.address) as client:
        until(lambda: not any(client.run(busy).values()))  # after an epoch, not all 200
    before = epochs(trace, slow)
    assert before[-1] < 200
    run_grid([*quick, slow], ledger, scheduler=one.address)
    assert sorted(lines(ledger)) == sorted(run.key() for run in [*quick, slow])
    assert [len(epochs(trace, run)) for run in quick] == [3, 3, 3], "made once"
    after = epochs(trace, slow)[len(before) :]
    assert 1 < after[0] <= before[-1] + 1, "from its checkpoint"
    assert after[-1] == 200


def test_two_commands_on_one_worker_do_not_disturb_each_other(
    one: Cluster, small_file: Path, tmp_path: Path
) -> None:
    """They take turns, for they would draw from the same generators; one has the threads of the worker."""
    wide = one.add("--nthreads", "2", "--name", "wide")
    runs = runs_of(str(small_file), tmp_path / "trace", seeds=3, epochs=4, pause=0.05)
    with connected(one.address) as client:
        client.wait_for_workers(len(one.workers), 60)
        futures = [
            client.submit(attempt, run, run.key(), "cpu", tmp_path / run.key(), "", workers="wide")
            for run in runs
        ]
        there = [future.result() for future in futures]
    wide.kill()
    wide.wait()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    here = [replace(run, pause=0.0, trace=os.devnull).execute() for run in runs]
    torch.set_num_threads(before)
    assert [same(record) for record in there] == [same(record) for record in here]
    assert there[0]["threads"] == 2


def test_what_a_worker_lacks_is_said(
    one: Cluster, small_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = runs_of(str(small_file), tmp_path / "trace", 1)

    def seen_from_there(path: Path) -> None:
        monkeypatch.setattr(Source, "from_anywhere", lambda source: replace(source, path=str(path)))

    def failure() -> str:
        with pytest.raises(ClusterError) as raised:
            run_grid([run], Ledger(tmp_path / "out"), scheduler=one.address)
        return str(raised.value)

    seen_from_there(tmp_path / "nowhere" / "small.npz")
    assert re.match(r"on the worker at tcp://\S+: \S+/nowhere/small.npz does not exist", failure())
    (tmp_path / "other").mkdir()
    data.save(small(samples=36), tmp_path / "other" / "small.npz")
    seen_from_there(tmp_path / "other" / "small.npz")
    assert "other/small.npz has other data there, or alem is of another version" in failure()
    monkeypatch.undo()
    with connected(one.address) as client:
        place = tmp_path / "nowhere" / "x.safetensors"
        with pytest.raises(ClusterError, match="nowhere is no folder there that can be written to"):
            client.submit(attempt, run, run.key(), "cpu", place, "").result()


def test_a_run_that_fails_does_not_keep_the_others_from_being_made(
    one: Cluster, small_file: Path, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "out")
    runs = [Run(Source(str(small_file)), Method("nonsense")), *runs_of(str(small_file), tmp_path / "t", 3)]
    with pytest.raises(ValueError, match="no baseline is called 'nonsense'") as error:
        run_grid(runs, ledger, scheduler=one.address, jobs=1)
    assert "1 of 4 runs failed; the others are kept" in error.value.__notes__[0]
    assert sorted(lines(ledger)) == sorted(run.key() for run in runs[1:])


def test_a_scheduler_that_is_not_there_or_goes_away(
    small_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Cluster(tmp_path)
    try:
        (run,) = runs_of(str(small_file), tmp_path / "trace", 1, epochs=10_000, pause=0.05)
        monkeypatch.setattr(cluster, "ANSWER", 0.5)
        with pytest.raises(ClusterError, match="has no workers; start some with: dask worker tcp://"):
            run_grid([run], Ledger(tmp_path / "out"), scheduler=own.address)
        monkeypatch.undo()
        own.have(1)

        def kill() -> None:
            with connected(own.address) as client:
                until(lambda: any(client.processing().values()))
            own.scheduler.kill()

        with ThreadPoolExecutor(1) as pool:
            pool.submit(kill)
            with pytest.raises(ClusterError, match=r"is gone; what had arrived is kept"):
                run_grid([run], Ledger(tmp_path / "out"), scheduler=own.address)
    finally:
        own.close()


@pytest.mark.parametrize(
    ("address", "why"),
    [("tcp://127.0.0.1:1", "not in 0.5 s"), ("nonsense", "missing port"), ("tls://127.0.0.1:1", "TLS")],
)
def test_an_address_without_a_scheduler(address: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ANSWER", 0.5)
    message = rf"no Dask scheduler answers at '{address}' \(.*{why}"
    with pytest.raises(ClusterError, match=message), connected(address):
        pass


def test_processes_that_share_batches_are_not_for_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "are_shared", lambda: True)
    with pytest.raises(ValueError, match="cannot be shared by the processes of torchrun"):
        run_grid([], Ledger(tmp_path), scheduler="tcp://127.0.0.1:1")


def test_what_is_there_needs_no_cluster(small_file: Path, tmp_path: Path) -> None:
    runs = [Run(Source(str(small_file)), Method("log-euclidean"))]
    ledger = Ledger(tmp_path)
    assert run_grid(runs, ledger, jobs=1) == run_grid(runs, ledger, scheduler="tcp://127.0.0.1:1")
