"""The operators of every metric in one compiled graph, forward and backward."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from alem.geometry import Metric

from .conftest import NAMES, learned_metric, spd, sym
from .test_contract import BATCH_OPERATIONS, CHART_OPERATIONS, GROUP_OPERATIONS, OPERATIONS

# Made of others in the list, and minutes to compile in all.
COVERED = ("norm", "dist2", "bounded_exp", "invert", "relative", "unchart", "pushforward", "hilbert_inner")


def operations_of(m: Metric) -> list[Callable[..., Tensor]]:
    chosen = dict(OPERATIONS)
    if m.has_group:
        chosen |= GROUP_OPERATIONS
    if m.is_flat:
        chosen |= CHART_OPERATIONS
    return [operation for name, operation in chosen.items() if name not in COVERED]


@pytest.mark.parametrize("name", NAMES)
def test_all_operators_compile_without_a_graph_break(name: str) -> None:
    torch.compiler.reset()  # each metric is a new version of the same function
    m = learned_metric(name, 3)
    P, Q, w = spd(2, n=3, seed=1), spd(2, n=3, seed=2), torch.tensor([0.3, 0.7], dtype=torch.float64)
    V = 0.05 * sym(2, n=3)
    operations = operations_of(m)

    def everything(P: Tensor, Q: Tensor, V: Tensor) -> tuple[Tensor, ...]:
        single = [f(m, P, Q, V) for f in operations]
        return (*single, *(f(m, P, w) for f in BATCH_OPERATIONS.values()))

    compiled = torch.compile(everything, fullgraph=True, backend="aot_eager")
    inputs = [A.clone().requires_grad_() for A in (P, Q, V)]
    got, expected = compiled(*inputs), everything(*inputs)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
    leaves = [*inputs, *m.parameters()]
    got_grads = torch.autograd.grad(sum(A.sum() for A in got), leaves)
    expected_grads = torch.autograd.grad(sum(A.sum() for A in expected), leaves)
    torch.testing.assert_close(got_grads, expected_grads, rtol=1e-8, atol=1e-9)
