"""A short form of ``python -m tests.fuzz``, and that it sees what it looks for."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from alem.data import DataError
from tests.fuzz.loop import fuzz
from tests.fuzz.targets import TARGETS, Target

# So many that all take about as long; the files that begin are among them.
EXECUTIONS = {"checkpoint": 25, "report": 40, "arguments": 25, "mat": 60, "skipped": 300}

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="alarms and audits are those of POSIX")


# A page of figures takes seconds; tests/experiments/test_report_text.py draws hostile ones.
@pytest.mark.parametrize("name", [name for name in TARGETS if name != "figures"])
def test_no_reader_breaks_a_promise(tmp_path: Path, name: str) -> None:
    found = fuzz(TARGETS[name], tmp_path, EXECUTIONS.get(name, 100))
    assert found.executions >= EXECUTIONS.get(name, 100)
    assert len(found.edges) > found.growth[0][1], "nothing was reached by a change"
    assert not found.findings, [(f.kind, f.said) for f in found.findings.values()]


def test_the_same_seed_makes_the_same_changes(tmp_path: Path) -> None:
    once, again, other = (fuzz(TARGETS["skeleton"], tmp_path / f"{i}", 60, seed=i // 2) for i in range(3))
    assert once.corpus == again.corpus
    assert once.corpus != other.corpus


def _explode(_: Path) -> None:
    raise ZeroDivisionError("a bug")


def _unpickle(folder: Path) -> None:
    try:
        pickle.loads(pickle.dumps(np.float64))
    except BaseException:
        raise DataError(f"{folder} is odd") from None


def _start(_: Path) -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


def _write(folder: Path) -> None:
    (folder / "made").write_text("x")


def _evaluate(_: Path) -> None:
    eval("1 + 1")


def _fill(_: Path) -> None:
    np.ones(2**25)


def _wait(_: Path) -> None:
    time.sleep(10)


def _say_little(_: Path) -> None:
    raise DataError("something is wrong")


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (_explode, "ZeroDivisionError"),
        (_unpickle, "Forbidden"),
        (_start, "Forbidden"),
        (_write, "Forbidden"),
        (_evaluate, "Forbidden"),
        (_fill, "memory"),
        (_wait, "Hangs"),
        (_say_little, "message"),
    ],
)
def test_it_sees_what_it_looks_for(tmp_path: Path, read: Callable[[Path], object], kind: str) -> None:
    if kind == "memory" and not Path("/proc/self/clear_refs").exists():
        pytest.skip("the peak is read from /proc")
    target = Target("broken", ("a",), lambda: [(b"",)], lambda data, random: data, read, seconds=0.5)
    # Once before it is watched, as what is imported late is.
    if kind == "Hangs":
        calls = iter(range(9))
        target = Target(
            "slow", ("a",), lambda: [(b"",)], lambda data, random: data,
            lambda folder: _wait(folder) if next(calls) else None, seconds=0.5,
        )  # fmt: skip
    found = fuzz(target, tmp_path, 1)
    assert [key.split()[0] for key in found.findings] == [kind]
