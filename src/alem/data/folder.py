"""The general store in a folder: one stacked array that is mapped, or one ``.npy`` file per matrix."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alem.data.arrays import described, real, stacked
from alem.data.dataset import Dataset, dataset
from alem.data.errors import DataError, naming, reading
from alem.data.npy import read_npy
from alem.linalg.errors import shown

log = logging.getLogger("alem.data")

_TRAINING, _TEST = "train", ("val", "test")


class ClassFiles(NamedTuple):
    """The files of a tree of classes in order, the class of each, and the split if the tree has one."""

    files: list[Path]
    labels: NDArray[np.int64]
    classes: list[str]
    train: NDArray[np.bool_] | None


def read_folder(path: str | Path) -> Dataset:
    """A data set from a folder in either of two layouts.

    - ``matrices.npy`` `(N, n, n)` with ``labels.npy``, and where there are such ``classes.npy``,
      ``names.npy``, ``train.npy`` and further columns `(N,)`. The matrices are mapped into memory, copy on
      write: what is not looked at is not read, what is regularised does not change the file.
    - ``<class>/<name>.npy``, a matrix per file, or the same below ``train`` and ``val`` (or ``test``).
    """
    root = Path(path)
    if (root / "matrices.npy").exists():
        return _stacked(root)
    tree = class_files(root, ".npy")
    with naming(root):
        return dataset(
            folder_name(root),
            stacked(tree.files, read_npy),
            tree.labels,
            classes=tree.classes,
            names=[relative_name(file, root) for file in tree.files],
            train=tree.train,
        )


def _stacked(root: Path) -> Dataset:
    arrays = {
        file.stem: read_npy(file)
        for file in listed(root)
        if file.suffix == ".npy" and file.stem != "matrices"
    }
    if "labels" not in arrays:
        raise DataError(f"{root} has matrices.npy and no labels.npy; add one label for each matrix")
    file = root / "matrices.npy"
    matrices = real(read_npy(file, mapped=True), file)
    labels = arrays.pop("labels")
    with naming(root):
        return dataset(folder_name(root), matrices, labels, **described(arrays, root))


def class_files(root: Path, suffix: str) -> ClassFiles:
    """The files ``<class>/*suffix`` below ``root``, or below its ``train`` and ``val`` (or ``test``)."""
    folders = {entry.name: entry for entry in listed(root) if entry.is_dir()}
    # A class may have that name as well.
    split = _TRAINING in folders and any(entry.is_dir() for entry in listed(folders[_TRAINING]))
    if split and all(name in folders for name in _TEST):
        raise DataError(
            f"{root} has {' and '.join(_TEST)}, and one is to be tested on; move the other away"
        )
    parts = (
        [(_TRAINING, True)] + [(name, False) for name in _TEST if name in folders]
        if split
        else [("", True)]
    )
    found: list[tuple[Path, str, bool]] = []
    for part, training in parts:
        for folder in listed(root / part):
            if folder.is_dir():
                files = [file for file in listed(folder) if file.suffix == suffix]
                report_unread(folder, suffix, len(listed(folder)) - len(files))
                found += [(file, folder.name, training) for file in files]
    if not found:
        raise DataError(f"{root} has no {suffix} files in folders named after classes; check the path")
    classes = in_order({kind for _, kind, _ in found})
    place = {kind: i for i, kind in enumerate(classes)}
    return ClassFiles(
        [file for file, _, _ in found],
        np.array([place[kind] for _, kind, _ in found], np.int64),
        classes,
        np.array([training for _, _, training in found]) if split else None,
    )


def listed(folder: Path) -> list[Path]:
    """What is in a folder, hidden files left out, numbers in names in the order of their values."""
    with reading(folder):
        names = in_order(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    return [folder / name for name in names]


def in_order(names: Iterable[str]) -> list[str]:
    """Sorted with 2 before 10."""

    def key(name: str) -> tuple[list[tuple[int, int, str]], str]:
        parts = re.findall(r"[0-9]+|[^0-9]+", name)
        return [(0, int(p), "") if p[0] in "0123456789" else (1, 0, p) for p in parts], name

    return sorted(names, key=key)


def folder_name(root: Path) -> str:
    """How the data set in a folder is called."""
    return root.resolve().name


def relative_name(file: Path, root: Path) -> str:
    """``train/3/12`` for the file ``root/train/3/12.mat``."""
    return file.relative_to(root).with_suffix("").as_posix()


def report_unread(folder: Path, suffix: str, count: int) -> None:
    """Log how many entries of a folder are not what is read there."""
    if count:
        log.warning("%s: %d entries that are no %s files were not read", shown(str(folder)), count, suffix)
