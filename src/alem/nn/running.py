"""The running mean of a norm in a chart: a point of the manifold, which stays right as the chart learns.

Its layer has the buffers ``running_mean``, SPD, and ``running_origin``, None for a true chart: where a
chart is not one-to-one, it finds the way back from the point to the coordinates that it came from.
"""

from __future__ import annotations

from torch import Tensor, nn

from alem.geometry import PullbackMetric
from alem.nn.inputs import moved_mean


def start_running_mean(layer: nn.Module, metric: PullbackMetric, identity: Tensor) -> None:
    """Give ``layer`` the buffers, at the identity matrix."""
    layer.register_buffer("running_mean", identity.clone())
    layer.register_buffer("running_origin", metric.diffeo.origin(0 * identity))


def running_coordinates(layer: nn.Module, metric: PullbackMetric) -> Tensor:
    """φ of the running mean, in the chart as it is now."""
    return metric.diffeo.recall(layer.running_mean, layer.running_origin)  # type: ignore[arg-type]


def move_running_mean(layer: nn.Module, metric: PullbackMetric, X: Tensor, batch: Tensor) -> None:
    """Bring it to the point with the coordinates X, on the way to the mean of ``batch``."""
    name = type(layer).__name__
    layer.running_mean.copy_(moved_mean(name, lambda: metric.unchart(X), batch))  # type: ignore[operator]
    origin = metric.diffeo.origin(X)
    if origin is not None:
        layer.running_origin.copy_(origin)  # type: ignore[operator]
