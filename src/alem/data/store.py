"""The general store in one file: ``.npz`` of matrices, of their upper triangles or of sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alem.data.arrays import described, naming_objects, real, unpack
from alem.data.dataset import Dataset, dataset
from alem.data.errors import DataError, naming, reading
from alem.data.repair import LOADING
from alem.data.signals import from_signals

# The arrays a file may hold the samples in; exactly one of them.
_SAMPLES = ("triu", "matrices", "X", "frames")
_LABELS = ("y", "labels")


def read_npz(
    path: str | Path,
    *,
    loading: float = LOADING,
    shrinkage: float | str | None = None,
    centre_joint: int | None = None,
    window: int | None = None,
    stride: int | None = None,
) -> Dataset:
    """A data set from one ``.npz`` file, which holds

    - ``triu`` `(N, n(n+1)/2)`, upper triangles row by row as ``numpy.triu_indices`` gives them; or
      ``matrices`` (or ``X``) `(N, n, n)`; or ``frames`` `(T, channels)` or `(T, joints, d)` with
      ``offsets`` `(N+1,)`, sequence i being ``frames[offsets[i]:offsets[i+1]]``;
    - ``y`` (or ``labels``) `(N,)`, and if there are ``classes``, the labels are places among them;
    - ``train`` `(N,)` booleans and ``names``, where there are such, and any further columns of length N.

    Sequences become covariances C + loading·tr(C)·I in double precision; all options are for them (see
    :func:`alem.data.covariances`). The data set is named after the file, without ``_cov`` or ``_seq``.
    """
    file = Path(path)
    arrays = _arrays(file)
    kind = _one_of(_SAMPLES, arrays, file)
    labels = arrays.pop(_one_of(_LABELS, arrays, file))
    samples = arrays.pop(kind)
    offsets = arrays.pop("offsets", None) if kind == "frames" else None
    known = described(arrays, file)
    options: dict[str, Any] = {
        "loading": loading,
        "shrinkage": shrinkage,
        "centre_joint": centre_joint,
        "window": window,
        "stride": stride,
    }
    name = file.stem.removesuffix("_cov").removesuffix("_seq")
    with naming(file):
        if kind == "frames":
            if offsets is None:
                raise DataError("frames need offsets, where each sequence begins and ends; add them")
            return from_signals(name, samples, labels, offsets=offsets, **known, **options)
        given = [key for key, value in options.items() if value != (LOADING if key == "loading" else None)]
        if given:
            raise DataError(f"{', '.join(given)}: options for sequences, and the file holds matrices")
        matrices = unpack(samples, file) if kind == "triu" else real(samples, file, "array " + kind)
        return dataset(name, matrices, labels, **known)


def _arrays(file: Path) -> dict[str, NDArray[Any]]:
    with reading(file), file.open("rb") as stream:
        if stream.read(2) != b"PK":
            raise DataError(f"{file} is no .npz archive (numpy.savez writes such); check the path")
        stream.seek(0)
        archive = np.load(stream, allow_pickle=False)
        return {key: _array(archive, key, file) for key in archive.files}


def _array(archive: Any, key: str, file: Path) -> NDArray[Any]:
    with naming_objects(file, f"array {key}"):
        return archive[key]


def _one_of(keys: tuple[str, ...], arrays: dict[str, NDArray[Any]], file: Path) -> str:
    found = [key for key in keys if key in arrays]
    if len(found) != 1:
        holds = ", ".join(arrays) or "nothing"
        raise DataError(f"{file} must hold one of the arrays {', '.join(keys)}; it holds {holds}")
    return found[0]
