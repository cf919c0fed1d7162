from __future__ import annotations

from pathlib import Path

import pytest
import torch

from alem.experiments import Ledger, Method, Run, Source, run_grid
from alem.experiments import grid as grid_module
from alem.experiments import run as running
from alem.experiments.grid import processes
from alem.training import Recipe, read_header

RECIPE = Recipe(epochs=2, batch_size=5, lr=5e-2)


def grid(path: Path, seeds: int = 2, epochs: int = 2) -> list[Run]:
    recipe = Recipe(epochs=epochs, batch_size=5, lr=5e-2)
    return [
        Run(Source(str(path)), Method("SPDNet", (4,), {"log": log}, recipe), seed=seed)
        for seed in range(seeds)
        for log in ("ln", "mul")
    ]


def test_a_finished_run_is_not_run_again(
    small_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "runs")
    runs = grid(small_file)
    said: list[tuple[int, int]] = []
    run_grid(runs[:2], ledger, jobs=1, say=lambda record, done, of: said.append((done, of)))
    made: list[int] = []
    execute = Run.execute

    def counted(self: Run, *args: object, **options: object) -> object:
        made.append(self.seed)
        return execute(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Run, "execute", counted)
    records = run_grid(runs, ledger, jobs=1, say=lambda record, done, of: said.append((done, of)))
    assert made == [1, 1]
    assert said == [(1, 2), (2, 2), (1, 2), (2, 2)]
    assert [record["key"] for record in records] == [run.key() for run in runs], "in the order asked for"
    assert len(ledger.path.read_text("utf-8").splitlines()) == 4
    assert not list((tmp_path / "runs" / "unfinished").glob("*")), "no checkpoint is left"


def test_processes_give_what_one_gives(small_file: Path, tmp_path: Path) -> None:
    alone = run_grid(grid(small_file), Ledger(tmp_path / "alone"), jobs=1)
    together = run_grid(grid(small_file), Ledger(tmp_path / "together"), jobs=2)
    for a, b in zip(alone, together, strict=True):
        assert a["history"]["loss"] == pytest.approx(b["history"]["loss"], rel=1e-9)
        assert a["predictions"] == b["predictions"]


def test_an_interrupted_run_goes_on_from_its_checkpoint(
    small_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run, *_) = grid(small_file, epochs=6)
    whole = run.execute()
    fit = running.fit

    def impatient(*args: object, **options: object) -> object:
        return fit(*args, saved_every=0.0, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "fit", impatient)
    ledger = Ledger(tmp_path / "runs")

    def interrupt(history: object) -> None:
        if len(history) == 4:  # type: ignore[arg-type]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_grid([run], ledger, jobs=1, watch=interrupt)
    assert ledger.records() == {}
    (checkpoint,) = (tmp_path / "runs" / "unfinished").glob("*")
    assert len(read_header(checkpoint)["history"]["loss"]) == 3
    seen: list[int] = []
    (record,) = run_grid([run], ledger, jobs=1, watch=lambda history: seen.append(len(history)))
    assert seen == [4, 5, 6], "the first three were not trained again"
    assert record["history"]["loss"] == whole["history"]["loss"]
    assert record["predictions"] == whole["predictions"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_damaged_checkpoint_costs_its_run_the_time_and_nothing_else(
    small_file: Path, tmp_path: Path, jobs: int
) -> None:
    runs = grid(small_file)
    undisturbed = run_grid(runs, Ledger(tmp_path / "undisturbed"), jobs=jobs)
    unfinished = tmp_path / "runs" / "unfinished"
    unfinished.mkdir(parents=True)
    (unfinished / f"{runs[1].key()}.safetensors").write_bytes(b"half")
    records = run_grid(runs, Ledger(tmp_path / "runs"), jobs=jobs)
    for a, b in zip(undisturbed, records, strict=True):
        assert a["history"]["loss"] == b["history"]["loss"]
    said = [f"UserWarning: {runs[1].key()}.safetensors was damaged, and the run was made anew"]
    assert [record["warnings"] for record in records] == [[], said, [], []]


def test_what_is_resumed_has_as_many_threads_as_before(
    small_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads decide in which order is summed, and so the last bits."""
    monkeypatch.setattr(grid_module, "_cores", lambda: 8)
    runs, ledger = grid(small_file), Ledger(tmp_path)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(8)
        ledger.add(runs[0].execute())
        records = run_grid(runs[:2], ledger, jobs=2)  # one of the two is left, in a process of its own
        assert records[1]["threads"] == 4
        assert torch.get_num_threads() == 8
    finally:
        torch.set_num_threads(before)


def test_trained_networks_are_kept_where_asked_for(small_file: Path, tmp_path: Path) -> None:
    (run, *_) = grid(small_file)
    run_grid([run], Ledger(tmp_path / "runs"), jobs=1, networks=tmp_path / "networks")
    assert [file.name for file in (tmp_path / "networks").iterdir()] == [f"{run.key()}.safetensors"]


def test_how_many_processes() -> None:
    assert processes(None, "cpu", 1) == 1
    assert processes(3, "cpu", 100) == 3
    assert processes(3, "cpu", 2) == 2, "none that would be idle"
    assert processes(None, "cuda", 100) == 1, "one model on an accelerator at a time"
    assert processes(None, "cpu", 0) == 1


def test_a_run_that_fails_does_not_keep_the_others_from_being_made(
    small_file: Path, tmp_path: Path
) -> None:
    for jobs in (1, 2):
        ledger = Ledger(tmp_path / str(jobs))
        runs = [Run(Source(str(small_file)), Method("nonsense")), *grid(small_file)]
        with pytest.raises(ValueError, match="no baseline is called 'nonsense'") as error:
            run_grid(runs, ledger, jobs=jobs)
        assert "1 of 5 runs failed; the others are kept" in error.value.__notes__[0]
        assert len(ledger.records()) == 4


def test_what_another_command_has_made_meanwhile_is_not_made_again(
    small_file: Path, tmp_path: Path
) -> None:
    runs = grid(small_file)[:2]
    ours, theirs = Ledger(tmp_path), Ledger(tmp_path)

    def meanwhile(*_: object) -> None:
        if len(theirs.records()) == 1:
            theirs.add(runs[1].execute())

    run_grid(runs, ours, jobs=1, say=meanwhile)
    assert len(ours.path.read_text("utf-8").splitlines()) == 2


def test_a_network_is_moved_only_when_its_record_is_safe(
    small_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run, *_) = grid(small_file)
    ledger = Ledger(tmp_path / "runs")

    def full(record: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ledger, "add", full)
    with pytest.raises(OSError, match="No space"):
        run_grid([run], ledger, jobs=1, networks=tmp_path / "networks")
    monkeypatch.undo()
    seen: list[object] = []
    run_grid([run], ledger, jobs=1, watch=seen.append, networks=tmp_path / "networks")
    assert seen == [], "it was trained to the end before"
    assert (tmp_path / "networks" / f"{run.key()}.safetensors").exists()
