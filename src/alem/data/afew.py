"""AFEW, faces in films: covariance features in ``.mat`` files."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alem.data.arrays import stacked
from alem.data.dataset import Dataset, dataset
from alem.data.errors import DataError, naming, reading
from alem.data.folder import class_files, folder_name, relative_name


def read_afew(path: str | Path) -> Dataset:
    """``train/<class>/*.mat`` and ``val/<class>/*.mat``, one square matrix in each file, whatever its name.

    That is how the features of Huang and Van Gool, "A Riemannian network for SPD matrix learning", AAAI
    2017, were released (``spdface_400_inter_histeq``, 400×400, seven classes, the variable ``Y1``), and
    other sets after them; the two folders are the official split. Needs SciPy.
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
    try:
        matlab = importlib.import_module("scipy.io")
    except ImportError:
        raise DataError(".mat files need SciPy; install it with: pip install scipy") from None
    with reading(file):
        try:
            variables = matlab.loadmat(file)
        except NotImplementedError:
            raise DataError(f"{file} is in MATLAB's format 7.3; save it again in MATLAB with -v7") from None
        except matlab.matlab.MatReadError as error:
            raise OSError(str(error)) from None
    squares = {key: value for key, value in variables.items() if _is_square(value)}
    if len(squares) != 1:
        raise DataError(
            f"{file} must hold one square matrix, and holds {len(squares)}"
            + (f" ({', '.join(squares)})" if squares else "")
            + "; store only the one that is meant"
        )
    return next(iter(squares.values()))


def _is_square(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind in "fiuc"
        and value.ndim == 2
        and value.shape[0] == value.shape[1] > 1
    )
