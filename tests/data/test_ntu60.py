from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from alem.data import DataError, read_ntu60
from alem.data.ntu60 import TRAINING_SUBJECTS, numbers_of, read_bodies, read_skipped
from alem.linalg import InvalidMatrixError

from .conftest import one_line

# As Kinect numbers bodies: they differ in less than a double holds.
FIRST, SECOND = "72057594037944738", "72057594037944739"
NAMES = [
    "S001C001P001R001A001",
    "S001C002P003R001A060",
    "S017C003P040R002A024",
    "S002C001P008R001A002",
]

Frame = dict[str, NDArray[np.float64]]


def moving(seed: int, T: int = 100, size: float = 1.0) -> NDArray[np.float64]:
    return np.round(size * np.random.default_rng(seed).standard_normal((T, 25, 3)), 6)


def written(file: Path, frames: list[Frame]) -> None:
    lines = [str(len(frames))]
    for frame in frames:
        lines.append(str(len(frame)))
        for body, joints in frame.items():
            lines += [f"{body} 0 1 1 1 1 0 0.02764709 0.05745083 2", "25"]
            for x, y, z in joints:
                lines.append(
                    f"{x:.6f} {y:.6f} {z:.6f} 277.4191 191.8218 1036.233 519.1677 -0.21 0.04 0.97 -0.03 2"
                )
    file.write_text("\n".join(lines) + "\n")


def covariance(x: NDArray[np.float64], loading: float = 1e-3) -> NDArray[np.float64]:
    C = np.cov(x.reshape(len(x), -1).T, bias=True)
    return C + loading * np.trace(C) * np.eye(len(C))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "nturgb+d_skeletons"
    folder.mkdir()
    for seed, name in enumerate(NAMES):
        written(folder / f"{name}.skeleton", [{FIRST: x} for x in moving(seed)])
    return folder


def test_covariances_classes_and_columns(root: Path) -> None:
    d = read_ntu60(root)
    order = [NAMES.index(name) for name in d.names]
    assert order == [0, 1, 3, 2]
    for i, seed in enumerate(order):
        np.testing.assert_allclose(d.matrices[i], covariance(moving(seed)), atol=1e-10)
    assert d.labels.tolist() == [0, 59, 1, 23]
    assert len(d.classes) == 60
    assert (d.classes[0], d.classes[59]) == ("A001", "A060")
    assert {key: column.tolist() for key, column in d.columns.items()} == {
        "setup": [1, 1, 2, 17],
        "camera": [1, 2, 1, 3],
        "subject": [1, 3, 8, 40],
        "repetition": [1, 1, 1, 2],
    }
    np.testing.assert_allclose(
        read_ntu60(root, loading=0.0).matrices[0], covariance(moving(0), 0.0), atol=1e-10
    )


def test_the_two_protocols(root: Path) -> None:
    view, subject = read_ntu60(root), read_ntu60(root, protocol="cross-subject")
    assert view.train is not None
    assert view.train.tolist() == [False, True, False, True]
    assert subject.train is not None
    assert subject.train.tolist() == [True, False, True, False]
    assert len(set(TRAINING_SUBJECTS)) == 20
    with pytest.raises(ValueError, match="cross-view or cross-subject"):
        read_ntu60(root, protocol="xsub")


def test_of_two_bodies_the_one_that_moves_most_where_it_is_there(root: Path) -> None:
    still, lively = moving(7, 100, 0.1) + 5.0, moving(8, 60)
    frames: list[Frame] = [{FIRST: x} for x in still]
    for t, x in enumerate(lively):
        frames[t + 20] = {FIRST: frames[t + 20][FIRST], SECOND: x}
    frames[3:3] = [{}, {}]
    file = root / f"{NAMES[0]}.skeleton"
    written(file, frames)
    bodies = read_bodies(file)
    np.testing.assert_array_equal(bodies[0], np.round(still, 6))
    np.testing.assert_array_equal(bodies[1], lively)
    np.testing.assert_allclose(read_ntu60(root).matrices[0], covariance(lively), atol=1e-10)


def test_a_body_of_one_frame_is_not_taken(root: Path) -> None:
    frames: list[Frame] = [{FIRST: x} for x in moving(0)]
    frames[5] = {**frames[5], SECOND: 100 * moving(1)[0]}
    written(root / f"{NAMES[0]}.skeleton", frames)
    np.testing.assert_allclose(read_ntu60(root).matrices[0], covariance(moving(0)), atol=1e-10)


