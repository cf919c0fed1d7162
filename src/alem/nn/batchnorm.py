"""Batch normalisation in the group of a metric."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from alem.geometry import Constrained, Metric, PullbackMetric, spd_parameter
from alem.linalg.errors import InvalidMatrixError, can_inspect
from alem.linalg.precision import takes_half
from alem.nn import sync
from alem.nn.fuse import Chart, Stage, Unchart
from alem.nn.inputs import (
    moved_mean,
    require_count,
    require_eps,
    require_matrices,
    require_metric,
    require_momentum,
    require_some,
)
from alem.nn.running import move_running_mean, running_coordinates, start_running_mean


class LieBN(sync.Synchronised, Constrained):
    """B ⊙ (s/√v ⊛ (M⁻¹ ⊙ X)), M and v the Fréchet mean and variance of the batch.

    ⊙ and ⊛ are the group and scalar product of the metric, which has to have one. Statistics are over
    all leading dimensions of X `(..., n, n)`. Under every true metric the output has the Fréchet mean
    B = ``bias`` (SPD, I at the start) and the variance s², s = ``scale`` (1 at the start), exactly; for
    that reason a variance below ``eps`` is raised to it, where the paper adds eps to all. Under the
    paper's ALEM with unequal multipliers it is the paper's formula.

    ``running_mean`` is a point of the manifold and moves along the geodesic to the mean of each batch by
    ``momentum``; kept in coordinates it would be wrong as soon as the metric learns. Under the paper's
    ALEM, whose chart does not lead back to the coordinates that a point came from, it is the logarithm of
    the point, and ``running_order`` remembers the way. A batch of one becomes B and moves the mean;
    ``running_var``, of which it says nothing, stays.

    (Chen, Song, Liu, Sebe 2024, "A Lie group approach to Riemannian batch normalization".)
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self,
        n: int,
        metric: Metric,
        momentum: float = 0.1,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        require_count("LieBN", "n", n)
        require_metric("LieBN", metric, n)
        if not metric.has_group:
            raise ValueError(
                f"LieBN centres and scales in the group of the metric, and {type(metric).__name__} has "
                "none that its distances respect; take AffineInvariant or a flat metric"
            )
        require_momentum("LieBN", "momentum", momentum)
        require_eps("LieBN", eps)
        self.n, self.momentum, self.eps = n, momentum, eps
        self.metric = metric
        identity = torch.eye(n, device=device, dtype=dtype)
        self.bias = spd_parameter(identity)
        self.scale = nn.Parameter(torch.ones((), device=device, dtype=dtype))
        if isinstance(metric, PullbackMetric):
            start_running_mean(self, metric, identity)
        else:
            self.register_buffer("running_mean", identity.clone())
        self.register_buffer("running_var", torch.ones((), device=device, dtype=dtype))

    def extra_repr(self) -> str:
        return f"n={self.n}, momentum={self.momentum}, eps={self.eps}"

    @takes_half
    def forward(self, X: Tensor) -> Tensor:
        if isinstance(self.metric, PullbackMetric):
            return self.metric.unchart(self.in_coordinates(self.metric.chart(X)))
        self._require_input(X)
        points = X.reshape(-1, self.n, self.n)
        M = self.metric.shared_mean(points, self.group) if self.training else self.running_mean
        T = self.metric.relative(M, points)
        factor = self._factor(T.square().sum((-2, -1)), M)
        return self.metric.place(self.bias, factor * T).reshape(X.shape)

    def in_coordinates(self, Y: Tensor) -> Tensor:
        """The layer in the chart of a flat metric: s/√v (Y − Ȳ) + φ(B)."""
        metric = self.metric
        assert isinstance(metric, PullbackMetric)
        self._require_input(Y)
        flat = Y.reshape(-1, self.n, self.n)
        mean = sync.mean(flat, self.group) if self.training else running_coordinates(self, metric)
        D = Y - mean
        factor = self._factor(metric.inner_product(D, D), mean)
        return factor * D + metric.chart(self.bias)

    def fusable_stages(self) -> list[Stage]:
        if not isinstance(self.metric, PullbackMetric):
            return [self]
        return [Chart(self.metric.diffeo), self.in_coordinates, Unchart(self.metric.diffeo)]

    def _require_input(self, X: Tensor) -> None:
        require_matrices("LieBN", X, self.n, self.bias)
        if self.training:
            require_some("LieBN", X)

    def _factor(self, distances: Tensor, mean: Tensor) -> Tensor:
        """s/√v; in training v is the mean of the squared distances, and the statistics move."""
        if not self.training:
            return self.scale / self.running_var.clamp(min=self.eps).sqrt()
        variance = sync.mean(distances.reshape(-1), self.group)
        with torch.no_grad():
            self._track(mean.detach(), variance.detach(), distances.numel())
        return self.scale / variance.clamp(min=self.eps).sqrt()

    def _track(self, mean: Tensor, variance: Tensor, N: int) -> None:
        metric = self.metric
        if can_inspect(variance) and not bool(variance.isfinite()):
            raise InvalidMatrixError(
                f"the variance of this batch of {N} matrices is {float(variance)} in {variance.dtype}: "
                "their entries are too large to be squared; scale them, with TraceNorm say"
            )

        if isinstance(metric, PullbackMetric):
            X = running_coordinates(self, metric).lerp(mean, self.momentum)
            move_running_mean(self, metric, X, mean)
        else:
            self.running_mean.copy_(
                moved_mean("LieBN", lambda: metric.geodesic(self.running_mean, mean, self.momentum), mean)
            )
        if N > 1 or sync.are_several(self.group):
            # A view: torch 2.13 compiles writes of a tensor into a 0-dimensional one on the CPU to nothing.
            self.running_var.view(1).lerp_(variance.view(1), self.momentum)
