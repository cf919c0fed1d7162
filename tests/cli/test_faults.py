"""Commands that are killed, interrupted, or find no room: what is finished stays, the rest goes on."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from alem import cli
from alem.cli import start
from alem.experiments import Ledger
from alem.experiments import run as running
from alem.training import checkpoint
from benchmarks.faults import differences, made_up, torment, trainings
from tests.cli.conftest import alem

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals there")
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it is looked at in /proc")
fitting = sys.modules["alem.training.fit"]  # whose name the package gives to the function
WORDS = ("--recipe", "paper", "--log", "ln,mul", "--epochs", 3, "--jobs", 1)


@pytest.fixture(autouse=True)
def _signals_are_not_ignored() -> Iterator[None]:
    """As they are by whoever runs the tests in the background."""
    defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in defaults.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What comes of a command that nothing disturbs, beside its data."""
    folder = tmp_path_factory.mktemp("calm")
    assert alem("train", "--data", made_up(folder / "small.npz"), *WORDS, "--out", folder / "calm") == 0
    return folder / "calm"


@needs_proc
def test_a_training_that_is_killed_again_and_again_ends_in_the_same_bits(tmp_path: Path) -> None:
    """Twenty kills, two at a time, and a table: ``python -m benchmarks.faults``."""
    words = trainings(made_up(tmp_path / "small.npz"), epochs=200, seeds=1, jobs=1)
    outcome = torment(words, tmp_path, kills=3)
    assert outcome.wrong == []
    assert outcome.starts == outcome.kills + 1
    assert max(outcome.again, default=0) <= 1


@needs_proc
def test_ctrl_c_in_a_terminal_is_one_line_and_leaves_nobody(small_file: Path, tmp_path: Path) -> None:
    """A terminal sends it to the workers too."""
    words = ["train", "--data", str(small_file), "--epochs", "100000", "--log", "ln,mul", "--jobs", "2"]
    ours = subprocess.Popen(
        [sys.executable, "-m", "alem", *words, "--out", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    unfinished = tmp_path / "unfinished"
    patience = time.monotonic() + 120
    while len(list(unfinished.glob("[!.]*"))) < 2 and time.monotonic() < patience:
        time.sleep(0.1)
    os.killpg(ours.pid, signal.SIGINT)
    _, errors = ours.communicate(timeout=60)
    assert ours.returncode == 130
    assert errors.decode().replace("\r", "\n").split("\n")[-2:] == ["interrupted", ""]
    assert b"Traceback" not in errors
    assert left_of(ours.pid) == []
    assert sorted(file.suffix for file in unfinished.iterdir()) == [".safetensors"] * 2


def left_of(session: int) -> list[int]:
    from benchmarks.faults import PATIENCE, alive

    return alive(session, PATIENCE)


def test_ctrl_c_while_modules_are_imported_is_one_line() -> None:
    code = (
        "import os, signal, sys, threading\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from alem.cli import main\n"
        "assert 'torch' not in sys.modules\n"
        "main(['list'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_every_way_to_be_told_to_end_is_an_interrupt(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from alem.cli import listing

    number = getattr(signal, name)

    def interrupted(*_: object) -> int:
        signal.raise_signal(number)
        return 0

    before = signal.getsignal(number)
    monkeypatch.setattr(listing, "run", interrupted)
    assert cli.main(["list"]) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert signal.getsignal(number) == before
    ignored = signal.signal(number, signal.SIG_IGN)  # as nohup does
    try:
        assert cli.main(["list"]) == 0
    finally:
        signal.signal(number, ignored)


def test_it_may_be_called_from_another_thread() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(start.main, ["list"]).result() == 0


@pytest.mark.parametrize("moment", ["evaluation", "checkpoint", "half a checkpoint", "result", "network"])
def test_what_is_interrupted_anywhere_goes_on_to_the_same_bits(
    calm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    words = ("train", "--data", calm.with_name("small.npz"), *WORDS, "--out", tmp_path)
    monkeypatch.setattr(running, "fit", partial(running.fit, saved_every=0.0))
    module, name, count = {
        "evaluation": (fitting, "_evaluate", 2),
        "checkpoint": (checkpoint, "_digest", 3),
        "half a checkpoint": (os, "fsync", 3),
        "result": (Ledger, "add", 1),
        "network": (os, "replace", 5),
    }[moment]
    plain, calls = getattr(module, name), []

    def interrupting(*arguments: object) -> object:
        calls.append(name)
        if len(calls) == count:
            signal.raise_signal(signal.SIGINT)
        return plain(*arguments)

    with monkeypatch.context() as during:
        during.setattr(module, name, interrupting)
        assert alem(*words) == 130
    assert len(calls) == count
    assert alem(*words) == 0
    assert differences(calm, tmp_path) == []


def test_a_disk_that_is_full_at_any_write_is_one_line_and_goes_on_with_room(
    calm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("train", "--data", calm.with_name("small.npz"), *WORDS, "--out", tmp_path)
    fsync, names = os.fsync, set()
    for room in range(9):  # of all that is to be written, which is flushed each time
        left = [None] * room

        def full(handle: int, left: list[None] = left) -> None:
            if not left:
                raise OSError(errno.ENOSPC, "No space left on device")
            left.pop()
            fsync(handle)

        finished = {*Ledger(tmp_path).records()}
        with monkeypatch.context() as during:
            during.setattr(os, "fsync", full)
            assert alem(*words) == 2
        assert finished <= {*Ledger(tmp_path).records()}
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.startswith(f"alem: {tmp_path}")
        assert said.endswith(": No space left on device")
        names.add(Path(said.split(": ")[1]).suffix)
    assert names == {".safetensors", ".jsonl", ".svg"}
    assert alem(*words) == 0
    assert differences(calm, tmp_path) == []
