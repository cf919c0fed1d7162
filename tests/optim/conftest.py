"""Models and matrices that the optimiser tests share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alem import geometry, linalg
from alem.geometry import spd_parameter, stiefel_parameter
from alem.optim import RiemannianAMSGrad, RiemannianSGD

Factory = Callable[..., torch.optim.Optimizer]

# Rates that a noisy network bears, and larger ones for a smooth problem.
RATES = {"sgd": (0.01, 0.05), "momentum": (0.002, 0.02), "nesterov": (0.002, 0.02), "amsgrad": (0.02, 0.1)}
OPTIMIZERS: dict[str, Factory] = {
    "sgd": RiemannianSGD,
    "momentum": functools.partial(RiemannianSGD, momentum=0.9, dampening=0.1),
    "nesterov": functools.partial(RiemannianSGD, momentum=0.8, nesterov=True),
    "amsgrad": RiemannianAMSGrad,
}


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def orthonormal(p: int, n: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    Q = torch.linalg.qr(normal(max(p, n), min(p, n), seed=seed))[0]
    return (Q if p > n else Q.mT.contiguous()).to(dtype)


def spd(*size: int, n: int = 4, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return geometry.sample_wishart(*size, n=n, generator=generator, dtype=dtype)


class Network(nn.Module):
    """A parameter of every kind: Stiefel, SPD, a metric's, a weight, a bias, one that is never used."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.bimap = stiefel_parameter(orthonormal(3, 5, dtype=dtype))
        self.bias = spd_parameter(spd(n=3, dtype=dtype))
        self.metric = geometry.metric("rank", n=3).to(dtype)
        self.linear = nn.Linear(9, 2).to(dtype)
        self.unused = nn.Linear(2, 2).to(dtype)
        with torch.no_grad():
            for seed, p in enumerate([*self.linear.parameters(), *self.unused.parameters()]):
                p.copy_(normal(*p.shape, seed=seed))

    def forward(self, X: Tensor) -> Tensor:
        Y = self.bimap @ X @ self.bimap.mT
        Y = self.metric.chart(linalg.unwhiten(linalg.cholesky(Y), self.bias))
        return self.linear(Y.flatten(-2))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, start: int = 0) -> list[float]:
    """Steps on seeded data; the losses."""
    losses = []
    p = next(model.parameters())
    for step in range(start, start + steps):
        X = spd(6, n=5, seed=step, dtype=p.dtype)
        optimizer.zero_grad()
        loss = model(X).square().mean() + (model(X)[:, 0] - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.fixture(params=OPTIMIZERS)
def make(request: pytest.FixtureRequest) -> Factory:
    return functools.partial(OPTIMIZERS[request.param], lr=RATES[request.param][0])


@pytest.fixture(params=OPTIMIZERS)
def solver(request: pytest.FixtureRequest) -> Factory:
    return functools.partial(OPTIMIZERS[request.param], lr=RATES[request.param][1])


@pytest.fixture
def network() -> Network:
    return Network()


def assert_same_state(a: Any, b: Any) -> None:
    """Two parameter lists are equal to the bit."""
    for p, q in zip(a, b, strict=True):
        assert torch.equal(p, q)
