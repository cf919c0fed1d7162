"""How much memory a training step keeps for its backward pass."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def kept_bytes(run: Callable[[], object], device: str) -> int:
    """The most that is held at once.

    On CUDA the peak of the allocator above what was there before. On the CPU, which has no such count, the
    tensors that autograd keeps from the forward to the backward pass, each piece of memory once.
    """
    run()  # gradients and buffers exist from the first step on
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        return torch.cuda.max_memory_allocated(device) - before
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.detach()  # alive, so that no address comes again
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
