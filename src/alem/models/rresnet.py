"""The Riemannian residual network."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from alem.models.network import Layer, MetricChoice, Network, bimaps, metric_factory
from alem.nn import LogEig, RResBlock, Vec


class RResNet(Network):
    """BiMaps with ReEig between them, a residual block, the logarithm, a linear classifier.

    ``metric`` is that of the block: a name of the catalogue, a metric, or a function from n to one.
    (Katsman et al. 2023, "Riemannian residual neural networks".)
    """

    def __init__(
        self, dims: Sequence[int], n_classes: int, metric: MetricChoice, eps: float = 1e-4
    ) -> None:
        layers = bimaps(dims, eps)
        n = dims[-1]
        block = RResBlock(n, metric_factory(metric)(n))
        super().__init__(
            [
                *layers,
                Layer("block", block, f"{n}×{n}"),
                Layer("log", LogEig(), f"{n}×{n}"),
                Layer("vec", Vec(), f"{n * n}"),
                Layer("head", nn.Linear(n * n, n_classes), f"{n_classes}"),
            ]
        )
