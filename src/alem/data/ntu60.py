"""NTU RGB+D 60: Kinect skeletons of one or two people, in ``.skeleton`` text files."""

from __future__ import annotations

import logging
import multiprocessing
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from alem import linalg
from alem.data.dataset import Dataset, dataset
from alem.data.errors import DataError, naming, reading
from alem.data.folder import folder_name, listed, report_unread
from alem.data.limits import read_text
from alem.data.repair import LOADING
from alem.data.signals import centre
from alem.linalg import InvalidMatrixError
from alem.linalg.errors import shown

log = logging.getLogger("alem.data")

PROTOCOLS = ("cross-view", "cross-subject")
TRAINING_CAMERAS = (2, 3)
TRAINING_SUBJECTS = (1, 2, 4, 5, 8, 9, 13, 14, 15, 16, 17, 18, 19, 25, 27, 28, 31, 34, 35, 38)
CLASSES = tuple(f"A{action:03d}" for action in range(1, 61))
JOINTS = 25

# Numbers for a body before its joints, and for each joint; the first three are x, y, z.
_BODY, _JOINT = 10, 12
_PARTS = ("setup", "camera", "subject", "repetition", "action")


def read_ntu60(
    path: str | Path,
    *,
    protocol: str = "cross-view",
    skip: str | Path | None = None,
    loading: float = LOADING,
    shrinkage: float | str | None = None,
    centre_joint: int | None = None,
    workers: int = 0,
) -> Dataset:
    """A folder of ``S001C001P001R001A001.skeleton`` files to 75×75 covariances C + loading·tr(C)·I.

    - ``protocol="cross-view"`` trains on cameras 2 and 3, ``"cross-subject"`` on twenty of the forty
      subjects, as in Shahroudy, Liu, Ng and Wang, "NTU RGB+D: a large scale dataset for 3D human activity
      analysis", CVPR 2016.
    - Of several bodies the one that moves most is taken, by the sum of the variances of its coordinates
      over the frames in which it is there; frames without it do not count.
    - ``skip`` names a text file with the samples to leave out, one a line: the authors publish 302
      incomplete ones as ``NTU_RGBD_samples_with_missing_skeletons.txt`` in shahroudy/NTURGB-D on GitHub.
      With or without it, samples in which no body is there for two frames are left out. How many were is
      logged.
    - ``centre_joint`` is subtracted from the other joints in every frame and dropped: then it is 72×72.

    At most the matrices and one file per worker are in memory. The 56,880 files take minutes: ``workers``
    processes share them (a script then needs ``if __name__ == "__main__"``), and :func:`alem.data.save` to
    a folder keeps the result.
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"unknown protocol {protocol!r}; choose {' or '.join(PROTOCOLS)}")
    root = Path(path)
    entries = listed(root)
    files = [file for file in entries if file.suffix == ".skeleton"]
    if not files:
        raise DataError(f"{root} has no .skeleton files; give the folder that holds them")
    report_unread(root, ".skeleton", len(entries) - len(files))
    numbers = {file: numbers_of(file) for file in files}
    left_out = set() if skip is None else read_skipped(Path(skip))
    files = [file for file in files if file.stem not in left_out]
    compute = partial(sequence_covariance, loading=loading, shrinkage=shrinkage, centre_joint=centre_joint)
    n = 3 * (JOINTS - (centre_joint is not None))
    matrices = np.empty((len(files), n, n))
    kept: list[Path] = []
    for file, matrix in zip(files, _each(compute, files, workers), strict=True):
        if matrix is not None:
            matrices[len(kept)] = matrix
            kept.append(file)
    empty, skipped = len(files) - len(kept), len(numbers) - len(files)
    if empty or skipped:
        log.warning(
            "%s: of %d files %d were left out by the list and %d because no body is there for two frames",
            shown(str(root)), len(numbers), skipped, empty,
        )  # fmt: skip
    if not kept:
        raise DataError(
            f"{root}: no file is left that holds a body; check the path and the list of samples"
        )
    table = np.array([numbers[file] for file in kept])
    columns = {part: table[:, i] for i, part in enumerate(_PARTS)}
    train = (
        np.isin(columns["camera"], TRAINING_CAMERAS)
        if protocol == "cross-view"
        else np.isin(columns["subject"], TRAINING_SUBJECTS)
    )
    labels = columns.pop("action") - 1
    names = [file.stem for file in kept]
    with naming(root):
        return dataset(
            folder_name(root), matrices[: len(kept)], labels,
            classes=CLASSES, names=names, train=train, columns=columns,
        )  # fmt: skip


def numbers_of(file: Path) -> tuple[int, ...]:
    """Setup, camera, subject, repetition and action from the name of a file."""
    found = re.fullmatch(r"S(\d{3})C(\d{3})P(\d{3})R(\d{3})A(\d{3})", file.stem)
    if found is None:
        raise DataError(f"{file}: the name is not as S001C001P001R001A001; rename or move it")
    numbers = tuple(map(int, found.groups()))
    if not 1 <= numbers[-1] <= len(CLASSES):
        raise DataError(
            f"{file}: actions go from A001 to A060; A061 and on are NTU RGB+D 120, move them away"
        )
    return numbers


def read_skipped(file: Path) -> set[str]:
    """The sample names in a text file; other lines are taken for its heading."""
    with reading(file):
        names = set(re.findall(r"\bS\d{3}C\d{3}P\d{3}R\d{3}A\d{3}\b", read_text(file, "utf-8")))
    if not names:
        raise DataError(f"{file} names no samples such as S001C002P005R002A008; check the path")
    return names


def read_bodies(file: Path) -> list[NDArray[np.float64]]:
    """The positions `(T, 25, 3)` of each body in the frames in which it is there, the first seen first."""
    with reading(file):
        tokens = read_text(file, "ascii").split()
        values = np.array(tokens, np.float64)
        places, end = _places(tokens, file)
    if end != len(tokens):
        raise DataError(
            f"{file} holds {len(tokens)} numbers and its frames need {end}; it is damaged: fetch it again"
        )
    steps = np.arange(JOINTS * _JOINT).reshape(JOINTS, _JOINT)[:, :3]
    return [values[np.array(starts)[:, None, None] + steps] for starts in places.values()]


def _places(tokens: list[str], file: Path) -> tuple[dict[str, list[int]], int]:
    """Where the joints of each body begin in each frame, and where the last frame ends."""
    # Identifiers of bodies have 17 digits, more than a double: they stay text.
    places: dict[str, list[int]] = {}
    at = 1
    try:
        for _ in range(int(tokens[0])):
            bodies = int(tokens[at])
            at += 1
            for _ in range(bodies):
                joints = int(tokens[at + _BODY])
                if joints != JOINTS:
                    raise DataError(f"{file}: a body has {joints} joints, not {JOINTS}; fetch it again")
                places.setdefault(tokens[at], []).append(at + _BODY + 1)
                at += _BODY + 1 + JOINTS * _JOINT
    except IndexError:
        raise DataError(f"{file} ends before its last frame; it is cut short: fetch it again") from None
    return places, at


def sequence_covariance(
    file: Path, loading: float, shrinkage: float | str | None, centre_joint: int | None
) -> NDArray[np.float64] | None:
    """The covariance of the body that moves most, None if none is there for two frames."""
    bodies = [body for body in read_bodies(file) if len(body) > 1]
    if not bodies:
        return None
    body = max(bodies, key=lambda x: float(x.var(0).sum()))
    if centre_joint is not None:
        body = centre(body, centre_joint)
    try:
        x = torch.from_numpy(body.reshape(len(body), -1).T)
        return linalg.covariance(x, shrinkage, loading).numpy()
    except InvalidMatrixError as error:
        raise InvalidMatrixError(f"{file}: {error}") from None


def _each(
    compute: partial[NDArray[np.float64] | None], files: list[Path], workers: int
) -> Iterator[NDArray[np.float64] | None]:
    if workers <= 0:
        yield from map(compute, files)
        return
    # A forked copy of a process with torch's threads may hang; one that is spawned does not.
    context: Any = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, torch.set_num_threads, (1,)) as pool:
        yield from pool.map(compute, files, chunksize=32)
