"""A step on an accelerator equals a step on the CPU, and does not wait for it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from alem.geometry import stiefel_parameter

from .conftest import Factory, Network, normal, orthonormal, spd

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


def step(model: Network, optimizer: torch.optim.Optimizer, seed: int) -> None:
    optimizer.zero_grad()
    model(spd(6, n=5, seed=seed).to(model.bimap.device)).square().mean().backward()
    optimizer.step()


def test_it_agrees_with_the_cpu(make: Factory) -> None:
    models = [Network(), Network().cuda()]
    for model in models:
        optimizer = make(model, weight_decay=1e-3)
        for seed in range(5):
            step(model, optimizer, seed)
    for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(p, q.cpu(), rtol=1e-9, atol=1e-9)


def test_a_checkpoint_moves_to_the_device(make: Factory) -> None:
    model = Network()
    optimizer = make(model)
    step(model, optimizer, 0)
    other = Network().cuda()
    other.load_state_dict(model.state_dict())
    again = make(other)
    again.load_state_dict(optimizer.state_dict())
    step(model, optimizer, 1)
    step(other, again, 1)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q.cpu(), rtol=1e-9, atol=1e-9)


def test_orthonormal_and_euclidean_steps_do_not_synchronise(make: Factory) -> None:
    params = [
        stiefel_parameter(orthonormal(8, 20).cuda()),
        stiefel_parameter(orthonormal(20, 8).cuda()),
        nn.Parameter(normal(5, 5).cuda()),
    ]
    optimizer = make(params, weight_decay=0.1)
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer.step()  # libraries load
    torch.cuda.set_sync_debug_mode("error")
    try:
        optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
