from __future__ import annotations

import copy

import pytest
import torch

from alem import geometry, linalg, nn
from alem.linalg import InvalidMatrixError, NotPositiveDefiniteError

from ..geometry.conftest import GROUPS, learned_metric, spd

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def moved(name: str, n: int = 4, **options: float) -> nn.LieBN:
    """A layer with a bias and a scale of its own."""
    layer = nn.LieBN(n, learned_metric(name, n), **options).double()
    with torch.no_grad():
        layer.bias.copy_(spd(n=n, seed=9))
        layer.scale.fill_(1.7)
    return layer


def running_point(layer: nn.LieBN) -> torch.Tensor:
    """The running mean as a point: under ALEM its logarithm is kept."""
    kept = layer.running_mean
    return kept if getattr(layer, "running_order", None) is None else linalg.exp(kept)


@pytest.mark.parametrize("name", GROUPS)
def test_output_has_the_mean_and_the_dispersion_that_were_learned(name: str) -> None:
    layer = moved(name)
    Y = layer(spd(2, 10, seed=3)).flatten(0, 1)
    torch.testing.assert_close(layer.metric.mean(Y), layer.bias, **CLOSE)
    torch.testing.assert_close(layer.metric.variance(Y), layer.scale**2, **CLOSE)


def test_also_with_the_two_parameters_of_the_inner_product() -> None:
    layer = nn.LieBN(4, geometry.LogEuclidean(a=2.0, b=0.5)).double()
    Y = layer(spd(10))
    torch.testing.assert_close(layer.metric.mean(Y), torch.eye(4, dtype=Y.dtype), **CLOSE)
    torch.testing.assert_close(layer.metric.variance(Y), torch.ones((), dtype=Y.dtype), **CLOSE)


