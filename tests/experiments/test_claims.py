from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from alem.experiments import Ledger, run_grid
from alem.experiments import claims as claims_module
from alem.experiments.claims import Claims
from tests.experiments.test_grid import grid

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks there")


def test_a_run_that_another_is_at_is_put_off_until_that_has_done_with_it(
    small_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims_module, "LOOK", 0.01)
    ledger, runs = Ledger(tmp_path), {run.key(): run for run in grid(small_file)}
    ours, theirs = Claims(ledger, None), Claims(Ledger(tmp_path), None)
    first, second, *_ = runs
    assert next(theirs.of(runs))[0] == first
    assert [key for key, _ in ours.of(runs)] == [*runs][1:]
    threading.Timer(0.1, theirs.close).start()
    assert list(ours.put_off()) == [first], "they ended without a result"
    assert ours.put_off() == {}
    assert list(theirs.of({first: runs[first], second: runs[second]})) == [(first, runs[first])]
    ledger.add(runs[second].execute())
    ours.settle(second)
    assert theirs.put_off() == {}, "it has been made"
    for each in (ours, theirs):
        each.close()
    assert not list((tmp_path / "unfinished").iterdir())


def test_what_a_killed_command_has_left_is_brought_to_its_end(small_file: Path, tmp_path: Path) -> None:
    """It had written its result, and not yet moved its network."""
    (run, *_), ledger, networks = grid(small_file), Ledger(tmp_path), tmp_path / "networks"
    unfinished = tmp_path / "unfinished"
    ledger.add(run.execute(checkpoint=unfinished / f"{run.key()}.safetensors"))
    (unfinished / f".{run.key()}.lock").touch()
    (unfinished / ".other.lock").touch()
    (unfinished / f".{run.key()}.safetensors.0123.part").touch()
    run_grid([run], ledger, jobs=1, networks=networks)
    assert [file.name for file in networks.iterdir()] == [f"{run.key()}.safetensors"]
    assert not list(unfinished.iterdir())


def test_two_commands_in_one_folder_share_its_runs(small_file: Path, tmp_path: Path) -> None:
    alone = run_grid(grid(small_file), Ledger(tmp_path / "alone"), jobs=1, networks=tmp_path / "a")
    code = (
        "import sys; from pathlib import Path\n"
        "from alem.experiments import Ledger, run_grid\n"
        "from tests.experiments.test_grid import grid\n"
        "print(); sys.stdout.flush(); sys.stdin.readline()\n"
        "made = []\n"
        "run_grid(grid(Path(sys.argv[1])), Ledger(Path(sys.argv[2])), jobs=1, networks=Path(sys.argv[3]),\n"
        "         say=lambda record, *_: made.append(record))\n"
        "print(len(made))"
    )
    words = [sys.executable, "-c", code, str(small_file), str(tmp_path / "both"), str(tmp_path / "b")]
    commands = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for command in commands:
        assert command.stdout is not None
        command.stdout.readline()
    made = [command.communicate("\n", timeout=60)[0] for command in commands]
    assert [command.returncode for command in commands] == [0, 0]
    assert sum(map(int, made)) == 4, "each once"
    ledger = Ledger(tmp_path / "both")
    assert len(ledger.path.read_bytes().splitlines()) == 4
    for record in alone:
        assert ledger.records()[record["key"]]["history"]["loss"] == record["history"]["loss"]
    for folder in ("a", "b"):
        assert len(list((tmp_path / folder).iterdir())) == 4
    assert not list((tmp_path / "both" / "unfinished").iterdir())
    from alem.training import read_tensors

    for file in os.listdir(tmp_path / "a"):
        a, b = (read_tensors(tmp_path / folder / file)[0] for folder in ("a", "b"))
        assert all(a[key].equal(b[key]) for key in a)
