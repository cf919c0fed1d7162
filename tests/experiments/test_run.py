from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from alem import data
from alem.experiments import Method, Run, Source, Split
from alem.experiments.run import last
from alem.training import Recipe

from .conftest import CLASSES, small

RECIPE = Recipe(epochs=3, batch_size=5, lr=5e-2)


def run(path: Path, seed: int = 0, **options: object) -> Run:
    return Run(Source(str(path)), Method("SPDNet", (4,), options, RECIPE), seed=seed)


def test_a_record_says_all_there_is_to_know(small_file: Path) -> None:
    record = run(small_file, log="mul").execute(command="alem train")
    assert record["key"] == run(small_file, log="mul").key()
    assert record["config"]["model"]["log"] == "mul"
    assert record["config"]["model"]["eps"] == 1e-4, "defaults too"
    assert record["config"]["recipe"]["optimizer"] == "rsgd"
    assert record["config"]["data"]["fingerprint"] == data.load(small_file).fingerprint()
    assert {len(values) for values in record["history"].values()} == {3}
    assert len(record["predictions"]) == len(record["targets"]) == record["tested"]
    right = sum(a == b for a, b in zip(record["predictions"], record["targets"], strict=True))
    assert record["accuracy"] == right / record["tested"]
    assert record["accuracy"] == pytest.approx(record["history"]["test_accuracy"][-1], abs=1e-5)
    (chart,) = record["learned"].values()
    assert len(chart["multipliers"]) == 4
    assert chart["rule"] == "mul"
    assert [len(rows) for rows in (record["spectra"]["before"], record["spectra"]["after"])] == [3, 3]
    assert {len(row) for row in record["spectra"]["before"]} == {4}
    assert record["command"] == "alem train"
    assert record["stopped"] is None
    assert {"alem", "torch", "python"} <= record["versions"].keys()
    json.dumps(record, allow_nan=False)


def test_spectra_are_those_before_and_after_the_logarithm(small_file: Path) -> None:
    """Under ln what leaves is what enters, and under log2 it is that over ln 2."""
    natural, binary = (run(small_file, log=log).execute()["spectra"] for log in ("ln", "log2"))
    assert natural["after"][1] == pytest.approx(natural["before"][1], rel=1e-4)
    assert binary["after"][1] == pytest.approx([v / 0.693147 for v in binary["before"][1]], rel=1e-4)


def test_the_same_run_gives_the_same_record_but_for_time(small_file: Path) -> None:
    records = [run(small_file, log="gap", dropout=0.3).execute() for _ in range(2)]
    for record in records:
        del record["seconds"], record["history"]["seconds"]
    assert records[0] == records[1]


def test_the_key_is_that_of_the_configuration(small_file: Path, tmp_path: Path) -> None:
    plain = run(small_file)
    assert run(small_file, log="ln", eps=1e-4).key() == plain.key(), "a default that is spelled out"
    others = {
        run(small_file, log="mul").key(),
        run(small_file, seed=1).key(),
        replace(plain, split=Split("half")).key(),
        replace(plain, method=replace(plain.method, recipe=replace(RECIPE, lr=1e-2))).key(),
        replace(plain, method=replace(plain.method, dims=(3,))).key(),
        replace(plain, source=Source(str(small_file), name="other")).key(),
    }
    assert len(others | {plain.key()}) == 7
    same = replace(plain.method, recipe=replace(RECIPE, lr=0.05, weight_decay=0))
    assert replace(plain, method=same).key() == plain.key(), "0 and 0.0 are the same recipe"
    copy = tmp_path / "elsewhere" / "small.npz"
    copy.parent.mkdir()
    data.save(small(), copy)
    assert run(copy).key() == plain.key(), "the place of the data does not matter"
    data.save(small(samples=33), copy.with_name("more.npz"))
    assert replace(plain, source=Source(str(copy.with_name("more.npz")), name="small")).key() != plain.key()


def test_keys_stay_what_they_are_from_version_to_version(tmp_path: Path) -> None:
    """Results that are kept are found by them; a change here loses every finished run."""
    eyes = torch.eye(4, dtype=torch.float64).repeat(6, 1, 1)
    path = tmp_path / "eyes.npz"
    data.save(data.dataset("eyes", eyes, [0, 1] * 3, train=torch.arange(6) < 4), path)
    assert run(path, log="mul").key() == "41a70632c1d6922a"
    method = Method("SPDNet", (33,), {"log": "mul"}, Recipe(lr=1e-2, metric_lr=1 / 30, epochs=500))
    assert method.config() == {
        "model": {"kind": "SPDNet", "dims": [33], "log": "mul"},
        "recipe": {"metric_lr": 1 / 30, "epochs": 500},
    }


