from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from alem.data import DataError, dataset, load, save_blocks
from alem.linalg import InvalidMatrixError, NotPositiveDefiniteError

from .conftest import assert_same, spd


def test_blocks_are_read_as_one_data_set(tmp_path: Path) -> None:
    X, y = spd(123, 4), np.array(["b", "a", "c"] * 41)
    cuts = [0, 1, 60, 60, 123]
    parts = ((X[i:j], y[i:j]) for i, j in itertools.pairwise(cuts))
    assert save_blocks(parts, tmp_path / "new" / "store") == 123
    found = load(tmp_path / "new" / "store")
    assert_same(found, dataset("store", X.copy(), y))
    assert os.listdir(tmp_path / "new") == ["store"]
    assert isinstance(np.load(tmp_path / "new" / "store" / "matrices.npy", mmap_mode="r"), np.memmap)


def test_columns_names_split_and_classes(tmp_path: Path) -> None:
    X, y = spd(10, 3).astype(np.float32), np.arange(10) % 2
    whole = {
        "matrices": X,
        "labels": y,
        "names": np.array([f"trial {i}" for i in range(10)]),
        "train": y == 0,
        "subject": np.repeat(["A", "longer"], 5),
    }
    blocks = [{key: column[i : i + 4] for key, column in whole.items()} for i in range(0, 10, 4)]
    save_blocks(blocks, tmp_path / "store", classes=["rest", "task"])
    found = load(tmp_path / "store")
    assert found.classes == ("rest", "task")
    assert found.names[9] == "trial 9"
    assert found.train.tolist() == (y == 0).tolist()
    assert found.columns["subject"].tolist() == whole["subject"].tolist()
    assert found.matrices.numpy().tobytes() == X.tobytes()


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fails() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield spd(3, 2), np.zeros(3)
        raise RuntimeError("the sensor is gone")

    with pytest.raises(RuntimeError, match="sensor"):
        save_blocks(fails(), tmp_path / "store")
    assert os.listdir(tmp_path) == []


def test_what_goes_wrong_at_the_source_is_said_as_it_is(tmp_path: Path) -> None:
    def gone() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield spd(3, 2), np.zeros(3)
        raise FileNotFoundError(2, "No such file", "subject07.h5")

    with pytest.raises(FileNotFoundError, match=r"subject07\.h5"):
        save_blocks(gone(), tmp_path / "store")
    assert os.listdir(tmp_path) == []


def test_tensors_will_do_and_a_split_must_be_booleans(tmp_path: Path) -> None:
    X = torch.from_numpy(spd(3, 2)).requires_grad_()
    save_blocks([(X, torch.arange(3))], tmp_path / "store", classes=iter("abc"))
    assert load(tmp_path / "store").classes == ("a", "b", "c")
    block = {"matrices": X, "labels": np.arange(3), "train": np.arange(3)}
    with pytest.raises(DataError, match="train must be booleans"):
        save_blocks([block], tmp_path / "other")


def test_bad_matrices_are_named_by_their_place_among_all(tmp_path: Path) -> None:
    X, y = spd(20, 3), np.zeros(20)
    X[13, 0, 0] = np.nan
    with pytest.raises(InvalidMatrixError, match=r"store: matrix 13 .*NaN"):
        save_blocks([(X[:10], y[:10]), (X[10:], y[10:])], tmp_path / "store")
    X[13] = -np.eye(3)
    with pytest.raises((InvalidMatrixError, NotPositiveDefiniteError), match="matrix 13") as caught:
        save_blocks([(X[:10], y[:10]), (X[10:], y[10:])], tmp_path / "store")
    assert caught.value.index == (13,)
    assert os.listdir(tmp_path) == []


def test_deficient_matrices_are_written_as_they_are_and_regularised_when_read(tmp_path: Path) -> None:
    X = spd(4, 3)
    X[2] = np.ones((3, 3))
    save_blocks([(X, np.zeros(4))], tmp_path / "store")
    assert np.array_equal(np.load(tmp_path / "store" / "matrices.npy"), X)
    assert load(tmp_path / "store").repairs.deficient == (2,)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ((spd(3, 4), np.zeros(3)), r"matrix 5 has 4×4 .* before it are 3×3"),
        ((spd(3, 3).astype(np.float32), np.zeros(3)), r"of float32, those before it are 3×3 of float64"),
        ((spd(3, 3), np.zeros(2)), r"labels must be numbers or strings \(3,\)"),
        ((spd(3, 3), [None, 1, 2]), r"labels must be .*object"),
        ((spd(3, 3), [0, np.nan, 1]), r"labels are NaN"),
        ((spd(3, 3)[0], np.zeros(3)), r"matrices \(k, n, n\), got shape \(3, 3\)"),
        ({"matrices": spd(3, 3)}, r"no labels"),
        ({"matrices": spd(3, 3), "labels": np.zeros(3), "age": np.zeros(3)}, r"the same columns"),
        ({"labels": np.zeros(3)}, r"needs matrices"),
        ((spd(3, 3), ["a", "b", "c"]), r"labels is <U1, and float64 before it"),
        (spd(3, 3), r"at matrix 5 must be a pair .* got ndarray"),
        (None, r"must be a pair .* got NoneType"),
    ],
)
def test_blocks_that_do_not_fit_together(tmp_path: Path, block: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        save_blocks([(spd(5, 3), np.zeros(5)), block], tmp_path / "store")
    assert os.listdir(tmp_path) == []


def test_what_is_asked_for_must_make_sense(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no matrices to write"):
        save_blocks([], tmp_path / "store")
    with pytest.raises(DataError, match="labels go from 0 to 2, and there are 2 classes"):
        save_blocks([(spd(3, 2), np.arange(3))], tmp_path / "store", classes=["a", "b"])
    block = {"matrices": spd(3, 2), "labels": np.arange(3), "classes": np.arange(3)}
    with pytest.raises(DataError, match="cannot be called 'classes'"):
        save_blocks([block], tmp_path / "store")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "something").write_text("precious")
    with pytest.raises(DataError, match="exists already"):
        save_blocks([(spd(3, 2), np.zeros(3))], tmp_path / "store")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        save_blocks([(spd(3, 2), np.zeros(3))], tmp_path / "file" / "store")
    assert sorted(os.listdir(tmp_path)) == ["file", "store"]
