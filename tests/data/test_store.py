from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from alem import data
from alem.data import DataError, read_npz
from alem.linalg import InvalidMatrixError, covariance

from .conftest import one_line, shared, spd, triu

Y = np.array([2, 0, 1, 0, 2])


def write(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("key", ["triu", "matrices", "X"])
@pytest.mark.parametrize("labels", ["y", "labels"])
def test_matrices_under_each_name(tmp_path: Path, key: str, labels: str) -> None:
    X = spd(5)
    file = write(
        tmp_path / "some_cov.npz",
        **{key: triu(X) if key == "triu" else X, labels: Y},
        train=Y > 0,
        names=np.array(list("abcde")),
        subject=np.arange(5),
    )
    d = read_npz(str(file))
    assert d.name == "some"
    np.testing.assert_array_equal(d.matrices.numpy(), X)
    assert d.labels.tolist() == Y.tolist()
    assert d.classes == ("0", "1", "2")
    assert d.names == tuple("abcde")
    assert d.train is not None
    assert d.train.tolist() == (Y > 0).tolist()
    assert list(d.columns) == ["subject"]
    assert d.columns["subject"].tolist() == [0, 1, 2, 3, 4]


def test_classes_may_be_given_and_need_not_all_occur(tmp_path: Path) -> None:
    file = write(tmp_path / "a.npz", matrices=spd(5), y=Y, classes=np.array(list("wxyz")))
    assert read_npz(file).classes == tuple("wxyz")


def test_the_precision_of_matrices_stays_and_integers_become_doubles(tmp_path: Path) -> None:
    for dtype, expected in (("f4", torch.float32), (">f8", torch.float64), ("i4", torch.float64)):
        file = write(tmp_path / "a.npz", matrices=np.stack([np.eye(2, dtype=dtype)] * 5), y=Y)
        assert read_npz(file).matrices.dtype == expected


def test_sequences_become_covariances_in_double_precision(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frames = rng.standard_normal((50, 3)).astype(np.float32)
    offsets = np.array([0, 10, 15, 30, 32, 50])
    file = write(tmp_path / "walk_seq.npz", frames=frames, offsets=offsets, y=Y, train=Y > 0)
    d = read_npz(file)
    assert d.name == "walk"
    assert d.matrices.dtype == torch.float64
    for i in range(5):
        x = frames[offsets[i] : offsets[i + 1]].astype(np.float64)
        C = np.cov(x.T, bias=True)
        np.testing.assert_allclose(d.matrices[i], C + 1e-3 * np.trace(C) * np.eye(3), rtol=1e-10)
    bare = read_npz(file, loading=0.0, shrinkage=0.5)
    C = np.cov(frames[:10].astype(np.float64).T, bias=True)
    np.testing.assert_allclose(bare.matrices[0], C / 2 + np.trace(C) / 6 * np.eye(3), rtol=1e-10)


def test_windows_of_sequences_carry_labels_split_and_columns(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).standard_normal((24, 2))
    file = write(
        tmp_path / "a.npz", frames=frames, offsets=[0, 8, 24], y=[1, 0], train=[True, False], s=["p", "q"]
    )
    d = read_npz(file, window=8)
    assert d.names == ("0[0:8]", "1[0:8]", "1[8:16]")
    assert d.labels.tolist() == [1, 0, 0]
    assert d.train is not None
    assert d.train.tolist() == [True, False, False]
    assert d.columns["s"].tolist() == ["p", "q", "q"]
    assert len(read_npz(file, window=8, stride=4)) == 4


def test_centring_on_a_joint(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).standard_normal((20, 4, 3))
    file = write(tmp_path / "a.npz", frames=frames, offsets=[0, 20], y=[0])
    d = read_npz(file, centre_joint=1, loading=0.0)
    x = np.concatenate([frames[:, j] - frames[:, 1] for j in (0, 2, 3)], axis=1)
    np.testing.assert_allclose(d.matrices[0], np.cov(x.T, bias=True), atol=1e-12)
    assert read_npz(file).n == 12
    with pytest.raises(DataError, match="centre_joint=4"):
        read_npz(file, centre_joint=4)


GOOD: dict[str, Any] = {"matrices": spd(5), "y": Y}


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"y": Y}, "must hold one of the arrays triu"),
        ({"matrices": spd(5)}, "must hold one of the arrays y"),
        ({**GOOD, "triu": triu(spd(5))}, "must hold one of"),
        ({**GOOD, "labels": Y}, "must hold one of"),
        ({}, "it holds nothing"),
        ({"matrices": spd(4), "y": Y}, "4 matrices and 5 labels"),
        ({**GOOD, "train": np.ones(4, bool)}, "4 entries of train"),
        ({**GOOD, "subject": np.ones(6)}, "6 entries of subject"),
        ({**GOOD, "offsets": np.arange(6)}, "6 entries of offsets"),
        ({**GOOD, "rate": 50.0}, "rate is a single value"),
        ({"matrices": spd(5), "y": 3}, "labels must be"),
        ({"triu": np.ones((5, 4)), "y": Y}, "(5, 4)"),
        ({"matrices": spd(5)[0], "y": Y}, "(N, n, n)"),
        ({"matrices": np.empty((0, 2, 2)), "y": np.empty(0, int)}, "(0, 2, 2)"),
        ({"matrices": np.array([["a"]]), "y": Y}, "not numbers"),
        ({"frames": np.ones((9, 2)), "y": [0]}, "need offsets"),
        ({"frames": np.ones((9, 2)), "offsets": [0, 8], "y": [0]}, "from 0 to 8"),
        ({"frames": np.ones((9, 2)), "offsets": [0, 5, 3, 9], "y": [0, 1, 2]}, "must rise"),
        ({"frames": np.ones((9, 2)), "offsets": [0.0, 9.0], "y": [0]}, "integers"),
        ({"frames": np.ones(9), "offsets": [0, 9], "y": [0]}, "(T, channels)"),
        (
            {"frames": np.ones((9, 2)), "offsets": [0, 9], "y": [0, 1]},
            "1 sequences and 2 entries of labels",
        ),
        ({"frames": np.ones((9, 2)), "offsets": [0, 9], "y": 0}, "labels must be one for each sequence"),
        ({"frames": np.ones((9, 2)), "offsets": [0, 8, 9], "y": [0, 1]}, "sequence 1 has 1 samples"),
    ],
)
def test_what_does_not_fit_names_the_file(tmp_path: Path, arrays: dict[str, Any], said: str) -> None:
    file = write(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DataError) as error:
        read_npz(file)
    one_line(error, str(file), said)


