"""Batches of a part of a data set, on the device of the model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

S = TypeVar("S")
T = TypeVar("T")

# A part of up to this many bytes is copied to the device once; a larger one travels batch by batch, so
# that a file mapped into memory is never read as a whole. On the CPU, where a batch travels fast, less.
HELD, HELD_ON_CPU = 4 * 2**30, 2**29
# Threads that read from the disk while others compute: one to wait for it, one to copy.
WORKERS = 2
# Matrices evaluated together, more than in training: nothing is kept for a gradient. On an accelerator,
# where each block costs its launches, as many as fill so many bytes.
BLOCK, BLOCK_BYTES = 512, 2**27


class Batches:
    """Matrices `(k, n, n)` and labels `(k,)` of the samples at ``places``, converted and on the device.

    Up to ``held`` bytes are there all the time; of more, ``workers`` threads fetch the next batches while
    one is computed with.
    """

    def __init__(
        self,
        matrices: Tensor,
        labels: Tensor,
        places: Tensor,
        dtype: torch.dtype,
        device: torch.device,
        held: int | None = None,
        workers: int = WORKERS,
    ) -> None:
        if workers < 0:
            raise ValueError(f"workers must not be negative, got {workers}")
        self._matrices, self._places = matrices, places
        self._dtype, self._device, self._workers = dtype, device, workers
        if held is None:
            held = HELD_ON_CPU if device.type == "cpu" else HELD
        self.labels = labels[places].to(device)
        size = len(places) * matrices[0].numel() * dtype.itemsize
        self._held = self._fetch(places).to(device) if size <= held else None

    def __len__(self) -> int:
        return len(self._places)

    def _fetch(self, places: Tensor) -> Tensor:
        return self._matrices[places].to(self._dtype)

    def run(
        self, size: int, order: Tensor | None = None, share: tuple[int, int] = (0, 1)
    ) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Batches of ``size`` in an order, a permutation: their slice of it, the matrices, the labels.

        With ``share`` (i, k) the i-th of k even parts of each batch.
        """
        if order is None:
            held, labels = self._held, self.labels
        else:
            # One gather an epoch; its slices are views.
            placed = order.to(self._device)
            held, labels = None if self._held is None else self._held[placed], self.labels[placed]
        i, k = share

        def fetch(part: slice) -> tuple[slice, Tensor, Tensor]:
            if held is not None:
                return part, held[part], labels[part]
            places = self._places[part] if order is None else self._places[order[part]]
            return part, self._fetch(places), labels[part]

        starts = ((start, min(size, len(self) - start)) for start in range(0, len(self), size))
        parts = (slice(start + whole * i // k, start + whole * (i + 1) // k) for start, whole in starts)
        if held is not None:
            yield from map(fetch, parts)
        else:  # only this thread speaks to the device: what others do there would disturb a capture
            for part, X, y in ahead(fetch, parts, self._workers):
                yield part, X.to(self._device), y

    def blocks(self) -> Iterator[Tensor]:
        """All matrices in their order, in blocks that suit an evaluation."""
        size = BLOCK
        if self._device.type != "cpu":
            size = max(size, BLOCK_BYTES // (self._matrices[0].numel() * self._dtype.itemsize))
        return (X for _, X, _ in self.run(size))


def ahead(f: Callable[[S], T], items: Iterable[S], workers: int) -> Iterator[T]:
    """``map``, with so many threads at work on what comes next."""
    if not workers:
        yield from map(f, items)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="alem-batches")
    try:
        waiting: deque[Future[T]] = deque()
        for item in items:
            waiting.append(pool.submit(f, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:  # also where the one who asks has had enough
        pool.shutdown(cancel_futures=True)
