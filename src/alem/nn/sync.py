"""Batch statistics over all processes of a distributed training.

A statistic is a sum over the matrices of all processes divided by their number. The sum is taken by one
all-reduce, and so is that of the gradients that come back to it: each process then has its share of the
gradient of the *sum* of all losses, which is what DistributedDataParallel averages. With batches of equal
size on each process, a step is that of one process with the whole batch.
"""

from __future__ import annotations

import torch
from torch import Tensor, distributed, nn

from alem.geometry import processes
from alem.geometry.processes import Group, name_of, replicated


def are_several(group: Group | None) -> bool:
    """Whether statistics are over other processes too; a group of None is this one alone."""
    return group is not None and distributed.get_world_size(group) > 1


def total(x: Tensor, group: Group | None) -> Tensor:
    """The sum of x over the processes, differentiable."""
    name = name_of(group)
    return replicated(processes.total(x, name), name)


def mean(x: Tensor, group: Group | None) -> Tensor:
    """The mean over the first dimension of x `(N, ...)` and over the processes; N may differ."""
    return mean_and_count(x, group)[0]


def mean_and_count(x: Tensor, group: Group | None) -> tuple[Tensor, Tensor | int]:
    """The mean, and over how many it is: one call, since a call takes longer than what it sends."""
    if not are_several(group):
        return x.mean(0), len(x)
    sums = total(torch.cat([x.sum(0).reshape(-1), x.new_full((1,), len(x))]), group)
    count = sums[-1].detach()
    return sums[:-1].reshape(x.shape[1:]) / count, count


class Synchronised(nn.Module):
    """A layer whose batch statistics may be over several processes; :func:`convert_sync` has it so.

    Copied or loaded where there are no processes, it is alone again.
    """

    is_synchronised: bool = False
    process_group: Group | None = None  # None for all processes

    @property
    def group(self) -> Group | None:
        """The processes that statistics are over; None for this one alone."""
        if not self.is_synchronised or not distributed.is_initialized():
            return None
        return distributed.group.WORLD if self.process_group is None else self.process_group


def convert_sync(module: nn.Module, group: Group | None = None) -> nn.Module:
    """Make every batch norm in ``module`` take its statistics over all processes; returns ``module``.

    LieBN, SPDNetBN, SPDBN, ChartNorm and the norms inside residual blocks, on CPUs too; norms of torch are
    left as they are. ``group`` is by default that of all processes, which has to be initialised. Keys and
    tensors of ``state_dict`` stay as they are, and a group of one process changes nothing. In training
    every process has to call the layers in the same order, each with a matrix at least.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        raise RuntimeError(
            "there are no processes to synchronise with: call torch.distributed.init_process_group first"
        )
    for layer in module.modules():
        if isinstance(layer, Synchronised):
            layer.is_synchronised, layer.process_group = True, group
    return module
