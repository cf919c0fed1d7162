from __future__ import annotations

from typing import Any

import pytest

from alem.experiments.naming import distinguish, group_of, label, number
from tests.experiments.fakes import baseline, record


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ({}, "SPDNet"),
        ({"log": "mul"}, "ALog-MUL"),
        ({"log": "relu"}, "ALog-RELU"),
        ({"log": "log2"}, "SPDNet-Log2"),
        ({"log": "log10"}, "SPDNet-Log10"),
        ({"log": "gap"}, "ALog-gap"),
        ({"norm": "spdnetbn"}, "SPDNetBN"),
        ({"norm": "spdbn"}, "SPDBN"),
        ({"norm": "liebn", "metric": "alem"}, "LieBN-ALEM"),
        ({"log": "gap", "norm": "liebn"}, "ALog-gap + LieBN-LEM"),
        ({"head": "gyro", "metric": "aim"}, "GyroMLR-AIM"),
        ({"head": "gyro", "metric": "lcm", "norm": "liebn"}, "GyroMLR-LCM + LieBN-LCM"),
        ({"kind": "RResNet", "metric": "alem"}, "RResNet-ALEM"),
        ({"chart_norm": True, "dropout": 0.5, "trace_norm": True, "vec": "vech"}, "SPDNet"),
    ],
)
def test_networks_have_the_names_of_the_tables(model: dict[str, Any], name: str) -> None:
    assert label(record(model=model)) == name
    assert label(record(model=model)["config"]) == name


def test_a_config_without_the_defaults_has_the_same_name() -> None:
    assert label({"model": {"kind": "SPDNet", "dims": [5], "norm": "liebn"}}) == "LieBN-LEM"
    assert label({"model": {"kind": "tangent-space", "dims": []}}) == "TangentSpace-AIM + logistic"


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        ("tangent-space", {}, "TangentSpace-AIM + logistic"),
        ("tangent-space", {"metric": "logeuclid", "classifier": "svm"}, "TangentSpace-LEM + SVM"),
        ("log-euclidean", {}, "log-Euclidean ridge"),
        ("log-euclidean", {"classifier": "logistic"}, "log-Euclidean logistic"),
        ("mean-distance", {}, "MDM"),
        ("mean-distance", {"metric": "logeuclid"}, "MDM-LEM"),
    ],
)
def test_baselines_have_names(kind: str, options: dict[str, str], name: str) -> None:
    assert label(baseline(kind, **options)) == name


def test_what_has_no_name_keeps_its_own() -> None:
    assert label({"model": {"kind": "other"}}) == "other"
    assert label(record(model={"log": "cube"})) == "SPDNet-cube"


def test_groups_of_one_name_say_exactly_in_what_they_differ() -> None:
    records = [
        record(model={"log": "mul"}, recipe={"metric_lr": 1 / 30}),
        record(model={"log": "mul"}, recipe={"metric_lr": 1.0}, seed=1),
        record(),
    ]
    assert list(distinguish(records).values()) == [
        "ALog-MUL (metric_lr=1/30)",
        "ALog-MUL (metric_lr=1)",
        "SPDNet",
    ]


def test_differences_are_written_short() -> None:
    records = [
        record(model={"dims": [50, 30], "chart_norm": True}, recipe={"max_norm": 2.5}),
        record(),
    ]
    assert list(distinguish(records).values()) == [
        "SPDNet (dims=50-30, chart_norm, max_norm=2.5)",
        "SPDNet (dims=5, no chart_norm, max_norm=none)",
    ]


def test_an_option_that_a_record_is_too_old_for_has_its_default() -> None:
    old, older = record(), record(seed=1)
    del old["config"]["model"]["trace_norm"]
    del older["config"]["recipe"]["max_norm"]
    assert group_of(old) == group_of(older) == group_of(record())
    assert group_of(old) != group_of(record(model={"trace_norm": True}))
    assert group_of(baseline()) == group_of(baseline(metric="riemann"))


def test_two_data_sets_in_one_table_are_told_apart() -> None:
    other = record()
    other["config"] = other["config"] | {"data": {"name": "others", "fingerprint": "0123456789abcdef"}}
    assert sorted(distinguish([record(), other]).values()) == [
        "SPDNet (data=fakes)",
        "SPDNet (data=others)",
    ]


def test_seeds_folds_and_groups_are_one_group() -> None:
    fold = {"kind": "fold", "folds": 5}
    assert group_of(record(split=fold | {"fold": 1})) == group_of(record(split=fold | {"fold": 2}, seed=4))
    assert group_of(record(split=fold)) != group_of(record(split=fold | {"folds": 4}))
    person = {"kind": "group", "column": "person"}
    one, two = (record(split=person | {"value": v, "within": [["day", v]]}) for v in ("1", "2"))
    assert group_of(one) == group_of(two)
    assert group_of(one) != group_of(record(split=person | {"value": "1"}))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1 / 30, "1/30"),
        (1 / 3, "1/3"),
        (0.01, "0.01"),
        (0.125, "0.125"),
        (1.0, "1"),
        (0.123456789, "0.123456789"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text
