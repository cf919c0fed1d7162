"""CoordinateNorm against torch's BatchNorm1d, ChartNorm against its formula."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from alem import geometry, linalg
from alem.linalg import InvalidMatrixError
from alem.nn.chart_norm import ChartNorm, CoordinateNorm
from alem.nn.fuse import fuse

N, M = 3, 6
FLAT = [name for name in geometry.METRICS if geometry.metric(name, n=2).is_flat]


def vectors(*size: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return 3 + 2 * torch.randn(*size, M, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def spd(*size: int, n: int = N, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return geometry.sample_wishart(*size, n=n, dof=4 * n, generator=generator, dtype=dtype)


def moved(layer: CoordinateNorm) -> CoordinateNorm:
    """The layer with parameters away from their start."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias):
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return layer


def learned(name: str) -> geometry.PullbackMetric:
    """A metric away from its start; the paper's ALEM is one for equal multipliers only."""
    metric = geometry.metric(name, n=N).double()
    with torch.no_grad():
        for parameter in metric.parameters():
            step = torch.linspace(0.1, 0.2, parameter.numel(), dtype=parameter.dtype)
            parameter.add_(step if name != "alem" else 0.2)
    return metric


def chart_norm(name: str | None) -> ChartNorm:
    return ChartNorm(N, None if name is None else learned(name), dtype=torch.float64)


def input_of(name: str | None, *size: int, seed: int = 0) -> Tensor:
    return linalg.log(spd(*size, seed=seed)) if name is None else spd(*size, seed=seed)


every_chart = pytest.mark.parametrize("name", [None, *FLAT])


# CoordinateNorm.


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_coordinate_norm_is_batch_norm(affine: bool, dtype: torch.dtype) -> None:
    ours = CoordinateNorm(M, momentum=0.3, eps=1e-3, affine=affine, dtype=dtype)
    theirs = nn.BatchNorm1d(M, momentum=0.3, eps=1e-3, affine=affine, dtype=dtype)
    if affine:
        moved(ours)
    theirs.load_state_dict(ours.state_dict())
    for seed in range(4):
        inputs = [vectors(5, seed=seed, dtype=dtype).requires_grad_() for _ in range(2)]
        y, expected = ours(inputs[0]), theirs(inputs[1])
        torch.testing.assert_close(y, expected)
        for z in (y, expected):
            (z**3).sum().backward()
        torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    x = vectors(2, seed=9, dtype=dtype)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


def test_all_leading_dimensions_are_the_batch() -> None:
    flat, shaped = (moved(CoordinateNorm(M, dtype=torch.float64)) for _ in range(2))
    x = vectors(6)
    torch.testing.assert_close(shaped(x.reshape(2, 3, M)), flat(x).reshape(2, 3, M))
    torch.testing.assert_close(shaped.state_dict(), flat.state_dict())


