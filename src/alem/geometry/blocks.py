"""SPD matrices that are looked at block after block, because all of them do not fit into memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from alem.linalg.errors import InvalidMatrixError, places_are, require_square

T = TypeVar("T")
# What is done with a block: f(place of its first matrix, X (k, n, n), weights (k,) or None).
OfBlock = Callable[[int, Tensor, Tensor | None], T]
# Bytes of matrices that are computed with together; what is made of them takes several times as much.
PIECE = 2**24


class Moments(NamedTuple):
    """What a metric says of many matrices: their Fréchet mean, dispersion and total weight."""

    mean: Tensor
    variance: Tensor | None
    weight: float


class Blocks:
    """Matrices `(k, n, n)`, or pairs of them and weights `(k,)`, one block after the other.

    Tensors or arrays. A subclass whose blocks are elsewhere overrides :meth:`reduce`, to do the work there.
    """

    def __init__(self, blocks: Iterable[Any]) -> None:
        self._blocks = blocks

    @property
    def can_repeat(self) -> bool:
        """Whether they can be gone through more than once, which a generator cannot."""
        return iter(self._blocks) is not self._blocks

    def reduce(self, f: OfBlock[T], join: Callable[[T, T], T]) -> T:
        """f of all blocks, joined in their order; ``join`` does not change what it is given."""
        return reduce(join, self.map(f))

    def map(self, f: OfBlock[T]) -> Iterator[T]:
        """f of each block, in their order."""
        start, any_block = 0, False
        for block in self._blocks:
            any_block = True
            X, w = block if isinstance(block, tuple) else (block, None)
            X = as_tensor(X)
            yield of_block(f, start, X, None if w is None else as_tensor(w))
            start += len(X)
        if not any_block:
            raise InvalidMatrixError(
                "there are no blocks of matrices; a generator can be gone through once"
            )


def as_blocks(blocks: Iterable[Any] | Blocks) -> Blocks:
    """Blocks, unless they are that already."""
    if isinstance(blocks, Tensor):
        raise TypeError("expected an iterable of blocks (k, n, n), got one tensor; pass [X], or X.split(k)")
    return blocks if isinstance(blocks, Blocks) else Blocks(blocks)


def as_tensor(array: Any) -> Tensor:
    """A tensor of what is in ``array``, without a copy."""
    if isinstance(array, Tensor):
        return array
    array = np.asarray(array)
    if array.dtype.hasobject or array.dtype.kind not in "fiub":
        raise InvalidMatrixError(f"expected blocks of numbers, got an array of {array.dtype}")
    if not array.dtype.isnative or any(stride < 0 for stride in array.strides):
        array = array.astype(array.dtype.newbyteorder("="))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nothing here writes
        return torch.from_numpy(array)


def of_block(f: OfBlock[T], start: int, X: Tensor, w: Tensor | None) -> T:
    """f of a checked block whose first matrix is the one at ``start``."""
    if X.ndim != 3:
        raise InvalidMatrixError(
            f"expected blocks of matrices (k, n, n), got one of shape {tuple(X.shape)}"
        )
    if w is not None:
        _require_weights(w, X, start)
    with places_are(range(start, start + len(X))), torch.no_grad():
        return f(start, X, w)


def require_block(X: Tensor, w: Tensor | None, start: int = 0) -> None:
    """Raise InvalidMatrixError unless X are matrices `(k, n, n)` and w weights `(k,)` or None."""
    if not isinstance(X, Tensor) or X.ndim != 3:
        what = f"shape {tuple(X.shape)}" if isinstance(X, Tensor) else type(X).__name__
        raise InvalidMatrixError(f"expected blocks of matrices (k, n, n) as tensors, got one of {what}")
    require_square(X)
    if w is not None:
        _require_weights(w, X, start)


def pieces(X: Tensor, w: Tensor | None) -> Iterator[tuple[Sequence[int], Tensor, Tensor]]:
    """What counts in a block, in parts small enough to compute with: places, matrices, weights."""
    size = max(1, PIECE // max(1, X[:1].nbytes))
    for i in range(0, len(X), size):
        piece = X[i : i + size]
        places: Sequence[int] = range(i, i + len(piece))
        v = piece.new_ones(len(piece), dtype=torch.float64)
        if w is not None:
            v = w[i : i + size].to(v)
            counts = v > 0
            if not bool(counts.all()):
                places, piece, v = (i + counts.nonzero()[:, 0]).tolist(), piece[counts], v[counts]
        if len(piece):
            yield places, piece, v


def _require_weights(w: Tensor, X: Tensor, start: int) -> None:
    if w.shape != X.shape[:1]:
        raise InvalidMatrixError(
            f"a block of {len(X)} matrices needs weights ({len(X)},), got shape {tuple(w.shape)}"
        )
    bad = ~((w >= 0) & w.isfinite())
    if bool(bad.any()):
        i = int(bad.nonzero()[0])
        raise InvalidMatrixError(
            f"the weight of matrix {start + i} is {float(w[i])}; weights must be finite and not negative",
            (start + i,),
        )
