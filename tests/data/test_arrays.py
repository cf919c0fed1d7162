from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from alem.data.arrays import real, square, stacked, unpack
from alem.data.errors import DataError

from .conftest import one_line, spd, triu

FILE = Path("a.npy")


@given(st.integers(1, 7), st.integers(0, 5), st.sampled_from([np.float32, np.float64]))
def test_a_packed_triangle_unpacks_row_by_row(n: int, count: int, dtype: type) -> None:
    X = spd(count, n).astype(dtype)
    packed = triu(X) if count else np.empty((0, n * (n + 1) // 2), dtype)
    back = unpack(packed, FILE)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, X)


@pytest.mark.parametrize("shape", [(2, 4), (2, 0), (3,), (2, 2, 2)])
def test_what_is_no_triangle_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError) as error:
        unpack(np.ones(shape), FILE)
    one_line(error, "a.npy", str(shape))


def test_native_floats_are_not_copied() -> None:
    for dtype in (np.float32, np.float64):
        x = np.ones((2, 2), dtype)
        assert real(x, FILE) is x


def test_other_numbers_become_doubles() -> None:
    for x in (np.eye(2, dtype=np.int16), np.eye(2, dtype=np.float16), np.eye(2, dtype=">f8")):
        got = real(x, FILE)
        assert got.dtype == np.dtype("=f8")
        np.testing.assert_array_equal(got, np.eye(2))


def test_an_imaginary_part_passes_if_it_is_rounding() -> None:
    x = np.eye(2) + 0j
    np.testing.assert_array_equal(real(x, FILE), np.eye(2))
    assert real(x.astype(np.complex64), FILE).dtype == np.float32
    x[0, 1] = 0.9e-10j
    np.testing.assert_array_equal(real(x, FILE), np.eye(2))
    x[0, 1] = 1.1e-10j
    with pytest.raises(DataError) as error:
        real(x, FILE)
    one_line(error, "a.npy", "1.1e-10")


def test_strings_are_no_matrix() -> None:
    with pytest.raises(DataError, match="not numbers"):
        real(np.array([["a"]]), FILE)


@pytest.mark.parametrize("shape", [(2, 3), (2,), (2, 2, 2), (0, 0)])
def test_what_is_not_square_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError) as error:
        square(np.ones(shape), FILE)
    one_line(error, "a.npy", str(shape))


def test_leading_ones_are_dropped() -> None:
    assert square(np.ones((1, 1, 3, 3)), FILE).shape == (3, 3)


def test_one_double_makes_the_stack_double_and_keeps_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    X = spd(3)
    held = [X[0].astype(np.float32), X[1], X[2].astype(np.float32)]
    files = [Path(str(i)) for i in range(3)]
    fresh = np.empty

    def poisoned(shape: tuple[int, ...], dtype: type = float) -> NDArray[Any]:
        array = fresh(shape, dtype)
        if array.size:
            array.view(np.uint32)[:] = 0x7FA00000  # what memory may hold: a NaN that must not be touched
        return array

    monkeypatch.setattr(np, "empty", poisoned)
    got = stacked(files, lambda file: held[int(file.name)])
    assert got.dtype == np.float64
    for matrix, expected in zip(got, held, strict=True):
        np.testing.assert_array_equal(matrix, expected)
    assert stacked(files[:1], lambda file: held[0]).dtype == np.float32


def test_another_size_in_the_stack_names_the_file() -> None:
    held = {"a": np.eye(3), "b": np.eye(2)}
    with pytest.raises(DataError) as error:
        stacked([Path("a"), Path("b")], lambda file: held[file.name])
    one_line(error, "b is 2×2", "3×3")
