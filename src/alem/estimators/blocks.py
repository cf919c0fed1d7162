"""X that does not fit into memory: arrays in slices, Dask arrays in chunks, anything that yields blocks."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from alem import geometry
from alem.geometry.blocks import OfBlock, of_block
from alem.linalg.errors import places_are

T = TypeVar("T")
# Bytes of an array that are looked at together.
SLICE = 2**26
# Partial results that are joined at once, so that few wait.
ARITY = 8


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array, without importing Dask."""
    return type(X).__module__.startswith("dask.array") and hasattr(X, "to_delayed")


def is_blocks(X: Any) -> bool:
    """Whether X yields blocks of samples, rather than being an array or a list of samples."""
    if isinstance(X, (list, tuple)):
        return bool(X) and all(getattr(block, "ndim", 0) == 3 for block in X)
    return isinstance(X, Iterable) and not isinstance(X, str) and not hasattr(X, "shape")


_NONE = "there are no blocks of samples; a generator can be gone through once"


def some(blocks: Iterable[Any]) -> Iterator[Any]:
    """The blocks that have samples."""
    return (block for block in blocks if len(block))


def slices(X: Any) -> Iterator[Any]:
    """An array in slices of its first dimension; whatever has no shape of three dimensions whole."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) != 3:
        yield X
        return
    each = max(1, SLICE // max(1, 8 * int(np.prod(shape[1:]))))
    for start in range(0, max(1, shape[0]), each):
        yield X[start : start + each] if shape[0] > each else X


class Samples(geometry.Blocks):
    """The samples of X, checked by ``read(block, first)`` as they are gone through, with weights.

    ``read`` gives a tensor `(k, ...)`; the weights `(N,)` are for all samples. What is done with a Dask
    array is done where its chunks are.
    """

    def __init__(self, read: Callable[[Any, bool], Tensor], X: Any, weights: Tensor | None = None) -> None:
        super().__init__(X)
        self._blocks: Any
        self._read, self._weights = read, weights
        self._first: Tensor | None = None

    @property
    def can_repeat(self) -> bool:
        return not is_blocks(self._blocks) or super().can_repeat

    @property
    def n(self) -> int:
        """The size of the matrices; the first block is read for that, and kept."""
        if is_dask(self._blocks):
            return self._blocks.shape[1]
        if self._first is None:
            source = self._source()
            first = next(source, None)
            self._require_some(first is not None)
            self._first = self._read(first, True)
            if not self.can_repeat:
                self._blocks = itertools.chain([first], source)
        return self._first.shape[-1]

    def weighted(self, weights: Tensor) -> Samples:
        """The same with other weights."""
        other = Samples(self._read, self._blocks, weights)
        other._first = self._first
        return other

    def read(self) -> Iterator[tuple[int, Tensor]]:
        """Blocks as they are in this process, and where each begins."""
        start = 0
        for block in self._source():
            with _beginning_at(start, block):
                known = start == 0 and self._first is not None
                matrices = self._first if known else self._read(block, start == 0)
            assert matrices is not None
            end = start + len(matrices)
            if self._weights is not None and end > len(self._weights):
                raise ValueError(f"there are {len(self._weights)} labels or weights, and more samples")
            yield start, matrices
            start = end
        self._require_some(start > 0)
        self._require_weights(start)

    def _source(self) -> Iterator[Any]:
        return some(self._blocks) if is_blocks(self._blocks) else slices(self._blocks)

    def _require_some(self, there_are: bool) -> None:
        if not there_are:
            raise ValueError(_NONE)

    def _require_weights(self, n_samples: int) -> None:
        if self._weights is not None and len(self._weights) != n_samples:
            raise ValueError(f"there are {len(self._weights)} labels or weights for {n_samples} samples")

    def map(self, f: OfBlock[T]) -> Iterator[T]:
        for start, X in self.read():
            yield of_block(f, start, X, _part(self._weights, start, len(X)))

    def reduce(self, f: OfBlock[T], join: Callable[[T, T], T]) -> T:
        if not is_dask(self._blocks):
            return super().reduce(f, join)
        from dask.delayed import delayed

        chunked = whole_samples(self._blocks)
        self._require_weights(chunked.shape[0])
        one, several = delayed(_one, pure=False), delayed(_fold, pure=False)
        read, of = delayed(self._read, pure=False), delayed(f, pure=False)  # sent once
        parts, start = [], 0
        for chunk, size in zip(chunked.to_delayed().ravel(), chunked.chunks[0], strict=True):
            parts.append(one(read, of, start, chunk, _part(self._weights, start, size)))
            start += size
        while len(parts) > 1:
            parts = [several(join, parts[i : i + ARITY]) for i in range(0, len(parts), ARITY)]
        return parts[0].compute()


def _part(weights: Tensor | None, start: int, size: int) -> Tensor | None:
    # A copy: a view would be sent to another process with all that it is a view of.
    return None if weights is None else weights[start : start + size].clone()


def _one(read: Callable[[Any, bool], Tensor], f: OfBlock[T], start: int, chunk: Any, w: Tensor | None) -> T:
    if not len(chunk):
        return of_block(f, start, torch.zeros(chunk.shape, dtype=torch.float64), w)
    with _beginning_at(start, chunk):
        X = read(chunk, False)
    return of_block(f, start, X, w)


def _fold(join: Callable[[T, T], T], parts: list[T]) -> T:
    return functools.reduce(join, parts)


def whole_samples(X: Any) -> Any:
    """A Dask array with chunks of whole samples whose sizes are known."""
    if X.ndim != 3:
        raise ValueError(
            "expected matrices (n_samples, n, n) or signals (n_samples, channels, times), got a Dask array "
            f"of shape {X.shape}"
        )
    if any(np.isnan(size) for size in X.shape):
        raise ValueError(
            "the chunks of this Dask array have sizes that are not known; call its compute_chunk_sizes()"
        )
    return X.rechunk({1: -1, 2: -1})


def by_block(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a method of an array of samples take blocks too, and arrays larger than memory.

    A Dask array gives a Dask array, an iterable of blocks a generator of results, an array an array. What
    is computed later is computed with the estimator as it is now.
    """

    @functools.wraps(method)
    def of_any(self: Any, X: Any) -> Any:
        if is_dask(X):
            check_is_fitted(self)
            return _of_dask(_as_it_is(self), method, X)
        if is_blocks(X):
            check_is_fitted(self)
            return _of_blocks(_as_it_is(self), method, X)
        return _of_array(self, method, X)

    return of_any


