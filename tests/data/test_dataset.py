from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from alem import data
from alem.data import DataError
from alem.linalg import InvalidMatrixError

from .conftest import one_line, spd


def small(**changes: Any) -> data.Dataset:
    given: dict[str, Any] = {
        "matrices": spd(5),
        "labels": ["b", "a", "b", "c", "a"],
        "names": list("vwxyz"),
        "train": np.array([True, True, False, False, True]),
        "columns": {"subject": np.arange(5)},
    } | changes
    return data.dataset("small", given.pop("matrices"), given.pop("labels"), **given)


def test_labels_become_places_among_the_sorted_classes() -> None:
    d = small()
    assert d.classes == ("a", "b", "c")
    assert d.labels.tolist() == [1, 0, 1, 2, 0]
    assert d.labels.dtype == torch.int64
    numbers = small(labels=[10, 2, 10, 3, 2])
    assert numbers.classes == ("2", "3", "10")  # by value, not by spelling
    assert numbers.labels.tolist() == [2, 0, 2, 1, 0]
    assert small(labels=np.array([b"b", b"a", b"b", b"c", b"a"])).classes == ("a", "b", "c")


def test_names_of_files_that_are_no_text_are_spelled_out() -> None:
    d = small(labels=["caf\udce9", "a", "a", "a", "a"], names=["\udcff", *"wxyz"])
    assert d.classes == ("a", "caf\\udce9")
    assert d.names[0] == "\\udcff"
    " ".join((*d.classes, *d.names)).encode()


def test_with_classes_the_labels_are_places() -> None:
    d = small(labels=torch.tensor([0, 1, 0, 3, 1]), classes=["p", "q", "r", "s"])
    assert d.classes == ("p", "q", "r", "s")
    assert d.labels.tolist() == [0, 1, 0, 3, 1]


def test_without_names_samples_are_numbered() -> None:
    assert small(names=None).names == ("0", "1", "2", "3", "4")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"labels": [1, 2]}, "5 matrices and 2 labels"),
        ({"labels": [[1], [2], [3], [4], [5]]}, "labels must be"),
        ({"labels": np.array([1, None, 2, 3, 4], object)}, "object"),
        ({"labels": [1.0, 2.0, np.nan, 1.0, 2.0]}, "NaN"),
        ({"labels": [0, 1, 2, 0, 1], "classes": ["a", "b"]}, "there are 2 classes"),
        ({"labels": [0, -1, 1, 0, 1], "classes": ["a", "b"]}, "from -1"),
        ({"labels": ["a"] * 5, "classes": ["a", "b"]}, "integers"),
        ({"names": ["v"]}, "1 entries of names"),
        ({"train": np.array([True])}, "1 entries of train"),
        ({"train": np.array([1, 0, 1, 0, 1])}, "booleans"),
        ({"train": np.ones((5, 1), bool)}, "booleans"),
        ({"columns": {"subject": np.arange(6)}}, "6 entries of subject"),
        ({"matrices": spd(5).astype(np.float16)}, "float32 or float64"),
        ({"matrices": spd(5)[0]}, "(N, n, n)"),
        ({"matrices": np.float64(1)}, "(N, n, n)"),
        ({"matrices": np.empty((0, 3, 3))}, "(0, 3, 3)"),
    ],
)
def test_what_does_not_match_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as error:
        small(**changes)
    one_line(error, "small", said)


def test_a_bad_matrix_is_named() -> None:
    X = spd(5)
    X[3, 0, 0] = np.nan
    with pytest.raises(InvalidMatrixError) as error:
        small(matrices=X)
    one_line(error, "small", "matrix 3 (y)")
    assert error.value.index == (3,)
    with pytest.raises(InvalidMatrixError, match="square"):
        small(matrices=np.ones((5, 2, 3)))


def test_select_takes_everything_along() -> None:
    X = spd(5)
    X[1] = 0
    X[3] = np.ones((4, 4))
    d = small(matrices=X)
    assert (d.repairs.zero, d.repairs.deficient) == ((1,), (3,))
    part = d.select(np.array([False, True, False, True, True]))
    assert len(part) == 3
    assert torch.equal(part.matrices, d.matrices[[1, 3, 4]])
    assert part.labels.tolist() == [0, 2, 0]
    assert part.names == ("w", "y", "z")
    assert part.classes == d.classes
    assert part.train is not None
    assert part.train.tolist() == [True, False, True]
    assert part.columns["subject"].tolist() == [1, 3, 4]
    assert (part.repairs.zero, part.repairs.deficient) == ((0,), (1,))
    assert d.select(d.labels == 0).repairs.zero == (0,)
    for wrong in (np.array([0, 1]), np.ones(4, bool)):
        with pytest.raises(ValueError, match="5 booleans"):
            d.select(wrong)


def test_the_fingerprint_changes_with_what_counts_and_with_nothing_else() -> None:
    X = spd(5)
    first = small(matrices=X.copy()).fingerprint()
    assert first == small(matrices=X.copy(), names=list("12345"), columns=None).fingerprint()
    assert len(first) == 16
    assert int(first, 16) >= 0
    moved = X.copy()
    moved[4, 2, 2] = np.nextafter(moved[4, 2, 2], 2)
    others = [
        small(matrices=moved),
        small(matrices=X.astype(np.float32)),
        small(matrices=X.copy(), labels=["b", "a", "b", "c", "c"]),
        small(matrices=X.copy(), train=None),
        small(matrices=X.copy(), train=np.array([[True, False]] * 5)[:, 1]),
    ]
    assert len({first, *(d.fingerprint() for d in others)}) == 6


def test_it_says_what_it_is() -> None:
    assert repr(small()) == "Dataset(small: 5 matrices 4×4, 3 classes, 3 for training)"
    assert repr(small(train=None)) == "Dataset(small: 5 matrices 4×4, 3 classes)"
    assert small().n == 4
