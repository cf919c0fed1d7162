from __future__ import annotations

import functools

import pytest
import torch
from torch import nn
from torch.nn import functional

from alem.training import TrainingStep
from alem.training.signature import signature

from .conftest import CHANGES, OPTIMIZERS, Changes, batch, network


@pytest.mark.parametrize("change", CHANGES)
def test_changes_that_make_it_another_kind_of_step(change: str) -> None:
    model = network(norm="spdbn")
    optimizer = OPTIMIZERS["nesterov"](model)
    TrainingStep(model, optimizer)(*batch(0))
    kind = functools.partial(signature, batch(0), model, functional.cross_entropy, optimizer)
    before = kind()
    TrainingStep(model, optimizer)(*batch(1))
    for group in optimizer.param_groups:
        group["lr"] *= 0.5
    assert kind() == before
    getattr(Changes, change)(model, optimizer)
    assert kind() != before


def test_shapes_settings_and_rates_of_other_optimisers_are_part_of_the_kind() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kind = functools.partial(signature, model=model, loss=nn.CrossEntropyLoss(), optimizer=optimizer)
    X, y = batch(0)
    seen = {kind((X, y)), kind((X[:5], y[:5])), kind((X.double(), y)), kind((X, y, 1)), kind((X, y, 2))}
    torch.set_float32_matmul_precision("high")
    seen.add(kind((X, y)))
    torch.set_float32_matmul_precision("highest")
    optimizer.param_groups[0]["lr"] = 0.05
    seen.add(kind((X, y)))
    assert len(seen) == 7
