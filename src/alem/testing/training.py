"""A few steps of training, and which parameters they moved."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from alem.optim import RiemannianSGD
from alem.testing.case import LayerCase, trainable
from alem.testing.comparing import functionals, require, require_finite, saying

STEPS, LENGTH = 5, 1e-2
ROUNDING = 1e-12  # what a parameter that does not matter may move in these steps, relative to its size or 1
TINY = 1e-100  # in place of a gradient that is zero


def train(case: LayerCase, layer: nn.Module) -> None:
    """Steps of RiemannianSGD down the squares of functionals of the outputs, the first of length LENGTH.

    Passes only, if there is no parameter to train.
    """
    parameters = trainable(layer)
    if not parameters:
        for _ in range(STEPS):
            case.run(layer, case.X)
        return
    with saying("making RiemannianSGD"):
        optimizer = RiemannianSGD(layer, lr=LENGTH)
    size = 0.0
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        functionals(case.run(layer, case.X)).square().sum().backward()
        grads = {name: _gradient(name, p) for name, p in parameters.items()}
        for name, grad in grads.items():
            require_finite(grad, f"the gradient of {name} at step {step} of training")
        size = size or max(float(torch.cat([g.reshape(-1) for g in grads.values()]).norm()), TINY)
        for grad in grads.values():
            grad.div_(size)
        with saying(f"step {step} of RiemannianSGD"):
            optimizer.step()


def require_moved(name: str, before: Tensor, after: Tensor, unmoved: tuple[str, ...]) -> None:
    """Raise AssertionError unless every entry has moved, and those that ``unmoved`` names have not."""
    moved = (after - before).abs() / before.abs().clamp(min=1)
    still = _named(name, before, unmoved)
    for wrong, fault in (
        (~still & ~(moved > ROUNDING), "has not moved"),
        (still & ~(moved <= ROUNDING), "was to stay and moved"),
    ):
        if bool(wrong.any()):
            where = tuple(int(i) for i in wrong.nonzero()[0])
            entry = f"{name}{list(where) if where else ''}"
            raise AssertionError(
                f"{entry} {fault} in {STEPS} steps of RiemannianSGD: by {float(moved[where]):.3g}, where "
                f"{ROUNDING} would be rounding; see unmoved="
            )


def require_known(names: list[str], unmoved: tuple[str, ...]) -> None:
    """Raise AssertionError unless ``unmoved`` names parameters."""
    unknown = [entry for entry in unmoved if entry.partition("[")[0] not in names]
    require(not unknown, f"unmoved names {unknown}, and the parameters are {names}")


def _gradient(name: str, p: Tensor) -> Tensor:
    if p.grad is None:
        raise AssertionError(f"{name} receives no gradient; is it used?")
    return p.grad


def _named(name: str, like: Tensor, unmoved: tuple[str, ...]) -> Tensor:
    """Which entries of a parameter are named."""
    mask = torch.zeros_like(like, dtype=torch.bool)
    for entry in unmoved:
        whole, _, index = entry.partition("[")
        if whole == name:
            mask[tuple(int(i) for i in re.findall(r"\d+", index)) or ...] = True
    return mask
