from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from alem.data import DataError, read_afew

from .conftest import one_line, spd

X = spd(5)


def released(root: Path) -> Path:
    """``spdface_400_inter_histeq``, smaller."""
    for i, name in enumerate(["train/1/b", "train/2/a", "train/10/a", "val/2/a", "val/1/c"]):
        file = root / f"{name}.mat"
        file.parent.mkdir(parents=True, exist_ok=True)
        savemat(file, {"Y1": X[i]})
    return root


def test_split_and_classes_are_the_folders(tmp_path: Path) -> None:
    d = read_afew(released(tmp_path / "afew"))
    assert d.name == "afew"
    assert d.names == ("train/1/b", "train/2/a", "train/10/a", "val/1/c", "val/2/a")
    assert d.classes == ("1", "2", "10")
    assert d.labels.tolist() == [0, 1, 2, 0, 1]
    assert d.train is not None
    assert d.train.tolist() == [True, True, True, False, False]
    np.testing.assert_array_equal(d.matrices.numpy(), X[[0, 1, 2, 4, 3]])


def test_the_variable_may_have_any_name_and_company_that_is_no_square_matrix(tmp_path: Path) -> None:
    root = released(tmp_path / "afew")
    savemat(root / "val" / "1" / "c.mat", {"C": X[4], "label": 3, "rows": np.ones((2, 3)), "who": "me"})
    np.testing.assert_array_equal(read_afew(root).matrices[3].numpy(), X[4])


def test_none_or_two_square_matrices_are_an_error(tmp_path: Path) -> None:
    root = released(tmp_path / "afew")
    bad = root / "val" / "1" / "c.mat"
    savemat(bad, {"A": X[0], "B": X[1]})
    with pytest.raises(DataError) as error:
        read_afew(root)
    one_line(error, str(bad), "holds 2 (A, B)")
    savemat(bad, {"label": 3})
    with pytest.raises(DataError) as error:
        read_afew(root)
    one_line(error, str(bad), "holds 0;")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    root = released(tmp_path / "afew")
    bad = root / "val" / "1" / "c.mat"
    whole = bad.read_bytes()
    for content in (b"", whole[:60], whole[:140], whole[:-40], b"no matlab file " * 30):
        bad.write_bytes(content)
        with pytest.raises(DataError) as error:
            read_afew(root)
        one_line(error, str(bad))


def test_the_format_7_3_is_named(tmp_path: Path) -> None:
    root = released(tmp_path / "afew")
    bad = root / "val" / "1" / "c.mat"
    # The header as MATLAB writes it: text, version 2.0, byte order; then HDF5.
    bad.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF\r\n\x1a\n" + bytes(512))
    with pytest.raises(DataError) as error:
        read_afew(root)
    one_line(error, str(bad), "7.3", "-v7")


def test_both_parts_of_the_split_must_be_there(tmp_path: Path) -> None:
    root = released(tmp_path / "afew")
    (root / "val").rename(tmp_path / "val")
    with pytest.raises(DataError, match="below train and below val"):
        read_afew(root)
    with pytest.raises(DataError, match=r"no \.mat files"):
        read_afew(tmp_path / "val" / "1")
