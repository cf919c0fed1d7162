from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from alem.estimators import SPDNetClassifier, SPDNetRegressor
from alem.training import CheckpointError
from tests.fuzz.corpus import X, Y


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "whole.safetensors"
    SPDNetClassifier(epochs=1, random_state=0).fit(X, Y).save(path)
    return path


def changed(whole: Path, to: Path, place: str, value: Any) -> Path:
    """The same file with another value at a place of its header."""
    with safe_open(whole, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
        meta = json.loads(file.metadata()["alem"])
    *path, last = place.split(".")
    inner = meta["header"]["estimator"]
    for key in path:
        inner = inner[key]
    inner[last] = value
    save_file(tensors, to, metadata={"alem": json.dumps(meta)})
    return to


@pytest.mark.parametrize(
    ("place", "value"),
    [
        # Networks of gigabytes from a file of kilobytes.
        ("parameters.dims", [100_000]),
        ("parameters.dims", [4, 10**9, 1]),
        ("fitted.n_features", 100_000),
        ("fitted.n_outputs", 10**9),
        ("fitted.n_outputs", True),
        ("fitted.n_features", -4),
        ("fitted.classes.dtype", "<U100000000"),
        ("fitted.classes.dtype", "V8"),
        ("fitted.classes.values", [[0], [1]]),
        ("fitted.history", {"loss": "abc"}),
        ("fitted.history", {"loss": [0.1], "seconds": [[]]}),
        ("fitted.history", {"epochs": 3}),
        ("fitted.weights_in_use", "best"),
        ("parameters.dropout", float("nan")),
        ("parameters.log", "os.system"),
        ("parameters.metric", ["lem"]),
        ("parameters.unknown", 1),
        ("kind", "\x1b[2J<script>"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_built(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, place: str, value: Any
) -> None:
    file = changed(whole, tmp_path / "changed.safetensors", place, value)
    with pytest.raises(CheckpointError) as error:
        SPDNetClassifier.load(file)
    message = str(error.value)
    assert str(file) in message
    assert "allocate" not in message
    assert message.isprintable()


def test_the_file_itself_and_another_kind(whole: Path) -> None:
    SPDNetClassifier.load(whole).predict(X)
    with pytest.raises(CheckpointError, match=r"load it with SPDNetClassifier\.load"):
        SPDNetRegressor.load(whole)


def test_a_network_without_linear_head_is_as_large_as_its_file(tmp_path: Path) -> None:
    for options in ({"head": "gyro", "metric": "lem"}, {"dims": [3, 2], "norm": "liebn"}, {"dims": []}):
        path = tmp_path / "a.safetensors"
        made = SPDNetClassifier(epochs=1, random_state=0, **options).fit(X, Y)  # type: ignore[arg-type]
        made.save(path)
        torch.testing.assert_close(SPDNetClassifier.load(path).predict_proba(X), made.predict_proba(X))
