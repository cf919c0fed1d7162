from __future__ import annotations

import math
import random
import statistics
import sys

import pytest
from scipy import stats

from alem.experiments.baselines import MissingPackageError
from alem.experiments.summary import paired_test, section_of, summarise
from tests.experiments.fakes import baseline, record, stopped


def test_a_row_is_the_mean_over_seeds_of_the_last_epoch() -> None:
    # Every one of them was at 0.99 in the epoch before.
    (row,) = summarise([record(6), record(9, seed=1), record(9, seed=2)])
    assert row.accuracies == {0: 0.6, 1: 0.9, 2: 0.9}
    assert row.mean == pytest.approx(0.8)
    assert row.deviation == pytest.approx(math.sqrt(0.03))  # (0.04 + 0.01 + 0.01)/2
    assert (row.n, row.label, row.parameters, row.seconds) == (3, "SPDNet", 1234, 2.5)
    assert not row.is_baseline


def test_predictions_count_and_not_what_was_rounded() -> None:
    (row,) = summarise([record(6, accuracy=0.7)])
    assert row.mean == 0.6
    assert row.deviation is None


def test_folds_of_a_seed_are_pooled() -> None:
    folds = [{"kind": "fold", "folds": 2, "fold": 0}, {"kind": "fold", "folds": 2, "fold": 1}]
    (row,) = summarise(
        [
            record(1, 10, split=folds[0]),
            record(20, 20, split=folds[1]),
            record(4, 10, seed=1, split=folds[0]),
            record(2, 20, seed=1, split=folds[1]),
        ]
    )
    assert row.accuracies == {0: pytest.approx(21 / 30), 1: pytest.approx(6 / 30)}  # not 0.55 and 0.25
    assert row.n == 2


def test_folds_of_a_column_each_have_samples_of_their_own() -> None:
    folds = [
        {"kind": "fold", "folds": 2, "fold": k, "column": "person", "samples": digest}
        for k, digest in enumerate(("0a", "1b"))
    ]
    rows = summarise([record(1, split=folds[0]), record(3, split=folds[1])])
    assert [row.accuracies for row in rows] == [{0: 0.2}]


def test_a_seed_without_all_its_folds_does_not_count() -> None:
    folds = [{"kind": "group", "column": "person", "value": value} for value in "12"]
    rows = summarise(
        [
            record(1, split=folds[0]),
            record(3, split=folds[1]),
            record(10, split=folds[0], seed=1),
            record(10, split=folds[0], model={"log": "mul"}),
        ]
    )
    assert rows[0].accuracies == {0: 0.2}
    assert rows[0].unfinished == (1,)
    assert rows[1].unfinished == (0,)
    assert math.isnan(rows[1].mean)
    assert rows[1].n == 0


def test_a_training_that_stopped_counts_with_its_last_whole_epoch() -> None:
    (row,) = summarise([record(8), stopped(3, "epoch 4: the loss is nan", seed=1)])
    assert row.accuracies == {0: 0.8, 1: pytest.approx(0.2)}  # 0.21, of ten samples
    assert row.stopped == ("epoch 4: the loss is nan",)
    (row,) = summarise([stopped(0, "epoch 1: singular")])
    assert row.mean == 0.0


def test_rows_keep_the_order_of_the_records_and_a_key_counts_once() -> None:
    rows = summarise([baseline(), record(), baseline(), record(2) | {"accuracy": 0.2}])
    assert [row.label for row in rows] == ["TangentSpace-AIM + logistic", "SPDNet"]
    assert [len(row.records) for row in rows] == [1, 1]
    assert rows[1].mean == 0.8
    assert rows[0].is_baseline
    assert rows[0].parameters is None


def test_a_section_is_a_data_set_and_a_kind_of_split() -> None:
    fold = {"kind": "fold", "folds": 2, "fold": 0}
    assert section_of(record()) == section_of(baseline(seed=3))
    assert section_of(record(split=fold)) == section_of(record(split=fold | {"fold": 1}))
    assert section_of(record(split=fold)) != section_of(record())


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_paired_test_is_that_of_scipy(n: int) -> None:
    draw = random.Random(n)
    a = {seed: draw.random() for seed in range(n)}
    b = {seed: value + 0.1 * draw.random() for seed, value in a.items()}
    found = paired_test(a | {99: 0.0}, b | {98: 1.0})
    expected = stats.ttest_rel(list(a.values()), list(b.values()))
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.n == n
    assert found.difference == pytest.approx(statistics.fmean(a.values()) - statistics.fmean(b.values()))


def test_equal_differences_give_no_nan() -> None:
    assert paired_test({0: 0.5, 1: 0.7}, {0: 0.5, 1: 0.7}).p == 1.0
    # 0.52 − 0.51 and 0.42 − 0.41 differ by rounding only.
    assert paired_test({0: 0.52, 1: 0.42, 2: 0.12}, {0: 0.51, 1: 0.41, 2: 0.11}).p == 0.0
    # One sample in a million is no rounding.
    assert 0.0 < paired_test({0: 0.52, 1: 0.42}, {0: 0.51, 1: 0.42 - 0.010001}).p < 1e-3


def test_one_shared_seed_is_too_few() -> None:
    with pytest.raises(ValueError, match="two shared seeds at least, got 1"):
        paired_test({0: 0.5, 1: 0.7}, {1: 0.5, 2: 0.7})


def test_without_scipy_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingPackageError, match="pip install scipy"):
        paired_test({0: 0.5, 1: 0.7}, {0: 0.5, 1: 0.6})
