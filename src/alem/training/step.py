"""A training step that is captured as a CUDA graph once it has been seen to repeat."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from alem.training.rates import DeviceRates
from alem.training.signature import signature

# Steps before a capture, as torch's notes on CUDA graphs advise: libraries load, optimisers make state.
WARM_UP = 3
# Kinds of steps that are remembered; each may hold a graph with its memory.
KINDS = 8


class CaptureError(RuntimeError):
    """A step that was to be captured cannot be."""


@dataclass
class _Captured:
    """A graph, and the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    arguments: tuple[Any, ...]
    rates: DeviceRates
    result: tuple[Tensor, Tensor]
    grads: list[tuple[Tensor, Tensor | None]]

    def replay(self, arguments: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
        for own, new in zip(self.arguments, arguments, strict=True):
            if isinstance(own, Tensor):
                own.copy_(new, non_blocking=True)
        self.rates.refresh()
        self.graph.replay()
        for p, grad in self.grads:
            p.grad = grad
        return self.result


@dataclass
class _Kind:
    """Steps that one graph can stand for, how many there were, and their graph or why there is none."""

    calls: int = 0
    captured: _Captured | None = None
    obstacle: str | None = None


class TrainingStep:
    """Forward, loss, backward and optimiser step in one call, as a CUDA graph where that is possible::

        step = TrainingStep(model, optimizer)
        for X, y in batches:
            loss, output = step(X, y)

    On CUDA the first three steps of a kind run as usual, the next is captured, and from then on one
    launch replays it. A kind is what a graph is made for: the shapes and dtypes of the arguments; the
    parameters and buffers, where they are and which of them learn; the numbers and flags of the modules,
    ``training`` among them; the state and the options of the optimiser. Where one of these differs it is
    another kind. Learning rates may change from step to step with alem's optimisers and with those of
    torch that have ``capturable=True``; with others a changed rate is another kind. What else the model
    does in Python, hooks included, happens at the capture and is not repeated.

    - ``loss(output, target)`` is a scalar; ``max_norm`` clips the norm of all gradients together;
    - ``products``: a dtype for the matrix products of BiMap and of layers on vectors, by autocast; the
      output and the loss are in that of the model;
    - ``capture``: ``"auto"``; True, which raises :class:`CaptureError` where a step cannot be captured; or
      False, never;
    - ``captured`` says whether the last step was a graph, ``reason`` why it was not.

    A step begins by dropping the gradients and leaves those of its batch in ``p.grad``. They, the loss
    and the output are overwritten by the next step: clone what is to be kept. A
    decomposition that fails does not stop a step on CUDA: see :func:`alem.linalg.check_decompositions`.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        loss: Callable[[Tensor, Tensor], Tensor] = functional.cross_entropy,
        capture: bool | str = "auto",
        max_norm: float | None = None,
        products: torch.dtype | None = None,
    ) -> None:
        if capture not in (True, False, "auto"):
            raise ValueError(f"capture must be True, False or 'auto', got {capture!r}")
        if max_norm is not None and not max_norm > 0:
            raise ValueError(f"max_norm must be positive, got {max_norm}")
        self.model, self.optimizer, self.loss = model, optimizer, loss
        self.capture, self.max_norm, self.products = capture, max_norm, products
        self.reason: str | None = "no step has been made"
        self._kinds: OrderedDict[Any, _Kind] = OrderedDict()
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    @property
    def captured(self) -> bool:
        """Whether the last step was the replay of a graph."""
        return self.reason is None

    def reset(self) -> None:
        """Forget all graphs, after a change to the model that is not among those noticed, say."""
        self._kinds.clear()

    def __call__(self, X: Tensor, target: Tensor, *more: Any) -> tuple[Tensor, Tensor]:
        """The loss and the output ``model(X, *more)``, detached; tensors go to the device of the model."""
        device = self._device()
        arguments = tuple(
            a.to(device, non_blocking=True) if isinstance(a, Tensor) else a for a in (X, target, *more)
        )
        if self.capture is False:
            return self._plain(arguments, "capture is off")
        if device.type != "cuda":
            return self._plain(arguments, f"the model is on the {device.type.upper()}")
        with torch.cuda.device(device):
            return self._on_cuda(arguments, device)

    def _on_cuda(self, arguments: tuple[Any, ...], device: torch.device) -> tuple[Tensor, Tensor]:
        kind = self._kind(arguments)
        if kind.captured is None and kind.obstacle is None and kind.calls == WARM_UP:
            kind.obstacle = self._obstacle(device)
            if kind.obstacle is None:
                kind.captured, kind.obstacle = self._try_capture(arguments, device)
        if kind.captured is not None:
            self.reason = None
            self.optimizer._opt_called = True  # type: ignore[attr-defined]  # which schedulers ask for
            return kind.captured.replay(arguments)
        if kind.obstacle is not None:
            return self._plain(arguments, kind.obstacle)
        kind.calls += 1
        self.reason = f"warming up: {kind.calls} of {WARM_UP} steps of this kind"
        here, aside = torch.cuda.current_stream(), self._stream(device)
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            if kind.calls == WARM_UP:
                result, kind.obstacle = _watched(self._run, arguments)
            else:
                result = self._run(arguments)
        here.wait_stream(aside)
        return result

    def _run(self, arguments: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
        """The step itself."""
        X, target, *more = arguments
        self.model.zero_grad()
        self.optimizer.zero_grad()
        with torch.enable_grad():
            output = with_products(self.products, self.model, X, *more)
            loss = self.loss(output, target)
            loss.backward()
        if self.max_norm is not None:
            nn.utils.clip_grad_norm_(self._parameters(), self.max_norm)
        self.optimizer.step()
        return loss.detach(), output.detach()

    def _plain(self, arguments: tuple[Any, ...], reason: str) -> tuple[Tensor, Tensor]:
        self.reason = reason
        if self.capture is True:
            raise CaptureError(f"the training step cannot be captured: {reason}")
        return self._run(arguments)

    def _try_capture(
        self, arguments: tuple[Any, ...], device: torch.device
    ) -> tuple[_Captured | None, str | None]:
        """Capture the step, which moves nothing; or say why that failed."""
        own = tuple(a.clone() if isinstance(a, Tensor) else a for a in arguments)
        graphs = (kind.captured.graph for kind in self._kinds.values() if kind.captured is not None)
        pool = next((graph.pool() for graph in graphs), None)
        graph, rates = torch.cuda.CUDAGraph(), DeviceRates(self.optimizer, device)
        self._drop_gradients()
        try:
            # Other threads, a data loader's say, may allocate meanwhile.
            capture = torch.cuda.graph(graph, pool, self._stream(device), capture_error_mode="thread_local")
            with rates.in_groups(), capture:
                result = self._run(own)
        except Exception as error:
            self._drop_gradients()
            del self._streams[device]
            _end_failed_capture()
            return None, f"the capture failed: {_first(error)}"
        grads = [(p, p.grad) for p in self._parameters()]
        return _Captured(graph, own, rates, result, grads), None

    def _kind(self, arguments: tuple[Any, ...]) -> _Kind:
        key = (self.max_norm, self.products, signature(arguments, self.model, self.loss, self.optimizer))
        kind = self._kinds.setdefault(key, _Kind())
        self._kinds.move_to_end(key)
        if len(self._kinds) > KINDS:
            self._kinds.popitem(last=False)
        return kind

    def _obstacle(self, device: torch.device) -> str | None:
        """Why a graph could not repeat the step, as far as one can see before it is captured."""
        if any(isinstance(m, nn.parallel.DistributedDataParallel) for m in self.model.modules()):
            return "the model is distributed over processes"
        for name, t in (*self.model.named_parameters(), *self.model.named_buffers()):
            if t.device != device:
                return f"the model is on several devices: {name} is on {t.device} and not on {device}"
        if self.optimizer._optimizer_step_pre_hooks or self.optimizer._optimizer_step_post_hooks:
            return "the optimiser has hooks, which a graph would not call"
        for state in self.optimizer.state.values():
            for name, value in state.items():
                if value is not None and not (isinstance(value, Tensor) and value.is_cuda):
                    return f"the optimiser keeps {name!r} off the device (torch's have capturable=True)"
        return None

    def _parameters(self) -> list[Tensor]:
        """Those of the model and of the optimiser, each once."""
        groups = (p for group in self.optimizer.param_groups for p in group["params"])
        return list(dict.fromkeys((*self.model.parameters(), *groups)))

    def _drop_gradients(self) -> None:
        for p in self._parameters():
            p.grad = None

    def _device(self) -> torch.device:
        return next((p.device for p in self.model.parameters()), torch.device("cpu"))

    def _stream(self, device: torch.device) -> torch.cuda.Stream:
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        return self._streams[device]


def with_products(dtype: torch.dtype | None, model: nn.Module, X: Tensor, *more: Any) -> Tensor:
    """``model(X, *more)`` with products in ``dtype``, the output in that of X."""
    if dtype is None:
        return model(X, *more)
    # A graph that is captured must not use casts of weights that were made before.
    with torch.autocast(X.device.type, dtype=dtype, cache_enabled=False):
        return model(X, *more).to(X.dtype)


def _watched(
    run: Callable[[tuple[Any, ...]], tuple[Tensor, Tensor]], arguments: tuple[Any, ...]
) -> tuple[tuple[Tensor, Tensor], str | None]:
    """The result, and where the step waited for the device, which a capture would not survive."""
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            result = run(arguments)
        finally:
            torch.cuda.set_sync_debug_mode(mode)
    waits = [w for w in caught if "called a synchronizing CUDA operation" in str(w.message)]
    for w in caught:
        if w not in waits and "Synchronization debug mode" not in str(w.message):
            warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    if not waits:
        return result, None
    return result, f"the step waits for the device, at {waits[0].filename}:{waits[0].lineno} for one"


def _end_failed_capture() -> None:
    """Let torch's random generator know that the capture has ended: by one that succeeds."""
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
        torch.empty(1, device="cuda").zero_()


def _first(error: BaseException) -> str:
    """What went wrong first; the end of a failed capture adds errors of its own."""
    while error.__context__ is not None:
        error = error.__context__
    return " ".join(str(error).split("\n", 1)[0].split()) or type(error).__name__
