"""Writing a data set so that it is there whole or not at all."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alem.data.dataset import Dataset
from alem.data.errors import DataError
from alem.files import whole, whole_folder, written

_RESERVED = {"triu", "matrices", "X", "frames", "offsets", "y", "labels", "classes", "names", "train"}


def save(data: Dataset, path: str | Path) -> None:
    """Write a data set as one ``.npz`` file if ``path`` ends so, otherwise as a folder.

    The file holds upper triangles and replaces one that is there; the folder holds ``matrices.npy``, which
    :func:`alem.data.read_folder` maps into memory, and must not exist or be empty. Both are written beside
    their place, flushed to the disk and then renamed. Matrices are written as they have been regularised.
    """
    target = Path(path)
    arrays = _arrays(data, target)
    try:
        if target.suffix == ".npz":
            _save_file(data, target, arrays)
        else:
            _save_folder(data, target, arrays)
    except OSError as error:
        raise DataError(
            f"{target} cannot be written ({error.strerror or error}); nothing was changed"
        ) from None


def _arrays(data: Dataset, target: Path) -> dict[str, NDArray[Any]]:
    """All but the matrices."""
    for key in data.columns:
        require_column(key, target)
    arrays = {"classes": np.array(data.classes, str), "names": np.array(data.names, str), **data.columns}
    if data.train is not None:
        arrays["train"] = data.train.numpy()
    for key, column in arrays.items():
        if column.dtype.hasobject:
            raise DataError(f"{target}: column {key} holds objects; make it numbers or strings")
    return arrays


def _save_file(data: Dataset, target: Path, arrays: dict[str, NDArray[Any]]) -> None:
    i, j = np.triu_indices(data.n)
    everything = {"triu": data.matrices.numpy()[:, i, j], "y": data.labels.numpy(), **arrays}
    with whole(target) as stream, zipfile.ZipFile(stream, "w") as archive:
        for key, array in everything.items():
            # Its size is not known before: room for more than 4 GiB.
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _save_folder(data: Dataset, target: Path, arrays: dict[str, NDArray[Any]]) -> None:
    refuse_existing(target)
    everything = {"matrices": data.matrices.numpy(), "labels": data.labels.numpy(), **arrays}
    with whole_folder(target) as part:
        for key, array in everything.items():
            save_array(part / f"{key}.npy", array)


def save_array(file: Path, array: NDArray[Any]) -> None:
    """A new ``.npy`` file that is on the disk."""
    own = np.ascontiguousarray(array)
    with written(file) as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(own))
        if own.nbytes:  # np.save would not say why a disk takes no more
            stream.write(own.reshape(-1).view(np.uint8).data)


def require_column(key: str, target: Path, allowed: Collection[str] = ()) -> None:
    """Raise DataError unless a column may have that name."""
    if key not in allowed and (key in _RESERVED or not re.fullmatch(r"\w[\w .-]*", key)):
        raise DataError(f"{target}: a column cannot be called {key!r}; give it another plain name")


def refuse_existing(target: Path) -> None:
    """Raise DataError if there is something where a folder is to be written."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DataError(f"{target} exists already; remove it or choose another name")
