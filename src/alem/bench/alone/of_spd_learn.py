"""Networks and layers of spd_learn."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from spd_learn.modules import BiMap, LogEig, ReEig, SPDBatchNormLie
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from .inputs import labels, matrices, weights
from .task import Task


class SPDNet(nn.Sequential):
    """BiMap, ReEig, …, BiMap, LogEig, linear.

    spd_learn's own SPDNet has one BiMap, and a ReEig between it and the logarithm; that one is here if
    ``last_reeig``.
    """

    def __init__(
        self, dims: Sequence[int], classes: int, eps: float, last_reeig: bool, orthogonal_map: str
    ) -> None:
        layers: list[nn.Module] = []
        for n_in, n_out in itertools.pairwise(dims):
            layers += [BiMap(n_in, n_out, orthogonal_map=orthogonal_map), ReEig(eps)]
        if not last_reeig:
            layers.pop()
        super().__init__(*layers, LogEig(upper=False), nn.Linear(dims[-1] ** 2, classes))


def training_step(
    dims: Sequence[int],
    batch: int,
    dtype: str,
    spectrum: str,
    classes: int,
    eps: float,
    lr: float,
    rank: int | None = None,
    last_reeig: bool = False,
    device: str = "cpu",
    orthogonal_map: str = "cayley",
) -> Task:
    """Forward, backward and a step of torch's SGD on the parametrised weights, as its examples train."""
    X = matrices(spectrum, batch, dims[0], dtype, device, rank)
    y = labels(batch, classes, device)
    start = weights(dims, classes, dtype, device)
    model = SPDNet(dims, classes, eps, last_reeig, orthogonal_map).to(device=device, dtype=X.dtype)
    bimaps: list[Any] = [layer for layer in model if isinstance(layer, BiMap)]
    head: Any = model[-1]
    with torch.no_grad():
        for layer, W in zip(bimaps, start.bimaps, strict=True):
            layer.weight = W.mT.unsqueeze(0)
        head.weight.copy_(start.head)
        head.bias.copy_(start.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(X), y)
        loss.backward()
        optimizer.step()

    def values() -> dict[str, Tensor]:
        with parametrize.cached():  # one tensor for each weight, to differentiate by
            loss = functional.cross_entropy(model(X), y)
            W = [layer.weight for layer in bimaps]
            *gradients, of_head = torch.autograd.grad(loss, [*W, head.weight])
        named = {f"gradient of BiMap {i}": g[0].mT for i, g in enumerate(gradients, start=1)}
        return {"loss": loss.detach(), **named, "gradient of the head": of_head}

    return Task(step, values)


def liebn(metric: str, spectrum: str, batch: int, n: int, dtype: str, device: str = "cpu") -> Task:
    """Forward and backward of ``SPDBatchNormLie`` in training.

    With two Karcher iterations for AIM, the fewest that bring its output to 1e-3 of the converged one. Its
    gradient does not go through the mean and the variance of the batch.
    """
    X = matrices(spectrum, batch, n, dtype, device).requires_grad_()
    G = matrices(spectrum, batch, n, dtype, device, seed=1)
    layer = SPDBatchNormLie(n, metric.upper(), n_iter=2).to(device=device, dtype=X.dtype)
    return Task(lambda: layer(X).backward(G), lambda: {"output": layer(X).detach()})
