"""Riemannian AMSGrad."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from alem.linalg.errors import can_inspect
from alem.optim import moves
from alem.optim.riemannian import Parameters, RiemannianOptimizer, require_fraction


class RiemannianAMSGrad(RiemannianOptimizer):
    """x ← R_x(−lr·m̂ / (√v̂ + eps)), m the transported mean of g and v the largest mean so far of ⟨g, g⟩_x.

    m ← β₁m + (1 − β₁)g and w ← β₂w + (1 − β₂)⟨g, g⟩_x with one w for each matrix, v ← max(v, w),
    m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ). On Euclidean parameters it is
    ``torch.optim.Adam(amsgrad=True)``, entry by entry. Given a model, what its metrics own moves at
    lr·metric_lr and only Euclidean parameters of two dimensions or more decay. Bécigneul, Ganea 2019,
    "Riemannian adaptive optimization methods".
    """

    _moment = "exp_avg"

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        metric_lr: float = 1.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults, metric_lr)

    def _check_group(self, group: dict[str, Any]) -> None:
        super()._check_group(group)
        for i, beta in enumerate(group["betas"]):
            require_fraction(f"betas[{i}]", beta)
        if not 0.0 <= group["eps"] < math.inf:
            raise ValueError(f"eps must be finite and not negative, got {group['eps']}")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state; the step counts go where the parameters are, as the rest does."""
        super().load_state_dict(state_dict)
        for p, state in self.state.items():
            if "step" in state:
                state["step"] = state["step"].to(p.device)

    def _euclidean_step(
        self, params: list[Tensor], grads: list[Tensor], states: list[dict[str, Any]], group: dict[str, Any]
    ) -> None:
        for p, state in zip(params, states, strict=True):
            if not state:
                _start(state, p, p, torch.float32)  # as the kernel wants it
        steps, m, w, v = (
            [state[key] for state in states] for key in ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        )
        _count(steps)
        torch._fused_adam_(
            params,
            grads,
            m,
            w,
            v,
            steps,
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=True,
            maximize=False,
        )

    def _manifold_step(
        self, x: Tensor, G: Tensor, manifold: Any, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        g, square = moves.gradient(manifold, x, G)
        if not state:
            second = g.new_zeros(1, 1) if isinstance(square, float) else square
            _start(state, g, second, torch.float64)  # so that 1 − βᵗ keeps its digits
        m = state["exp_avg"].lerp_(g, 1 - group["betas"][0])
        y, transported = moves.carry(manifold, x, m, _rate(square, state, group))
        x.copy_(y)
        m.copy_(transported)


def _count(steps: list[Tensor]) -> None:
    """Raise the counts; on the CPU by hand, where the kernel takes several times as long."""
    if can_inspect(steps[0]):
        for step in steps:
            step.fill_(step.item() + 1)
    else:
        torch._foreach_add_(steps, 1)


def _rate(square: float | Tensor, state: dict[str, Any], group: dict[str, Any]) -> float | Tensor:
    """lr / (1 − β₁ᵗ) / (√v̂ + eps) after the count and the second moments have moved.

    A float if ``square`` is: one kernel for a single number costs more than all of the arithmetic.
    """
    step, w, v = state["step"], state["exp_avg_sq"], state["max_exp_avg_sq"]
    (beta1, beta2), eps, lr = group["betas"], group["eps"], group["lr"]
    if isinstance(square, float):
        t = step.item() + 1
        step.fill_(t)
        mean = beta2 * w.item() + (1 - beta2) * square
        largest = max(v.item(), mean)
        w.fill_(mean)
        v.fill_(largest)
        scale = (1 - beta1**t) * (math.sqrt(largest / (1 - beta2**t)) + eps)
        return float(lr) / scale if scale else 0.0  # no gradient so far and no eps
    step.add_(1)
    w.lerp_(square, 1 - beta2)
    torch.maximum(v, w, out=v)
    scale = v.div(torch.rsub(torch.pow(beta2, step), 1)).sqrt_().add_(eps)
    return scale.mul_(torch.rsub(torch.pow(beta1, step), 1)).reciprocal_().mul_(lr)


def _start(state: dict[str, Any], first: Tensor, second: Tensor, count: torch.dtype) -> None:
    """A count that a CUDA graph could raise, and zeros for the means, in the order of memory."""
    state["step"] = torch.zeros((), dtype=count, device=first.device)
    state["exp_avg"] = torch.zeros_like(first, memory_format=torch.contiguous_format)
    for key in ("exp_avg_sq", "max_exp_avg_sq"):
        state[key] = torch.zeros_like(second, memory_format=torch.contiguous_format)
