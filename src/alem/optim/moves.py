"""The moves of a step on a manifold, by methods of ours that share work or by those all of geoopt have."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def gradient(manifold: Any, x: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """The Riemannian gradient g from the Euclidean G, and ⟨g, g⟩_x, one number for each point."""
    if hasattr(manifold, "gradient"):
        return manifold.gradient(x, G)
    g = manifold.egrad2rgrad(x, G)
    return g, manifold.component_inner(x, g)


def descend(manifold: Any, x: Tensor, G: Tensor, rate: float | Tensor) -> Tensor:
    """The retraction of −rate·g."""
    if hasattr(manifold, "descend"):
        return manifold.descend(x, G, rate)
    return manifold.retr(x, -rate * manifold.egrad2rgrad(x, G))


def carry(manifold: Any, x: Tensor, v: Tensor, rate: float | Tensor) -> tuple[Tensor, Tensor]:
    """The retraction of −rate·v, and v transported there."""
    if hasattr(manifold, "carry"):
        return manifold.carry(x, v, rate)
    return manifold.retr_transp(x, -rate * v, v)
