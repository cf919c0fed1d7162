"""fit in the processes of torchrun gives what it gives in one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed

from alem.training.fit import _require_shares

WORKER = Path(__file__).with_name("distributed_worker.py")
pytestmark = pytest.mark.skipif(
    not distributed.is_available(), reason="torch was built without distributed"
)


def start(folder: Path, processes: int, dies_after: int = 0) -> subprocess.CompletedProcess[str]:
    """The worker, alone or by torchrun."""
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        [*command, str(WORKER), str(folder), str(dies_after)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def found(folder: Path, rank: str) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """History and state of a process."""
    return json.loads((folder / f"{rank}.json").read_text()), torch.load(folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    folder = tmp_path_factory.mktemp("alone")
    done = start(folder, 1)
    assert done.returncode == 0, done.stderr
    return found(folder, "alone")


@pytest.mark.parametrize("processes", [2, 4])
def test_several_processes_train_as_one(processes: int, alone: Any, tmp_path: Path) -> None:
    done = start(tmp_path, processes)
    assert done.returncode == 0, done.stderr
    history, state = alone
    for rank in range(processes):
        own, tensors = found(tmp_path, str(rank))
        assert own["train_accuracy"] == history["train_accuracy"]
        assert own["test_accuracy"] == history["test_accuracy"]
        assert own["loss"] == pytest.approx(history["loss"], rel=1e-10)
        for key, expected in state.items():
            torch.testing.assert_close(tensors[key], expected, rtol=1e-10, atol=1e-10)


def test_several_processes_go_on_where_they_were_interrupted(alone: Any, tmp_path: Path) -> None:
    assert start(tmp_path, 2, dies_after=2).returncode != 0
    assert not (tmp_path / "0.json").exists()
    done = start(tmp_path, 2)
    assert done.returncode == 0, done.stderr
    history, state = alone
    own, tensors = found(tmp_path, "1")
    assert own["loss"] == pytest.approx(history["loss"], rel=1e-10)
    for key, expected in state.items():
        torch.testing.assert_close(tensors[key], expected, rtol=1e-10, atol=1e-10)


def test_a_batch_that_is_too_small_to_share_is_refused() -> None:
    with pytest.raises(ValueError, match=r"205 samples in batches of 51 leave one of 1, which 2 processes"):
        _require_shares(205, 51, 2)
    _require_shares(205, 32, 4)
