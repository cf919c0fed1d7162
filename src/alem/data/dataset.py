"""What every reader returns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alem.data.errors import DataError
from alem.data.repair import Repairs, blocks, repair
from alem.linalg.errors import InvalidMatrixError


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """SPD matrices with labels.

    - ``matrices`` `(N, n, n)`, on the CPU; they may be a file that is mapped into memory;
    - ``labels`` `(N,)`, places in ``classes``, the names of the classes;
    - ``train`` `(N,)`, booleans, the official split where there is one;
    - ``names`` of the samples; ``columns``, what else is known of each, a subject say;
    - ``repairs``: which matrices were degenerate and have been regularised.

    Made by :func:`dataset`, which checks all of it.
    """

    name: str
    matrices: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    names: tuple[str, ...]
    train: Tensor | None = None
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    repairs: Repairs = field(default_factory=Repairs)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n(self) -> int:
        """The size of the matrices."""
        return self.matrices.shape[-1]

    def __repr__(self) -> str:
        split = "" if self.train is None else f", {int(self.train.sum())} for training"
        size = f"{len(self)} matrices {self.n}×{self.n}"
        return f"Dataset({self.name}: {size}, {len(self.classes)} classes{split})"

    def select(self, keep: Tensor | NDArray[np.bool_]) -> Dataset:
        """The samples that ``keep``, booleans `(N,)`, chooses; the classes stay."""
        chosen = torch.as_tensor(keep)
        if chosen.dtype != torch.bool or chosen.shape != (len(self),):
            raise ValueError(f"keep must be {len(self)} booleans, got {chosen.dtype} {tuple(chosen.shape)}")
        places = chosen.nonzero().flatten()
        new = {int(old): i for i, old in enumerate(places)}
        zero, deficient = (
            tuple(new[i] for i in kind if i in new) for kind in (self.repairs.zero, self.repairs.deficient)
        )
        return replace(
            self,
            matrices=self.matrices[places],
            labels=self.labels[places],
            names=tuple(self.names[i] for i in places),
            train=None if self.train is None else self.train[places],
            columns={key: column[places.numpy()] for key, column in self.columns.items()},
            repairs=replace(self.repairs, zero=zero, deficient=deficient),
        )

    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that change when a matrix, a label or the split does."""
        digest = hashlib.blake2b(digest_size=8)
        digest.update(str((tuple(self.matrices.shape), str(self.matrices.dtype), self.classes)).encode())
        for _, block in blocks(self.matrices):
            digest.update(block.contiguous().numpy().data)
        digest.update(self.labels.numpy().data)
        if self.train is not None:
            digest.update(self.train.numpy().data)
        return digest.hexdigest()


def dataset(
    name: str,
    matrices: Tensor | NDArray[Any],
    labels: Sequence[int] | Sequence[str] | NDArray[Any] | Tensor,
    *,
    classes: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    train: NDArray[Any] | Tensor | None = None,
    columns: Mapping[str, NDArray[Any]] | None = None,
) -> Dataset:
    """Check, regularise (:func:`alem.data.repair`, **in place**) and put together a data set.

    ``labels`` are places in ``classes``; without ``classes`` they may be anything that can be sorted, and
    the classes are their values in order.
    """
    name = _printable(name)
    X = torch.as_tensor(matrices)
    if X.dtype not in (torch.float32, torch.float64):
        raise DataError(f"{name}: matrices must be float32 or float64, got {X.dtype}; convert them")
    if X.ndim != 3 or len(X) == 0:
        raise DataError(f"{name}: expected matrices of shape (N, n, n), got {tuple(X.shape)}")
    N = len(X)
    y, kinds = read_labels(name, labels, classes)
    if len(y) != N:
        raise DataError(f"{name}: {N} matrices and {len(y)} labels; there must be one for each")
    kinds = tuple(map(_printable, kinds))
    names = tuple(str(i) for i in range(N)) if names is None else tuple(map(_printable, names))
    split = _split(name, train)
    columns = {_printable(key): np.asarray(column) for key, column in (columns or {}).items()}
    lengths = {"names": len(names), **{key: len(column) for key, column in columns.items()}}
    if split is not None:
        lengths["train"] = len(split)
    for key, length in lengths.items():
        if length != N:
            raise DataError(
                f"{name}: {N} matrices and {length} entries of {key}; there must be one for each"
            )
    try:
        repairs = repair(X, names)
    except InvalidMatrixError as error:
        raise InvalidMatrixError(f"{name}: {error}", error.index) from None
    return Dataset(name, X, y, kinds, names, split, columns, repairs)


def _split(name: str, train: NDArray[Any] | Tensor | None) -> Tensor | None:
    if train is None:
        return None
    values = train.numpy() if isinstance(train, Tensor) else np.asarray(train)
    if values.dtype != np.bool_ or values.ndim != 1:
        raise DataError(
            f"{name}: train must be booleans (N,), true for training, got {values.dtype} {values.shape}"
        )
    return torch.from_numpy(np.ascontiguousarray(values))


def _printable(name: object) -> str:
    """A name that any file can hold: names of files may have bytes that are no text."""
    return str(name).encode("utf-8", "backslashreplace").decode()


def read_labels(name: str, labels: Any, classes: Sequence[str] | None) -> tuple[Tensor, tuple[str, ...]]:
    """Places of the labels among the classes, checked, and the classes."""
    values = labels.numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.ndim != 1 or values.dtype.hasobject:
        raise DataError(
            f"{name}: labels must be numbers or strings (N,), got {values.dtype} of shape {values.shape}"
        )
    if values.dtype.kind == "S":
        try:
            values = np.char.decode(values, "utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{name}: labels are bytes that are no text; store them as strings") from None
    if classes is None:
        if values.dtype.kind == "f" and not bool(np.isfinite(values).all()):
            raise DataError(f"{name}: some labels are NaN or infinite; drop their samples")
        kinds, places = np.unique(values, return_inverse=True)
        return torch.from_numpy(places.astype(np.int64)), tuple(map(str, kinds.tolist()))
    if values.dtype.kind not in "iu":
        raise DataError(f"{name}: with classes, labels must be integers, got {values.dtype}")
    if len(values) and not 0 <= values.min() <= values.max() < len(classes):
        raise DataError(
            f"{name}: labels go from {values.min()} to {values.max()}, and there are {len(classes)} classes"
        )
    return torch.from_numpy(values.astype(np.int64)), tuple(classes)
