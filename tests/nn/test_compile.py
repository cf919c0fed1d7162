"""Every layer in one compiled graph, forward and backward, in training and in evaluation."""

from __future__ import annotations

import pytest

from alem.testing import LAYER_CHECKS

from .conftest import LAYERS

# Each kind of layer; the operators of each metric are compiled in tests/geometry.
ONCE = (
    "LieBN/lem",
    "LieBN/aim",
    "RResBlock/lem",
    "GyroMLR/lem",
    "GyroMLR/aim",
    "ChartNorm/lcm",
    "ALog/mul",
)
MANY = ("LieBN/", "RResBlock/", "GyroMLR/", "ChartNorm/", "ALog/")
CHOSEN = [name for name in LAYERS if name in ONCE or not name.startswith(MANY)]


@pytest.mark.parametrize("layer", CHOSEN)
def test_layer_compiles_without_a_graph_break(layer: str) -> None:
    LAYER_CHECKS["compile"](LAYERS[layer])
