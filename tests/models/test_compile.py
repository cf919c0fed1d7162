"""A training step of a whole network in one compiled graph equals the eager one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.geometry.conftest import spd
from tests.models.test_contract import BATCH, CLASSES, DIMS, network

NETWORKS = (
    "log/ln",
    "log/mul",
    "log/gap",
    "liebn/lem",
    "norm/spdnetbn",
    "norm/spdbn",
    "gyro/aim",
    "rresnet/lem",
)


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_compiled_training_step_is_the_eager_one(kind: str) -> None:
    torch.compiler.reset()
    X, y = spd(BATCH, n=DIMS[0]), torch.arange(BATCH) % CLASSES
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        net = network(kind).double()

        def step(X: Tensor, net: nn.Module = net) -> Tensor:
            return nn.functional.cross_entropy(net(X), y)

        run = torch.compile(step, fullgraph=True, backend="aot_eager") if compiled else step
        loss = run(X)
        loss.backward()
        results.append({"loss": loss.detach(), **{name: p.grad for name, p in net.named_parameters()}})
        results[-1] |= {f"buffer {name}": b for name, b in net.named_buffers()}
    torch.testing.assert_close(results[1], results[0], rtol=1e-9, atol=1e-10)
