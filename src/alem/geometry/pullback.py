"""Flat geometries: a chart and an inner product, and everything else follows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alem.geometry.blocks import Blocks, Moments, as_blocks
from alem.geometry.diffeo import Diffeo
from alem.geometry.metric import Metric, bounded, normalized_weights, root, time_like
from alem.geometry.moment_sum import MomentSum


@dataclass(frozen=True)
class InnerProduct:
    """⟨X, Y⟩ = a tr(XᵀY) + b tr X tr Y, positive definite on n×n matrices iff a > 0 and a + nb > 0."""

    a: float = 1.0
    b: float = 0.0

    def __post_init__(self) -> None:
        if not self.a > 0:
            raise ValueError(f"the inner product needs a > 0, got a = {self.a}")

    def __call__(self, X: Tensor, Y: Tensor) -> Tensor:
        self.check(X.shape[-1])
        product = self.a * (X * Y).sum((-2, -1))
        return product if self.b == 0 else product + self.b * _trace(X) * _trace(Y)

    def check(self, n: int) -> None:
        """Raise unless it is positive definite on n×n matrices."""
        if not self.a + n * self.b > 0:
            raise ValueError(
                f"the inner product with a = {self.a}, b = {self.b} is not positive definite on {n}×{n} "
                f"matrices: it needs a + n·b > 0"
            )

    def isometry(self, X: Tensor, inverse: bool = False) -> Tensor:
        """√a X + ((√(a+nb) − √a)/n) tr(X) I, whose Frobenius inner product is this one; or its inverse."""
        n = X.shape[-1]
        self.check(n)
        whole, part = math.sqrt(self.a + n * self.b), math.sqrt(self.a)
        if inverse:
            whole, part = 1 / whole, 1 / part
        if self.b == 0:
            return part * X
        return part * X + torch.diag_embed(((whole - part) / n * _trace(X))[..., None].expand(X.shape[:-1]))


def _trace(X: Tensor) -> Tensor:
    return X.diagonal(dim1=-2, dim2=-1).sum(-1)


class PullbackMetric(Metric):
    """The metric that a chart φ pulls back from a flat space: g_P(V, W) = ⟨φ_*V, φ_*W⟩.

    (Chen et al., Adaptive Log-Euclidean Metrics, Lemma "g_spd".) The points form a Hilbert space and
    an Abelian group with the operations that φ carries over.
    """

    is_flat = True
    has_group = True

    def __init__(self, chart: Diffeo, inner: InnerProduct | None = None) -> None:
        super().__init__()
        self.diffeo = chart
        self.inner_product = inner or InnerProduct()

    def extra_repr(self) -> str:
        return f"a={self.inner_product.a}, b={self.inner_product.b}"

    # The chart.

    def chart(self, P: Tensor) -> Tensor:
        """φ(P), symmetric or lower triangular `(..., n, n)`."""
        return self.diffeo.chart(P)

    def unchart(self, X: Tensor, branch: Tensor | None = None) -> Tensor:
        """φ⁻¹(X)."""
        return self.diffeo.unchart(X, branch)

    def pushforward(self, P: Tensor, V: Tensor) -> Tensor:
        """The differential of φ at P along V."""
        return self.diffeo.pushforward(P, V)

    def pullback(self, X: Tensor, W: Tensor) -> Tensor:
        """The differential of φ⁻¹ at X along W."""
        return self.diffeo.pullback(X, W)

    @property
    def is_diffeo(self) -> bool:
        """Whether φ is a true global chart with its present parameters, so that all of this holds."""
        return self.diffeo.is_diffeo

    def in_chart(self, X: Tensor, branch: Tensor | None = None) -> Tensor:
        """Whether ``unchart`` is exact, per matrix `(...)`."""
        return self.diffeo.in_chart(X, branch)

    def coordinates(self, P: Tensor) -> Tensor:
        """φ(P) as a vector `(..., n(n+1)/2)` whose Euclidean inner product is the metric's."""
        return self.diffeo.vector(self.inner_product.isometry(self.chart(P)))

    def point(self, v: Tensor) -> Tensor:
        """The point with the given coordinates, the inverse of :meth:`coordinates`."""
        return self.unchart(self.inner_product.isometry(self.diffeo.matrix(v), inverse=True))

    # The Riemannian metric.

    def inner(self, P: Tensor, V: Tensor, W: Tensor) -> Tensor:
        pushed = self.pushforward(P, V)
        return self.inner_product(pushed, pushed if V is W else self.pushforward(P, W))

    def dist2(self, P: Tensor, Q: Tensor) -> Tensor:
        difference = self.chart(P) - self.chart(Q)
        return self.inner_product(difference, difference)

    def tangent_coordinates(self, P: Tensor, V: Tensor) -> Tensor:
        return self.diffeo.vector(self.inner_product.isometry(self.pushforward(P, V)))

    def log_coordinates(self, P: Tensor, Q: Tensor) -> Tensor:
        return self.diffeo.vector(self.relative(P, Q))

    def tangent_vector(self, P: Tensor, v: Tensor) -> Tensor:
        return self.diffeo.solve(P, self.inner_product.isometry(self.diffeo.matrix(v), inverse=True))

    def exp(self, P: Tensor, V: Tensor) -> Tensor:
        X, W = self.diffeo.jet(P, V)
        return self.unchart(X + W, self.diffeo.branch(P))

    def bounded_exp(self, P: Tensor, V: Tensor, limit: float) -> Tensor:
        X, W = self.diffeo.jet(P, V)
        step = bounded(W, root(self.inner_product(W, W)), limit)
        return self.unchart(X + step, self.diffeo.branch(P))

    def log(self, P: Tensor, Q: Tensor) -> Tensor:
        return self.diffeo.displacement(P, self.chart(Q))

    def transport(self, P: Tensor, Q: Tensor, V: Tensor) -> Tensor:
        return self.diffeo.solve(Q, self.pushforward(P, V))

    def geodesic(self, P: Tensor, Q: Tensor, t: float | Tensor) -> Tensor:
        X = self.chart(P)
        return self.unchart(X + time_like(t, P) * (self.chart(Q) - X), self.diffeo.branch(P))

    def mean(self, X: Tensor, weights: Tensor | None = None) -> Tensor:
        return self.unchart(_weighted_mean(self.chart(X), weights))

    def variance(self, X: Tensor, mean: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        Y = self.chart(X)
        M = _weighted_mean(Y, weights) if mean is None else self.chart(mean)
        D = Y - M.unsqueeze(-3)
        return (normalized_weights(Y, weights) * self.inner_product(D, D)).sum(-1)

    def moments(self, blocks: Iterable[Any] | Blocks, dispersion: bool = True) -> Moments:
        return self.moment_sum(blocks).moments(dispersion)

    def moment_sum(self, blocks: Iterable[Any] | Blocks) -> MomentSum:
        """The same as sums that can grow, and merge with those of other matrices."""
        return as_blocks(blocks).reduce(partial(_sum, self), _joined)

    def pairwise_dist(self, X: Tensor, Y: Tensor) -> Tensor:
        # The mode that expands the square would lose half the digits of small distances.
        return torch.cdist(
            self.coordinates(X),
            self.coordinates(Y),
            compute_mode="donot_use_mm_for_euclid_dist",
        )

    def pairwise_dist2(self, X: Tensor, Y: Tensor) -> Tensor:
        return self.pairwise_dist(X, Y) ** 2

    # The group and the Hilbert space.

    def compose(self, P: Tensor, Q: Tensor) -> Tensor:
        return self.unchart(self.chart(P) + self.chart(Q))

    def invert(self, P: Tensor) -> Tensor:
        return self.unchart(-self.chart(P))

    def scale(self, P: Tensor, k: float | Tensor) -> Tensor:
        return self.unchart(time_like(k, P) * self.chart(P))

    def relative(self, P: Tensor, Q: Tensor) -> Tensor:
        return self.inner_product.isometry(self.chart(Q) - self.chart(P))

    def place(self, P: Tensor, T: Tensor) -> Tensor:
        return self.unchart(self.chart(P) + self.inner_product.isometry(T, inverse=True))

    def hilbert_inner(self, P: Tensor, Q: Tensor) -> Tensor:
        """⟨P, Q⟩ = ⟨φ(P), φ(Q)⟩, the inner product of points `(...)`."""
        return self.inner_product(self.chart(P), self.chart(Q))

    def hilbert_norm(self, P: Tensor) -> Tensor:
        """√⟨P, P⟩ `(...)`, the distance of P from the neutral element."""
        return torch.linalg.vector_norm(self.coordinates(P), dim=-1)

    def kernel(self, X: Tensor, Y: Tensor, gamma: float | None = None) -> Tensor:
        """Kernel matrix `(..., N, M)` of X `(..., N, n, n)` and Y `(..., M, n, n)`, positive semi-definite.

        The linear kernel ⟨X_i, Y_j⟩, or the Gaussian exp(−γ d²(X_i, Y_j)) if ``gamma`` is given.
        """
        if gamma is None:
            return self.coordinates(X) @ self.coordinates(Y).mT
        return torch.exp(-gamma * self.pairwise_dist2(X, Y))


def _sum(metric: PullbackMetric, start: int, X: Tensor, w: Tensor | None) -> MomentSum:
    return MomentSum(metric).add(X, w)


def _joined(a: MomentSum, b: MomentSum) -> MomentSum:
    return MomentSum(a.metric).merge(a).merge(b)


def _weighted_mean(Y: Tensor, weights: Tensor | None) -> Tensor:
    return (normalized_weights(Y, weights)[..., None, None] * Y).sum(-3)
