from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from alem.data import DataError, read_fpha
from alem.data.fpha import POSES, SPLIT, read_skeleton
from alem.linalg import InvalidMatrixError

from .conftest import one_line

SEQUENCES = {
    "Subject_1/open_juice_bottle/1": (0, True, 90),
    "Subject_2/wash_sponge/3": (1, True, 70),
    "Subject_1/open_juice_bottle/2": (0, False, 30),
    "Subject_6/wash_sponge/1": (1, False, 1),
    "Subject_6/wash_sponge/2": (1, False, 0),
}


def frames(name: str) -> np.ndarray:
    seed = sorted(SEQUENCES).index(name)
    return np.round(100 * np.random.default_rng(seed).standard_normal((SEQUENCES[name][2], 63)), 4)


def released(root: Path) -> Path:
    for name in SEQUENCES:
        file = root / POSES / name / "skeleton.txt"
        file.parent.mkdir(parents=True)
        lines = [
            f"{t:04d} " + " ".join(f"{x:.4f}" for x in frame) + " \n"
            for t, frame in enumerate(frames(name))
        ]
        file.write_text("".join(lines))
    parts = {
        train: [f"{name} {label}\n" for name, (label, part, _) in SEQUENCES.items() if part == train]
        for train in (True, False)
    }
    (root / SPLIT).write_text(
        "".join(
            f"{heading} {len(parts[train])}\n{''.join(parts[train])}"
            for heading, train in (("Training", True), ("Test", False))
        )
    )
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return released(tmp_path / "fpha")


def test_sequences_in_the_order_of_the_split(root: Path) -> None:
    d = read_fpha(root)
    assert d.name == "fpha"
    assert d.names == tuple(SEQUENCES)
    assert d.labels.tolist() == [label for label, _, _ in SEQUENCES.values()]
    assert d.classes == ("open_juice_bottle", "wash_sponge")
    assert d.train is not None
    assert d.train.tolist() == [part for _, part, _ in SEQUENCES.values()]
    assert d.columns["subject"].tolist() == [name.split("/")[0] for name in SEQUENCES]
    for i, name in enumerate(list(SEQUENCES)[:3]):
        C = np.cov(frames(name).T, bias=True)
        np.testing.assert_allclose(d.matrices[i], C + 1e-3 * np.trace(C) * np.eye(63), rtol=1e-9, atol=1e-8)


def test_a_sequence_of_one_frame_or_none_has_the_covariance_zero(root: Path) -> None:
    d = read_fpha(root)
    assert d.repairs.zero == (3, 4)
    assert d.repairs.deficient == ()
    trace = d.matrices[:3].diagonal(dim1=1, dim2=2).sum(1).median()
    torch.testing.assert_close(d.matrices[3], 1e-3 * trace * torch.eye(63, dtype=torch.float64))


def test_loading_and_shrinkage(root: Path) -> None:
    bare = read_fpha(root, loading=0.0)
    np.testing.assert_allclose(
        bare.matrices[0], np.cov(frames(next(iter(SEQUENCES))).T, bias=True), atol=1e-8
    )
    assert bare.repairs.deficient == (2,)
    assert read_fpha(root, loading=0.0, shrinkage="oas").repairs.deficient == ()


def test_the_folder_of_poses_itself_and_a_split_elsewhere(root: Path) -> None:
    expected = read_fpha(root).fingerprint()
    assert read_fpha(root / POSES).fingerprint() == expected
    other = root.parent / "split.txt"
    (root / SPLIT).rename(other)
    assert read_fpha(root, split=other).fingerprint() == expected
    with pytest.raises(DataError) as error:
        read_fpha(root)
    one_line(error, SPLIT, "does not exist")


def test_sequences_that_the_split_does_not_name_are_logged(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        read_fpha(root)
    assert not caplog.records
    extra = root / POSES / "Subject_3" / "wash_sponge" / "1"
    extra.mkdir(parents=True)
    (extra / "skeleton.txt").write_text("")
    with caplog.at_level(logging.WARNING):
        assert len(read_fpha(root)) == 5
    assert "1 sequences" in caplog.text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Test 3", "Test 4", "announces 4 test sequences and lists 3"),
        ("Training 2", "Training 600", "announces 600 training"),
        ("Training 2\n", "", "line 1"),
        ("Subject_2/wash_sponge/3 1", "Subject_2/wash_sponge 1", "line 3"),
        ("Subject_2/wash_sponge/3 1", "Subject_2/wash_sponge/3", "line 3"),
        ("Subject_2/wash_sponge/3 1", "Subject_2/wash_sponge/3 0", "one to one"),
        ("Subject_2/wash_sponge/3 1", "Subject_2/wash_sponge/9 1", "wash_sponge/9/skeleton.txt does not"),
    ],
)
def test_a_split_that_is_wrong(root: Path, old: str, new: str, said: str) -> None:
    text = (root / SPLIT).read_text()
    assert old in text
    (root / SPLIT).write_text(text.replace(old, new))
    with pytest.raises(DataError) as error:
        read_fpha(root)
    one_line(error, str(root), said)


def test_an_empty_split(root: Path) -> None:
    (root / SPLIT).write_text("")
    with pytest.raises(DataError, match="announces 0"):
        read_fpha(root)


def test_a_skeleton_that_is_cut_short_or_no_numbers(root: Path) -> None:
    file = root / POSES / "Subject_2" / "wash_sponge" / "3" / "skeleton.txt"
    text = file.read_text()
    assert read_skeleton(file).shape == (70, 63)
    for bad in (text[:-40], text.replace(" ", " x ", 1), text.replace("\n", " 5\n", 1), "é"):
        file.write_text(bad, "utf-8")
        with pytest.raises(DataError) as error:
            read_fpha(root)
        one_line(error, str(file))


def test_a_number_that_is_not_finite(root: Path) -> None:
    file = root / POSES / "Subject_2" / "wash_sponge" / "3" / "skeleton.txt"
    words = file.read_text().split(" ")
    file.write_text(" ".join([words[0], "nan", *words[2:]]))
    with pytest.raises(InvalidMatrixError) as error:
        read_fpha(root)
    one_line(error, str(root), "Subject_2/wash_sponge/3", "nan")


def test_another_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=POSES):
        read_fpha(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "../../etc",
        "../x/1",
        "Subject_1/../1",
        "Subject_1/a/..",
        "./a/1",
        "c:/a/1",
        "a\\b/c/1",
        "a\0/b/1",
        "/a/1",
    ],
)
def test_names_in_the_split_stay_in_the_folder(root: Path, name: str) -> None:
    (root / SPLIT).write_text(f"Training 1\n{name} 0\nTest 1\nSubject_1/b/1 1\n")
    with pytest.raises(DataError) as error:
        read_fpha(root)
    one_line(error, str(root / SPLIT), "line 2")


def test_a_sequence_named_twice_and_numbers_without_end(root: Path) -> None:
    line = "Subject_1/open_juice_bottle/1 0\n"
    (root / SPLIT).write_text(f"Training 2\n{line}{line}Test 1\nSubject_6/wash_sponge/1 1\n")
    with pytest.raises(DataError, match="names some sequence twice"):
        read_fpha(root)
    for text in (f"Training {'9' * 5000}\n", f"Training 1\nSubject_1/a/1 {'9' * 5000}\n"):
        (root / SPLIT).write_text(text)
        with pytest.raises(DataError) as error:
            read_fpha(root)
        one_line(error, str(root / SPLIT), "line")
