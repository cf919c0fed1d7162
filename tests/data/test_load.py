from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from alem import data
from alem.data import DataError, load
from alem.data.load import READERS

from . import test_afew, test_folder, test_fpha, test_hdm05, test_ntu60
from .conftest import one_line, spd


def layouts(tmp_path: Path) -> dict[str, Path]:
    made = {
        "stack": test_folder.stack(tmp_path / "stack"),
        "tree": test_folder.tree(tmp_path / "tree", "a/1", "b/1"),
        "split": test_folder.tree(tmp_path / "split", "train/a/1", "val/b/1"),
        "hdm05": test_hdm05.released(tmp_path / "hdm05"),
        "fpha": test_fpha.released(tmp_path / "fpha"),
        "afew": test_afew.released(tmp_path / "afew"),
        "ntu60": tmp_path / "ntu60",
    }
    made["ntu60"].mkdir()
    test_ntu60.written(
        made["ntu60"] / f"{test_ntu60.NAMES[0]}.skeleton",
        [{test_ntu60.FIRST: x} for x in test_ntu60.moving(0)],
    )
    return made


def test_each_layout_is_recognised(tmp_path: Path) -> None:
    readers = {"stack": "folder", "tree": "folder", "split": "folder"}
    for layout, path in layouts(tmp_path).items():
        reader = readers.get(layout, layout)
        named = load(path, reader)
        assert load(str(path)).fingerprint() == named.fingerprint()
        assert named.fingerprint() == READERS[reader].read(path).fingerprint()
        assert named.name == layout


def test_options_reach_the_reader_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    paths = layouts(tmp_path)
    assert load(paths["ntu60"], centre_joint=0).n == 72
    for source, options, said in (
        (paths["ntu60"], {"window": 3}, "reader ntu60 has no option window; it has protocol, skip"),
        (paths["hdm05"], {"loading": 0.0}, "reader hdm05 has no option loading; it has none"),
        ("digits", {"loading": 0.0}, "digits has no option loading"),
    ):
        with pytest.raises(DataError) as error:
            load(source, **options)
        one_line(error, said)


def test_an_unknown_reader_and_a_missing_path(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load(tmp_path, "hdm5")
    one_line(error, "hdm5", *READERS)
    with pytest.raises(DataError) as error:
        load(tmp_path / "none")
    one_line(error, str(tmp_path / "none"), "does not exist", "digits")


def test_nothing_recognised_says_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("")
    (tmp_path / "sub").mkdir()
    with pytest.raises(DataError) as error:
        load(tmp_path)
    one_line(error, str(tmp_path), "matrices.npy", "*.skeleton", "*.mat", "Hand_pose", "_<class>.npy")


def test_the_wrong_reader_is_one_line(tmp_path: Path) -> None:
    paths = layouts(tmp_path)
    file = tmp_path / "some.npz"
    data.save(load(paths["stack"]), file)
    for layout, path in (paths | {"npz": file}).items():
        for name in READERS:
            right = layout == name or (name == "folder" and layout in ("stack", "tree", "split"))
            if right:
                continue
            with pytest.raises(DataError) as error:
                load(path, name)
            one_line(error, str(path))


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", spd(2))
    savemat(tmp_path / "a.mat", {"Y1": spd(1)[0]})
    for name in ("a.npy", "a.mat"):
        with pytest.raises(DataError, match=r"no \.npz archive"):
            load(tmp_path / name)
