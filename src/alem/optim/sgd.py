"""Riemannian stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from alem.optim import moves
from alem.optim.riemannian import Parameters, RiemannianOptimizer, require_fraction


class RiemannianSGD(RiemannianOptimizer):
    """x ← R_x(−lr·d), d the Riemannian gradient g or, with momentum μ, d = b ← μb + (1 − dampening)·g.

    b starts at g and is transported to each new point; Nesterov's variant takes d = g + μb. On Euclidean
    parameters it is ``torch.optim.SGD``. Given a model, what its metrics own moves at lr·metric_lr and
    only Euclidean parameters of two dimensions or more decay. Bonnabel 2013, "Stochastic gradient
    descent on Riemannian manifolds".
    """

    _moment = "momentum_buffer"

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor,
        momentum: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        metric_lr: float = 1.0,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "nesterov": nesterov,
            "weight_decay": weight_decay,
        }
        super().__init__(params, defaults, metric_lr)

    def _check_group(self, group: dict[str, Any]) -> None:
        super()._check_group(group)
        require_fraction("momentum", group["momentum"])
        require_fraction("dampening", group["dampening"])
        if group["nesterov"] and (group["momentum"] == 0.0 or group["dampening"] != 0.0):
            raise ValueError("nesterov needs a momentum and no dampening")

    def _euclidean_step(
        self, params: list[Tensor], grads: list[Tensor], states: list[dict[str, Any]], group: dict[str, Any]
    ) -> None:
        if group["momentum"] == 0.0:
            _fused(params, grads, [], group, first=False)
            return
        fresh = [i for i, state in enumerate(states) if "momentum_buffer" not in state]
        started = [i for i, state in enumerate(states) if "momentum_buffer" in state]
        for i in fresh:
            states[i]["momentum_buffer"] = torch.empty_like(params[i])
        # The kernel is told whether the buffers have been written, for all parameters alike.
        for chosen, first in ((fresh, True), (started, False)):
            if chosen:
                buffers = [states[i]["momentum_buffer"] for i in chosen]
                _fused([params[i] for i in chosen], [grads[i] for i in chosen], buffers, group, first)

    def _manifold_step(
        self, x: Tensor, G: Tensor, manifold: Any, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        lr, momentum = group["lr"], group["momentum"]
        if momentum == 0.0:
            x.copy_(moves.descend(manifold, x, G, lr))
            return
        g = manifold.egrad2rgrad(x, G)
        if "momentum_buffer" in state:
            buffer = state["momentum_buffer"].mul_(momentum).add_(g, alpha=1 - group["dampening"])
        else:
            buffer = state["momentum_buffer"] = g.clone(memory_format=torch.contiguous_format)
        if group["nesterov"]:
            direction = torch.add(g, buffer, alpha=momentum)
            y, transported = manifold.retr_transp(x, -lr * direction, buffer)
        else:
            y, transported = moves.carry(manifold, x, buffer, lr)
        x.copy_(y)
        buffer.copy_(transported)


def _fused(
    params: list[Tensor], grads: list[Tensor], buffers: list[Tensor], group: dict[str, Any], first: bool
) -> None:
    torch._fused_sgd_(
        params,
        grads,
        buffers,
        weight_decay=group["weight_decay"],
        momentum=group["momentum"],
        lr=group["lr"],
        dampening=group["dampening"],
        nesterov=group["nesterov"],
        maximize=False,
        is_first_step=first,
    )