@pytest.mark.parametrize("size", [(), (1,), (1, 1)])
def test_a_batch_of_one_gives_the_bias_and_says_nothing_of_the_variance(size: tuple[int, ...]) -> None:
    layer = moved(CoordinateNorm(M, dtype=torch.float64))
    x = vectors(*size).requires_grad_()
    y = layer(x)
    torch.testing.assert_close(y, layer.bias.expand(x.shape))
    y.sum().backward()
    assert torch.equal(x.grad, torch.zeros_like(x))
    torch.testing.assert_close(layer.running_mean, 0.1 * x.detach().reshape(M))
    assert torch.equal(layer.running_var, torch.ones(M, dtype=torch.float64))
    assert int(layer.num_batches_tracked) == 1


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("size", [1, 4])
def test_gradients_of_coordinate_norm(training: bool, size: int) -> None:
    layer = moved(CoordinateNorm(M, dtype=torch.float64))
    layer(vectors(5, seed=1))
    layer.train(training)

    def function(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        state = {k: b.clone() for k, b in layer.named_buffers()} | {"weight": weight, "bias": bias}
        return functional_call(layer, state, (x,))

    inputs = tuple(x.detach().clone().requires_grad_() for x in (vectors(size), layer.weight, layer.bias))
    assert torch.autograd.gradcheck(function, inputs)


def test_coordinate_norm_names_bad_input() -> None:
    layer = CoordinateNorm(M, dtype=torch.float64)
    with pytest.raises(InvalidMatrixError, match="made for 6 features"):
        layer(torch.zeros(4, M + 1, dtype=torch.float64))
    with pytest.raises(InvalidMatrixError, match=r"holds torch\.float64 and got torch\.float32"):
        layer(vectors(4, dtype=torch.float32))
    with pytest.raises(InvalidMatrixError, match="no vectors"):
        layer(vectors(0))
    assert layer.eval()(vectors(0)).shape == (0, M)
    assert int(layer.num_batches_tracked) == 0


BAD = [(float("nan"), "NaN or infinite"), (float("inf"), "NaN or infinite"), (1e20, "size 1e\\+20")]


@pytest.mark.parametrize(("value", "message"), BAD)
@pytest.mark.parametrize("kind", [CoordinateNorm, ChartNorm])
def test_what_would_spoil_the_statistics_is_named_and_leaves_no_trace(
    kind: type[CoordinateNorm], value: float, message: str
) -> None:
    matrices = kind is ChartNorm
    layer = ChartNorm(N) if matrices else CoordinateNorm(M)
    X = (linalg.log(spd(2, 3)) if matrices else vectors(2, 3)).float()
    X[(1, 2, 0, 0) if matrices else (1, 2, 0)] = value
    before = copy.deepcopy(layer.state_dict())
    what = "matrix" if matrices else "vector"
    with pytest.raises(InvalidMatrixError, match=rf"{what} \(1, 2\) of the .* {message}") as error:
        layer(X)
    assert error.value.index == (1, 2)
    torch.testing.assert_close(layer.state_dict(), before, rtol=0, atol=0)
    layer.eval()
    if value == 1e20:  # nothing is squared in evaluation
        assert layer(X).isfinite().all()
    else:
        with pytest.raises(InvalidMatrixError, match=message):
            layer(X)


def test_a_sum_that_overflows_is_no_fault_in_evaluation() -> None:
    layer = CoordinateNorm(M).eval()
    assert layer(torch.full((4, M), 3e38)).isfinite().all()


def test_a_batch_that_the_running_mean_cannot_follow_is_refused_and_leaves_no_trace() -> None:
    layer = ChartNorm(5, geometry.LogCholesky(), momentum=1.0, dtype=torch.float64)
    X = spd(8, n=5) * torch.logspace(-12, 12, 8, dtype=torch.float64)[:, None, None]
    before = copy.deepcopy(layer.state_dict())
    with pytest.raises(InvalidMatrixError, match="the running mean of ChartNorm cannot follow"):
        layer(X)
    torch.testing.assert_close(layer.state_dict(), before, rtol=0, atol=0)


@pytest.mark.parametrize("options", [{"momentum": 0.0}, {"momentum": 1.5}, {"eps": 0.0}])
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        CoordinateNorm(M, **options)
    with pytest.raises(ValueError, match=next(iter(options))):
        ChartNorm(N, **options)


# ChartNorm.


def test_without_a_metric_it_normalises_the_coordinates_of_symmetric_matrices() -> None:
    layer = moved(ChartNorm(N, momentum=0.3, eps=1e-3, dtype=torch.float64))
    inner = nn.BatchNorm1d(M, momentum=0.3, eps=1e-3, dtype=torch.float64)
    inner.load_state_dict(layer.state_dict())
    for seed in range(3):
        X = linalg.log(spd(5, seed=seed))
        torch.testing.assert_close(layer(X), linalg.unvech(inner(linalg.vech(X))))
    torch.testing.assert_close(layer.state_dict(), inner.state_dict())
    X = linalg.log(spd(4, seed=7))
    torch.testing.assert_close(layer.eval()(X), linalg.unvech(inner.eval()(linalg.vech(X))))


@pytest.mark.parametrize("name", FLAT)
def test_with_a_metric_it_normalises_the_coordinates_of_its_chart(name: str) -> None:
    metric = learned(name)
    layer = moved(ChartNorm(N, metric, momentum=0.3, eps=1e-3, dtype=torch.float64))
    inner = nn.BatchNorm1d(M, momentum=0.3, eps=1e-3, dtype=torch.float64)
    with torch.no_grad():
        inner.weight.copy_(layer.weight)
        inner.bias.copy_(layer.bias)

    def expected(X: Tensor) -> Tensor:
        coordinates = inner(metric.diffeo.vector(metric.chart(X)))
        return metric.unchart(metric.diffeo.matrix(coordinates))

    for seed in range(3):
        X = spd(5, seed=seed)
        torch.testing.assert_close(layer(X), expected(X))
    mean = metric.diffeo.vector(metric.diffeo.recall(layer.running_mean, layer.running_order))
    torch.testing.assert_close(mean, inner.running_mean)
    torch.testing.assert_close(layer.running_var, inner.running_var)
    layer.eval(), inner.eval()
    X = spd(4, seed=7)
    torch.testing.assert_close(layer(X), expected(X))


def test_log_euclidean_chart_norm_is_the_plain_one_between_log_and_exp() -> None:
    with_metric = moved(ChartNorm(N, geometry.LogEuclidean(), dtype=torch.float64))
    plain = moved(ChartNorm(N, dtype=torch.float64))
    for _ in range(2):
        X = spd(5)
        torch.testing.assert_close(with_metric(X), linalg.exp(plain(linalg.log(X))))
    torch.testing.assert_close(with_metric.eval()(X), linalg.exp(plain.eval()(linalg.log(X))))


def test_the_running_mean_stays_right_when_the_metric_learns() -> None:
    metric = geometry.AdaptiveLogEuclidean(N, rule="exp")
    layer = ChartNorm(N, metric, momentum=1.0, affine=False, dtype=torch.float64).double()
    X = spd(6)
    layer(X)
    before = layer.running_mean.clone()
    with torch.no_grad():
        next(metric.parameters()).add_(0.7)  # a chart of twice the units
    torch.testing.assert_close(layer.running_mean, before)
    layer.eval()
    Y = metric.chart(layer(X))
    torch.testing.assert_close(Y.mean(0), torch.zeros(N, N, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("metric", [geometry.AffineInvariant(), geometry.BuresWasserstein()])
def test_a_metric_without_a_chart_is_refused(metric: geometry.Metric) -> None:
    with pytest.raises(ValueError, match=f"{type(metric).__name__} is not flat"):
        ChartNorm(N, metric)


def test_without_affine_there_are_no_parameters() -> None:
    layer = ChartNorm(N, affine=False, dtype=torch.float64)
    assert not list(layer.parameters())
    v = linalg.vech(layer(linalg.log(spd(50))))
    torch.testing.assert_close(v.mean(0), torch.zeros(M, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(
        v.var(0, correction=0), torch.ones(M, dtype=torch.float64), rtol=1e-3, atol=0
    )


@every_chart
def test_shapes_batches_of_one_and_single_matrices(name: str | None) -> None:
    flat, shaped = moved(chart_norm(name)), moved(chart_norm(name))
    X = input_of(name, 6)
    torch.testing.assert_close(shaped(X.reshape(2, 3, N, N)), flat(X).reshape(2, 3, N, N))
    torch.testing.assert_close(shaped.state_dict(), flat.state_dict())
    single, one = flat(X[0]), shaped(X[:1])
    torch.testing.assert_close(single, one[0])
    metric = flat.metric
    bias = linalg.unvech(flat.bias) if metric is None else metric.unchart(metric.diffeo.matrix(flat.bias))
    torch.testing.assert_close(single, bias)


BATCHES = {
    "distinct": spd(4),
    "ties": torch.cat([torch.eye(N, dtype=torch.float64)[None], spd(3)]),
    "identities": torch.eye(N, dtype=torch.float64).repeat(3, 1, 1),
}


@pytest.mark.parametrize("name", [None, "lem", "lcm", "alcm", "sinh", "gap"])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("training", [True, False])
def test_gradients_are_the_true_ones(name: str | None, batch: str, training: bool) -> None:
    layer = chart_norm(name)
    layer.eps = 1e-1
    layer = moved(layer)
    layer(input_of(name, 5, seed=1))
    layer.train(training)
    names, start = zip(*((k, p.detach().clone()) for k, p in layer.named_parameters()), strict=True)

    def function(X: Tensor, *parameters: Tensor) -> Tensor:
        state = {k: b.clone() for k, b in layer.named_buffers()} | dict(zip(names, parameters, strict=True))
        return functional_call(layer, state, ((X + X.mT) / 2,))

    inputs = tuple(x.clone().requires_grad_() for x in (BATCHES[batch], *start))
    assert torch.autograd.gradcheck(function, inputs)


@every_chart
def test_a_trained_layer_loads_into_a_fresh_one_and_is_copied(name: str | None) -> None:
    layer, fresh = moved(chart_norm(name)), chart_norm(name)
    shapes = {k: v.shape for k, v in fresh.state_dict().items()}
    pointers = {k: v.data_ptr() for k, v in layer.named_buffers()}
    for seed in range(3):
        layer(input_of(name, 6, seed=seed))
    assert {k: v.shape for k, v in layer.state_dict().items()} == shapes
    assert {k: v.data_ptr() for k, v in layer.named_buffers()} == pointers
    fresh.load_state_dict(layer.state_dict())
    X = input_of(name, 4, seed=8)
    copies = [fresh, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
    for training in (True, False):
        expected = layer.train(training)(X)
        for other in copies:
            torch.testing.assert_close(other.train(training)(X), expected, rtol=0, atol=0)


@every_chart
def test_dtype_is_kept_and_can_be_changed(name: str | None) -> None:
    layer = chart_norm(name).float()
    X = input_of(name, 6)
    Y = layer(X.float())
    assert Y.dtype == torch.float32
    torch.testing.assert_close(Y.double(), chart_norm(name)(X), rtol=1e-3, atol=1e-4)
    for training in (True, False):
        assert layer.double().train(training)(X).dtype == torch.float64


@every_chart
@pytest.mark.parametrize("training", [True, False])
def test_compiles_into_one_graph(name: str | None, training: bool) -> None:
    torch.compiler.reset()
    eager = moved(chart_norm(name))
    layer = copy.deepcopy(eager)
    for module in (eager, layer):
        module(input_of(name, 6, seed=4))
        module.train(training)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for seed in range(2):
        inputs = [input_of(name, 6, seed=seed).requires_grad_() for _ in range(2)]
        for call, X in zip((compiled, eager), inputs, strict=True):
            (call(X).square() + call(X + X)).sum().backward()
        torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
        torch.testing.assert_close(compiled(X), eager(X))
    torch.testing.assert_close(layer.state_dict(), eager.state_dict())
    for a, b in zip(layer.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


@every_chart
def test_bad_input_is_named(name: str | None) -> None:
    layer = chart_norm(name)
    before = copy.deepcopy(layer.state_dict())
    for bad in (spd(4, n=N + 1), spd(4, dtype=torch.float32), torch.zeros(4, N, N + 1).double()):
        with pytest.raises(InvalidMatrixError):
            layer(bad)
    with pytest.raises(InvalidMatrixError, match="no matrices"):
        layer(spd(0))
    torch.testing.assert_close(layer.state_dict(), before, rtol=0, atol=0)
    assert layer.eval()(spd(0)).shape == (0, N, N)


@pytest.mark.parametrize("name", ["lem", "lcm", "sinh"])
def test_fused_layers_of_one_metric_agree_with_unfused_ones(name: str) -> None:
    metric = learned(name)
    layers = nn.Sequential(*(moved(ChartNorm(N, metric, dtype=torch.float64)) for _ in range(2)))
    fused = fuse(copy.deepcopy(layers))
    for training in (True, False):
        X = spd(5)
        torch.testing.assert_close(fused.train(training)(X), layers.train(training)(X))
    torch.testing.assert_close(fused.state_dict(), layers.state_dict())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@every_chart
@pytest.mark.parametrize("training", [True, False])
def test_cuda_gives_the_same(name: str | None, training: bool) -> None:
    host = chart_norm(name).train(training)
    device = copy.deepcopy(host).cuda()
    X = input_of(name, 6)
    torch.testing.assert_close(device(X.cuda()).cpu(), host(X))
    torch.testing.assert_close(device.cpu().state_dict(), host.state_dict())
