from __future__ import annotations

import tokenize
import zipfile
from pathlib import Path

import pytest

from alem.data.errors import DataError, naming, reading
from alem.linalg import InvalidMatrixError

from .conftest import one_line

FILE = Path("some") / "file.npz"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("two\nlines"),
        OSError("disk"),
        EOFError(),
        KeyError("y"),
        IndexError("range"),
        zipfile.BadZipFile("File is not a zip file"),
        RuntimeError("File 'X.npy' is encrypted, password required for extraction"),
        ZeroDivisionError("division by zero"),
        tokenize.TokenError("EOF in multi-line statement", (1, 2)),
        MemoryError(),
    ],
)
def test_what_a_damaged_file_raises_becomes_one_line(error: Exception) -> None:
    with pytest.raises(DataError) as raised, reading(FILE):
        raise error
    one_line(raised, str(FILE), "cannot be read", "fetch it again")
    assert raised.value.__suppress_context__


def test_a_missing_file_is_said_to_be_missing() -> None:
    with pytest.raises(DataError, match="does not exist"), reading(FILE):
        raise FileNotFoundError(2, "No such file or directory")


def test_a_defect_of_the_program_is_not_hidden() -> None:
    with pytest.raises(AttributeError), reading(FILE):
        raise AttributeError("a bug")


def test_errors_of_the_data_pass_reading_as_they_are() -> None:
    for kind in (DataError, InvalidMatrixError):
        with pytest.raises(kind, match=r"^said$"), reading(FILE):
            raise kind("said")


def test_naming_puts_the_file_first_once_and_keeps_the_place() -> None:
    with pytest.raises(DataError) as said, naming(FILE):
        raise DataError("wrong")
    assert str(said.value) == f"{FILE}: wrong"
    with pytest.raises(DataError) as again, naming(FILE):
        raise DataError(str(said.value))
    assert str(again.value) == f"{FILE}: wrong"
    with pytest.raises(InvalidMatrixError) as matrix, naming(FILE):
        raise InvalidMatrixError("wrong", (3,))
    assert matrix.value.index == (3,)
    assert str(FILE) in str(matrix.value)
