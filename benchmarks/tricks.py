"""What each trick buys: a training step with all of them, and with one taken away.

python -m benchmarks.tricks        writes docs/results/tricks.md
"""

from __future__ import annotations

import contextlib
import importlib
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional

from alem import geometry, models, optim
from alem.bench.alone.inputs import labels, matrices
from alem.bench.alone.timing import Side, alternate
from alem.bench.machine import machine
from alem.linalg import native
from alem.nn import ALog, GyroMLR, LieBN, LogEig, ReEig, fuse

# The package has functions of these names.
scalar = importlib.import_module("alem.linalg.scalar")
door = importlib.import_module("alem.linalg.eigh")
spectral = importlib.import_module("alem.linalg.spectral")

PAGE = Path(__file__).parents[1] / "docs" / "results" / "tricks.md"
Without = Callable[[], contextlib.AbstractContextManager[object]]


def no_certificate(X: Tensor, minimum: float) -> Tensor:
    """As if no matrix had a Cholesky factor."""
    return torch.zeros(X.shape[:-2], dtype=torch.bool)


TRICKS: dict[str, Without] = {
    "everything": contextlib.nullcontext,
    "without the native eigensolver": lambda: mock.patch.object(door, "native_prefers", return_value=False),
    "without native functions of spectra": lambda: mock.patch.object(
        spectral, "_is_for_native", return_value=False
    ),
    "without the library": lambda: mock.patch.object(native, "instruction_sets", return_value=()),
    "without ReEig's certificate": lambda: mock.patch.object(scalar, "exceeds", no_certificate),
}
CASES = (
    ((93, 30), 30, "well conditioned", None),
    ((93, 70, 50, 30), 30, "well conditioned", None),
    ((93, 70, 50, 30), 30, "rank-deficient", 60),
    ((75, 60, 45), 256, "well conditioned", None),
)


def network(dims: tuple[int, ...]) -> models.SPDNet:
    """An SPDNet that is the same each time."""
    torch.manual_seed(0)
    return models.SPDNet(dims, 10)


def step(
    dims: tuple[int, ...], batch: int, spectrum: str, rank: int | None, dtype: str, without: Without
) -> Callable[[], None]:
    """A training step without a trick."""
    X, y = matrices(spectrum, batch, dims[0], dtype, rank=rank), labels(batch, 10)
    model = network(dims).to(X.dtype)
    optimizer = optim.RiemannianSGD(model, lr=1e-3)

    def run() -> None:
        with without():
            optimizer.zero_grad()
            functional.cross_entropy(model(X), y).backward()
            optimizer.step()

    return run


def fusion(dtype: str) -> list[str]:
    """Runs of layers that share a decomposition, and the same one by one."""
    metric = geometry.metric("lem", n=30)
    runs = {
        "ReEig, LogEig": nn.Sequential(ReEig(0.5), LogEig()),
        "ReEig, ALog mul": nn.Sequential(ReEig(0.5), ALog(30, "mul")),
        "LieBN lem, ReEig, LogEig": nn.Sequential(LieBN(30, metric), ReEig(), LogEig()),
        "LieBN lem, GyroMLR lem": nn.Sequential(LieBN(30, metric), GyroMLR(30, 10, metric)),
    }
    lines = ["| layers, batch 30, n = 30 | one by one | fused | ratio |", "|---|---:|---:|---:|"]
    X = matrices("well conditioned", 30, 30, dtype).requires_grad_()
    for name, plain in runs.items():
        plain = plain.to(X.dtype)
        sides = [_forward_and_backward(layers, X) for layers in (plain, fuse(plain))]
        alone, joined = (statistics.median(s) for s in alternate([Side(s) for s in sides], 2.0))
        lines.append(f"| {name} | {1e3 * alone:.2f} ms | {1e3 * joined:.2f} ms | ×{alone / joined:.2f} |")
    return lines


def _forward_and_backward(layers: nn.Module, X: Tensor) -> Callable[[], None]:
    def run() -> None:
        layers.zero_grad()
        layers(X).square().sum().backward()

    return run


def parts(dims: tuple[int, ...], batch: int, dtype: str) -> Iterator[tuple[str, float]]:
    """Milliseconds of the parts of a step."""
    X, y = matrices("well conditioned", batch, dims[0], dtype), labels(batch, 10)
    model = network(dims).to(X.dtype)
    optimizer = optim.RiemannianSGD(model, lr=1e-3)
    functional.cross_entropy(model(X), y).backward()

    def forward() -> None:
        model(X)

    def both() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(X), y).backward()

    n = dims[-1]
    Y = matrices("well conditioned", batch, n, dtype)
    sides = [forward, both, optimizer.step, lambda: door.decompose(Y, True)]
    times = [1e3 * statistics.median(s) for s in alternate([Side(s) for s in sides], 3.0)]
    yield "forward", times[0]
    yield "backward", times[1] - times[0]
    yield "optimiser", times[2]
    yield f"of the forward pass, the {batch} decompositions of {n}×{n}", times[3]


def main() -> None:
    """Measure and write the page."""
    facts = ", ".join(f"{k} {v}" for k, v in machine("cpu").items())
    lines = [
        "# What each trick buys",
        "",
        "Milliseconds of a training step of SPDNet with everything on, and how many times as long it takes "
        "with one trick taken away. All sides in turn in one process, medians.",
        "",
        f"Made by `python -m benchmarks.tricks` on: {facts}.",
        "",
        f"| network | dtype | spectrum | {' | '.join(TRICKS)} |",
        "|---|---|---|" + "---:|" * len(TRICKS),
    ]
    for dims, batch, spectrum, rank in CASES:
        for dtype in ("float32", "float64"):
            sides = [Side(step(dims, batch, spectrum, rank, dtype, w)) for w in TRICKS.values()]
            first, *others = (statistics.median(s) for s in alternate(sides, 6.0))
            cells = [f"{1e3 * first:.2f} ms", *(f"×{t / first:.2f}" for t in others)]
            name = f"{{{','.join(map(str, dims))}}} batch {batch}"
            lines.append(f"| {name} | {dtype} | {spectrum} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    lines += ["", "## Fusion", "", "Forward and backward.", ""]
    for dtype in ("float32", "float64"):
        lines += [f"{dtype}:", "", *fusion(dtype), ""]
    lines += ["## Where the time goes", "", "| network | dtype | part | time |", "|---|---|---|---:|"]
    for dims, batch, spectrum, _ in CASES:
        if spectrum != "well conditioned":
            continue
        for dtype in ("float32", "float64"):
            for part, time in parts(dims, batch, dtype):
                name = f"{{{','.join(map(str, dims))}}} batch {batch}"
                lines.append(f"| {name} | {dtype} | {part} | {time:.2f} ms |")
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
