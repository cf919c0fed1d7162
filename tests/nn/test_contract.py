"""The contract of :mod:`alem.testing` for every layer with every metric."""

from __future__ import annotations

import pytest

from alem import geometry
from alem import nn as ann
from alem.testing import LAYER_CHECKS

from .conftest import LAYERS, METRICS

NOT_A_METRIC = pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
CHECKS = [name for name in LAYER_CHECKS if name != "compile"]  # see test_compile.py


def layers() -> list[object]:
    return [pytest.param(name, marks=[NOT_A_METRIC] if "alem" in name else []) for name in LAYERS]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("layer", layers())
def test_layer(layer: str, check: str) -> None:
    LAYER_CHECKS[check](LAYERS[layer])


def test_the_table_has_every_layer() -> None:
    parts = {"Fused", "SpectrumResponse"}  # tested as Fused and in RResBlock
    layers = {name for name in ann.__all__ if name[0].isupper()} - parts
    assert layers == {name.partition("/")[0] for name in LAYERS} - parts


REFUSED = [
    ("LieBN", "bwm"),
    ("RResBlock", "bwm"),
    ("ChartNorm", "aim"),
    ("ChartNorm", "bwm"),
]


@pytest.mark.parametrize(("layer", "metric"), REFUSED)
def test_a_metric_that_a_layer_cannot_use_is_refused_by_name(layer: str, metric: str) -> None:
    kind = type(geometry.metric(metric)).__name__
    with pytest.raises(ValueError, match=f"{layer}.*{kind}"):
        getattr(ann, layer)(3, METRICS[metric]())


def test_every_other_pair_is_in_the_table() -> None:
    for layer in ("LieBN", "RResBlock", "ChartNorm", "GyroMLR"):
        for metric in METRICS:
            assert ((layer, metric) in REFUSED) != (f"{layer}/{metric}" in LAYERS)
