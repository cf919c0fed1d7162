from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from alem.data import DataError
from alem.data.npy import read_header, read_npy

from .conftest import one_line
from .test_limits import announced


def test_damaged_npy_files_are_named(tmp_path: Path) -> None:
    good = tmp_path / "good.npy"
    np.save(good, np.eye(20))
    whole = good.read_bytes()
    for mapped in (False, True):
        np.testing.assert_array_equal(read_npy(good, mapped=mapped), np.eye(20))
        for content in (whole[:200], whole[:60], whole[:6], b"", b"text, not an array"):
            bad = tmp_path / "bad.npy"
            bad.write_bytes(content)
            with pytest.raises(DataError) as error:
                read_npy(bad, mapped=mapped)
            one_line(error, str(bad))


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(DataError, match=r"o\.npy: the array holds Python objects.*astype\(str\)"):
        read_npy(tmp_path / "o.npy")


def test_the_header_says_what_will_be_held(tmp_path: Path) -> None:
    for array, held in (
        (np.zeros((3, 4)), 3 * 4 * 8 + 3 * 128),
        (np.zeros(5, "i1"), 5 * 8 + 5 * 128),
        (np.array(["abc"]), 12 + 128),
        (np.array([b"abcd"]), 16 + 128),
        (np.array(1.0), 8 + 128),
    ):
        stream = io.BytesIO()
        np.save(stream, array)
        size = stream.tell()
        stream.seek(0)
        header = read_header(stream, size, Path("a"), "it")
        assert (header.shape, header.dtype, header.stored) == (array.shape, array.dtype, array.nbytes)
        assert header.held == held
        assert size == header.start + header.stored


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("mapped", [False, True])
def test_both_orders_are_read(tmp_path: Path, order: str, mapped: bool) -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    np.save(tmp_path / "a.npy", np.asarray(array, order=order))  # type: ignore[call-overload]
    read = read_npy(tmp_path / "a.npy", mapped=mapped)
    np.testing.assert_array_equal(read, array)
    read[0] = 0.0
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), array)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (announced("(" * 3000), "header that is damaged"),
        (announced("-" * 9000 + "1"), "header that is damaged"),
        (announced("(2,", "<f8"), "header that is damaged"),
        (announced("(2,)", "no type"), "header that is damaged"),
        (announced("(True, 2)"), "announces more numbers"),
        (announced("(-1,)"), "announces more numbers"),
        (announced("(4294967296, 4294967296)"), "announces more numbers"),
        (announced("(1000000000000,)", "<U0"), "asks for"),
        (announced("(1,)", "|V8", bytes(8)), "plain numbers or strings"),
        (announced("(1,)", "<U1", b"\xff" * 4), "text that is none"),
        (announced("(1,)")[:6] + b"\x03\x00" + announced("(1,)")[8:], "plain numbers have not"),
        (announced("(1,)")[:6] + b"\x09\x00" + announced("(1,)")[8:], "plain numbers have not"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(9000), "header that is damaged"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "a.npy"
    file.write_bytes(content)
    with pytest.raises(DataError) as error:
        read_npy(file)
    one_line(error, str(file), said)
    assert len(str(error.value)) < 400
