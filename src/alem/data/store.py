"""The general store in one file: ``.npz`` of matrices, of their upper triangles or of sequences."""

from __future__ import annotations

import math
import re
import zipfile
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from alem.data.arrays import described, real, unpack
from alem.data.dataset import Dataset, dataset
from alem.data.errors import DataError, naming, reading
from alem.data.limits import open_file, require_memory, size_of
from alem.data.npy import Header, read_array, read_header
from alem.data.repair import LOADING
from alem.data.signals import from_signals
from alem.linalg.errors import shown

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
    with reading(file), open_file(file) as stream:
        if stream.read(2) != b"PK":
            raise DataError(f"{file} is no .npz archive (numpy.savez writes such); check the path")
        size = size_of(stream)
        with zipfile.ZipFile(stream) as archive:
            members = {_key(info, file): info for info in archive.infolist()}
            if len(members) != len(archive.infolist()):
                raise DataError(f"{file} holds an array twice; which is meant is not said: store it again")
            require_memory(file, sum(info.file_size for info in members.values()), size)
            require_memory(file, _needed(_headers(archive, members, file)), size)
            return {key: _array(archive, info, key, file) for key, info in members.items()}


def _key(info: zipfile.ZipInfo, file: Path) -> str:
    """The name of an array, which is a word and no path, by that of its member."""
    key = info.filename.removesuffix(".npy")
    if not info.filename.endswith(".npy") or not key or re.search(r"[/\\]", key) or shown(key) != key:
        raise DataError(f"{file} holds {info.filename!r}, which is no name of an array; leave it out")
    # Others unpack without end from a few bytes.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{file}: array {key} is packed as NumPy does not; store it with numpy.savez")
    return key


def _headers(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], file: Path
) -> dict[str, Header]:
    found = {}
    for key, info in members.items():
        with archive.open(info) as member:
            found[key] = read_header(member, info.file_size, file, f"array {key}")
    return found


def _needed(headers: dict[str, Header]) -> int:
    """Bytes of the arrays, and of the matrices that are made of them."""
    needed = sum(header.held for header in headers.values())
    if "triu" in headers:
        needed += 2 * headers["triu"].held
    if "frames" in headers and "offsets" in headers:
        channels = math.prod(headers["frames"].shape[1:])
        needed += 16 * channels**2 * (math.prod(headers["offsets"].shape) - 1)
    return needed


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, key: str, file: Path) -> NDArray[Any]:
    with archive.open(info) as member:
        return read_array(member, file, f"array {key}")


def _one_of(keys: tuple[str, ...], arrays: dict[str, NDArray[Any]], file: Path) -> str:
    found = [key for key in keys if key in arrays]
    if len(found) != 1:
        holds = ", ".join(arrays) or "nothing"
        raise DataError(f"{file} must hold one of the arrays {', '.join(keys)}; it holds {holds}")
    return found[0]
