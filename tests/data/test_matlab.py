from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.io import loadmat, savemat

from alem.data import DataError
from alem.data.afew import read_mat

from .conftest import one_line, spd

X = spd(2)
KINDS = st.sampled_from(["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "c16", "?"])


def written(file: Path, variables: dict[str, Any], **options: Any) -> Path:
    savemat(file, variables, **options)
    return file


@given(
    st.integers(2, 5).flatmap(lambda n: hnp.arrays(KINDS.map(np.dtype), (n, n))),
    st.booleans(),
    st.sampled_from("54"),
)
def test_it_reads_what_scipy_reads(
    tmp_path_factory: pytest.TempPathFactory, array: Any, packed: bool, version: str
) -> None:
    if version == "4" and array.dtype.kind in "iu?":
        array = array.astype(np.float64)  # which is all that SciPy writes there
    if version == "4" and array.dtype.kind == "c":
        array = np.nan_to_num(array)  # of infinite ones SciPy makes NaN there
    file = tmp_path_factory.getbasetemp() / "a.mat"
    written(file, {"x": array, "row": np.ones((1, 3))}, do_compression=packed, format=version)
    expected = loadmat(file)["x"]
    found = read_mat(file)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype.kind in (expected.dtype.kind, "u" if expected.dtype.kind == "b" else "")


def test_files_of_the_other_byte_order(tmp_path: Path) -> None:
    flags = struct.pack(">IIII", 6, 8, 6, 0) + struct.pack(">IIii", 5, 8, 2, 2) + struct.pack(">I", 0x10001)
    numbers = struct.pack(">II", 9, 32) + struct.pack(">4d", 1, 2, 3, 4)
    element = flags + b"Y\0\0\0" + numbers
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI"
    file = tmp_path / "a.mat"
    file.write_bytes(head + struct.pack(">II", 14, len(element)) + element)
    np.testing.assert_array_equal(read_mat(file), [[1, 3], [2, 4]])


def test_what_is_no_matrix_of_numbers_is_not_looked_at(tmp_path: Path) -> None:
    cells: Any = np.array([1.0], dtype=object)
    for _ in range(50):
        cells = np.array([cells, "x"], dtype=object)
    company = {
        "Y": X[0],
        "deep": cells,
        "s": {"a": X[1]},
        "text": np.array(["ab", "cd"]),
        "sparse": _sparse(),
    }
    for packed in (False, True):
        file = written(tmp_path / "a.mat", company, do_compression=packed)
        np.testing.assert_array_equal(read_mat(file), X[0])


def _sparse() -> Any:
    from scipy import sparse

    return sparse.eye(5).tocsc()


def test_what_ended_the_process_in_scipy_is_an_error(tmp_path: Path) -> None:
    """A code of numbers beyond the table of codes, and cells within cells that never end."""
    stream = io.BytesIO()
    savemat(stream, {"Y": X[0]})
    whole = bytearray(stream.getvalue())
    place = whole.index(struct.pack("<II", 9, 128))
    for code in (0, 8, 14, 15, 18, 250, 60_000):
        whole[place : place + 2] = struct.pack("<H", code)
        file = tmp_path / "a.mat"
        file.write_bytes(whole)
        with pytest.raises(DataError) as error:
            read_mat(file)
        one_line(error, str(file))
    cell = struct.pack("<IIIIIIiiI", 14, 2**31, 6, 8, 1, 0, 5, 8, 1) + bytes(4) + struct.pack("<II", 1, 0)
    packed = zlib.compress(cell * 100_000)
    file.write_bytes(whole[:128] + struct.pack("<II", 15, len(packed)) + packed)
    with pytest.raises(DataError) as error:
        read_mat(file)
    one_line(error, str(file), "holds 0")


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_cut_anywhere_is_an_error(tmp_path: Path, packed: bool) -> None:
    whole = written(tmp_path / "a.mat", {"Y": X[0]}, do_compression=packed).read_bytes()
    for end in range(0, len(whole) - 8, 3):
        (tmp_path / "b.mat").write_bytes(whole[:end])
        with pytest.raises(DataError) as error:
            read_mat(tmp_path / "b.mat")
        one_line(error, "b.mat")
