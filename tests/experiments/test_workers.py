from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alem.experiments import Ledger, Run, run_grid
from alem.experiments.workers import without_interrupts
from tests.experiments.test_grid import grid

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals there")


def is_there(process: int) -> bool:
    """Whether it lives; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it is looked at in /proc")
def test_a_worker_ends_with_its_parent_whatever_it_is_at() -> None:
    child = "import os, time; from alem.experiments.workers import end_with; end_with(os.getppid()); "
    child += "print(os.getpid(), flush=True); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]).wait()"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        assert is_there(worker)
        process.kill()
    patience = time.monotonic() + 5
    while is_there(worker) and time.monotonic() < patience:
        time.sleep(0.05)
    assert not is_there(worker)


def test_what_is_started_without_interrupts_never_hears_of_them() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, set())
    code = (
        "import os, signal\n"
        "for each in (signal.SIGINT, signal.SIGHUP):\n"
        "    os.kill(os.getpid(), each)\n"
        "print('still here')"
    )
    with without_interrupts():
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "still here\n"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, set()) == before


class Fatal(Run):
    """One that ends its process."""

    def execute(self, *_: object, **__: object) -> dict[str, object]:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_a_worker_that_is_killed_is_said_and_what_is_finished_is_kept(
    small_file: Path, tmp_path: Path
) -> None:
    first, *others = grid(small_file, epochs=1)
    fatal = Fatal(first.source, first.method, seed=9)
    ledger = Ledger(tmp_path / "runs")
    run_grid(others[:1], ledger, jobs=1)
    with pytest.raises(ChildProcessError, match=r"has been killed, .* the same command makes the rest"):
        run_grid([fatal, *others], ledger, jobs=2)
    assert others[0].key() in ledger.records()
    assert len(run_grid(others, ledger, jobs=1)) == 3
