from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from alem import optim
from alem.nn import SPDBN
from alem.training import CaptureError, TrainingStep

from .conftest import OPTIMIZERS, Factory, batch, network


def test_it_is_the_loop_that_everybody_writes(make: Factory) -> None:
    ours, theirs = network(log="mul", norm="liebn"), network(log="mul", norm="liebn")
    optimizer = make(theirs)
    step = TrainingStep(ours, make(ours))
    for seed in range(4):
        X, y = batch(seed)
        loss, output = step(X, y)
        optimizer.zero_grad()
        expected = theirs(X)
        functional.cross_entropy(expected, y).backward()
        optimizer.step()
        assert torch.equal(output, expected)
        assert torch.equal(loss, functional.cross_entropy(expected, y))
        assert not loss.requires_grad
        assert not output.requires_grad
    same_state(ours, theirs)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(p.grad, q.grad)


def same_state(a: nn.Module, b: nn.Module) -> None:
    for (name, p), q in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        assert torch.equal(p, q), name


def test_on_the_cpu_it_runs_as_usual_and_says_why() -> None:
    model = network()
    step = TrainingStep(model, OPTIMIZERS["sgd"](model))
    assert not step.captured
    assert step.reason == "no step has been made"
    step(*batch(0))
    assert not step.captured
    assert step.reason == "the model is on the CPU"
    step = TrainingStep(model, OPTIMIZERS["sgd"](model), capture=False)
    step(*batch(0))
    assert step.reason == "capture is off"


def test_what_must_be_captured_and_cannot_raises_and_moves_nothing() -> None:
    model, same = network(norm="spdbn"), network(norm="spdbn")
    step = TrainingStep(model, OPTIMIZERS["sgd"](model), capture=True)
    with pytest.raises(CaptureError, match="the model is on the CPU"):
        step(*batch(0))
    same_state(model, same)


@pytest.mark.parametrize(
    ("options", "message"), [({"capture": "no"}, "capture must be"), ({"max_norm": 0.0}, "max_norm must")]
)
def test_options_that_make_no_sense(options: dict[str, object], message: str) -> None:
    model = network()
    with pytest.raises(ValueError, match=message):
        TrainingStep(model, OPTIMIZERS["sgd"](model), **options)  # type: ignore[arg-type]


def test_gradients_are_clipped_together() -> None:
    norms = []
    for max_norm in (None, 1e-3):
        model = network()
        TrainingStep(model, OPTIMIZERS["sgd"](model), max_norm=max_norm)(*batch(0))
        grads = [p.grad.norm() for p in model.parameters() if p.grad is not None]
        norms.append(float(torch.stack(grads).norm()))
    assert norms[0] > 0.01
    assert norms[1] == pytest.approx(1e-3, rel=1e-3)


def test_gradients_of_an_earlier_batch_are_dropped_also_where_no_optimiser_looks() -> None:
    model = network()
    head = model.layers.head
    optimizer = optim.RiemannianSGD([p for p in model.parameters() if p is not head.bias], lr=0.0)
    step = TrainingStep(model, optimizer)
    step(*batch(0))
    first = [p.grad.clone() for p in model.parameters()]
    step(*batch(0))
    for p, grad in zip(model.parameters(), first, strict=True):
        torch.testing.assert_close(p.grad, grad)


def test_further_arguments_go_to_the_model_and_gradients_are_made_under_no_grad() -> None:
    model = network(norm=lambda n: SPDBN(n, domains=2))
    step = TrainingStep(model, OPTIMIZERS["sgd"](model), loss=nn.CrossEntropyLoss())
    X, y = batch(0)
    with torch.no_grad():
        step(X, y, torch.arange(8) % 2)
    with pytest.raises(ValueError, match="needs that of each matrix"):
        step(X, y)
