"""The main job: from a file to trained networks, tables, figures and a report."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from alem import data
from alem.experiments import Ledger
from tests.cli.conftest import alem, failure
from tests.experiments.conftest import small


def test_a_file_alone_suffices(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert alem("train", "--data", small_file) == 0
    out = capsys.readouterr().out
    assert "30 matrices 6×6, 3 classes, 21 for training" in out
    assert "% right at the end" in out
    (record,) = Ledger(tmp_path / "alem-run").records().values()
    assert record["config"]["model"]["whiten"], "by the recommended recipe"
    assert record["accuracy"] > 0.5
    page = (tmp_path / "alem-run" / "report.html").read_text("utf-8")
    assert f"{100 * record['accuracy']:.2f}" in page
    assert [f.stem for f in (tmp_path / "alem-run" / "networks").iterdir()] == [record["key"]]


def test_several_logarithms_and_seeds_are_compared(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["train", "--data", small_file, "--log", "ln,mul", "--seeds", 2, "--epochs", 3, "--out", out]
    assert alem(*command, "--jobs", 1) == 0
    shown = capsys.readouterr()
    assert "SPDNet" in shown.out
    assert "ALog-MUL" in shown.out
    assert "2 seeds" in shown.out
    assert "12/12" in shown.err, "a bar of all epochs"
    assert len(Ledger(out).records()) == 4
    stamp = (out / "runs.jsonl").stat().st_mtime_ns
    assert alem(*command) == 0
    assert (out / "runs.jsonl").stat().st_mtime_ns == stamp, "a run that exists is not run again"


def test_every_setting_arrives(small_file: Path, tmp_path: Path) -> None:
    settings = {
        "--recipe": "paper", "--norm": "liebn", "--metric": "sinh", "--dims": "5,4", "--epochs": 2,
        "--lr": 0.02, "--metric-lr": "1/30", "--batch-size": 7, "--optimizer": "amsgrad",
        "--dtype": "float32", "--seed": 3, "--log": "rank", "--products": "bfloat16",
    }  # fmt: skip
    words = [word for pair in settings.items() for word in pair]
    assert alem("train", "--data", small_file, "--out", tmp_path / "out", *words) == 0
    (record,) = Ledger(tmp_path / "out").records().values()
    config = record["config"]
    model, recipe = config["model"], config["recipe"]
    assert (model["norm"], model["metric"], model["dims"], model["log"]) == (
        "liebn",
        "sinh",
        [5, 4],
        "rank",
    )
    assert not model["whiten"]
    assert recipe["metric_lr"] == pytest.approx(1 / 30)
    assert (recipe["epochs"], recipe["lr"], recipe["batch_size"]) == (2, 0.02, 7)
    assert (recipe["optimizer"], recipe["dtype"], config["seed"]) == ("amsgrad", "float32", 3)
    assert recipe["products"] == "bfloat16"


def test_the_gyro_head_takes_a_metric(small_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--head", "gyro", "--metric", "lcm", "--epochs", 2, "--out", out)
    assert alem("train", "--data", small_file, *words) == 0
    (record,) = Ledger(out).records().values()
    assert (record["config"]["model"]["head"], record["config"]["model"]["metric"]) == ("gyro", "lcm")


def test_sequences_with_options_of_their_reader(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).normal(size=(20 * 12, 4, 3))
    path = tmp_path / "walk_seq.npz"
    np.savez(path, frames=frames, offsets=np.arange(0, 241, 12), y=np.arange(20) % 2)
    out = tmp_path / "out"
    command = ["train", "--data", path, "--option", "centre_joint=0", "--epochs", 1, "--out", out]
    assert alem(*command) == 0
    (record,) = Ledger(out).records().values()
    assert record["samples"]["size"] == 9
    assert record["config"]["split"] == {"kind": "part"}, "no official split"


def test_a_report_of_what_has_been_run(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    alem("train", "--data", small_file, "--epochs", 1, "--out", out)
    assert alem("report", out, "--out", tmp_path / "page", "--title", "Mine") == 0
    assert "<title>Mine" in (tmp_path / "page" / "report.html").read_text("utf-8")
    assert str(tmp_path / "page" / "report.html") in capsys.readouterr().out


def test_a_table_is_run_printed_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fpha.npz"
    data.save(small(samples=45, n=40), path)
    words = (
        "--seeds",
        2,
        "--epochs",
        1,
        "--row",
        "SPDNet",
        "--row",
        "ALog-MUL",
        "--row",
        "log-Euclidean ridge",
    )
    assert alem("table", "fpha", "--data", path, "--out", tmp_path / "results", *words) == 0
    out = capsys.readouterr().out
    assert "87.80 ± 0.71" in out, "the paper's number"
    assert "not the protocol of the table: epochs 1" in out
    assert not (tmp_path / "results" / "fpha.md").exists(), "the page is that of the whole table"
    records = Ledger(tmp_path / "results" / "fpha").records().values()
    assert len(records) == 5
    assert alem("figure", "fpha-parameters", "--data", path, "--out", tmp_path / "results", *words[:4]) == 0
    drawing = (tmp_path / "results" / "figures" / "fpha-parameters-trial.svg").read_text("utf-8")
    assert "<svg" in drawing
    assert len(Ledger(tmp_path / "results" / "fpha").records()) == 5, "the same runs as the table's"


def test_tables_of_several_data_sets_take_them_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "any.npz"
    data.save(small(samples=45, n=40), path)
    words = ("--seeds", 1, "--epochs", 1, "--row", "SPDNet", "--out", tmp_path / "results")
    assert alem("table", "bases", "--data", f"fpha={path}", *words) == 0
    assert "without hdm05: its columns are left out" in capsys.readouterr().out
    assert "say which, as NAME=" in failure(capsys, "table", "bases", "--data", path, *words)
    assert "takes no data called 'fpga'" in failure(capsys, "table", "bases", "--data", "fpga=x", *words)
    assert "needs its data" in failure(capsys, "table", "bases", *words)


def test_complexity_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from alem.experiments import complexity

    small_enough = complexity.measure((20, 15, 10), n=30, steps=1)
    monkeypatch.setattr(complexity, "measure", lambda: small_enough)
    assert alem("table", "complexity", "--out", tmp_path) == 0
    out = capsys.readouterr().out
    more = {name: extra for name, _, extra, _, _ in small_enough}
    assert more["ALog-MUL"] == 10, "a number for each rank"
    assert more["SPDNetBN"] == 20**2 + 15**2 + 10**2, "a matrix for each norm"
    assert "SPDNetBN" in out
    assert (tmp_path / "complexity.md").exists()


def test_the_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert alem("list") == 0
    out = capsys.readouterr().out
    for name in ("natops", "ssvep", "fpha-curves", "gap", "bwm", "ntu60", "complexity"):
        assert name in out


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-400])


def _indefinite(path: Path) -> None:
    np.savez(path, matrices=-np.eye(4)[None].repeat(6, 0), y=np.arange(6) % 2)


def _unlabelled(path: Path) -> None:
    np.savez(path, matrices=np.eye(4)[None].repeat(6, 0), y=np.arange(5))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.unlink(), "does not exist"),
        (lambda path: path.write_bytes(b""), "small.npz"),
        (_truncated, "damaged, cut short or of another format"),
        (_indefinite, "eigenvalue"),
        (_unlabelled, "6 matrices and 5 labels"),
    ],
)
def test_what_is_wrong_with_the_data_is_one_line_and_leaves_nothing(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: object, message: str
) -> None:
    spoil(small_file)  # type: ignore[operator]
    out = tmp_path / "out"
    line = failure(capsys, "train", "--data", small_file, "--out", out)
    assert message in line
    assert "small" in line
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--log", "lnn"], "no logarithm is called 'lnn'; there are ln"),
        (["--log", "ln,mull"], "no logarithm is called 'mull'"),
        (["--norm", "liebn", "--metric", "lemm"], "no metric is called 'lemm'"),
        (["--metric", "aim"], "--metric is that of --norm liebn or of --head gyro"),
        (["--norm", "bn"], "norm must be one of spdnetbn"),
        (["--optimizer", "adam"], "optimizer must be one of rsgd, amsgrad, got 'adam'"),
        (["--dtype", "half"], "dtype must be one of"),
        (["--head", "gyro", "--log", "ln"], "--log belongs to the linear head"),
        (["--epochs", "0"], "expected a whole number of 1 or more, got '0'"),
        (["--lr", "-1"], "expected"),
        (["--lr", "1/0"], "expected a positive number, got '1/0'"),
        (["--dims", "3,x"], "expected a whole number of 1 or more, got 'x'"),
        (["--option", "loading"], "--option takes NAME=VALUE, got 'loading'"),
        (["--option", "speed=3"], "has no option speed"),
        (["--reader", "hdm5"], "unknown reader 'hdm5'; choose npz"),
        (["--epoch", "x"], "expected a whole number"),
        (["--option", "loading=-1"], "matrices"),
        (["--option", "loading=abc"], "option loading of reader npz must be a number, got 'abc'"),
        (["--option", "loading=nan"], "option loading of reader npz must be a finite number, got nan"),
        (["--option", "window=2.5"], "option window of reader npz must be a whole number, got 2.5"),
        (["--seed", "99999999999999999999"], "expected a whole number of 64 bits"),
        (["--data", ""], "the path of the data is empty"),
        (["--colour", "red"], "unrecognized arguments: --colour red"),
    ],
)
def test_what_is_wrong_with_the_arguments_is_one_line(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    out = tmp_path / "out"
    assert message in failure(capsys, "train", "--data", small_file, "--out", out, *words)
    assert not out.exists()


def test_the_page_of_a_whole_table_is_written_and_the_figure_shares_its_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from alem.experiments import TABLES

    fpha = TABLES["fpha"]
    (column,) = fpha.columns
    own = replace(column, protocol=replace(column.protocol, size=40, classes=3))
    table = replace(fpha, rows=fpha.rows[5:6], recipe={"epochs": 2}, columns=(own,))
    path, page = tmp_path / "fpha.npz", tmp_path / "r" / "fpha.md"
    data.save(small(samples=45, n=40), path)
    words = ("--data", path, "--out", tmp_path / "r", "--seeds", 2)
    monkeypatch.setitem(TABLES, "fpha", replace(table, columns=(column,)))
    assert alem("table", "fpha", *words) == 0
    said = "not the data of the table: fpha has 40×40 matrices in 3 classes, and fpha has 63×63 matrices"
    assert said in capsys.readouterr().out
    assert not page.exists(), "the paper's numbers are not for these"
    monkeypatch.setitem(TABLES, "fpha", table)
    assert alem("table", "fpha", *words) == 0
    assert "| ALog-MUL |" in page.read_text("utf-8")
    assert "not the" not in capsys.readouterr().out
    figure = tmp_path / "r" / "figures" / "fpha-parameters.svg"
    assert alem("figure", "fpha-parameters", *words) == 0
    drawn = figure.read_bytes()
    assert alem("figure", "fpha-parameters", *words, "--epochs", 1) == 0
    assert figure.read_bytes() == drawn, "a trial is another picture"
    assert figure.with_stem("fpha-parameters-trial").exists()


def test_seeds_of_any_size(small_file: Path, tmp_path: Path) -> None:
    for seed in (-1, 5_000_000_000):
        assert alem("train", "--data", small_file, "--epochs", 1, "--seed", seed, "--out", tmp_path) == 0


def test_the_report_has_what_was_run_there_before(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for log in ("mul, div", "ln"):
        words = ("--epochs", 1, "--jobs", 1, "--log", log, "--out", tmp_path)
        assert alem("train", "--data", small_file, *words) == 0
    assert "ALog-MUL" not in capsys.readouterr().out.rpartition("% right")[0].splitlines()[-1]
    page = (tmp_path / "report.md").read_text("utf-8")
    assert all(name in page for name in ("SPDNet", "ALog-MUL", "ALog-DIV"))
    assert alem("report", tmp_path / "runs.jsonl") == 0, "the file will do as well as its folder"


def test_few_samples_are_divided_for_every_seed(tmp_path: Path) -> None:
    three = small(samples=6, classes=2)
    path = tmp_path / "three.npz"
    np.savez(path, matrices=three.matrices.numpy(), y=three.labels.numpy())
    words = ("--seeds", 6, "--epochs", 1, "--jobs", 1, "--out", tmp_path / "out")
    assert alem("train", "--data", path, *words) == 0


def test_what_stands_in_the_way_is_said_before_hours_are_spent(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = {
        "networks": False,
        "unfinished": False,
        "figures": False,
        "report.html": True,
        "report.md": True,
    }
    for name, is_folder in folders.items():
        out = tmp_path / f"for-{name}"
        out.mkdir()
        (out / name).mkdir() if is_folder else (out / name).touch()
        line = failure(capsys, "train", "--data", small_file, "--epochs", 1, "--out", out)
        assert str(out / name) in line
        assert not (out / "runs.jsonl").exists()


def test_where_a_page_cannot_be_written_is_said_before_hours_are_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "fpha.npz", tmp_path / "out"
    data.save(small(samples=45, n=40), path)
    (out / "fpha.md").mkdir(parents=True)
    assert "fpha.md is a folder" in failure(capsys, "table", "fpha", "--data", path, "--out", out)
    (out / "figures").touch()
    words = ("figure", "fpha-parameters", "--data", path, "--out", out)
    assert "figures must be a folder" in failure(capsys, *words)
    assert not (out / "fpha").exists()


def test_what_cannot_be_written_to_is_said_before_hours_are_spent(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("train", "--data", small_file, "--epochs", 1, "--jobs", 1, "--out", tmp_path / "out")
    assert alem(*words) == 0
    ledger = tmp_path / "out" / "runs.jsonl"
    before = ledger.read_bytes()
    for name in ("out", "networks", "runs.jsonl"):  # as it is for all but root, who may write everywhere
        monkeypatch.setattr("os.access", lambda path, mode, name=name: Path(path).name != name)
        capsys.readouterr()
        line = failure(capsys, *words, "--seed", 1)
        assert re.search(rf"{name} must be a (folder|file) that can be written to", line)
    assert ledger.read_bytes() == before


def test_a_gradient_that_is_no_number_from_the_start_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.npz"
    tiny = small()
    np.savez(path, matrices=1e-310 * tiny.matrices.numpy(), y=tiny.labels.numpy())
    words = ("--recipe", "paper", "--epochs", 1, "--jobs", 1, "--out", tmp_path / "out")
    assert alem("train", "--data", path, *words) == 2
    shown = capsys.readouterr().err
    assert "alem: the gradient of a parameter" in shown.splitlines()[-1]
    assert "Traceback" not in shown


def test_data_that_cannot_be_divided(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = small().select(small().train)
    path = tmp_path / "whole.npz"
    data.save(whole, path)
    out = tmp_path / "out"
    assert "leaves nothing to test on" in failure(capsys, "train", "--data", path, "--out", out)
    line = failure(capsys, "table", "fpha", "--data", path, "--out", out)
    assert "leaves nothing to test on" in line
    bare = tmp_path / "bare.npz"
    np.savez(bare, matrices=np.eye(4)[None].repeat(6, 0), y=np.arange(6) % 2)
    assert "no column 'subject'" in failure(capsys, "table", "ssvep", "--data", bare, "--out", out)
    assert "no official split" in failure(capsys, "table", "natops", "--data", bare, "--out", out)
    assert not out.exists()


def test_arguments_that_would_be_ignored_are_refused(
    small_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twice = ("--data", small_file, "--data", small_file)
    assert "--data is given twice for fpha" in failure(capsys, "table", "fpha", *twice)
    assert "takes --out only" in failure(capsys, "table", "complexity", "--seeds", 3)


def test_names_of_tables_figures_and_rows(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no table is called 'fpa'; there are hdm05" in failure(capsys, "table", "fpa")
    assert "no figure is called 'fpa'; there are fpha-curves" in failure(capsys, "figure", "fpa")
    line = failure(capsys, "table", "fpha", "--data", small_file, "--row", "SPDnet")
    assert "has no row 'SPDnet'; it has SPDNet, " in line
    line = failure(capsys, "report", tmp_path / "nothing")
    assert "holds no finished run" in line
    (tmp_path / "runs.jsonl").write_text("nonsense\n", encoding="utf-8")
    assert "is no result of a run" in failure(capsys, "report", tmp_path)


def test_a_folder_that_cannot_be_written(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    line = failure(capsys, "train", "--data", small_file, "--epochs", 1, "--out", blocked / "out")
    assert "Not a directory" in line


def test_without_the_packages_of_training_the_rest_works(tmp_path: Path) -> None:
    """As after an installation of the core alone."""
    code = (
        "import sys\n"
        "for name in ('lightning_fabric', 'joblib', 'safetensors', 'tqdm', 'sklearn', 'matplotlib'):\n"
        "    sys.modules[name] = None\n"
        "import alem.training\n"
        "from alem import cli\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, cwd=tmp_path
        )

    assert run("--version").returncode == 0
    path = tmp_path / "small.npz"
    data.save(small(), path)
    done = run("train", "--data", str(path))
    assert done.returncode == 2, done.stderr
    assert "pip install 'alem[train]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_fault_of_the_library_is_not_hidden(
    small_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from alem.experiments import Run

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Run, "execute", broken)
    with pytest.raises(ZeroDivisionError):
        alem("train", "--data", small_file, "--epochs", 1, "--out", tmp_path / "out")


def test_what_is_printed_is_what_is_stored(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alem("train", "--data", small_file, "--epochs", 2, "--out", tmp_path / "out")
    out = capsys.readouterr().out
    (line,) = (tmp_path / "out" / "runs.jsonl").read_text("utf-8").splitlines()
    assert f"{100 * json.loads(line)['accuracy']:.2f} % right at the end, one seed" in out
    assert torch.get_default_dtype() == torch.float32, "as it was"
