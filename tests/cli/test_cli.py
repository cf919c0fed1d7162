from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import alem
from alem import bench, cli
from alem.cli import doctor
from alem.linalg import Backend


def test_it_is_installed_and_python_m_is_the_same() -> None:
    script = Path(sys.executable).with_name("alem")
    for command in ([sys.executable, "-m", "alem"], [str(script)]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == f"alem {alem.__version__}"


def test_without_a_command_it_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 2
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    assert "bench" in text
    assert "doctor" in text


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe whose reader has gone is another error there")
def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    ours = subprocess.Popen(
        [sys.executable, "-m", "alem", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert ours.stdout is not None
    ours.stdout.close()
    _, errors = ours.communicate()
    assert errors == b""
    assert ours.returncode == 141


def test_doctor_says_what_decomposes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert torch.__version__ in text
    assert "eigensolver" in text
    assert "everything works" in text
    monkeypatch.setattr(doctor, "backend", lambda device: Backend("torch", False, "build it"))
    assert cli.main(["doctor"]) == 0, "slow is not wrong"
    text = capsys.readouterr().out
    assert "not the fast one" in text
    assert "build it" in text


def test_doctor_finds_a_solver_that_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def off(X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, U = torch.linalg.eigh(X)
        return values + 1e-4, U

    monkeypatch.setattr(doctor.linalg, "eigh", off)
    assert cli.main(["doctor"]) == 1
    assert "WRONG" in capsys.readouterr().out

    def fails(X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        raise RuntimeError("no solver")

    monkeypatch.setattr(doctor.linalg, "eigh", fails)
    assert cli.main(["doctor"]) == 1
    assert "failed: RuntimeError: no solver" in capsys.readouterr().out


def test_bench_runs_the_rows_that_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def run(
        options: bench.Options, rows: list[str], out: Path, name: str, **_: object
    ) -> list[bench.Result]:
        asked.append((options, rows, out, name))
        return [bench.Result("eigh", "1×1", "float32", "", "torch", status=status)]

    monkeypatch.setattr(bench, "run", run)
    status = "timed"
    command = ["bench", "--rows", "eigh,sgd", "--dtype", "float64", "--quick", "--out", str(tmp_path)]
    assert cli.main(command) == 0
    options = bench.Options("cpu", ("float64",), True)
    assert asked == [(options, ["eigh", "sgd"], tmp_path, "speed-cpu")]
    status = "refused"
    assert cli.main(["bench"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "eig"], "no row is called 'eig'; there are eigh"),
        (["--device", "abacus"], "no device is called 'abacus'"),
        (["--device", "meta"], "not on meta"),
    ],
)
def test_arguments_that_make_no_sense(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["bench", "--device", "cuda"])
    assert "torch sees no CUDA device here" in capsys.readouterr().err


def test_an_interruption_ends_it_quietly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run", interrupted)
    assert cli.main(["bench"]) == 130
    assert "interrupted" in capsys.readouterr().err
