"""What the networks share: one run of named layers, and a table of them."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from torch import Tensor, nn

from alem import geometry
from alem.geometry import Metric
from alem.nn import BiMap, ReEig, TraceNorm, Whiten, fuse

MetricChoice = str | Metric | Callable[[int], Metric]


class Layer(NamedTuple):
    """A layer, its name in the network, and the shape of what it puts out."""

    name: str
    module: nn.Module
    output: str


class Network(nn.Module):
    """Named layers, fused and run in order."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        super().__init__()
        run = nn.Sequential()
        for layer in layers:
            run.add_module(layer.name, layer.module)
        self.layers = fuse(run)
        self._outputs = {layer.name: layer.output for layer in layers}

    def forward(self, X: Tensor, domain: Tensor | int | None = None) -> Tensor:
        """Matrices `(..., n, n)` to logits `(..., n_classes)`; ``domain`` is for layers that take one."""
        return self.layers(X, domain)

    def calibrate(self, blocks: Iterable[Tensor]) -> None:
        """Show the training matrices, in blocks `(k, n, n)`, to the layers that are set by them beforehand.

        Only :class:`alem.nn.Whiten`, if there is one; :func:`alem.training.fit` does this by itself.
        """
        before: list[nn.Module] = []
        for layer in self.layers.children():
            if isinstance(layer, Whiten):
                layer.calibrate(nn.Sequential(*before)(X) for X in blocks)
                return
            before.append(layer)

    def _output(self, name: str, module: nn.Module) -> str:
        if isinstance(module, nn.Linear):  # the layer that users replace
            return f"{module.out_features}"
        return self._outputs.get(name, "")

    def summary(self) -> str:
        """A table of the layers: what each puts out, its geometry, and how many numbers it learns."""
        rows = [("layer", "kind", "output", "geometry", "parameters")]
        for name, module in self.layers.named_children():
            kind, count = type(module).__name__, _count(module)
            rows.append((name, kind, self._output(name, module), _geometry(module), f"{count:,}"))
        rows.append(("total", "", "", "", f"{_count(self):,}"))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        end = max(len(row[4]) for row in rows)
        lines = [
            "  ".join(
                [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4].rjust(end)]
            )
            for row in rows
        ]
        rule = "-" * len(lines[0])
        return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _geometry(module: nn.Module) -> str:
    """The metric or the logarithm of a layer, with how many numbers of it are learned."""
    owner = getattr(module, "metric", None) or getattr(module, "diffeo", None)
    if owner is None:
        return ""
    learned = _count(owner)
    rule = getattr(module, "rule", None)
    name = type(owner).__name__ if rule is None else f"{type(owner).__name__} {rule}"
    return f"{name} ({learned} learned)" if learned else name


def bimaps(
    dims: Sequence[int],
    eps: float,
    norm: Callable[[int], nn.Module] | None = None,
    trace_norm: bool = False,
    whiten: bool = False,
) -> list[Layer]:
    """BiMap, norm and ReEig for each step of ``dims``; no ReEig after the last, as in the paper."""
    if not dims or any(not isinstance(n, int) or n < 1 for n in dims):
        raise ValueError(f"dims must be sizes of matrices, the input's first, got {list(dims)}")
    first = f"{dims[0]}×{dims[0]}"
    layers = [Layer("trace_norm", TraceNorm(), first)] if trace_norm else []
    if whiten:
        layers.append(Layer("whiten", Whiten(dims[0]), first))
    for i, (n_in, n_out) in enumerate(itertools.pairwise(dims), start=1):
        shape = f"{n_out}×{n_out}"
        layers.append(Layer(f"bimap{i}", BiMap(n_in, n_out), shape))
        if norm is not None:
            layers.append(Layer(f"norm{i}", norm(n_out), shape))
        if i < len(dims) - 1:
            layers.append(Layer(f"reeig{i}", ReEig(eps), shape))
    return layers


def require_classes(n_classes: int) -> None:
    """Raise ValueError unless there is something to classify."""
    if n_classes < 1:
        raise ValueError(f"a network needs a class at least, got n_classes={n_classes}")


def metric_factory(metric: MetricChoice) -> Callable[[int], Metric]:
    """A metric of its own for each layer: by name, by a function of n, or copied."""
    if isinstance(metric, str):
        geometry.metric(metric, n=1)  # refuses an unknown name at once, whether or not a layer asks for it
        return lambda n: geometry.metric(metric, n=n)
    if isinstance(metric, Metric):
        return lambda n: copy.deepcopy(metric)
    return metric