def test_files_without_a_body_are_left_out_and_counted(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        read_ntu60(root)
    assert not caplog.records
    written(root / f"{NAMES[0]}.skeleton", [])
    written(root / f"{NAMES[1]}.skeleton", [{}, {FIRST: moving(0)[0]}, {}])
    with caplog.at_level(logging.WARNING):
        d = read_ntu60(root)
    assert d.names == (NAMES[3], NAMES[2])
    assert d.labels.tolist() == [1, 23]
    assert "of 4 files 0 were left out by the list and 2 because no body" in caplog.text
    for name in NAMES[2:]:
        written(root / f"{name}.skeleton", [])
    with pytest.raises(DataError, match="no file is left"):
        read_ntu60(root)


def test_the_published_list_is_left_out(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    skip = root.parent / "missing.txt"
    skip.write_text(
        f"4 samples have missing or incomplete skeleton data.\n\n{NAMES[2]}\nS001C002P005R002A008\n"
    )
    assert read_skipped(skip) == {NAMES[2], "S001C002P005R002A008"}
    (root / f"{NAMES[2]}.skeleton").write_text("cut")
    with caplog.at_level(logging.WARNING):
        assert read_ntu60(root, skip=skip).names == (NAMES[0], NAMES[1], NAMES[3])
    assert "1 were left out by the list" in caplog.text
    skip.write_text("nothing")
    for path in (skip, root.parent / "none.txt"):
        with pytest.raises(DataError) as error:
            read_ntu60(root, skip=path)
        one_line(error, str(path))


def test_centring_on_a_joint(root: Path) -> None:
    x = moving(0)
    x = np.delete(x - x[:, 1:2], 1, axis=1)
    d = read_ntu60(root, centre_joint=1)
    assert d.n == 72
    np.testing.assert_allclose(d.matrices[0], covariance(x), atol=1e-10)
    with pytest.raises(DataError, match="centre_joint=25"):
        read_ntu60(root, centre_joint=25)


def test_short_sequences_are_deficient_without_loading(root: Path) -> None:
    written(root / f"{NAMES[0]}.skeleton", [{FIRST: x} for x in moving(0, 10)])
    assert read_ntu60(root, loading=0.0).repairs.deficient == (0,)
    assert not read_ntu60(root).repairs
    assert not read_ntu60(root, loading=0.0, shrinkage="oas").repairs


def test_files_that_are_damaged_are_named(root: Path) -> None:
    file = root / f"{NAMES[1]}.skeleton"
    text = file.read_text()
    words = text.split("\n")
    for bad in (
        "",
        "100\n",
        text[: len(text) // 2],
        text[:-30],
        text + "1\n",
        text.replace("\n25\n", "\n24\n", 1),
        text.replace(words[4], words[4].replace(".", "x", 1), 1),
        "many" + text,
        "é",
    ):
        file.write_text(bad, "utf-8")
        with pytest.raises(DataError) as error:
            read_ntu60(root)
        one_line(error, str(file))
    frames: list[Frame] = [{FIRST: x.copy()} for x in moving(0)]
    frames[4][FIRST][3, 1] = np.nan
    written(file, frames)
    with pytest.raises(InvalidMatrixError) as matrix:
        read_ntu60(root)
    one_line(matrix, str(file), "nan")


@pytest.mark.parametrize("name", ["S001C001P001R001", "S001C001P001R001A001x", "walk"])
def test_names_that_say_nothing_are_errors(root: Path, name: str) -> None:
    (root / f"{name}.skeleton").write_text("0")
    with pytest.raises(DataError) as error:
        read_ntu60(root)
    one_line(error, name)


def test_the_actions_of_ntu_120_are_refused() -> None:
    assert numbers_of(Path(NAMES[1])) == (1, 2, 3, 1, 60)
    for action in ("A061", "A000"):
        with pytest.raises(DataError, match="A001 to A060"):
            numbers_of(Path(NAMES[0].replace("A001", action)))


def test_a_folder_without_skeletons(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no \.skeleton files"):
        read_ntu60(tmp_path)


def test_processes_give_the_same(root: Path) -> None:
    assert torch.equal(read_ntu60(root, workers=1).matrices, read_ntu60(root).matrices)
