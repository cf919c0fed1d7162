from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import alem.nn
from alem import geometry
from alem.geometry import stiefel_parameter
from alem.optim import RiemannianAMSGrad, RiemannianSGD

from .conftest import Network, orthonormal


def test_a_model_is_sorted_into_groups(network: Network) -> None:
    optimizer = RiemannianSGD(network, lr=0.1, weight_decay=0.01, metric_lr=5.0)
    groups = {group["name"]: group for group in optimizer.param_groups}
    assert list(groups) == ["weights", "vectors", "manifold", "metric"]
    assert {name: group["lr"] for name, group in groups.items()} == {
        "weights": 0.1,
        "vectors": 0.1,
        "manifold": 0.1,
        "metric": 0.5,
    }
    assert [group["weight_decay"] for group in groups.values()] == [0.01, 0.0, 0.0, 0.0]
    assert groups["weights"]["params"] == [network.linear.weight, network.unused.weight]
    assert groups["vectors"]["params"] == [network.linear.bias, network.unused.bias]
    assert {id(p) for p in groups["manifold"]["params"]} == {id(network.bimap), id(network.bias)}
    assert groups["metric"]["params"] == list(network.metric.parameters())


def test_every_parameter_is_in_one_group(network: Network) -> None:
    network.tied = network.linear
    optimizer = RiemannianAMSGrad(network)
    params = [p for group in optimizer.param_groups for p in group["params"]]
    assert len(params) == len({id(p) for p in params}) == len(list(network.parameters()))


def test_a_parameter_shared_with_a_metric_is_the_metrics() -> None:
    model = nn.Module()
    model.metric = geometry.metric("rank", n=3)
    (theta,) = model.metric.parameters()
    model.layer = nn.Module()
    model.layer.theta = theta
    optimizer = RiemannianSGD(model, lr=1.0, metric_lr=2.0)
    assert [(group["name"], group["lr"]) for group in optimizer.param_groups] == [("metric", 2.0)]


def test_a_chart_by_itself_is_a_metric_and_a_metric_may_own_modules() -> None:
    model = nn.Module()
    model.chart = geometry.RankLog(3)
    model.other = nn.Linear(2, 2)
    model.metric = geometry.LogEuclidean()
    model.metric.inner_weights = nn.Linear(3, 3)
    optimizer = RiemannianSGD(model, lr=1.0)
    sizes = {group["name"]: len(group["params"]) for group in optimizer.param_groups}
    assert sizes == {"weights": 1, "vectors": 1, "metric": 3}


def test_only_weights_decay_and_nothing_leaves_its_manifold() -> None:
    model = nn.Module()
    model.weight, model.bias = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2))
    model.bimap = stiefel_parameter(orthonormal(2, 4, dtype=torch.float32))
    before = model.bimap.detach().clone()
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    RiemannianSGD(model, lr=0.1, weight_decay=0.5).step()
    torch.testing.assert_close(model.weight.detach(), torch.full((2, 2), 0.95))
    assert torch.equal(model.bias, torch.ones(2))
    torch.testing.assert_close(model.bimap.detach(), before)


def test_given_parameters_decay_as_in_torch_but_for_those_on_manifolds() -> None:
    bias, W = nn.Parameter(torch.ones(2)), stiefel_parameter(orthonormal(2, 4, dtype=torch.float32))
    before = W.detach().clone()
    bias.grad, W.grad = torch.zeros(2), torch.zeros(2, 4)
    RiemannianSGD([bias, W], lr=0.1, weight_decay=0.5).step()
    torch.testing.assert_close(bias.detach(), torch.full((2,), 0.95))
    torch.testing.assert_close(W.detach(), before)


def test_metric_lr_zero_freezes_the_metric(network: Network) -> None:
    theta = next(network.metric.parameters())
    before = theta.detach().clone()
    optimizer = RiemannianSGD(network, lr=0.1, metric_lr=0.0)
    network(torch.eye(5, dtype=torch.float64)).sum().backward()
    assert theta.grad is not None
    optimizer.step()
    assert torch.equal(theta, before)


def test_metric_lr_needs_a_model(network: Network) -> None:
    with pytest.raises(ValueError, match="needs the model"):
        RiemannianSGD(network.parameters(), lr=0.1, metric_lr=2.0)


@pytest.mark.parametrize("way", ["assigned state", "meta device"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: alem.nn.BiMap(5, 4),
        lambda: alem.nn.BiMap(4, 5),
        lambda: alem.nn.LieBN(4, geometry.LogEuclidean()),
        lambda: alem.nn.SPDNetBN(4),
        lambda: alem.nn.SPDBN(4),
        lambda: alem.nn.GyroMLR(4, 3, geometry.AffineInvariant()),
        lambda: alem.nn.RResBlock(4, geometry.LogEuclidean()),
    ],
    ids=["BiMap", "BiMap up", "LieBN", "SPDNetBN", "SPDBN", "GyroMLR", "RResBlock"],
)
def test_layers_keep_their_parameters_on_manifolds(make: Callable[[], nn.Module], way: str) -> None:
    layer, state = make(), make().state_dict()
    if way == "meta device":
        layer.to("meta").to_empty(device="cpu").load_state_dict(state)
    else:
        layer.load_state_dict(state, assign=True)
    (group,) = (
        g for g in RiemannianSGD(layer, lr=0.1, weight_decay=0.5).param_groups if g["name"] == "manifold"
    )
    (p,) = group["params"]
    p.manifold.assert_check_point_on_manifold(p.detach())
