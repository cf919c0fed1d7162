"""Writing a store of more matrices than memory holds, block after block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alem.data.arrays import real
from alem.data.dataset import read_labels
from alem.data.errors import DataError
from alem.data.repair import repair
from alem.data.save import refuse_existing, require_column, save_array
from alem.files import whole_folder, written
from alem.linalg.errors import InvalidMatrixError, places_are

Block = tuple[Any, Any] | Mapping[str, Any]


def save_blocks(blocks: Iterable[Block], path: str | Path, *, classes: Sequence[str] | None = None) -> int:
    """Write a folder that :func:`alem.data.load` maps into memory; how many matrices it holds.

    A block is a pair of matrices `(k, n, n)` and labels `(k,)`, or a mapping with ``matrices``, ``labels``
    and, for all blocks alike, ``names``, ``train`` and further columns `(k,)`. Labels are places in
    ``classes``, or without them anything that can be sorted. Memory holds one block and the columns. A
    matrix that no reader would accept is refused; the folder is there whole or not at all.
    """
    target = Path(path)
    refuse_existing(target)
    classes = None if classes is None else list(classes)
    try:
        with whole_folder(target) as part:
            with written(part / "matrices.npy") as stream:
                columns, count = _matrices(stream, blocks, classes, target)
            if classes is not None:
                columns["classes"] = np.array(classes, str)
            for key, column in columns.items():
                save_array(part / f"{key}.npy", column)
    except _SourceError as error:
        raise error.args[0] from None
    except OSError as error:
        raise DataError(
            f"{target} cannot be written ({error.strerror or error}); nothing was changed"
        ) from None
    return count


class _SourceError(Exception):
    """What went wrong with the system where blocks come from, and not where they go."""


def _from(blocks: Iterable[Block]) -> Iterator[Block]:
    try:
        yield from blocks
    except OSError as error:
        raise _SourceError(error) from error


def _matrices(
    stream: BinaryIO, blocks: Iterable[Block], classes: Sequence[str] | None, target: Path
) -> tuple[dict[str, NDArray[Any]], int]:
    """Write the matrices one block after the other; the columns, and how many there were."""
    columns: dict[str, list[NDArray[Any]]] = {}
    count, like = 0, np.empty((0, 0, 0))
    for block in _from(blocks):
        arrays = _arrays(block, count, target)
        X = _checked(arrays.pop("matrices", None), count, target)
        if not len(X):
            continue
        if not columns:
            like = X[:0].copy()  # its shape and dtype
            _header(stream, like, 0)
            columns = {key: [] for key in arrays}
            for key in arrays:
                require_column(key, target, ("labels", "names", "train"))
        _require_alike(X, arrays, like, columns, count, target)
        read_labels(f"{target}: the block at matrix {count}", arrays["labels"], classes)
        stream.write(np.ascontiguousarray(X).data)
        for key, column in arrays.items():
            columns[key].append(np.asarray(column))
        count += len(X)
    if not count:
        raise DataError(f"{target}: there are no matrices to write")
    _header(stream, like, count)
    return {key: np.concatenate(parts) for key, parts in columns.items()}, count


def _arrays(block: Block, start: int, target: Path) -> dict[str, Any]:
    """The columns of a block by name, the matrices among them."""
    if isinstance(block, Mapping):
        arrays = dict(block)
    elif isinstance(block, (tuple, list)) and len(block) == 2:
        arrays = dict(zip(("matrices", "labels"), block, strict=True))
    else:
        raise DataError(
            f"{target}: the block at matrix {start} must be a pair of matrices and labels, or a mapping, "
            f"got {type(block).__name__}"
        )
    for key in arrays:
        if not isinstance(key, str):
            raise DataError(f"{target}: a column cannot be called {key!r}; give it another plain name")
    return {key: a.detach().cpu().numpy() if isinstance(a, Tensor) else a for key, a in arrays.items()}


def _header(stream: BinaryIO, like: NDArray[Any], count: int) -> None:
    """The first bytes of a .npy file; NumPy leaves room in them for a number that grows."""
    header = {"descr": like.dtype.str, "fortran_order": False, "shape": (count, *like.shape[1:])}
    stream.seek(0)
    np.lib.format.write_array_header_1_0(stream, header)


def _checked(matrices: Any, start: int, target: Path) -> NDArray[Any]:
    if matrices is None:
        raise DataError(f"{target}: a block needs matrices and labels")
    X = real(np.asarray(matrices), target, "array matrices")
    if X.ndim != 3 or X.shape[1] != X.shape[2] or X.shape[1] == 0:
        raise DataError(f"{target}: a block must hold matrices (k, n, n), got shape {X.shape}")
    try:
        with places_are(range(start, start + len(X))):
            repair(torch.from_numpy(X.copy()))
    except InvalidMatrixError as error:
        raise type(error)(f"{target}: {error}", error.index) from None
    return X


def _require_alike(
    X: NDArray[Any],
    arrays: Mapping[str, Any],
    like: NDArray[Any],
    columns: Mapping[str, Any],
    start: int,
    target: Path,
) -> None:
    where = f"{target}: the block at matrix {start}"
    if X.shape[1:] != like.shape[1:] or X.dtype != like.dtype:
        raise DataError(
            f"{where} has {X.shape[1]}×{X.shape[1]} matrices of {X.dtype}, those before it are "
            f"{like.shape[1]}×{like.shape[1]} of {like.dtype}; all must be alike"
        )
    if "labels" not in arrays or arrays.keys() != columns.keys():
        raise DataError(
            f"{where} has {', '.join(arrays) or 'no labels'}; every block needs labels and the same columns"
        )
    for key, column in arrays.items():
        array = np.asarray(column)
        if key == "train" and array.dtype != bool:
            raise DataError(f"{where}: train must be booleans, true for training, got {array.dtype}")
        if array.shape != (len(X),) or array.dtype.hasobject:
            raise DataError(
                f"{where}: {key} must be numbers or strings ({len(X)},), got {array.dtype} of shape "
                f"{array.shape}"
            )
        if columns[key] and array.dtype.kind != columns[key][0].dtype.kind:
            raise DataError(
                f"{where}: {key} is {array.dtype}, and {columns[key][0].dtype} before it; make all of one "
                "kind"
            )