def _as_it_is(estimator: Any) -> Any:
    """A copy without the sums, which predict nothing."""
    copied = copy.copy(estimator)
    for name in ("sum_", "sums_"):
        vars(copied).pop(name, None)
    return copy.deepcopy(copied)


def _of_blocks(estimator: Any, method: Callable[[Any, Any], Any], blocks: Iterable[Any]) -> Iterator[Any]:
    start = 0
    for block in some(blocks):
        with _beginning_at(start, block):
            result = method(estimator, block)
        yield result
        start += len(block)
    if not start:
        raise ValueError(_NONE)


def _of_array(estimator: Any, method: Callable[[Any, Any], Any], X: Any) -> Any:
    result: Any = None
    start = 0
    for part in slices(X):
        with _beginning_at(start, part):
            found = method(estimator, part)
        if part is X:
            return found
        if result is None:
            shape = (X.shape[0], *found.shape[1:])
            result = found.new_empty(shape) if isinstance(found, Tensor) else np.empty(shape, found.dtype)
        result[start : start + len(part)] = found
        start += len(part)
    return result


def _of_dask(estimator: Any, method: Callable[[Any, Any], Any], X: Any) -> Any:
    X = whole_samples(X)
    like = method(estimator, estimator._stand_in(X))
    tail = like.shape[1:]
    return X.map_blocks(
        functools.partial(_of_chunk, method, estimator, like[:0]),
        drop_axis=[1, 2],
        new_axis=list(range(1, 1 + len(tail))) or None,
        chunks=(X.chunks[0], *((size,) for size in tail)),
        dtype=like.dtype,
        meta=like[:0],
    )


def _of_chunk(
    method: Callable[[Any, Any], Any], estimator: Any, empty: Any, X: Any, block_info: Any = None
) -> Any:
    if not len(X):
        return empty
    start, _ = block_info[0]["array-location"][0]
    with _beginning_at(start, X):
        return method(estimator, X)


def _beginning_at(start: int, block: Any) -> AbstractContextManager[None]:
    return places_are(range(start, start + len(block))) if start else nullcontext()
