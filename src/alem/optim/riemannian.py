"""What the optimisers have in common: groups, checks, and who takes which step.

Euclidean parameters go to one fused kernel of torch for each dtype, device and set of options. The
others move one by one through the methods of their manifold. A step asks for no value of a tensor on an
accelerator.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from alem.linalg.errors import can_inspect
from alem.optim.groups import manifold_of, parameter_groups

Options = dict[str, Any]
Parameters = nn.Module | Iterable[Tensor] | Iterable[Options] | Iterable[tuple[str, Tensor]]


class NonFiniteGradientError(ArithmeticError):
    """The gradient of a parameter on a manifold has a NaN or an infinity, or its square would have."""


class RiemannianOptimizer(Optimizer, ABC):
    """The loop over groups and parameters; a subclass states its two updates and its options.

    ``params`` is a module, from which groups are made (:func:`alem.optim.groups.parameter_groups`), or
    what torch accepts. Weight decay never touches a parameter on a manifold. A gradient of such a parameter
    that is NaN, infinite or too large to square raises :class:`NonFiniteGradientError` on the CPU, before
    any parameter has moved; elsewhere, where asking would synchronise, and for Euclidean parameters it
    spreads as in torch. State follows its parameter to another dtype or device.
    """

    _moment: str  # the key of the state that is like the parameter

    def __init__(self, params: Parameters, defaults: Options, metric_lr: float) -> None:
        _require(0.0 <= metric_lr < math.inf, f"metric_lr must be finite and not negative, got {metric_lr}")
        if isinstance(params, nn.Module):
            groups = parameter_groups(params, defaults["lr"], defaults["weight_decay"], metric_lr)
            _require(bool(groups), f"{type(params).__name__} has no parameters to optimise")
            params = groups
        else:
            _require(
                metric_lr == 1.0, "metric_lr needs the model, to see which parameters are its metrics'"
            )
        super().__init__(params, defaults)

    def add_param_group(self, param_group: Options) -> None:
        """Add a group with its options; those it does not give are the defaults."""
        super().add_param_group(param_group)
        try:
            self._check_group(self.param_groups[-1])
        except (TypeError, ValueError):
            del self.param_groups[-1]
            raise

    def _check_group(self, group: Options) -> None:
        """Raise ValueError, with a sentence, unless the options of a group make sense."""
        for option in ("lr", "weight_decay"):
            value = float(group[option])
            _require(0.0 <= value < math.inf, f"{option} must be finite and not negative, got {value}")
        for p in group["params"]:
            _require(not p.is_complex(), f"complex parameters are not supported, got {p.dtype}")

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Move every parameter that has a gradient; return what ``closure`` returned, if it is given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            # All gradients are looked at before the first parameter moves.
            flat, curved = self._active()
            for group, params in flat:
                self._step_fused(params, group)
            for group, p in curved:
                # A plain tensor: operations on a subclass cost more.
                self._manifold_step(p.detach(), p.grad, p.manifold, self.state[p], group)
        return loss

    @abstractmethod
    def _euclidean_step(
        self, params: list[Tensor], grads: list[Tensor], states: list[dict[str, Any]], group: Options
    ) -> None:
        """Update contiguous parameters of one dtype and device, in place."""

    @abstractmethod
    def _manifold_step(
        self, x: Tensor, G: Tensor, manifold: Any, state: dict[str, Any], group: Options
    ) -> None:
        """Update a point of a manifold, in place; ``G`` is the Euclidean gradient."""

    def _active(self) -> tuple[Iterable[tuple[Options, list[Tensor]]], list[tuple[Options, Any]]]:
        """The parameters that have a gradient, with the options of their groups.

        First the Euclidean ones, in lists that one kernel can take: of groups with equal options.
        """
        flat: dict[Any, tuple[Options, list[Tensor]]] = {}
        curved = []
        for group in self.param_groups:
            values = map(group.get, self.defaults)  # to which a loaded state adds one of torch's
            options = tuple(tuple(v) if isinstance(v, list) else v for v in values)  # betas, from JSON say
            for p in group["params"]:
                grad = p.grad
                if grad is None or not p.requires_grad:
                    continue
                if grad.layout is not torch.strided:
                    raise ValueError(
                        f"the gradient of a parameter of shape {tuple(p.shape)} is sparse; "
                        f"{type(self).__name__} needs dense ones (sparse=False in nn.Embedding)"
                    )
                if p in self.state:
                    self._follow(p, self.state[p])
                if manifold_of(p) is None:
                    flat.setdefault((p.dtype, p.device, options), (group, []))[1].append(p)
                else:
                    _require_finite(p, grad)
                    curved.append((group, p))
        return flat.values(), curved

    def _follow(self, p: Tensor, state: dict[str, Any]) -> None:
        """Convert the state of a parameter whose model was converted after a step was made."""
        moment = state.get(self._moment)
        if moment is None or (moment.dtype == p.dtype and moment.device == p.device):
            return
        for key, value in state.items():
            state[key] = value.to(device=p.device, dtype=value.dtype if key == "step" else p.dtype)

    def _step_fused(self, params: list[Tensor], group: Options) -> None:
        """The Euclidean step, on copies of what is not contiguous: fused kernels read memory in order."""
        dense = [p.contiguous() for p in params]
        grads = [p.grad.contiguous() for p in params if p.grad is not None]
        states = [self.state[p] for p in params]
        lr = group["lr"]
        if isinstance(lr, Tensor) and lr.is_cuda and lr.dtype != torch.float32:
            # The kernels read a rate on the device in single precision: they make the step of rate 1.
            moved = [p.clone() for p in dense]
            self._euclidean_step(moved, grads, states, {**group, "lr": 1.0})
            for p, q in zip(dense, moved, strict=True):
                p.lerp_(q, lr.to(p.dtype))
        else:
            self._euclidean_step(dense, grads, states, group)
        for p, q in zip(params, dense, strict=True):
            if q is not p:
                p.copy_(q)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def require_fraction(name: str, value: float) -> None:
    """Raise ValueError unless 0 ≤ value < 1."""
    _require(0.0 <= value < 1.0, f"{name} must be at least 0 and less than 1, got {value}")


def _require_finite(p: Tensor, grad: Tensor) -> None:
    """Raise NonFiniteGradientError if the gradient is not finite or too large to square."""
    if not can_inspect(grad):
        return
    limit = torch.finfo(grad.dtype).max
    if torch.linalg.vector_norm(grad).item() < limit**0.25:
        return  # as good as always; only an SPD matrix as large as this could square it to infinity
    where = f"the gradient of a parameter of shape {tuple(p.shape)} on the manifold {manifold_of(p).name}"
    bad = int((~grad.isfinite()).sum())
    if bad:
        raise NonFiniteGradientError(
            f"{where} has {bad} of {grad.numel()} entries that are NaN or infinite; no parameter was "
            "moved. Find where they were made (torch.autograd.set_detect_anomaly), lower the rate, or clip "
            "the gradients"
        )
    # ⟨g, g⟩ is (2‖G‖‖x‖)² at most, and a momentum of 0.99 sums up a hundred g: 2¹⁰ leaves room for both.
    largest = float(grad.abs().max())
    size = largest * float(torch.linalg.vector_norm(grad / largest))
    if size * float(torch.linalg.vector_norm(p.detach())) > limit**0.5 / 2**10:
        raise NonFiniteGradientError(
            f"{where} has entries of {largest:.1e}, too large to square in {grad.dtype}; no parameter was "
            "moved. Clip the gradients (torch.nn.utils.clip_grad_norm_), or scale the loss"
        )
