"""Learning rates in memory of the device, where a captured step reads them anew at each replay."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator

import torch
from torch import Tensor
from torch.optim import Optimizer

from alem.optim.riemannian import RiemannianOptimizer


class DeviceRates:
    """The rates of an optimiser as tensors on a device, one for groups of equal rates.

    Rates that are tensors already stay, and those of optimisers that do not take tensors.
    """

    def __init__(self, optimizer: Optimizer, device: torch.device) -> None:
        self._optimizer = optimizer
        self._held: list[tuple[int, Tensor]] = []  # a group, and the tensor for its rate
        self._values: list[float] = []
        if not takes_tensors(optimizer):
            return
        made: dict[tuple[float, torch.dtype], Tensor] = {}
        for i, group in enumerate(optimizer.param_groups):
            lr = group["lr"]
            if isinstance(lr, Tensor):
                continue
            # In single precision, which fused kernels read, unless parameters of alem's ask for more.
            ours = isinstance(optimizer, RiemannianOptimizer)
            double = ours and any(p.dtype == torch.float64 for p in group["params"])
            dtype = torch.float64 if double else torch.float32
            if (lr, dtype) not in made:
                made[lr, dtype] = torch.full((), lr, dtype=dtype, device=device)
            self._held.append((i, made[lr, dtype]))
            self._values.append(lr)

    @contextlib.contextmanager
    def in_groups(self) -> Iterator[None]:
        """The tensors in place of the numbers, while a step is captured."""
        groups = self._optimizer.param_groups
        numbers = [groups[i]["lr"] for i, _ in self._held]
        for i, rate in self._held:
            groups[i]["lr"] = rate
        try:
            yield
        finally:
            for (i, _), number in zip(self._held, numbers, strict=True):
                groups[i]["lr"] = number

    def refresh(self) -> None:
        """Bring the tensors up to the rates that the groups have now; a number travels with its kernel."""
        groups = self._optimizer.param_groups  # which loading a state replaces
        for place, (i, rate) in enumerate(self._held):
            lr = groups[i]["lr"]
            if lr != self._values[place]:
                rate.fill_(lr)
                self._values[place] = lr


def takes_tensors(optimizer: Optimizer) -> bool:
    """Whether rates may be tensors on the device: alem's, and torch's with ``capturable=True``."""
    if isinstance(optimizer, RiemannianOptimizer):
        return True
    return all(group.get("capturable", False) for group in optimizer.param_groups)


def rate_tokens(optimizer: Optimizer) -> list[Hashable]:
    """What a graph depends on of the rates: which groups share one, or their values if it cannot follow."""
    rates = [group.get("lr") for group in optimizer.param_groups]
    tokens: list[Hashable] = []
    first: dict[Hashable, int] = {}  # a tensor on a device is not to be compared with a number
    for i, lr in enumerate(rates):
        if isinstance(lr, Tensor):
            tokens += (id(lr), lr.data_ptr())
        elif takes_tensors(optimizer):
            tokens.append(first.setdefault(lr, i))
        else:
            tokens.append(lr)
    return tokens
