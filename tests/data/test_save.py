from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alem import data
from alem.data import DataError, load, save

from .conftest import assert_same, spd

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)


@st.composite
def data_sets(draw: st.DrawFn) -> data.Dataset:
    N, n = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    X = spd(N, n, draw(st.integers(0, 99))).astype(dtype)
    classes = draw(st.lists(WORDS, min_size=1, max_size=3, unique=True))
    labels = draw(st.lists(st.integers(0, len(classes) - 1), min_size=N, max_size=N))
    train = draw(st.none() | st.lists(st.booleans(), min_size=N, max_size=N))
    columns = draw(
        st.dictionaries(
            st.sampled_from(["subject", "file", "allow_pickle", "self", "a b"]), st.sampled_from("iUf")
        )
    )
    held: dict[str, Any] = {
        "i": np.arange(N),
        "U": np.array(draw(st.lists(WORDS, min_size=N, max_size=N))),
        "f": np.linspace(0, 1, N).astype(np.float32),
    }
    return data.dataset(
        "set", X, labels,
        classes=classes,
        names=draw(st.lists(WORDS, min_size=N, max_size=N)),
        train=None if train is None else np.array(train),
        columns={key: held[kind] for key, kind in columns.items()},
    )  # fmt: skip


@given(data_sets(), st.sampled_from(["set.npz", "set"]))
def test_what_is_saved_is_loaded(d: data.Dataset, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "new" / name
        save(d, target)
        back = load(target)
        assert_same(d, back)
        assert back.name == d.name
        assert back.fingerprint() == d.fingerprint()
        assert os.listdir(target.parent) == [name]


def small(seed: int = 0, **columns: Any) -> data.Dataset:
    return data.dataset("small", spd(3, seed=seed), [0, 1, 0], columns=columns)


def test_repaired_matrices_are_saved_as_they_are_now(tmp_path: Path) -> None:
    X = spd(3)
    X[1] = 0
    d = data.dataset("x", X, [0, 1, 0])
    save(d, tmp_path / "x.npz")
    back = load(tmp_path / "x.npz")
    assert d.repairs.zero == (1,)
    assert not back.repairs
    assert torch.equal(back.matrices, d.matrices)


def test_a_file_is_replaced_and_a_folder_is_not(tmp_path: Path) -> None:
    for name in ("a.npz", "a"):
        save(small(), tmp_path / name)
    save(small(1), tmp_path / "a.npz")
    assert_same(load(tmp_path / "a.npz"), small(1))
    with pytest.raises(DataError, match="exists already"):
        save(small(1), tmp_path / "a")
    assert_same(load(tmp_path / "a"), small())
    (tmp_path / "empty").mkdir()
    save(small(), tmp_path / "empty")
    assert_same(load(tmp_path / "empty"), small())


@pytest.mark.parametrize("name", ["a.npz", "a"])
def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "a.npz":
        save(small(), tmp_path / name)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    synced = []

    def full(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == (1 if name == "a.npz" else 3):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left on device"):
        save(small(1), tmp_path / name)
    assert synced
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    assert sorted(tmp_path.iterdir()) == sorted(before)


def test_a_name_that_the_store_uses_and_objects_are_refused(tmp_path: Path) -> None:
    for key in ("y", "train", "../up", ".hidden", ""):
        with pytest.raises(DataError, match="cannot be called"):
            save(small(**{key: np.arange(3)}), tmp_path / "a")
    with pytest.raises(DataError, match="column who holds objects"):
        save(small(who=np.array([{}, {}, {}], object)), tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file/a.npz", "file/a", "file"):
        with pytest.raises(DataError, match="file"):
            save(small(), tmp_path / name)
    assert (tmp_path / "file").read_text() == ""


def test_a_mapped_data_set_can_be_saved_again(tmp_path: Path) -> None:
    save(small(), tmp_path / "a")
    save(load(tmp_path / "a"), tmp_path / "b")
    save(load(tmp_path / "b").select(torch.tensor([True, False, True])), tmp_path / "c.npz")
    assert_same(load(tmp_path / "c.npz"), small().select(torch.tensor([True, False, True])))
