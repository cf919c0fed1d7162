from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alem import data
from alem.data import DataError, read_folder
from alem.data.folder import class_files, in_order

from .conftest import assert_same, one_line, spd

Y = np.array([2, 0, 1, 0, 2])


def stack(folder: Path, **arrays: object) -> Path:
    folder.mkdir(exist_ok=True)
    for key, array in {"matrices": spd(5), "labels": Y, **arrays}.items():
        np.save(folder / f"{key}.npy", np.asarray(array))
    return folder


def tree(root: Path, *names: str) -> Path:
    for i, name in enumerate(names):
        file = root / f"{name}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, spd(1, seed=i)[0])
    return root


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    d = read_folder(tree(tmp_path, "car/1", "train/1", "val/1"))
    assert d.classes == ("car", "train", "val")
    assert d.train is None


def test_two_sets_to_test_on_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has val and test, and one is to be tested on"):
        read_folder(tree(tmp_path, "train/a/1", "val/a/1", "test/a/1"))


def test_a_stack_with_everything(tmp_path: Path) -> None:
    root = stack(
        tmp_path / "set", train=Y > 0, names=list("abcde"), classes=["x", "y", "z"], subject=np.arange(5)
    )
    d = read_folder(root)
    assert d.name == "set"
    np.testing.assert_array_equal(d.matrices.numpy(), spd(5))
    assert d.labels.tolist() == Y.tolist()
    assert d.classes == ("x", "y", "z")
    assert d.names == tuple("abcde")
    assert d.train is not None
    assert d.train.tolist() == (Y > 0).tolist()
    assert d.columns["subject"].tolist() == list(range(5))


def test_a_stack_is_mapped_and_repairing_it_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    X = spd(5)
    X[1] = 0
    X[3] = 1
    root = stack(tmp_path / "set", matrices=X)
    before = (root / "matrices.npy").read_bytes()
    d = read_folder(root)
    maps = Path("/proc/self/maps")
    if maps.exists():
        # The address of the tensor lies in a piece of the file that is mapped, privately.
        address = d.matrices.data_ptr()
        lines = [line for line in maps.read_text().splitlines() if str(root / "matrices.npy") in line]
        ranges = [[int(x, 16) for x in line.split()[0].split("-")] for line in lines]
        assert any(low <= address < high for low, high in ranges)
        assert all(line.split()[1] == "rw-p" for line in lines)
    assert (d.repairs.zero, d.repairs.deficient) == ((1,), (3,))
    assert bool((torch.linalg.eigvalsh(d.matrices)[:, 0] > 0).all())
    assert (root / "matrices.npy").read_bytes() == before


def test_other_precisions_and_orders_are_read_right(tmp_path: Path) -> None:
    for X in (spd(5).astype("f4"), spd(5).astype(">f8"), np.asfortranarray(spd(5))):
        d = read_folder(stack(tmp_path / "set", matrices=X))
        np.testing.assert_array_equal(d.matrices.numpy(), X)
        assert len(d.fingerprint()) == 16


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"labels": Y[:4]}, "5 matrices and 4 labels"),
        ({"train": np.ones(6, bool)}, "6 entries of train"),
        ({"subject": np.ones(4)}, "4 entries of subject"),
        ({"rate": 5.0}, "rate is a single value"),
        ({"matrices": spd(5)[0]}, "(N, n, n)"),
    ],
)
def test_a_stack_that_does_not_match_names_the_folder(
    tmp_path: Path, arrays: dict[str, object], said: str
) -> None:
    root = stack(tmp_path / "set", **arrays)
    with pytest.raises(DataError) as error:
        read_folder(root)
    one_line(error, str(root), said)


def test_a_stack_without_labels_or_cut_short(tmp_path: Path) -> None:
    root = stack(tmp_path / "set")
    (root / "labels.npy").unlink()
    with pytest.raises(DataError, match=r"no labels\.npy"):
        read_folder(root)
    root = stack(tmp_path / "set")
    whole = (root / "matrices.npy").read_bytes()
    for content in (whole[:-100], whole[:100], b""):
        (root / "matrices.npy").write_bytes(content)
        with pytest.raises(DataError) as error:
            read_folder(root)
        one_line(error, str(root / "matrices.npy"))


def test_classes_from_folders_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "10/a", "2/b", "2/a")
    d = read_folder(root)
    assert d.classes == ("2", "10")
    assert d.names == ("2/a", "2/b", "10/a")
    assert d.labels.tolist() == [0, 0, 1]
    assert d.train is None
    np.testing.assert_array_equal(d.matrices.numpy(), np.concatenate([spd(1, seed=i) for i in (2, 1, 0)]))


@pytest.mark.parametrize("test", ["val", "test"])
def test_a_split_in_folders(tmp_path: Path, test: str) -> None:
    root = tree(tmp_path / "set", "train/up/1", "train/down/1", f"{test}/up/2")
    d = read_folder(root)
    assert d.classes == ("down", "up")
    assert d.names == ("train/down/1", "train/up/1", f"{test}/up/2")
    assert d.train is not None
    assert d.train.tolist() == [True, True, False]


def test_what_is_not_read_is_logged_and_hidden_files_are_not_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tree(tmp_path / "set", "a/1", "b/1")
    (root / "a" / ".DS_Store").write_text("")
    with caplog.at_level(logging.WARNING):
        assert len(read_folder(root)) == 2
    assert not caplog.records
    (root / "a" / "notes.txt").write_text("")
    with caplog.at_level(logging.WARNING):
        assert len(read_folder(root)) == 2
    assert "1 entries" in caplog.text


def test_sizes_that_differ_and_empty_folders(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "a/1")
    np.save(root / "a" / "2.npy", np.eye(3))
    with pytest.raises(DataError) as error:
        read_folder(root)
    one_line(error, str(root / "a" / "2.npy"), "3×3", "4×4")
    empty = tmp_path / "empty"
    empty.mkdir()
    for path in (empty, tmp_path / "none"):
        with pytest.raises(DataError) as error:
            class_files(path, ".npy")
        one_line(error, str(path))


@given(st.lists(st.integers(0, 10**6)))
def test_numbers_in_names_sort_by_value(numbers: list[int]) -> None:
    assert in_order(f"s{i}x" for i in numbers) == [f"s{i}x" for i in sorted(numbers)]


@given(st.lists(st.text(max_size=6)))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert sorted(in_order(names)) == sorted(names)
    assert in_order(reversed(names)) == in_order(names)


@pytest.mark.skipif(os.name != "posix", reason="names of files are text there")
@given(st.lists(st.binary(min_size=1, max_size=40), min_size=3, max_size=3))
def test_names_of_files_may_be_any_bytes(
    tmp_path_factory: pytest.TempPathFactory, raw: list[bytes]
) -> None:
    """Control characters, halves of characters, what is no text: the data set can be printed and saved."""
    root, kind, name = (os.fsdecode(b"x" + part.translate(bytes.maketrans(b"/\0", b"__"))) for part in raw)
    with tempfile.TemporaryDirectory(dir=tmp_path_factory.getbasetemp()) as base:
        folder = Path(base) / root / kind
        folder.mkdir(parents=True)
        np.save(folder / f"{name}.npy", spd(1)[0])
        read = read_folder(folder.parent)
        f"{read} {read.names} {read.classes}".encode()
        data.save(read, Path(base) / "a.npz")
        assert_same(data.load(Path(base) / "a.npz"), read)
        (folder / f"{name}.npy").write_bytes(b"x")
        with pytest.raises(DataError) as error:
            read_folder(folder.parent)
        one_line(error)
        str(error.value).encode()
