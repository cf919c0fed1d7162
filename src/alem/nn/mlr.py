"""Multinomial logistic regression on the manifold."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from alem import linalg
from alem.geometry import Metric, PullbackMetric, spd_parameter
from alem.nn.fuse import Chart, Stage
from alem.nn.inputs import require_matrices


class GyroMLR(nn.Module):
    """Logits ⟨Log_{P_k} S, Γ_{I→P_k} A_k⟩_{P_k}, signed distances to hyperplanes times ‖A_k‖.

    SPD `(..., n, n)` to `(..., n_classes)`; P_k, a point of the k-th hyperplane, starts at I, and A_k, its
    normal carried to P_k by parallel transport, uniform in ±√(6/n²).

    Under a flat metric that is ⟨φ(S), W_k⟩ + b_k with W_k = φ_*(A_k) at I and b_k = −⟨φ(P_k), W_k⟩: a
    linear softmax on the chart, for every choice of P_k and A_k and with nothing left out. There the
    parameters are ``weight`` `(n_classes, n(n+1)/2)`, in coordinates, and ``bias``; elsewhere they are
    ``points`` and ``normals``. :meth:`set_hyperplanes` sets either from P and A.

    (Nguyen, Yang 2023, "Building neural networks on matrix manifolds".)
    """

    def __init__(
        self,
        n: int,
        n_classes: int,
        metric: Metric,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if n_classes < 1:
            raise ValueError(f"GyroMLR needs a class at least, got n_classes={n_classes}")
        self.n, self.n_classes = n, n_classes
        self.metric = metric
        bound = math.sqrt(6 / n**2)
        A = torch.empty(n_classes, n, n, device=device, dtype=dtype).uniform_(-bound, bound).tril()
        A = A + A.tril(-1).mT
        if isinstance(metric, PullbackMetric):
            self.weight = nn.Parameter(metric.diffeo.vector(A))
            self.bias = nn.Parameter(torch.zeros(n_classes, device=device, dtype=dtype))
        else:
            identity = torch.eye(n, device=device, dtype=dtype)
            self.points = spd_parameter(identity.repeat(n_classes, 1, 1))
            self.normals = nn.Parameter(A)

    def extra_repr(self) -> str:
        return f"n={self.n}, n_classes={self.n_classes}"

    def forward(self, S: Tensor) -> Tensor:
        if isinstance(self.metric, PullbackMetric):
            return self.in_coordinates(self.metric.chart(S))
        require_matrices("GyroMLR", S, self.n, self.points)
        P = self.points
        A = self.metric.transport(_identity_like(P), P, linalg.symmetrize(self.normals))
        return self.metric.inner(P, self.metric.log(P, S.unsqueeze(-3)), A)

    def in_coordinates(self, Y: Tensor) -> Tensor:
        """The logits of a flat metric from φ(S): ⟨Y, W_k⟩ + b_k."""
        metric = self.metric
        assert isinstance(metric, PullbackMetric)
        require_matrices("GyroMLR", Y, self.n, self.weight)
        coordinates = metric.diffeo.vector(metric.inner_product.isometry(Y))
        return nn.functional.linear(coordinates, self.weight, self.bias)

    def fusable_stages(self) -> list[Stage]:
        if not isinstance(self.metric, PullbackMetric):
            return [self]
        return [Chart(self.metric.diffeo), self.in_coordinates]

    @torch.no_grad()
    def set_hyperplanes(self, P: Tensor, A: Tensor) -> None:
        """Take the hyperplanes through P with normals A at the identity, both `(n_classes, n, n)`."""
        metric = self.metric
        if not isinstance(metric, PullbackMetric):
            self.points.copy_(P)
            self.normals.copy_(A)
            return
        W = metric.inner_product.isometry(metric.pushforward(_identity_like(P), A))
        self.weight.copy_(metric.diffeo.vector(W))
        self.bias.copy_(-(metric.coordinates(P) * self.weight).sum(-1))


def _identity_like(P: Tensor) -> Tensor:
    return torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)