@pytest.mark.parametrize(
    "method",
    [
        Method("tangent-space"),
        Method("tangent-space", options={"metric": "logeuclid"}),
        Method("log-euclidean"),
        Method("log-euclidean", options={"classifier": "logistic"}),
        Method("log-euclidean", options={"classifier": "svm"}),
        Method("mean-distance"),
    ],
)
def test_baselines_run(small_file: Path, method: Method) -> None:
    record = Run(Source(str(small_file)), method).execute()
    assert record["accuracy"] > 1 / CLASSES
    assert record["history"] == {}
    assert record["config"]["recipe"] == {}


def test_baselines_that_do_not_exist(small_file: Path) -> None:
    with pytest.raises(ValueError, match="no baseline is called 'knn'; there are tangent-space"):
        Run(Source(str(small_file)), Method("knn")).execute()
    with pytest.raises(ValueError, match="no classifier is called 'tree'; there are logistic"):
        Run(Source(str(small_file)), Method("log-euclidean", options={"classifier": "tree"})).execute()


def test_a_training_that_diverges_is_recorded_with_its_reason(small_file: Path) -> None:
    wild = Method("SPDNet", (4,), {"log": "mul"}, replace(RECIPE, lr=1e200, epochs=5))
    record = Run(Source(str(small_file)), wild).execute()
    assert record["stopped"] is not None
    assert record["predictions"] is None
    assert record["accuracy"] == last(record["history"])


def test_networks_other_than_spdnet(small_file: Path) -> None:
    residual = Method("RResNet", (4,), {"metric": "alem"}, RECIPE)
    record = Run(Source(str(small_file)), residual).execute()
    assert any(chart["kind"] == "RankLog" for chart in record["learned"].values())
    assert record["spectra"] is not None
    gyro = Method("SPDNet", (4,), {"head": "gyro", "metric": "lcm"}, RECIPE)
    assert Run(Source(str(small_file)), gyro).execute()["spectra"] is None, "a Cholesky chart has none"


def test_the_key_knows_the_samples_that_columns_choose(small_file: Path, tmp_path: Path) -> None:
    """Columns are not in the fingerprint; those who follow from them are in the split."""
    split = Split("group", column="subject", value="1", within=(("excluded", "False"),))
    first = Run(Source(str(small_file), "s"), Method("log-euclidean"), split)
    other = small()
    other.columns["subject"][:] = other.columns["subject"][::-1].copy()
    data.save(other, tmp_path / "other.npz")
    second = replace(first, source=Source(str(tmp_path / "other.npz"), "s"))
    assert first.key() != second.key()
    assert "samples" in first.config()["split"]
    assert "samples" not in run(small_file).config()["split"]


def test_a_run_of_several_sittings_has_the_time_of_all(
    small_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from alem.experiments import run as running

    fit = running.fit

    def slow(*args: object, **options: object) -> object:
        fitted = fit(*args, **options)  # type: ignore[arg-type]
        fitted.history.seconds[0] = 1000.0
        return fitted

    monkeypatch.setattr(running, "fit", slow)
    assert run(small_file).execute()["seconds"] > 1000


def test_warnings_of_others_are_kept(small_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    from alem.experiments import run as running

    def noisy(*_: object) -> torch.Tensor:
        warnings.warn("did not converge", RuntimeWarning, stacklevel=1)
        warnings.warn("old name", DeprecationWarning, stacklevel=1)
        return torch.zeros(9, dtype=torch.long)

    monkeypatch.setattr(running, "fit_baseline", noisy)
    record = Run(Source(str(small_file)), Method("log-euclidean")).execute()
    assert record["warnings"] == ["RuntimeWarning: did not converge"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_a_run_on_cuda_is_that_on_the_cpu(small_file: Path) -> None:
    host, device = (run(small_file, log="gap").execute(kind) for kind in ("cpu", "cuda"))
    assert device["device"] == "cuda"
    assert device["key"] == host["key"]
    assert device["predictions"] == host["predictions"]
    assert device["spectra"] is not None


def test_a_source_is_the_same_from_another_folder(
    small_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Source("digits").from_anywhere() == Source("digits")
    monkeypatch.chdir(tmp_path)
    there = Source("small.npz").from_anywhere()
    assert there == Source(str(small_file), "small")
    monkeypatch.chdir("/")
    here = Source(str(small_file))
    assert Run(there, Method("ridge")).key() == Run(here, Method("ridge")).key()
    split = Source("x", "x", options=(("split", "s.txt"),)).from_anywhere()
    assert split.options == (("split", os.path.abspath("s.txt")),)
