"""Everything on an accelerator equals everything on the CPU, and stays there."""

from __future__ import annotations

import pytest
import torch

from alem import geometry

from .conftest import NAMES, learned_metric, spd, sym
from .test_contract import ALL, BATCH_OPERATIONS, CASES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


@pytest.mark.parametrize(("name", "operation"), CASES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_operators_and_gradients_agree_with_the_cpu(name: str, operation: str, dtype: torch.dtype) -> None:
    f, results = ALL[operation], []
    for device in ("cpu", "cuda"):
        m = learned_metric(name, 3).to(device)
        P, Q = (spd(2, n=3, seed=s, dtype=dtype).to(device).requires_grad_() for s in (1, 2))
        V = (0.05 * sym(2, n=3, dtype=dtype)).to(device)
        value = f(m, P, Q, V)
        assert value.device.type == device
        assert value.dtype == dtype
        grads = torch.autograd.grad(value.sum(), [P, Q, *m.parameters()], allow_unused=True)
        results.append([value.cpu(), *(g.cpu() for g in grads if g is not None)])
    tolerance = 1e-9 if dtype == torch.float64 else 5e-4
    torch.testing.assert_close(*results, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("operation", BATCH_OPERATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_means_agree_with_the_cpu(name: str, operation: str) -> None:
    results = []
    for device in ("cpu", "cuda"):
        m, X = learned_metric(name, 3).to(device), spd(2, 5, n=3).to(device).requires_grad_()
        value = BATCH_OPERATIONS[operation](m, X, torch.rand(5, dtype=X.dtype, device=device).fill_(0.5))
        (grad,) = torch.autograd.grad(value.sum(), X)
        assert value.device.type == device
        results.append([value.cpu(), grad.cpu()])
    torch.testing.assert_close(*results, rtol=1e-8, atol=1e-9)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_the_papers_chart_does_not_synchronise_to_warn() -> None:
    m = geometry.metric("alem", n=3).double().cuda()
    with torch.no_grad():
        m.diffeo.weight.copy_(torch.tensor([1.0, 2.0, 0.5]))
    X = sym(20, n=3).cuda()
    m.unchart(X)  # loads what the first call loads
    torch.cuda.set_sync_debug_mode("error")
    try:
        m.diffeo.warn_unless_exact(X, None)
        m.diffeo.multipliers()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
def test_moments_of_blocks_on_the_device(name: str) -> None:
    m, X = learned_metric(name, 4), spd(300, n=4)
    w = torch.rand(300, generator=torch.Generator().manual_seed(0), dtype=X.dtype)
    here = m.moments([(X[:100], w[:100]), (X[100:], w[100:])])
    there = m.cuda().moments([(X[:100].cuda(), w[:100].cuda()), (X[100:].cuda(), w[100:].cuda())])
    assert there.mean.is_cuda
    torch.testing.assert_close(there.mean.cpu(), here.mean, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(there.variance.cpu(), here.variance, rtol=1e-8, atol=1e-8)
