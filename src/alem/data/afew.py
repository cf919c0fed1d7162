"""AFEW, faces in films: covariance features in ``.mat`` files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from alem.data.arrays import stacked
from alem.data.dataset import Dataset, dataset
from alem.data.errors import DataError, naming, reading
from alem.data.folder import class_files, folder_name, relative_name
from alem.data.matlab import read_square


def read_afew(path: str | Path) -> Dataset:
    """``train/<class>/*.mat`` and ``val/<class>/*.mat``, one square matrix in each file, whatever its name.

    That is how the features of Huang and Van Gool, "A Riemannian network for SPD matrix learning", AAAI
    2017, were released (``spdface_400_inter_histeq``, 400×400, seven classes, the variable ``Y1``), and
    other sets after them; the two folders are the official split.
    """
    root = Path(path)
    tree = class_files(root, ".mat")
    if tree.train is None or tree.train.all() or not tree.train.any():
        raise DataError(
            f"{root} must have .mat files below train and below val; the split is by these folders"
        )
    with naming(root):
        return dataset(
            folder_name(root),
            stacked(tree.files, read_mat),
            tree.labels,
            classes=tree.classes,
            names=[relative_name(file, root) for file in tree.files],
            train=tree.train,
        )


def read_mat(file: Path) -> NDArray[Any]:
    """The one square matrix of a MATLAB file; scalars beside it do not count."""
    with reading(file):
        return read_square(file)
