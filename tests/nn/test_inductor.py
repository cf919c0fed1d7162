"""Training through torch.compile with its default backend, which makes kernels of its own."""

from __future__ import annotations

import copy
import os
import shutil

import pytest
import torch
from torch import Tensor, nn

from alem import geometry
from alem import nn as ann
from alem.optim import RiemannianSGD

COMPILER = shutil.which(os.environ.get("CXX", "")) or shutil.which("g++") or shutil.which("clang++")
N = 3


def network() -> nn.Module:
    """A norm whose statistics are all used and changed in training; more would compile for minutes."""
    torch.manual_seed(0)
    return nn.Sequential(ann.SPDBN(N, warmup=3), ann.Vech(), nn.Linear(6, 2)).double()


@pytest.mark.skipif(COMPILER is None, reason="inductor needs a C++ compiler, and there is none")
def test_three_steps_of_training_are_those_of_eager_mode() -> None:
    torch.compiler.reset()
    eager = network()
    module = copy.deepcopy(eager)
    compiled = torch.compile(module, fullgraph=True)
    labels = torch.arange(6) % 2
    optimizers = [RiemannianSGD(m.parameters(), lr=0.05) for m in (eager, module)]

    def step(call: nn.Module, optimizer: torch.optim.Optimizer, X: Tensor) -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(call(X), labels)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    for seed in range(3):
        X = geometry.sample_wishart(
            6, n=N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        losses = [step(*pair, X) for pair in zip((eager, compiled), optimizers, strict=True)]
        assert losses[1] == pytest.approx(losses[0], rel=1e-9)
    before = network().state_dict()
    for name, value in eager.state_dict().items():
        assert not torch.equal(value, before[name]), f"{name} did not move"
        torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-8, atol=1e-9)
