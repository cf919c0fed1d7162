"""Distances and Riemannian SGD of geoopt."""

from __future__ import annotations

import warnings
from typing import Any

import geoopt
from torch import Tensor, nn

from .inputs import Moved, directions, matrices, parameters
from .task import Task


def distances(metric: str, spectrum: str, batch: int, n: int, dtype: str, device: str = "cpu") -> Task:
    """``SymmetricPositiveDefinite(metric).dist`` of pairs."""
    X, Y = (matrices(spectrum, batch, n, dtype, device, seed=seed) for seed in (0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that LEM is not fully implemented; its distance is
        manifold = geoopt.SymmetricPositiveDefinite(metric.upper())
    return Task(lambda: manifold.dist(X, Y), lambda: {"distances": manifold.dist(X, Y)})


def own(moved: list[Moved], stiefel: Any = geoopt.CanonicalStiefel) -> list[Tensor]:
    """The parameters on geoopt's own manifolds, with their gradients. Its orthonormal matrices are tall."""
    result: list[Tensor] = []
    for kind, value, gradient in moved:
        p: Tensor
        if kind == "O":
            p = geoopt.ManifoldParameter(value.mT.contiguous(), manifold=stiefel())
            gradient = gradient.mT.contiguous()
        elif kind == "P":
            p = geoopt.ManifoldParameter(value, manifold=geoopt.SymmetricPositiveDefinite())
        else:
            p = nn.Parameter(value)
        p.grad = gradient
        result.append(p)
    return result


def sgd(case: str, dtype: str, lr: float, device: str = "cpu") -> Task:
    """A step of ``geoopt.optim.RiemannianSGD``."""
    moved = parameters(case, dtype, device)
    optimizer = geoopt.optim.RiemannianSGD(own(moved), lr=lr)

    def values() -> dict[str, Tensor]:
        points = own(parameters(case, dtype, device))
        geoopt.optim.RiemannianSGD(points, lr=lr).step()
        points = [p.mT if m.kind == "O" else p for p, m in zip(points, moved, strict=True)]
        return directions(points, moved, lr)

    return Task(lambda: optimizer.step(), values)
