"""The contracts of layers and metrics as checks, for those of the library and for your own."""

from alem.testing.case import LayerCase, MetricCase
from alem.testing.layers import LAYER_CHECKS, assert_layer
from alem.testing.metrics import METRIC_CHECKS, assert_metric

__all__ = [
    "LAYER_CHECKS",
    "METRIC_CHECKS",
    "LayerCase",
    "MetricCase",
    "assert_layer",
    "assert_metric",
]
