"""Multinomial logistic regression on the manifold."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from alem import linalg
from alem.geometry import Constrained, Metric, PullbackMetric, check_spd, spd_parameter
from alem.linalg.errors import InvalidMatrixError, require_finite, require_symmetric
from alem.linalg.precision import full_precision, takes_half
from alem.nn.fuse import Chart, Stage
from alem.nn.inputs import require_count, require_matrices, require_metric


class GyroMLR(Constrained):
    """Logits ⟨Log_{P_k} S, Γ_{I→P_k} A_k⟩_{P_k}, signed distances to hyperplanes times ‖A_k‖.

    SPD `(..., n, n)` to `(..., n_classes)`; P_k, a point of the k-th hyperplane, starts at I, and A_k, its
    normal carried to P_k by parallel transport, uniform in ±√(6/n²).

    Under a flat metric that is ⟨φ(S), W_k⟩ + b_k with W_k = φ_*(A_k) at I and b_k = −⟨φ(P_k), W_k⟩: a
    linear softmax on the chart, for every choice of P_k and A_k and with nothing left out. There the
    parameters are ``weight`` `(n_classes, n(n+1)/2)`, in coordinates, and ``bias``; elsewhere they are
    ``points`` and ``normals``. :meth:`set_hyperplanes` sets either from P and A, also at the start: one
    seed draws the same A_k under every metric.

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
        require_count("GyroMLR", "n", n)
        require_count("GyroMLR", "n_classes", n_classes)
        require_metric("GyroMLR", metric, n)
        self.n, self.n_classes = n, n_classes
        self.metric = metric
        bound = math.sqrt(6 / n**2)
        A = torch.empty(n_classes, n, n, device=device, dtype=dtype).uniform_(-bound, bound).tril()
        A = A + A.tril(-1).mT
        identity = torch.eye(n, device=device, dtype=dtype).repeat(n_classes, 1, 1)
        if isinstance(metric, PullbackMetric):
            self.weight = nn.Parameter(A.new_zeros(n_classes, linalg.vech_dim(n)))
            self.bias = nn.Parameter(A.new_zeros(n_classes))
            if not A.is_meta:
                self.set_hyperplanes(identity, A)
        else:
            self.points = spd_parameter(identity)
            self.normals = nn.Parameter(A)

    def extra_repr(self) -> str:
        return f"n={self.n}, n_classes={self.n_classes}"

    @takes_half
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
        return _linear(coordinates, self.weight, self.bias)

    def fusable_stages(self) -> list[Stage]:
        if not isinstance(self.metric, PullbackMetric):
            return [self]
        return [Chart(self.metric.diffeo), self.in_coordinates]

    @torch.no_grad()
    def set_hyperplanes(self, P: Tensor, A: Tensor) -> None:
        """Take the hyperplanes through P with normals A at the identity, both `(n_classes, n, n)`.

        P must be SPD and A symmetric; they are converted to the dtype and device of the layer.
        """
        metric = self.metric
        if not isinstance(metric, PullbackMetric):
            P, A = self._hyperplanes(P, A, self.normals)
            self.points.copy_(P)
            self.normals.copy_(A)
            return
        # A metric may still be elsewhere when the layer is made: it is moved with the layer afterwards.
        place = next(metric.parameters(), self.weight)
        P, A = self._hyperplanes(P, A, self.weight)
        P, A = P.to(place.device), A.to(place.device)
        W = metric.diffeo.vector(metric.inner_product.isometry(metric.pushforward(_identity_like(P), A)))
        self.weight.copy_(W)
        self.bias.copy_(-(metric.coordinates(P) * W).sum(-1))

    def _hyperplanes(self, P: Tensor, A: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """P and A as ``like`` is, checked and exactly symmetric."""
        size = (self.n_classes, self.n, self.n)
        for name, X in (("P", P), ("A", A)):
            if not isinstance(X, Tensor) or X.shape != size:
                got = f"shape {tuple(X.shape)}" if isinstance(X, Tensor) else type(X).__name__
                raise InvalidMatrixError(
                    f"set_hyperplanes takes tensors P, points, and A, normals, of shape {size}, one matrix "
                    f"for each class; {name} is of {got}"
                )
        P, A = P.to(like), A.to(like)
        check_spd(P)
        require_finite(A)
        require_symmetric(A)
        return linalg.symmetrize(P), linalg.symmetrize(A)


_linear = full_precision(nn.functional.linear)


def _identity_like(P: Tensor) -> Tensor:
    return torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)
