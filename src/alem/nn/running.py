"""The running mean of a norm in a chart, kept so that it stays right as the chart learns.

Its layer has the buffers ``running_mean``, a point of the manifold, and ``running_order``, None for a true
chart. Under the paper's logarithm, to whose coordinates no way leads back from a point alone, they are the
logarithm of the point and the order of the multipliers.
"""

from __future__ import annotations

from torch import Tensor, nn

from alem.geometry import PullbackMetric
from alem.nn.inputs import moved_mean


def start_running_mean(layer: nn.Module, metric: PullbackMetric, identity: Tensor) -> None:
    """Give ``layer`` the buffers, at the identity matrix."""
    kept, order = metric.diffeo.keep(0 * identity)
    layer.register_buffer("running_mean", identity.clone() if order is None else kept.detach())
    layer.register_buffer("running_order", order)


def running_coordinates(layer: nn.Module, metric: PullbackMetric) -> Tensor:
    """φ of the running mean, in the chart as it is now."""
    return metric.diffeo.recall(layer.running_mean, layer.running_order)  # type: ignore[arg-type]


def move_running_mean(layer: nn.Module, metric: PullbackMetric, X: Tensor, batch: Tensor) -> None:
    """Bring it to the point with the coordinates X, on the way to the mean of ``batch``."""
    if layer.running_order is None:
        kept = moved_mean(type(layer).__name__, lambda: metric.unchart(X), batch)
    else:
        kept, order = metric.diffeo.keep(X)
        layer.running_order.copy_(order)  # type: ignore[operator, arg-type]
    layer.running_mean.copy_(kept)  # type: ignore[operator]