def test_bad_matrices_name_file_and_sample(tmp_path: Path) -> None:
    for at, value in (((2, 0, 0), np.nan), ((2, 0, 0), -5.0), ((2, 0, 1), 7.0)):
        X = spd(5)
        X[at] = value
        file = write(tmp_path / "bad.npz", matrices=X, y=Y, names=list("abcde"))
        with pytest.raises(InvalidMatrixError) as error:
            read_npz(file)
        one_line(error, str(file), "matrix 2 (c)")
    file = write(tmp_path / "bad.npz", matrices=np.ones((5, 2, 3)), y=Y)
    with pytest.raises(InvalidMatrixError, match=r"bad\.npz.*\(5, 2, 3\)"):
        read_npz(file)
    frames = np.random.default_rng(0).standard_normal((20, 2))
    frames[13, 1] = np.inf
    file = write(tmp_path / "bad.npz", frames=frames, offsets=[0, 10, 20], y=[0, 1])
    with pytest.raises(InvalidMatrixError, match=r"bad\.npz.*sequence 1.*channel 1.*sample 3"):
        read_npz(file)


def test_options_for_sequences_are_refused_for_matrices(tmp_path: Path) -> None:
    file = write(tmp_path / "a.npz", **GOOD)
    for option in ({"loading": 0.0}, {"shrinkage": "oas"}, {"centre_joint": 0}, {"window": 3}):
        with pytest.raises(DataError) as error:
            read_npz(file, **option)  # type: ignore[arg-type]
        one_line(error, str(file), next(iter(option)))


def test_damaged_archives_are_one_line(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.npz", **GOOD).read_bytes()
    middle = len(whole) // 2
    flipped = whole[:200] + bytes(255 - b for b in whole[200:260]) + whole[260:]
    for content in (b"", b"PK", whole[:middle], whole[:-5], flipped, b"text"):
        bad = tmp_path / "bad.npz"
        bad.write_bytes(content)
        with pytest.raises(DataError) as error:
            read_npz(bad)
        one_line(error, str(bad))


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/y.npy",
        "/y.npy",
        "..\\y.npy",
        "y\x1b[2J.npy",
        "y\u202e.npy",
        "y",
        "readme.txt",
        ".npy",
        "",
    ],
)
def test_names_in_archives_are_names_of_arrays(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / "a.npz", **GOOD)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), archive.read("y.npy"))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError) as error:
        read_npz(file)
    one_line(error, str(file), "no name of an array")
    assert str(error.value).isprintable()
    assert sorted(tmp_path.rglob("*")) == before