@pytest.mark.parametrize("name", GROUPS)
def test_a_variance_below_eps_is_raised_to_it(name: str) -> None:
    layer = moved(name)
    P = spd(n=4, seed=3)
    X = torch.stack([P, layer.metric.geodesic(P, 2 * P, 1e-4)])
    variance = layer.metric.variance(X)
    assert 0 < variance < layer.eps
    found = layer.metric.variance(layer(X))
    torch.testing.assert_close(found, layer.scale**2 * variance / layer.eps, rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", GROUPS)
def test_with_momentum_one_evaluation_repeats_the_last_batch(name: str) -> None:
    layer, X = moved(name, momentum=1.0), spd(6, seed=3)
    trained = layer(X)
    torch.testing.assert_close(running_point(layer), layer.metric.mean(X).detach(), **CLOSE)
    torch.testing.assert_close(layer.running_var, layer.metric.variance(X).detach(), **CLOSE)
    torch.testing.assert_close(layer.eval()(X), trained, **CLOSE)


@pytest.mark.parametrize("name", GROUPS)
def test_running_statistics_stay_right_while_the_metric_moves(name: str) -> None:
    layer, X = moved(name, momentum=1.0), spd(6, seed=3)
    layer(X)
    mean = layer.running_mean.clone()
    with torch.no_grad():
        for parameter in layer.metric.parameters():
            parameter.mul_(1.3)
    layer.eval()
    Y, m = layer(X), layer.metric
    assert torch.equal(layer.running_mean, mean)
    mean = running_point(layer)
    k = layer.scale / layer.running_var.sqrt()
    expected = m.compose(layer.bias, m.scale(m.compose(m.invert(mean), X), k))
    torch.testing.assert_close(Y, expected, rtol=1e-8, atol=1e-8)


def test_the_papers_metric_follows_the_papers_formula_and_not_its_claim() -> None:
    layer = nn.LieBN(4, geometry.AdaptiveLogEuclidean(4)).double()
    with torch.no_grad():
        layer.metric.diffeo.weight.copy_(torch.tensor([1.3, 0.8, 1.4, 0.7]))
    X = spd(20, seed=3)
    with pytest.warns(geometry.NotADiffeomorphismWarning):
        Y = layer(X)
    C = layer.metric.chart(X)
    D = C - C.mean(0)
    expected = layer.metric.unchart(D / D.square().sum((-2, -1)).mean().sqrt())
    torch.testing.assert_close(Y, expected)
    off = layer.metric.chart(Y).mean(0).norm()
    assert off > 1e-3  # a true metric has 1e-15 here


@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
def test_the_papers_metric_evaluates_at_the_coordinates_that_it_has_tracked() -> None:
    """Its chart does not lead back to them from a point alone."""
    layer = nn.LieBN(4, geometry.AdaptiveLogEuclidean(4), momentum=0.3).double()
    diffeo = layer.metric.diffeo
    with torch.no_grad():
        diffeo.weight.copy_(torch.tensor([1.3, 0.8, -1.4, 0.7]))
    tracked = torch.zeros(4, 4, dtype=torch.float64)
    for seed in range(3):
        X = spd(6, seed=seed)
        layer(X)
        tracked = tracked.lerp(diffeo.chart(X).mean(0).detach(), 0.3)
    assert (diffeo.chart(linalg.exp(layer.running_mean)) - tracked).norm() > 0.1, "a point is not enough"
    again = nn.LieBN(4, geometry.AdaptiveLogEuclidean(4)).double()
    again.load_state_dict(layer.state_dict())
    again.eval()
    Y = diffeo.chart(X)
    expected = (Y - tracked) / layer.running_var.sqrt()
    torch.testing.assert_close(again.in_coordinates(Y), expected, **CLOSE)
    # They follow the metric when it learns, as those of a true chart do.
    with torch.no_grad():
        again.metric.diffeo.weight.mul_(1.5)
    expected = (Y - 1.5 * tracked) / layer.running_var.sqrt()
    torch.testing.assert_close(again.in_coordinates(Y), expected, **CLOSE)


def test_true_charts_need_no_order() -> None:
    assert "running_order" not in nn.LieBN(4, geometry.LogEuclidean()).state_dict()
    assert "running_order" not in nn.ChartNorm(4, geometry.GapLogEuclidean()).state_dict()


def test_a_batch_of_one_becomes_the_bias() -> None:
    layer = moved("lem")
    torch.testing.assert_close(layer(spd(1)), layer.bias[None].detach(), **CLOSE)
    torch.testing.assert_close(layer(spd()), layer.bias.detach(), **CLOSE)


@pytest.mark.parametrize("name", GROUPS)
def test_batches_of_one_say_nothing_of_the_variance(name: str) -> None:
    layer = nn.LieBN(4, learned_metric(name, 4)).double()
    mean = layer.running_mean.clone()
    for seed in range(100):
        layer(spd(1, seed=seed))
    assert float(layer.running_var) == 1.0
    assert not torch.equal(layer.running_mean, mean)
    assert layer.eval()(spd(3)).abs().max() < 1e3
    layer.train()(spd(2))
    assert float(layer.running_var) != 1.0


@pytest.mark.parametrize("name", GROUPS)
def test_an_empty_batch_is_refused_in_training_alone(name: str) -> None:
    layer = moved(name)
    before = copy.deepcopy(layer.state_dict())
    with pytest.raises(
        InvalidMatrixError, match=r"LieBN in training mode got no matrices, shape \(0, 4, 4\)"
    ):
        layer(spd(0))
    assert all(torch.equal(before[k], v) for k, v in layer.state_dict().items())
    assert layer.eval()(spd(0)).shape == (0, 4, 4)


def test_a_batch_that_the_running_mean_cannot_follow_is_refused_and_leaves_no_trace() -> None:
    layer = nn.LieBN(5, geometry.LogCholesky()).double()
    X = spd(8, n=5) * torch.logspace(-12, 12, 8, dtype=torch.float64)[:, None, None]
    before = copy.deepcopy(layer.state_dict())
    with pytest.raises(NotPositiveDefiniteError, match="the running mean of LieBN cannot follow") as error:
        layer(X)
    assert error.value.index is None  # no matrix of the batch is at fault
    assert all(torch.equal(before[k], v) for k, v in layer.state_dict().items())


def test_a_variance_that_overflows_is_refused_and_leaves_no_trace() -> None:
    layer = nn.LieBN(2, geometry.LogCholesky())
    # The factor has ±1.3e19 below its diagonal: its squares can be held and their sum cannot.
    X = torch.stack([torch.tensor([[1.0, x], [x, 1.7e38]]) for x in (1.3e19, 1.3e19, -1.3e19, -1.3e19)])
    before = copy.deepcopy(layer.state_dict())
    with pytest.raises(InvalidMatrixError, match="variance of this batch of 4 matrices is inf"):
        layer(X)
    assert all(torch.equal(before[k], v) for k, v in layer.state_dict().items())


def test_evaluation_leaves_everything_as_it_is() -> None:
    layer = moved("gap")
    layer(spd(5))
    layer.eval()
    before = copy.deepcopy(layer.state_dict())
    layer(spd(5, seed=8))
    assert all(torch.equal(before[k], v) for k, v in layer.state_dict().items())


def test_refusals_say_why() -> None:
    with pytest.raises(ValueError, match="BuresWasserstein has none"):
        nn.LieBN(3, geometry.BuresWasserstein())
    with pytest.raises(ValueError, match="momentum"):
        nn.LieBN(3, geometry.LogEuclidean(), momentum=0.0)
    with pytest.raises(ValueError, match="eps"):
        nn.LieBN(3, geometry.LogEuclidean(), eps=0.0)
    for metric in (geometry.LogEuclidean(), geometry.AffineInvariant()):
        with pytest.raises(InvalidMatrixError, match="LieBN was made for n = 3"):
            nn.LieBN(3, metric)(torch.eye(4).expand(2, 4, 4))
        with pytest.raises(InvalidMatrixError, match=r"LieBN holds torch\.float32"):
            nn.LieBN(4, metric)(spd(2))
