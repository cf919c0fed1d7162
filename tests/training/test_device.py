"""Steps that are CUDA graphs, and steps that cannot be."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from alem import optim
from alem.linalg import cusolver
from alem.training import CaptureError, TrainingStep

from .conftest import CHANGES, OPTIMIZERS, Changes, Factory, batch, network

pytestmark = pytest.mark.skipif(
    cusolver._library() is None, reason="there is no CUDA device with a batched eigensolver here"
)


def losses(
    capture: bool | str,
    make: Factory,
    dtype: torch.dtype,
    change: Callable[[nn.Module, torch.optim.Optimizer], None] | None = None,
    **options: object,
) -> tuple[list[Tensor], nn.Module, TrainingStep]:
    """Of twenty steps with a falling rate, batches of two sizes in turn and a change half-way."""
    model = network(**options).to("cuda", dtype)
    torch.cuda.manual_seed(0)
    optimizer = make(model)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
    step = TrainingStep(model, optimizer, capture=capture, max_norm=1.0)
    results = []
    for seed in range(20):
        if seed == 10 and change is not None:
            change(model, optimizer)
        results.append(step(*batch(seed, N=8 if seed % 4 else 5, dtype=dtype))[0].clone())
        schedule.step()
    return results, model, step


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("change", [None, *(name for name in CHANGES if name != "parameter")])
def test_a_captured_step_does_what_a_plain_one_does(
    change: str | None, dtype: torch.dtype, make: Factory
) -> None:
    function = None if change is None else getattr(Changes, change)
    options = {"norm": "spdbn", "log": "mul", "dropout": 0.2}
    captured, model, step = losses("auto", make, dtype, function, **options)
    plain, other, _ = losses(False, make, dtype, function, **options)
    # Rates are rounded to single precision where parameters are.
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(captured, plain, **tolerance)
    assert step.captured == (change != "hook")
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, **tolerance)
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-4)
    for b, c in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(b, c, **tolerance)


@pytest.mark.parametrize(
    "options",
    [
        *(
            {"log": log}
            for log in ("ln", "log2", "log10", "mul", "div", "relu", "exp", "sinh", "rank", "gap")
        ),
        *({"norm": norm} for norm in ("spdnetbn", "spdbn", "liebn")),
        *({"norm": "liebn", "metric": metric} for metric in ("lcm", "alem", "sinh", "rank")),
        *({"head": "gyro", "metric": metric} for metric in ("lem", "lcm", "alem", "gap", "aim")),
        {"chart_norm": True, "trace_norm": True, "dropout": 0.5, "vec": "vech"},
    ],
)
@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
def test_every_layer_and_optimiser_can_be_captured(options: dict[str, object], make: Factory) -> None:
    model = network(**options).cuda()
    step = TrainingStep(model, make(model), capture=True)
    for seed in range(6):
        loss, _ = step(*batch(seed))
    assert step.captured, step.reason
    assert bool(loss.isfinite())


@pytest.mark.parametrize("capturable", [True, False])
def test_optimisers_of_torch(capturable: bool) -> None:
    make = functools.partial(torch.optim.Adam, lr=1e-2, capturable=capturable)
    captured, _, step = losses("auto", lambda model: make(model.parameters()), torch.float32)
    plain, _, _ = losses(False, lambda model: make(model.parameters()), torch.float32)
    torch.testing.assert_close(captured, plain, rtol=1e-5, atol=1e-6)
    assert step.captured == capturable


def test_an_optimiser_that_counts_on_the_cpu_is_not_captured() -> None:
    model = network().cuda()
    step = TrainingStep(model, torch.optim.Adam(model.parameters()))
    for seed in range(6):
        step(*batch(seed))
    assert step.reason == "the optimiser keeps 'step' off the device (torch's have capturable=True)"


class Waits(nn.Module):
    """A layer that asks for a value: always, or only while it is captured, or in its backward pass."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.linear, self.dropout, self.when = nn.Linear(4, 3), nn.Dropout(0.5), when

    def forward(self, X: Tensor) -> Tensor:
        Y = self.linear(self.dropout(X))
        if self.when == "always" or (self.when == "captured" and torch.cuda.is_current_stream_capturing()):
            Y.sum().item()
        if self.when == "backward":
            Y.register_hook(lambda grad: grad * grad.sum().item())
        return Y


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("always", r"the step waits for the device, at .*test_device.py:\d+ for one"),
        ("backward", "the step waits for the device"),
        ("captured", "the capture failed: .*captur"),
    ],
)
def test_what_cannot_be_captured_runs_as_usual_with_a_reason(when: str, message: str) -> None:
    results, states = [], []
    for capture in ("auto", False):
        torch.manual_seed(0)
        model = Waits(when).cuda()
        optimizer = optim.RiemannianSGD(model, lr=0.1, momentum=0.9)
        step = TrainingStep(model, optimizer, capture=capture)
        generator = torch.Generator().manual_seed(0)
        torch.cuda.manual_seed(0)
        for _ in range(8):
            X = torch.randn(5, 4, generator=generator)
            results.append(step(X, torch.tensor([0, 1, 2, 0, 1]))[0].clone())
        states.append([*model.parameters(), *(s["momentum_buffer"] for s in optimizer.state.values())])
        if capture == "auto":
            assert step.reason is not None
            assert re.search(message, step.reason), step.reason
    torch.testing.assert_close(results[:8], results[8:], rtol=0, atol=0)
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)
    # torch's generator and allocator are as before
    graph, x = torch.cuda.CUDAGraph(), torch.ones(100, device="cuda")
    with torch.cuda.graph(graph):
        y = functional.dropout(x)
    graph.replay()
    first = y.clone()
    graph.replay()
    assert not torch.equal(first, y)
    strict = TrainingStep(model, optimizer, capture=True)
    for _ in range(3):
        strict(X, torch.tensor([0, 1, 2, 0, 1]))
    with pytest.raises(CaptureError, match=message):
        strict(X, torch.tensor([0, 1, 2, 0, 1]))


def test_gradients_are_there_after_a_replay_whatever_was_done_to_them() -> None:
    model = network().cuda()
    optimizer = optim.RiemannianSGD(model, lr=0.0)
    step = TrainingStep(model, optimizer)
    for _ in range(5):
        step(*batch(0))
    assert step.captured
    expected = [p.grad.clone() for p in model.parameters()]
    for to_none in (True, False):
        optimizer.zero_grad(set_to_none=to_none)
        step(*batch(0))
        for p, grad in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(p.grad, grad)


def test_evaluation_between_steps_and_forgotten_graphs() -> None:
    model = network(norm="spdbn").cuda()
    step = TrainingStep(model, OPTIMIZERS["amsgrad"](model))
    X, y = batch(0)
    for _ in range(6):
        step(X, y)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model.eval()
    model(X.cuda())
    model.train()
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name])
    step(X, y)
    assert step.captured
    step.reset()
    step(X, y)
    assert step.reason == "warming up: 1 of 3 steps of this kind"


def test_kinds_that_have_not_been_seen_for_long_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network().cuda()
    step = TrainingStep(model, OPTIMIZERS["sgd"](model))
    monkeypatch.setattr("alem.training.step.KINDS", 2)
    for sizes, captured in (((8, 5), True), ((8, 5, 4), False)):
        for _ in range(5):
            for N in sizes:
                step(*batch(0, N=N))
        assert step.captured == captured