def test_an_array_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a.npz", **GOOD)
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("y.npy", archive.read("y.npy"))
    with pytest.raises(DataError, match="holds an array twice"):
        read_npz(file)


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_what_numpy_packs_is_unpacked(tmp_path: Path, packing: int) -> None:
    stream = write(tmp_path / "a.npz", **GOOD)
    with zipfile.ZipFile(stream) as archive, zipfile.ZipFile(tmp_path / "b.npz", "w", packing) as other:
        for info in archive.infolist():
            other.writestr(info.filename, archive.read(info))
    with pytest.raises(DataError, match="packed as NumPy does not"):
        read_npz(tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train": np.array(list("abcde"))}, "train must be booleans"),
        ({"train": np.ones((5, 1), bool)}, "train must be booleans"),
        ({"y": np.array([b"\xff"] * 5)}, "labels are bytes that are no text"),
        ({"names": np.array([b"\xff"] * 5)}, "names are bytes that are no text"),
        ({"names": np.array([["a"]] * 5)}, "names must be one for each"),
        ({"classes": np.array([["a"]])}, "classes must be one for each"),
        ({"matrices": np.full((5, 2, 2), np.finfo(np.longdouble).max)}, "NaN or infinite"),
    ],
)
def test_what_was_found_by_changing_good_files(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    file = write(tmp_path / "a.npz", **{**GOOD, **changes})
    with pytest.raises((DataError, InvalidMatrixError)) as error:
        read_npz(file)
    one_line(error, str(file), said)


def test_bytes_that_are_text_are_names(tmp_path: Path) -> None:
    names = np.array([f"ü{i}".encode() for i in range(5)])
    assert read_npz(write(tmp_path / "a.npz", **GOOD, names=names)).names[1] == "ü1"


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    file = write(tmp_path / "a.npz", matrices=spd(1), y=np.array([{}], object))
    with pytest.raises(DataError, match=r"a\.npz: array y holds Python objects"):
        read_npz(file)


def test_a_folder_or_nothing_at_the_path(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.npz"):
        with pytest.raises(DataError) as error:
            read_npz(path)
        one_line(error, str(path))


@pytest.mark.parametrize(
    ("file", "N", "classes", "n", "training"),
    [
        ("fpha_cov.npz", 1175, 45, 63, 600),
        ("ssvep_cov.npz", 1056, 4, 24, None),
        ("natops_seq.npz", 360, 6, 24, 180),
        ("articularywordrecognition_seq.npz", 575, 25, 9, 275),
        ("japanesevowels_seq.npz", 640, 9, 12, 270),
    ],
)
def test_the_shared_files(file: str, N: int, classes: int, n: int, training: int | None) -> None:
    d = read_npz(shared(file))
    assert d.name == file.split("_")[0]
    assert (len(d), len(d.classes), d.n) == (N, classes, n)
    assert (None if d.train is None else int(d.train.sum())) == training
    assert d.matrices.dtype == torch.float64


def test_the_shared_utd_mhad_as_it_is_to_be_used() -> None:
    path = shared("utdmhad_seq.npz")
    d = read_npz(path, centre_joint=2)
    assert (len(d), len(d.classes), d.n) == (861, 27, 57)
    assert d.train is not None
    assert torch.equal(d.train, torch.from_numpy(d.columns["subject"] % 2 == 1))
    with np.load(path) as arrays:
        x = arrays["frames"][: arrays["offsets"][1]].astype(np.float64)
    x = np.delete(x - x[:, 2:3], 2, axis=1).reshape(len(x), -1)
    expected = covariance(torch.from_numpy(x.T.copy()), loading=1e-3)
    torch.testing.assert_close(d.matrices[0], expected)
    assert not d.repairs


def test_load_is_the_same_door() -> None:
    path = shared("natops_seq.npz")
    assert data.load(path).fingerprint() == read_npz(path).fingerprint()
