"""The arguments that layers refuse, and what they say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from alem import geometry, nn
from alem.nn import inputs

SIZED: dict[str, Callable[[int], torch.nn.Module]] = {
    "ALog": nn.ALog,
    "LieBN": lambda n: nn.LieBN(n, geometry.LogEuclidean()),
    "SPDNetBN": nn.SPDNetBN,
    "SPDBN": nn.SPDBN,
    "ChartNorm": nn.ChartNorm,
    "CoordinateNorm": nn.CoordinateNorm,
    "GyroMLR": lambda n: nn.GyroMLR(n, 2, geometry.LogEuclidean()),
}
WITH_METRIC: dict[str, Callable[..., torch.nn.Module]] = {
    "LieBN": nn.LieBN,
    "ChartNorm": nn.ChartNorm,
    "GyroMLR": lambda n, metric: nn.GyroMLR(n, 2, metric),
}


@pytest.mark.parametrize("layer", SIZED)
@pytest.mark.parametrize("n", [0, -1, 2.0])
def test_a_size_is_a_whole_number_of_one_or_more(layer: str, n: int) -> None:
    with pytest.raises(ValueError, match=rf"{layer} needs a whole number (n|features) .*={n}"):
        SIZED[layer](n)
    SIZED[layer](1)
    SIZED[layer](np.int64(2))


@pytest.mark.parametrize("layer", WITH_METRIC)
@pytest.mark.parametrize("metric", ["lcm", "frobenius", 3, geometry.LogEuclidean, torch.nn.Identity()])
def test_a_metric_is_an_object(layer: str, metric: object) -> None:
    example = "'lcm'" if metric == "lcm" else "'lem'"
    with pytest.raises(TypeError, match=rf"{layer} .*geometry\.metric\({example}, n=3\)"):
        WITH_METRIC[layer](3, metric)


def test_none_is_a_metric_for_those_alone_that_can_do_without() -> None:
    nn.ChartNorm(3, None)
    with pytest.raises(TypeError, match="got None"):
        nn.LieBN(3, None)


@pytest.mark.parametrize("layer", WITH_METRIC)
@pytest.mark.parametrize("name", ["alem", "alcm", "rank"])
def test_a_metric_of_another_size_is_refused_when_the_layer_is_made(layer: str, name: str) -> None:
    WITH_METRIC[layer](3, geometry.metric(name, n=3))
    with pytest.raises(ValueError, match=f"{layer} is for n = 3, and its .* was made for n = 4"):
        WITH_METRIC[layer](3, geometry.metric(name, n=4))


@pytest.mark.parametrize("layer", WITH_METRIC)
def test_an_inner_product_that_is_none_in_this_size_is_refused(layer: str) -> None:
    metric = geometry.metric("lem", b=-0.4)  # a + n·b > 0 up to n = 2
    WITH_METRIC[layer](2, metric)
    with pytest.raises(ValueError, match="not positive definite on 3×3"):
        WITH_METRIC[layer](3, metric)


@pytest.mark.parametrize("value", [0.0, -0.1, 1.001, float("nan")])
def test_a_momentum_is_a_share(value: float) -> None:
    with pytest.raises(ValueError, match="LieBN needs a momentum above 0 and up to 1"):
        inputs.require_momentum("LieBN", "momentum", value)
    inputs.require_momentum("LieBN", "momentum", 1)


@pytest.mark.parametrize("value", [0.0, -1e-5, float("nan"), float("inf")])
def test_eps_is_positive(value: float) -> None:
    with pytest.raises(ValueError, match="LieBN needs a positive eps"):
        inputs.require_eps("LieBN", value)
    inputs.require_eps("LieBN", 1e-300)
