"""HDM05, motion capture: the covariances that were released with SPDNetBN."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from alem.data.arrays import stacked
from alem.data.dataset import Dataset, dataset
from alem.data.errors import DataError, naming
from alem.data.folder import folder_name, listed, report_unread
from alem.data.npy import read_npy


def read_hdm05(path: str | Path) -> Dataset:
    """A flat folder of ``.npy`` files, one matrix in each, the class the number at the end: ``…_17.npy``.

    2086 matrices 93×93 in 117 classes as they were released by Brooks, Schwander, Barbaresco, Schneider and
    Cord, "Riemannian batch normalization for SPD neural networks", NeurIPS 2019; any number and size is
    read. Complex matrices whose imaginary part is rounding, and shapes `(1, n, n)`, are taken for what they
    mean. There is no official split.
    """
    root = Path(path)
    entries = listed(root)
    files = [file for file in entries if file.suffix == ".npy"]
    if not files:
        raise DataError(
            f"{root} has no .npy files; the folder of HDM05 holds one per matrix: check the path"
        )
    report_unread(root, ".npy", len(entries) - len(files))
    labels = [class_of(file) for file in files]
    with naming(root):
        return dataset(
            folder_name(root),
            stacked(files, read_npy),
            np.array(labels, np.int64),
            names=[file.stem for file in files],
        )


def class_of(file: Path) -> int:
    """The integer after the last underscore of the name."""
    found = re.search(r"_([0-9]{1,18})$", file.stem)
    if found is None:
        raise DataError(f"{file}: no class in the name, which should end as in …_17.npy; rename or move it")
    return int(found[1])
