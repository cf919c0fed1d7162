"""``--backend dask``: the same commands on a cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from alem import data
from alem.experiments import Ledger
from tests.cli.conftest import alem, failure
from tests.experiments.conftest import small

ADDRESS = ("--scheduler", "tcp://127.0.0.1:1")


def test_commands_on_a_cluster(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("distributed", reason="there is no Dask: pip install 'alem[cluster]'")
    from tests.experiments.dask_cluster import Cluster

    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster")
    try:
        cluster.have(1)
        there = ("--backend", "dask", "--scheduler", cluster.address)
        words = ["train", "--data", small_file.name, *there, "--log", "ln,mul", "--seeds", "2"]
        command = [sys.executable, "-m", "alem", *words, "--epochs", "2", "--out", "out"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert "4/4" in done.stderr, "a bar of runs"
        assert "2 seeds" in done.stdout
        records = Ledger(tmp_path / "out").records()
        assert len(records) == 4
        assert all(record["threads"] == 1 for record in records.values())
        assert all("--data small.npz --backend dask" in record["command"] for record in records.values())
        assert {f.stem for f in (tmp_path / "out" / "networks").iterdir()} == set(records)
        path = tmp_path / "fpha.npz"
        data.save(small(samples=45, n=40), path)
        table = ("fpha", "--data", path, "--row", "SPDNet", "--epochs", 1, "--seeds", 2)
        assert alem("table", *table, "--out", tmp_path / "results", *there, "--jobs", 1) == 0
        assert "SPDNet" in capsys.readouterr().out
        assert len(Ledger(tmp_path / "results" / "fpha").records()) == 2
    finally:
        cluster.close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--backend", "dask"], "--backend dask and --scheduler ADDRESS go together"),
        ([*ADDRESS], "--backend dask and --scheduler ADDRESS go together"),
        (["--backend", "spark"], "invalid choice: 'spark'"),
        (["--backend", "dask", "--devices", "2", *ADDRESS], "--devices shares each; take one of them"),
        (["--backend", "dask", "--nodes", "2", *ADDRESS], "--devices shares each; take one of them"),
        (["--backend", "dask", "--scheduler", "here"], "no Dask scheduler answers at 'here' (missing port"),
    ],
)
def test_what_is_wrong_is_one_line(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    if "here" in words:
        pytest.importorskip("distributed", reason="there is no Dask: pip install 'alem[cluster]'")
    out = tmp_path / "out"
    assert message in failure(capsys, "train", "--data", small_file, "--out", out, *words)
    assert not out.exists()


def test_tables_and_figures_say_it_too(small_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("table", "fpha"), ("figure", "fpha-curves")):
        assert "go together" in failure(capsys, *words, "--data", small_file, *ADDRESS)


def test_without_dask(
    small_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "alem.experiments.cluster", raising=False)
    line = failure(capsys, "train", "--data", small_file, "--backend", "dask", *ADDRESS)
    assert "pip install 'alem[cluster]'" in line


def test_nobody_answers(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="there is no Dask: pip install 'alem[cluster]'")
    from alem.experiments import cluster

    monkeypatch.setattr(cluster, "ANSWER", 0.5)
    words = ("--backend", "dask", *ADDRESS, "--out", tmp_path / "out")
    line = failure(capsys, "train", "--data", small_file, *words)
    assert line == "alem: no Dask scheduler answers at 'tcp://127.0.0.1:1' (not in 0.5 s)"
    assert not (tmp_path / "out").exists()
