from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from alem.experiments import Ledger, LedgerError
from alem.experiments.record import UnfitError, require_record
from alem.experiments.summary import summarise
from tests.experiments import fakes

WITHIN = {"kind": "group", "column": "s", "value": "1", "within": [["t", "2"]]}


@pytest.mark.parametrize(
    "record",
    [
        fakes.record(),
        fakes.record(seed=3, model={"log": "gap"}),
        fakes.record(split={"kind": "fold", "folds": 5, "fold": 4}),
        fakes.record(split=WITHIN),
        fakes.record(processes=2, something="younger"),
        fakes.stopped(3, "epoch 4: too large"),
        fakes.stopped(0, "epoch 1: too large"),
        fakes.baseline(),
    ],
)
def test_what_a_run_makes_is_fit(record: dict[str, Any]) -> None:
    require_record(record)
    require_record(json.loads(json.dumps(record)))


def changed(place: str, value: Any) -> dict[str, Any]:
    """A record with another value at ``config.model.log``, say; ... leaves it out."""
    record = copy.deepcopy(fakes.record(model={"log": "mul"}))
    *path, last = place.split(".")
    inner = record
    for key in path:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return record


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *(
            (key, ...)
            for key in ("key", "config", "classes", "stopped", "predictions", "threads", "warnings")
        ),
        *((f"config.{key}", ...) for key in ("data", "model", "seed")),
        ("key", ["a"]),
        ("config", []),
        ("config.seed", "0"),
        ("config.seed", 10**400),
        ("config.model.kind", None),
        ("config.model.log", ["ln"]),
        ("config.model.dims", {"a": 1}),
        ("config.data.name", "x" * 2000),
        ("config.recipe.epochs", "8"),
        ("config.recipe.epochs", ...),
        ("config.recipe", [1]),
        ("config.split", {"kind": "fold", "folds": 10**12, "fold": 0}),
        ("config.split", {"kind": "fold", "folds": 2, "fold": 2}),
        ("config.split", {"kind": "fold"}),
        ("config.split", {"kind": "group", "within": ["ab"]}),
        ("accuracy", float("nan")),
        ("accuracy", 2.0),
        ("accuracy", True),
        ("tested", 0),
        ("tested", 2**60),
        ("classes", [1]),
        ("classes", ["a"] * 9000),
        ("predictions", [0] * 3),
        ("predictions", [9] * 10),
        ("predictions", [-1] * 10),
        ("targets", [0.0] * 10),
        ("history.test_accuracy", [0.1] * 9),
        ("history.loss", ["a"]),
        # What matplotlib cannot draw.
        ("history.loss", [float("inf")] * 8),
        ("history.test_accuracy", [1e308] * 8),
        ("history.test_accuracy", []),
        ("history.train_accuracy", ...),
        ("history.seconds", [-1.0] * 8),
        ("spectra.before", [[float("nan")]] * 3),
        ("learned", {"a": {"kind": "GapLog", "parameters": {"theta": [0.1]}}}),
        ("learned", {"a": {"kind": "GapLog", "parameters": {"theta": [0.1] * 3, "log_width": [0.1]}}}),
        ("learned", {"a": {"kind": "SinhArcsinhLog", "parameters": {"theta": [0.1] * 9}}}),
        ("learned", {"a": {"kind": "RankIncrementLog", "parameters": {}}}),
        ("learned", {"a": {"kind": "Other", "parameters": {}}}),
        ("learned", {"a": {"kind": "Other", "parameters": {"w": [0.1] * 100}}}),
        ("learned", {"a": {"kind": "RankLog", "parameters": {}, "multipliers": []}}),
        ("learned", {"a": {"kind": "RankLog"}}),
        ("learned", {"a": {"kind": "RankLog", "parameters": {"w": [None]}}}),
        ("spectra.before", [[1.0], [2.0]]),
        ("spectra.after", [[1.0], [2.0], [3.0, 4.0]]),
        ("versions", {"torch": 2}),
        ("samples.repaired", None),
        ("seconds", float("inf")),
        ("command", None),
    ],
)
def test_what_no_run_makes_is_named_with_its_line(tmp_path: Path, place: str, value: Any) -> None:
    record = changed(place, value)
    with pytest.raises(UnfitError):
        require_record(record)
    (tmp_path / "runs.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    with pytest.raises(LedgerError, match=r"runs\.jsonl: line 1 is no result of a run"):
        Ledger(tmp_path).records()


def test_runs_of_one_method_have_numbers_of_the_same_shapes() -> None:
    first, second = (fakes.record(seed=seed, model={"log": "mul"}) for seed in range(2))
    summarise([first, second])
    second = copy.deepcopy(second)
    second["learned"]["layers.log.diffeo"]["parameters"]["weight"].append(1.0)
    with pytest.raises(LedgerError, match="has other shapes than those beside it"):
        summarise([first, second])


@pytest.mark.parametrize("line", [b'{"a":' * 60_000, b"[" * 200_000, b"9" * 6000, b"\xff", b"null", b'"a"'])
def test_lines_that_are_deep_or_long_or_no_text(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "runs.jsonl").write_bytes(line + b"\n")
    with pytest.raises(LedgerError) as error:
        Ledger(tmp_path).records()
    assert len(str(error.value)) < 600
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "ledger", sorted((Path(__file__).parents[2] / "results").glob("*/runs.jsonl")), ids=str
)
def test_the_results_of_this_repository_are_records(ledger: Path) -> None:
    assert len(Ledger(ledger.parent).records()) == len(ledger.read_text("utf-8").splitlines())
