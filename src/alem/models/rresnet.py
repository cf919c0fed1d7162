"""The Riemannian residual network."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from alem.models.network import Layer, MetricChoice, Network, bimaps, metric_factory, require_classes
from alem.nn import LogEig, RResBlock, Vec


class RResNet(Network):
    """BiMaps with ReEig between them, a residual block, the logarithm, a linear classifier.

    ``metric`` is that of the block: a name of the catalogue, a metric, or a function from n to one;
    ``limit`` is that of :class:`alem.nn.RResBlock`; ``trace_norm`` scales the input to a mean eigenvalue
    of one. (Katsman et al. 2023, "Riemannian residual neural networks".)
    """

    def __init__(
        self,
        dims: Sequence[int],
        n_classes: int,
        metric: MetricChoice,
        limit: float | None = 1.0,
        trace_norm: bool = False,
        eps: float = 1e-4,
    ) -> None:
        layers = bimaps(dims, eps, trace_norm=trace_norm)
        require_classes(n_classes)
        n = dims[-1]
        block = RResBlock(n, metric_factory(metric)(n), limit=limit)
        super().__init__(
            [
                *layers,
                Layer("block", block, f"{n}×{n}"),
                Layer("log", LogEig(), f"{n}×{n}"),
                Layer("vec", Vec(), f"{n * n}"),
                Layer("head", nn.Linear(n * n, n_classes), f"{n_classes}"),
            ]
        )
