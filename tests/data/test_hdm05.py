from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from alem.data import DataError, read_hdm05
from alem.linalg import InvalidMatrixError

from .conftest import one_line, spd

X = spd(4)


def released(root: Path) -> Path:
    """In the ways the released files were seen: real, complex, with a leading 1."""
    root.mkdir()
    np.save(root / "10_1_7.npy", X[0])
    np.save(root / "2_1_12.npy", X[1].astype(complex))
    np.save(root / "2_10_0.npy", X[2][None])
    np.save(root / "a_b_7.npy", X[3].astype(complex)[None])
    return root


def test_the_class_is_the_number_at_the_end(tmp_path: Path) -> None:
    d = read_hdm05(released(tmp_path / "hdm05"))
    assert d.name == "hdm05"
    assert d.names == ("2_1_12", "2_10_0", "10_1_7", "a_b_7")
    assert d.classes == ("0", "7", "12")
    assert d.labels.tolist() == [2, 0, 1, 1]
    np.testing.assert_array_equal(d.matrices.numpy(), X[[1, 2, 0, 3]])
    assert d.matrices.dtype == torch.float64
    assert d.train is None


@pytest.mark.parametrize("name", ["noclass", "1_x", "1_2.old", "1_2_", "5"])
def test_a_name_without_class_is_an_error(tmp_path: Path, name: str) -> None:
    root = released(tmp_path / "hdm05")
    np.save(root / f"{name}.npy", X[0])
    with pytest.raises(DataError) as error:
        read_hdm05(root)
    one_line(error, str(root / f"{name}.npy"), "no class")


def test_wrong_files_are_named(tmp_path: Path) -> None:
    root = released(tmp_path / "hdm05")
    bad = root / "11_1_7.npy"
    np.save(bad, np.eye(4) + 1j)
    with pytest.raises(DataError, match=r"11_1_7.*imaginary"):
        read_hdm05(root)
    np.save(bad, np.eye(3))
    with pytest.raises(DataError, match=r"11_1_7\.npy is 3×3"):
        read_hdm05(root)
    np.save(bad, X[0])
    bad.write_bytes(bad.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"11_1_7\.npy: the array announces more numbers"):
        read_hdm05(root)
    np.save(bad, np.diag([1.0, 1, 1, -1]))
    with pytest.raises(InvalidMatrixError) as error:
        read_hdm05(root)
    one_line(error, str(root), "11_1_7", "-1")


def test_other_files_are_logged_and_an_empty_folder_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = released(tmp_path / "hdm05")
    (root / "readme.txt").write_text("")
    with caplog.at_level(logging.WARNING):
        assert len(read_hdm05(root)) == 4
    assert "1 entries" in caplog.text
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "none", root / "readme.txt"):
        with pytest.raises(DataError) as error:
            read_hdm05(path)
        one_line(error, str(path))


def test_a_class_of_more_digits_than_a_number_has_is_none(tmp_path: Path) -> None:
    root = released(tmp_path / "hdm05")
    np.save(root / f"a_{'9' * 30}.npy", X[0])
    with pytest.raises(DataError, match="no class in the name"):
        read_hdm05(root)
