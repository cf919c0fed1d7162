"""Sums over the processes of a distributed training, for means of matrices that they share.

A group of processes goes by a name, ``""`` for this process alone, so that operators of torch can take it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor, distributed

Group: TypeAlias = "distributed.ProcessGroup"  # a text: not every build of torch has it

_GROUPS: dict[str, Group] = {}


def name_of(group: Group | None) -> str:
    """The name under which the functions of this module know ``group``."""
    if group is None or distributed.get_world_size(group) == 1:
        return ""
    _GROUPS[group.group_name] = group
    return group.group_name


def gather(x: Tensor, group: Group | None) -> Tensor:
    """x `(N, ...)` of all processes one after the other; the gradient is that of the sum of all losses."""
    name = name_of(group)
    if not name:
        return x
    rank = distributed.get_rank(group)
    counts = torch.zeros(distributed.get_world_size(group), dtype=torch.long, device=x.device)
    counts[rank] = len(x)
    parts = [
        x if r == rank else x.new_zeros(n, *x.shape[1:])
        for r, n in enumerate(all_reduced(counts, _GROUPS[name]).tolist())
    ]
    return replicated(total(torch.cat(parts), name), name)


def all_reduced(x: Tensor, group: Group, largest: bool = False) -> Tensor:
    """The sum of x over the processes, or the largest; no derivative."""
    total = x.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(total, distributed.ReduceOp.MAX if largest else distributed.ReduceOp.SUM, group)
    return total


def total(x: Tensor, name: str) -> Tensor:
    """The sum of x over the processes.

    Its derivative by the own x is the identity: what comes back has to be the same on every process, as
    it is behind :func:`replicated`.
    """
    return _Total.apply(x, _GROUPS[name]) if name else x


def maximum(x: Tensor, name: str) -> Tensor:
    """The largest x; no derivative."""
    return all_reduced(x, _GROUPS[name], largest=True) if name else x


def replicated(x: Tensor, name: str) -> Tensor:
    """x itself, the same on every process; what comes back to it is the sum over them."""
    return _Replicated.apply(x, _GROUPS[name]) if name else x


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        return all_reduced(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class _Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return all_reduced(grad, ctx.group), None
