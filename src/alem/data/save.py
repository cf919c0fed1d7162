"""Writing a data set so that it is there whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from alem.data.dataset import Dataset
from alem.data.errors import DataError

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
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".npz":
            _save_file(data, target, arrays)
        else:
            _save_folder(data, target, arrays)
        flush(target.parent)
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
    temporary = beside(target)
    try:
        with written(temporary) as stream, zipfile.ZipFile(stream, "w") as archive:
            for key, array in everything.items():
                # Its size is not known before: room for more than 4 GiB.
                with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _save_folder(data: Dataset, target: Path, arrays: dict[str, NDArray[Any]]) -> None:
    refuse_existing(target)
    everything = {"matrices": data.matrices.numpy(), "labels": data.labels.numpy(), **arrays}
    temporary = beside(target)
    temporary.mkdir()
    try:
        for key, array in everything.items():
            with written(temporary / f"{key}.npy") as stream:
                np.save(stream, array, allow_pickle=False)
        flush(temporary)
        os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def require_column(key: str, target: Path, allowed: Collection[str] = ()) -> None:
    """Raise DataError unless a column may have that name."""
    if key not in allowed and (key in _RESERVED or not re.fullmatch(r"\w[\w .-]*", key)):
        raise DataError(f"{target}: a column cannot be called {key!r}; give it another plain name")


def refuse_existing(target: Path) -> None:
    """Raise DataError if there is something where a folder is to be written."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DataError(f"{target} exists already; remove it or choose another name")


def beside(target: Path) -> Path:
    """A name in the same folder, thus on the same disk, that readers take for hidden."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}")


@contextmanager
def written(file: Path) -> Iterator[BinaryIO]:
    """A new file that is on the disk when the block ends."""
    with file.open("xb") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())


def flush(folder: Path) -> None:
    """Make the names in a folder last, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
