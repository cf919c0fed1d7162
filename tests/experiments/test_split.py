from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from alem.experiments import Split

from .conftest import small


def test_the_official_split_is_taken_as_it_is() -> None:
    dataset = small()
    train, test = Split("given").places(dataset, seed=4)
    assert dataset.train is not None
    assert torch.equal(train, dataset.train.nonzero().flatten())
    assert torch.equal(test, (~dataset.train).nonzero().flatten())


@pytest.mark.parametrize(
    "split", [Split("half"), Split("part"), Split("group", column="session", value="1-0")]
)
def test_every_sample_is_on_one_side(split: Split) -> None:
    dataset = small()
    train, test = split.places(dataset, seed=1)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(dataset)))


def test_halves_and_parts_follow_the_seed() -> None:
    dataset = small()
    for kind in ("half", "part"):
        first, again, other = (Split(kind).places(dataset, seed)[1] for seed in (0, 0, 1))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
    assert len(Split("half").places(dataset, 0)[0]) == 15


def test_a_part_has_a_fifth_of_each_class() -> None:
    dataset = small(samples=30)
    _, test = Split("part").places(dataset, 0)
    assert torch.bincount(dataset.labels[test]).tolist() == [2, 2, 2]


def test_small_classes_are_tested_too_and_never_whole() -> None:
    dataset = small(samples=31)
    labels = torch.tensor([0] * 10 + [1] + [2] * 3 + [3] * 17)
    dataset = replace(dataset, labels=labels, classes=tuple("abcd"))
    tested = torch.zeros(4)
    for seed in range(200):
        train, test = Split("part").places(dataset, seed)
        counts = torch.bincount(labels[test], minlength=4)
        assert counts[0] == 2
        assert counts[1] == 0, "the only sample of its class"
        assert len(test)
        assert set(labels[train].tolist()) == {0, 1, 2, 3}
        tested += counts
    assert tested[2] / 200 == pytest.approx(0.6, abs=0.12)
    assert tested[3] / 200 == pytest.approx(3.4, abs=0.12)


def test_folds_divide_the_training_samples_and_never_touch_the_test_set() -> None:
    dataset = small()
    assert dataset.train is not None
    official = set(dataset.train.nonzero().flatten().tolist())
    seen: list[int] = []
    for k in range(5):
        train, test = Split("fold", fold=k, folds=5).places(dataset, seed=k)
        assert set(train.tolist()) | set(test.tolist()) == official
        assert not set(train.tolist()) & set(test.tolist())
        seen += test.tolist()
    assert sorted(seen) == sorted(official), "each is tested on once"


def test_folds_of_a_column_keep_its_values_whole() -> None:
    dataset = small()
    assert dataset.train is not None
    subject = dataset.columns["subject"]
    tested: list[int] = []
    for k in range(3):  # of four subjects: the first and the last share a fold
        split = Split("fold", fold=k, folds=3, column="subject")
        train, test = split.places(dataset, seed=k)
        assert not set(subject[train.numpy()]) & set(subject[test.numpy()])
        assert set(subject[test.numpy()]) == ({0, 3} if k == 0 else {k})
        assert set(train.tolist()) | set(test.tolist()) == set(dataset.train.nonzero().flatten().tolist())
        tested += test.tolist()
    assert sorted(tested) == dataset.train.nonzero().flatten().tolist()
    with pytest.raises(ValueError, match="small has no column 'day'"):
        Split("fold", fold=0, folds=3, column="day").places(dataset, 0)


def test_the_folds_are_the_same_for_every_seed() -> None:
    dataset = small()
    a, b = (Split("fold", fold=1, folds=5).places(dataset, seed)[1] for seed in (0, 9))
    assert torch.equal(a, b)


def test_a_group_within_others() -> None:
    dataset = small()
    within = (("excluded", "False"), ("subject", "1"))
    train, test = Split("group", column="session", value="1-0", within=within).places(dataset, 0)
    subject, session = dataset.columns["subject"], dataset.columns["session"]
    assert {*subject[train.numpy()], *subject[test.numpy()]} == {1}
    assert set(session[test.numpy()]) == {"1-0"}
    assert set(session[train.numpy()]) == {"1-1"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Split("thirds"), "must be one of given, half, part, fold, group, got 'thirds'"),
        (lambda: Split("fold", fold=5, folds=5), "fold 5 of 5 does not exist"),
        (
            lambda: Split("group", column="day", value="1").places(small(), 0),
            "small has no column 'day'; it has subject, session, excluded",
        ),
        (
            lambda: Split("group", column="subject", value="7").places(small(), 0),
            "leaves nothing to test on",
        ),
        (
            lambda: Split("given").places(small().select(torch.arange(30) % 9 < 6), 0),
            "leaves nothing to test on",
        ),
    ],
)
def test_splits_that_make_no_sense(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()  # type: ignore[operator]


def test_only_what_differs_from_the_defaults_is_recorded() -> None:
    assert Split("given").config() == {"kind": "given"}
    assert Split("fold", fold=2, folds=5).config() == {"kind": "fold", "fold": 2, "folds": 5}
