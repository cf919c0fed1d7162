"""Batches of a part of a data set, on the device of the model."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

# A part of up to this many bytes is copied to the device once; a larger one travels batch by batch, so
# that a file mapped into memory is never read as a whole.
HELD = 4 * 2**30
# Matrices evaluated together, more than in training: nothing is kept for a gradient. On an accelerator,
# where each block costs its launches, as many as fill so many bytes.
BLOCK, BLOCK_BYTES = 512, 2**27


class Batches:
    """Matrices `(k, n, n)` and labels `(k,)` of the samples at ``places``, converted and on the device."""

    def __init__(
        self,
        matrices: Tensor,
        labels: Tensor,
        places: Tensor,
        dtype: torch.dtype,
        device: torch.device,
        held: int = HELD,
    ) -> None:
        self._matrices, self._places = matrices, places
        self._dtype, self._device = dtype, device
        self.labels = labels[places].to(device)
        size = len(places) * matrices[0].numel() * dtype.itemsize
        self._held = self._fetch(places) if size <= held else None

    def __len__(self) -> int:
        return len(self._places)

    def _fetch(self, places: Tensor) -> Tensor:
        return self._matrices[places].to(device=self._device, dtype=self._dtype)

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
        for start in range(0, len(self), size):
            whole = min(size, len(self) - start)
            part = slice(start + whole * i // k, start + whole * (i + 1) // k)
            if held is not None:
                yield part, held[part], labels[part]
            else:
                places = self._places[part] if order is None else self._places[order[part]]
                yield part, self._fetch(places), labels[part]

    def blocks(self) -> Iterator[Tensor]:
        """All matrices in their order, in blocks that suit an evaluation."""
        size = BLOCK
        if self._device.type != "cpu":
            size = max(size, BLOCK_BYTES // (self._matrices[0].numel() * self._dtype.itemsize))
        return (X for _, X, _ in self.run(size))
