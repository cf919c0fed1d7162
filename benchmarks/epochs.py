"""An epoch of `fit`, with its data, its metrics and its evaluation, beside the bare training steps in it.

    python -m benchmarks.epochs [--device cuda]        writes docs/results/epochs-<device>.md

The bare steps take one resident batch again and again, captured as a CUDA graph where there is CUDA, and
nobody asks for a loss. An epoch fetches every batch, keeps every loss and output, and ends with the
accuracies, first over the training samples alone, then over a test set as well. The two sides alternate; a
time is the median of what is left when the first epochs, which compile and capture, are taken away.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch
from torch import nn

from alem import geometry, models
from alem.bench.machine import machine
from alem.training import Part, Recipe, TrainingStep, fit, seeded

RESULTS = Path(__file__).parents[1] / "docs" / "results"
WARM, EPOCHS, ROUNDS = 5, 10, 3
CLASSES = 45
# Name, sizes, training samples, test samples, batch; the last is as large as an epoch of NTU60's is long.
CASES = (
    ("FPHA {63,33}", (63, 33), 600, 575, 30),
    ("HDM05 {93,70,50,30}", (93, 70, 50, 30), 1043, 1043, 30),
    ("NTU60 {75,30}, batch 256", (75, 30), 20_000, 10_000, 256),
)
DTYPES = ("float32", "float64")


def network(dims: tuple[int, ...], device: str, dtype: torch.dtype) -> nn.Module:
    """The same network each time."""
    return seeded(0, lambda: models.SPDNet(dims, CLASSES), dtype).to(device)


def bare(dims: tuple[int, ...], data: Part, train: int, recipe: Recipe, device: str) -> float:
    """Seconds for as many steps as an epoch has, none of them watched."""
    model = network(dims, device, recipe.torch_dtype)
    step = TrainingStep(model, recipe.make_optimizer(model))
    X, y = (t[: recipe.batch_size].to(device) for t in (data.matrices, data.labels))
    X = X.to(recipe.torch_dtype)
    count = train / recipe.batch_size
    for _ in range(5):
        step(X, y)
    times = []
    for _ in range(EPOCHS):
        _wait(device)
        start = time.perf_counter()
        for _ in range(max(1, round(count))):
            step(X, y)
        _wait(device)
        times.append((time.perf_counter() - start) * count / max(1, round(count)))
    return statistics.median(times)


def epochs(dims: tuple[int, ...], train: Part, test: Part | None, recipe: Recipe, device: str) -> float:
    """Seconds of an epoch as its history has it."""
    history = fit(network(dims, device, recipe.torch_dtype), train, test, recipe, device=device).history
    return statistics.median(history.seconds[WARM:])


def row(
    name: str, dims: tuple[int, ...], train: int, test: int, batch: int, dtype: str, device: str
) -> str:
    """A line of the table."""
    generator = torch.Generator().manual_seed(0)
    distinct = geometry.sample_wishart(min(train + test, 2000), n=dims[0], generator=generator)
    places = torch.arange(train + test) % len(distinct)
    labels = torch.arange(train + test) % CLASSES
    matrices = distinct[places].to(getattr(torch, dtype))
    parts = [
        Part(matrices, labels, torch.arange(train)),
        Part(matrices, labels, torch.arange(train, train + test)),
    ]
    recipe = Recipe(lr=1e-4, epochs=WARM + EPOCHS, batch_size=batch, dtype=dtype)
    times: list[list[float]] = [[], [], []]
    for _ in range(ROUNDS):
        times[0].append(bare(dims, parts[0], train, recipe, device))
        times[1].append(epochs(dims, parts[0], None, recipe, device))
        times[2].append(epochs(dims, parts[0], parts[1], recipe, device))
    steps, trained, whole = (statistics.median(side) for side in times)
    milliseconds = " | ".join(f"{1e3 * t:.1f}" for t in (steps, trained, whole))
    line = f"| {name} | {dtype} | {milliseconds} | {trained / steps:.2f} | {whole / steps:.2f} |"
    print(line, flush=True)
    return line


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    device = arguments.device
    facts = machine(device)
    rows = [row(*case, dtype, device) for dtype in DTYPES for case in CASES]
    page = [
        f"# An epoch beside its steps, on {'a CUDA device' if device != 'cpu' else 'the CPU'}",
        "",
        "Milliseconds: the training steps of an epoch alone, on one batch that lies on the device; the "
        "epoch of `fit` with its data and training metrics; the same with the evaluation of the test set. "
        "The ratios are to the steps alone.",
        "",
        f"Made by `python -m benchmarks.epochs --device {device}` with torch {facts['torch']} on "
        f"{facts['processor'] if device == 'cpu' else facts['device']}.",
        "",
        "| network | dtype | steps | epoch, no test | whole epoch | ratio, no test | ratio, whole |",
        "|---|---|---:|---:|---:|---:|---:|",
        *rows,
        "",
    ]
    path = arguments.out / f"epochs-{torch.device(device).type}.md"
    path.write_text("\n".join(page), encoding="utf-8")


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
