"""On CUDA neither autocast nor TF32 takes digits from anything but products of BiMap and linear layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest
import torch
from torch import Tensor, nn

from alem import geometry, linalg, models, optim
from alem.nn import BiMap
from alem.training import TrainingStep
from tests.geometry.conftest import NAMES, learned_metric

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
    pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning"),
]
N = 64  # TF32 is used for products of some size


@contextmanager
def tf32() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


LOWERED: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "bfloat16": lambda: torch.autocast("cuda", torch.bfloat16),
    "float16": lambda: torch.autocast("cuda", torch.float16),
    "high": tf32,
}
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "log": linalg.log,
    "clamp": lambda X: linalg.clamp(X, 0.5),
    "pushforward": lambda X: linalg.pushforward(X, X.flip(0), linalg.LOG),
    "cholesky_log": linalg.cholesky_log,
    "cholesky_exp": lambda X: linalg.cholesky_exp(X / N),
    "whiten": lambda X: linalg.whiten(linalg.cholesky(X[0]), X),
    "unwhiten": lambda X: linalg.unwhiten(X.tril(), X),
    "lyapunov": lambda X: linalg.lyapunov(X, X.flip(0)),
    "covariance": linalg.covariance,
}


def matrices(n: int = N) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    X = geometry.sample_wishart(8, n=n, generator=generator, dtype=torch.float64)
    return X.float().cuda()


def off(a: Tensor, b: Tensor) -> float:
    return float((a.detach().double() - b.detach().double()).norm() / b.detach().double().norm())


def value_and_gradient(
    run: Callable[[Tensor], Tensor], X: Tensor, context: AbstractContextManager[object], inside: bool
) -> tuple[Tensor, Tensor]:
    X = X.detach().requires_grad_()
    with context:
        Y = run(X)
        if inside:
            return Y, torch.autograd.grad(Y.double().square().sum(), X)[0]
    return Y, torch.autograd.grad(Y.double().square().sum(), X)[0]


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("lowered", LOWERED)
def test_functions_have_the_accuracy_of_float32(lowered: str, name: str, inside: bool) -> None:
    X = matrices()
    expected = value_and_gradient(FUNCTIONS[name], X.double(), nullcontext(), inside)
    plain = value_and_gradient(FUNCTIONS[name], X, nullcontext(), inside)
    found = value_and_gradient(FUNCTIONS[name], X, LOWERED[lowered](), inside)
    for exact, usual, value in zip(expected, plain, found, strict=True):
        assert value.dtype == torch.float32
        assert off(value, exact) <= 2 * off(usual, exact) + 1e-6


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lowered", LOWERED)
def test_distances_have_the_accuracy_of_float32(lowered: str, name: str) -> None:
    m, X = learned_metric(name, 8).float().cuda(), matrices(8)

    def run(X: Tensor) -> Tensor:
        return m.dist2(X, X.flip(0).detach() + 0.1 * X.detach())

    plain = value_and_gradient(run, X, nullcontext(), True)
    for value, expected in zip(value_and_gradient(run, X, LOWERED[lowered](), True), plain, strict=True):
        assert value.dtype == torch.float32
        assert off(value, expected) < 1e-4


@pytest.mark.parametrize("lowered", LOWERED)
def test_bimap_is_lower(lowered: str) -> None:
    if lowered != "float16" and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("this device has neither TF32 nor products in bfloat16")
    layer, X = BiMap(N, N // 2).cuda(), matrices()
    expected = layer(X)
    with LOWERED[lowered]():
        found = layer(X)
    assert found.dtype == torch.float32
    assert torch.equal(found, found.mT)
    assert 1e-5 < off(found, expected) < 1e-2


@pytest.mark.parametrize("lowered", LOWERED)
def test_weights_stay_orthonormal(lowered: str) -> None:
    layer, X = BiMap(N, N // 2).cuda(), matrices()
    optimizer = optim.RiemannianSGD(layer, lr=0.1)
    for _ in range(3):
        with LOWERED[lowered]():
            nn.functional.mse_loss(layer(X), 0 * layer(X).detach()).backward()
            optimizer.step()
    W = layer.weight.detach().double()
    assert float((W @ W.mT - torch.eye(N // 2, device="cuda")).abs().max()) < 1e-5


@pytest.mark.parametrize("kind", ["autocast", "high"])
def test_a_captured_step_is_the_one_that_is_not(kind: str) -> None:
    losses = []
    for capture in (False, True):
        torch.manual_seed(0)
        net = models.SPDNet([8, 5], 3, log="gap", chart_norm=True).cuda()
        products = torch.bfloat16 if kind == "autocast" else None
        optimizer = optim.RiemannianSGD(net, lr=0.1)
        step = TrainingStep(net, optimizer, capture="auto" if capture else False, products=products)
        with tf32() if kind == "high" else nullcontext():
            values = [float(step(matrices(8), torch.arange(8) % 3)[0]) for _ in range(8)]
        assert step.captured == capture, step.reason
        losses.append(values)
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


@pytest.mark.parametrize("lowered", ["bfloat16", "high"])
def test_a_compiled_function_keeps_all_digits(lowered: str) -> None:
    X, compiled = matrices(), torch.compile(linalg.log, fullgraph=True, backend="aot_eager")
    expected = value_and_gradient(linalg.log, X.double(), nullcontext(), False)
    found = value_and_gradient(compiled, X, LOWERED[lowered](), False)
    for value, exact in zip(found, expected, strict=True):
        assert off(value, exact) < 1e-5
