"""``alem train --devices``: the same results from several processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from torch import distributed

pytestmark = pytest.mark.skipif(
    not distributed.is_available(), reason="torch was built without distributed"
)


def alem(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "alem", "train", "--out", "out", "--recipe", "paper", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


def records(folder: Path) -> list[dict[str, Any]]:
    """What is in the ledger."""
    return [json.loads(line) for line in (folder / "out" / "runs.jsonl").read_text().splitlines()]


def test_two_processes_make_the_runs_of_one(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    common = ("--log", "ln,gap", "--epochs", "2", "--batch-size", "60")
    for folder, more in ((one, ("--jobs", "1")), (two, ("--devices", "2"))):
        folder.mkdir()
        done = alem(folder, *common, *more)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Dataset(digits") == 1
    a, b = records(one), records(two)
    assert [r["key"] for r in a] == [r["key"] for r in b]
    assert [r["processes"] for r in a + b] == [1, 1, 2, 2]
    for x, y in zip(a, b, strict=True):
        assert x["history"]["loss"] == pytest.approx(y["history"]["loss"], rel=1e-5)  # as they are rounded
        assert x["predictions"] == y["predictions"]
    assert (two / "out" / "report.html").exists()
    assert len(list((two / "out" / "networks").iterdir())) == 2
    assert not list((two / "out" / "unfinished").iterdir())
    # What is there is not made again.
    assert alem(two, *common, "--devices", "2").returncode == 0
    assert len(records(two)) == 2


def test_what_is_wrong_is_said_before_processes_are_started(tmp_path: Path) -> None:
    done = alem(tmp_path, "--log", "nl", "--devices", "2")
    assert done.returncode == 2
    assert "no logarithm is called 'nl'" in done.stderr
    done = alem(tmp_path, "--nodes", "2", MASTER_PORT="29500")
    assert done.returncode == 2
    assert "--nodes needs MASTER_ADDR in the environment" in done.stderr
