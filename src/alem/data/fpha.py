"""FPHA, first-person hand actions: the skeletons of the original data set."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alem.data.dataset import Dataset
from alem.data.errors import DataError, naming, reading
from alem.data.folder import folder_name
from alem.data.limits import read_text
from alem.data.repair import LOADING
from alem.data.signals import from_signals
from alem.linalg.errors import shown

log = logging.getLogger("alem.data")

POSES = "Hand_pose_annotation_v1"
SPLIT = "data_split_action_recognition.txt"
# 21 joints in space; a line begins with the number of its frame.
CHANNELS = 63
# Three folders and a class; none may lead elsewhere, upwards or to another disk.
_NAME = r"(?!\.{1,2}(?:/|\s))[^/\\:\s\0]+"
_LINE = re.compile(rf"\s*({_NAME}/{_NAME}/{_NAME})\s+([0-9]{{1,18}})\s*")


def read_fpha(
    path: str | Path,
    *,
    split: str | Path | None = None,
    loading: float = LOADING,
    shrinkage: float | str | None = None,
) -> Dataset:
    """The skeletons of each sequence to its 63×63 covariance C + loading·tr(C)·I.

    They lie in ``Hand_pose_annotation_v1/Subject_k/<action>/<n>/skeleton.txt``, and ``path`` is the folder
    above. The official split ``data_split_action_recognition.txt`` beside them (600 and 575 sequences)
    names the sequences, their classes and their order; give ``split`` if it lies elsewhere. A sequence of
    one frame or none has the covariance zero, and is regularised as such. Packed covariances are for
    :func:`alem.data.read_npz`.

    Garcia-Hernando, Yuan, Baek and Kim, "First-person hand action benchmark with RGB-D videos and 3D hand
    pose annotations", CVPR 2018.
    """
    root = Path(path)
    poses = root if root.name == POSES else root / POSES
    if not poses.is_dir():
        raise DataError(f"{root} has no folder {POSES}; give the folder of the data set")
    places = (poses.parent / SPLIT, poses / SPLIT)
    official = Path(split) if split else next((p for p in places if p.exists()), places[0])
    entries = read_split(official)
    _report_rest(poses, {entry.name for entry in entries})
    kinds = {entry.label: entry.name.split("/")[1] for entry in entries}
    order = sorted(kinds)
    with naming(root):
        return from_signals(
            folder_name(poses.parent),
            [read_skeleton(poses / entry.name / "skeleton.txt").T for entry in entries],
            [order.index(entry.label) for entry in entries],
            classes=[kinds[label] for label in order],
            names=[entry.name for entry in entries],
            train=np.array([entry.train for entry in entries]),
            columns={"subject": np.array([entry.name.split("/")[0] for entry in entries])},
            loading=loading,
            shrinkage=shrinkage,
        )


class Entry(NamedTuple):
    """A line of the split: ``Subject_1/open_juice_bottle/1 0``."""

    name: str
    label: int
    train: bool


def read_split(file: Path) -> list[Entry]:
    """``Training 600``, so many lines, ``Test 575``, so many lines; a count that is wrong is an error."""
    with reading(file):
        lines = [line for line in read_text(file, "utf-8").splitlines() if line.strip()]
    entries: list[Entry] = []
    announced = {True: 0, False: 0}
    train: bool | None = None
    for number, line in enumerate(lines, 1):
        if heading := re.fullmatch(r"\s*(Training|Test)\s+([0-9]{1,18})\s*", line):
            train = heading[1] == "Training"
            announced[train] = int(heading[2])
        elif (found := _LINE.fullmatch(line)) and train is not None:
            entries.append(Entry(found[1], int(found[2]), train))
        else:
            raise DataError(
                f"{file}: line {number} is {line[:60]!r}, not as 'Subject_1/open_juice_bottle/1 0' below "
                "'Training 600'; fetch it again"
            )
    for part, count in announced.items():
        found_count = sum(entry.train == part for entry in entries)
        if found_count != count or not count:
            kind = "training" if part else "test"
            raise DataError(
                f"{file} announces {count} {kind} sequences and lists {found_count}; it is cut short or "
                "changed: fetch it again"
            )
    if len({entry.name for entry in entries}) != len(entries):
        raise DataError(f"{file} names some sequence twice; fetch it again")
    pairs = {(entry.label, entry.name.split("/")[1]) for entry in entries}
    if not len({label for label, _ in pairs}) == len({action for _, action in pairs}) == len(pairs):
        raise DataError(f"{file}: labels and actions do not correspond one to one; fetch it again")
    return entries


def read_skeleton(file: Path) -> NDArray[Any]:
    """The frames `(T, 63)` of a sequence, at least two of them.

    A single frame stands twice, and no frame is two zeros: either way the covariance is exactly zero.
    """
    with reading(file):
        text = read_text(file, "ascii")
        numbers = np.array(text.split(), np.float64)
    lines = sum(1 for line in text.splitlines() if line.strip())
    if numbers.size != lines * (1 + CHANNELS):
        raise DataError(
            f"{file}: {numbers.size} numbers in {lines} lines; each line must hold the frame and "
            f"{CHANNELS} coordinates: it is cut short, fetch it again"
        )
    frames = numbers.reshape(lines, 1 + CHANNELS)[:, 1:]
    return frames if lines > 1 else np.repeat(frames, 2, 0) if lines else np.zeros((2, CHANNELS))


def _report_rest(poses: Path, used: set[str]) -> None:
    there = {file.parent.relative_to(poses).as_posix() for file in poses.glob("*/*/*/skeleton.txt")}
    rest = len(there - used)
    if rest:
        log.warning("%s: %d sequences that the split does not name were not read", shown(str(poses)), rest)
