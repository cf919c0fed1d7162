"""What a captured step was captured with: if any of it differs, the graph must not be replayed."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from alem.training.rates import rate_tokens


def signature(arguments: tuple[Any, ...], model: nn.Module, loss: Any, optimizer: Optimizer) -> Hashable:
    """All that a graph of the step depends on beside values of tensors, as something to compare."""
    parts: list[Hashable] = [
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda"),
        id(loss),
    ]
    parts += [(a.shape, a.dtype) if isinstance(a, Tensor) else _token(a) for a in arguments]
    for root in (model, loss):
        if isinstance(root, nn.Module):
            for module in root.modules():
                _add_module(parts, module)
    _add_optimizer(parts, optimizer)
    return tuple(parts)


def _add_module(parts: list[Hashable], module: nn.Module) -> None:
    """Its numbers and flags, its parameters and its buffers."""
    for value in module.__dict__.values():
        if type(value) in _PLAIN:
            parts.append(value)
    for tensors in (module._parameters, module._buffers):
        for t in tensors.values():
            if t is not None:
                parts += (id(t), t.data_ptr(), t.requires_grad)


def _add_optimizer(parts: list[Hashable], optimizer: Optimizer) -> None:
    """Its options, but for rates that live on the device, its parameters, and the places of its state."""
    parts += (len(optimizer._optimizer_step_pre_hooks), len(optimizer._optimizer_step_post_hooks))
    parts += rate_tokens(optimizer)
    for group in optimizer.param_groups:
        for name, value in group.items():
            if name == "params":
                parts += map(id, value)
            elif name not in _RATES:
                parts.append(_token(value))
        for p in group["params"]:
            for value in optimizer.state.get(p, {}).values():
                parts.append(_token(value))


_PLAIN = (bool, int, float, str)
_RATES = ("lr", "initial_lr")  # the second is a note of torch's schedulers to themselves


def _token(value: Any) -> Hashable:
    """Something equal exactly where the value is the same."""
    if isinstance(value, Tensor):
        return id(value), value.data_ptr()
    if isinstance(value, (list, tuple)):
        return tuple(_token(v) for v in value)
    return value if type(value) in _PLAIN or value is None else id(value)
