"""Batch normalisation of coordinates: of vectors, and of matrices in a chart."""

from __future__ import annotations

from typing import NoReturn

import torch
from torch import Tensor, nn

from alem import linalg
from alem.geometry import Metric, PullbackMetric
from alem.linalg.errors import InvalidMatrixError, can_inspect, matrix_name, worst_index
from alem.linalg.precision import takes_half
from alem.nn import sync
from alem.nn.fuse import Chart, Stage, Unchart
from alem.nn.inputs import (
    require_count,
    require_eps,
    require_matrices,
    require_metric,
    require_momentum,
    require_some,
)
from alem.nn.running import move_running_mean, running_coordinates, start_running_mean


class CoordinateNorm(sync.Synchronised):
    """y = w (x − mean)/√(var + ε) + b for each feature, over all leading dimensions of `(..., features)`.

    What ``torch.nn.BatchNorm1d`` does, with the same parameters and buffers, but for batches of one:
    there y = b and ``running_var``, of which such a batch says nothing, stays. In eager mode on the CPU a
    vector that is not finite, or too large to be squared in training, raises InvalidMatrixError and
    leaves the statistics as they were. (Ioffe, Szegedy 2015, "Batch normalization".)
    """

    ENTRY, ENTRIES = "vector", "vectors"  # what a batch is made of

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        features: int,
        momentum: float = 0.1,
        eps: float = 1e-5,
        affine: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        layer = type(self).__name__
        require_count(layer, "features", features)
        require_momentum(layer, "momentum", momentum)
        require_eps(layer, eps)
        self.features, self.momentum, self.eps, self.affine = features, momentum, eps, affine
        zeros = torch.zeros(features, device=device, dtype=dtype)
        self.weight = nn.Parameter(torch.ones_like(zeros)) if affine else None
        self.bias = nn.Parameter(zeros.clone()) if affine else None
        self.register_buffer("running_mean", zeros)
        self.register_buffer("running_var", torch.ones_like(zeros))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long, device=device))

    def extra_repr(self) -> str:
        return f"{self.features}, momentum={self.momentum}, eps={self.eps}, affine={self.affine}"

    @takes_half
    def forward(self, x: Tensor) -> Tensor:
        self._require_input(x)
        return self._normalize(x)

    def _normalize(self, x: Tensor) -> Tensor:
        if not self.training and can_inspect(x):
            self._require_finite(x.detach())
        mean, var = self._moments(x) if self.training else (self._tracked_mean(), self.running_var)
        y = (x - mean) * (var + self.eps).rsqrt()
        return y if self.weight is None or self.bias is None else y * self.weight + self.bias

    def _moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the batch, which the running ones follow."""
        flat = x.reshape(-1, self.features)
        N = flat.shape[0]
        mean = sync.mean(flat, self.group)
        var, total = sync.mean_and_count((flat - mean).square(), self.group)
        with torch.no_grad():
            several = N > 1 or sync.are_several(self.group)
            unbiased = var * (total / (total - 1)) if several else var
            if can_inspect(unbiased) and not bool(unbiased.isfinite().all()):
                self._require_finite(x.detach())
                self._refuse_large(x.detach())
            self._track_mean(mean)
            if several:
                self.running_var.lerp_(unbiased, self.momentum)
            self.num_batches_tracked.add_(1)
        return mean, var

    def _tracked_mean(self) -> Tensor:
        return self.running_mean

    def _track_mean(self, mean: Tensor) -> None:
        self.running_mean.lerp_(mean, self.momentum)

    def _require_input(self, x: Tensor) -> None:
        if x.ndim == 0 or x.shape[-1] != self.features:
            raise InvalidMatrixError(
                f"CoordinateNorm was made for {self.features} features and got shape {tuple(x.shape)}; "
                "the features are the last dimension"
            )
        if x.dtype != self.running_var.dtype:
            raise InvalidMatrixError(
                f"CoordinateNorm holds {self.running_var.dtype} and got {x.dtype}; convert one of them, "
                f"with module.to(x.dtype) or x.to({self.running_var.dtype})"
            )
        if self.training:
            require_some("CoordinateNorm", x, self.ENTRIES)

    def _require_finite(self, x: Tensor) -> None:
        """Raise InvalidMatrixError, naming the worst entry of the batch, unless x is finite."""
        if bool(x.sum().isfinite()):  # which proves it
            return
        bad = (~x.isfinite()).sum(-1)
        if bool((bad > 0).any()):
            index = worst_index(bad.double())
            raise InvalidMatrixError(
                f"{self._name(index)}, has {int(bad[index])} of {self.features} coordinates that are NaN "
                f"or infinite; find where they were made, or drop the {self.ENTRY}",
                index,
            )

    def _refuse_large(self, x: Tensor) -> NoReturn:
        size = x.abs().amax(-1)
        index = worst_index(size)
        raise InvalidMatrixError(
            f"{self._name(index)}, has a coordinate of size {float(size[index]):.3g}, and the variance of "
            f"the batch is no number that {x.dtype} holds; scale the input, or convert it to float64",
            index,
        )

    def _name(self, index: tuple[int, ...]) -> str:
        what = matrix_name(index).replace("matrix", self.ENTRY)
        return f"{what} of the input of {type(self).__name__}"


class ChartNorm(CoordinateNorm):
    """Batch normalisation of each coordinate of a chart, over all leading dimensions of `(..., n, n)`.

    Without a metric, symmetric matrices, such as a logarithm puts out, to symmetric matrices: vech,
    :class:`CoordinateNorm`, unvech. With a metric that has a chart φ, SPD matrices to SPD matrices:
    φ⁻¹ of the normalised coordinates of φ(X).

    With a metric ``running_mean`` is a point of the manifold `(n, n)`, so that it stays right when the
    metric learns; ``running_order`` is as in :class:`LieBN`. ``weight``, ``bias`` and ``running_var``
    are in the units of φ at each step, which change with the metric's parameters; the variance forgets
    those of the past by ``momentum``. Batches of one and matrices that are not finite are treated as
    :class:`CoordinateNorm` treats vectors.
    """

    ENTRY, ENTRIES = "matrix", "matrices"

    def __init__(
        self,
        n: int,
        metric: Metric | None = None,
        momentum: float = 0.1,
        eps: float = 1e-5,
        affine: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        require_count("ChartNorm", "n", n)
        if metric is not None:
            require_metric("ChartNorm", metric, n)
        super().__init__(linalg.vech_dim(n), momentum, eps, affine, device, dtype)
        if metric is not None and not isinstance(metric, PullbackMetric):
            raise ValueError(
                f"ChartNorm normalises the coordinates of a chart, and {type(metric).__name__} is not flat "
                "and has none; take a metric such as LogEuclidean, or normalise with SPDBN"
            )
        self.n = n
        self.metric = metric
        if metric is not None:
            start_running_mean(self, metric, torch.eye(n, device=device, dtype=dtype))

    def extra_repr(self) -> str:
        return f"n={self.n}, momentum={self.momentum}, eps={self.eps}, affine={self.affine}"

    @takes_half
    def forward(self, X: Tensor) -> Tensor:
        if self.metric is None:
            return self.in_coordinates(X)
        require_matrices("ChartNorm", X, self.n, self.running_var)
        return self.metric.unchart(self.in_coordinates(self.metric.chart(X)))

    def in_coordinates(self, Y: Tensor) -> Tensor:
        """The layer in the chart, from φ(X) to the normalised φ(X)."""
        require_matrices("ChartNorm", Y, self.n, self.running_var)
        if self.training:
            require_some("ChartNorm", Y)
        if self.metric is None:
            return linalg.unvech(self._normalize(linalg.vech(Y)))
        diffeo = self.metric.diffeo
        return diffeo.matrix(self._normalize(diffeo.vector(Y)))

    def fusable_stages(self) -> list[Stage]:
        if self.metric is None:
            return [self]
        return [Chart(self.metric.diffeo), self.in_coordinates, Unchart(self.metric.diffeo)]

    def _tracked_mean(self) -> Tensor:
        if self.metric is None:
            return super()._tracked_mean()
        return self.metric.diffeo.vector(running_coordinates(self, self.metric))

    def _track_mean(self, mean: Tensor) -> None:
        if self.metric is None:
            super()._track_mean(mean)
            return
        X = self.metric.diffeo.matrix(self._tracked_mean().lerp(mean, self.momentum))
        move_running_mean(self, self.metric, X, mean)
