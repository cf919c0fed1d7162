"""Time and memory of what is done with more matrices than memory holds.

    python -m benchmarks.blocks FOLDER [--counts 25000,50000,100000,200000]  writes docs/results/blocks.md

Signals are made block after block, their covariances written to a store in FOLDER (64×64 in float64,
6.5 GB of 200,000, and half as much again of features), and then everything is computed from the store.
Each row and count is a process of its own, with one thread; its anonymous memory is looked at every 20 ms.
Stores are removed at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from alem import geometry, models
from alem.bench.machine import processor
from alem.data import load, save_blocks
from alem.estimators import Covariances, FrechetClassifier, SPDNetClassifier, TangentSpace
from alem.training import Part, Recipe, fit, seeded

PAGE = Path(__file__).parents[1] / "docs" / "results" / "blocks.md"
N, CLASSES, TIMES, BLOCK = 64, 4, 128, 2000
Array = NDArray[Any]


def signals(count: int) -> Iterator[tuple[Array, Array]]:
    """Blocks of signals `(k, channels, times)` whose mixing depends on their class, and the classes."""
    roots = np.eye(N) + 0.1 * np.random.default_rng(0).standard_normal((CLASSES, N, N))
    for start in range(0, count, BLOCK):
        rng = np.random.default_rng([1, start])
        y = rng.integers(CLASSES, size=min(BLOCK, count - start))
        yield roots[y] @ rng.standard_normal((len(y), N, TIMES)), y


def store(folder: Path, count: int) -> None:
    """Signals to covariances to the disk."""
    estimator = Covariances("oas").fit(next(signals(1))[0])
    save_blocks(((estimator.transform(x), y) for x, y in signals(count)), folder / "store")


def mapped(folder: Path) -> tuple[Array, Array]:
    """The matrices, on the disk, and the labels."""
    return np.load(folder / "store" / "matrices.npy", mmap_mode="r"), np.load(
        folder / "store" / "labels.npy"
    )


def moments(name: str) -> Callable[[Path], None]:
    """Mean and dispersion under a metric."""

    def of(folder: Path) -> None:
        X, _ = mapped(folder)
        geometry.metric(name, n=N).double().moments(np.array_split(X, max(1, len(X) // BLOCK)))

    return of


def features(folder: Path) -> None:
    """Fit, and the tangent coordinates of all matrices written to a file."""
    X, _ = mapped(folder)
    space = TangentSpace("lem").fit(X)
    shape = (len(X), N * (N + 1) // 2)
    out = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float64, shape)
    start = 0
    for block in space.transform(iter(np.array_split(X, max(1, len(X) // BLOCK)))):
        out[start : start + len(block)] = block
        start += len(block)
    out.flush()
    (folder / "features.npy").unlink()


def nearest(folder: Path) -> None:
    """The mean of each class, and the nearest of them for all matrices."""
    X, y = mapped(folder)
    FrechetClassifier("lem").fit(X, y).predict(X)


def network(folder: Path) -> None:
    """A network fitted to the first thousand predicts the class of all."""
    X, y = mapped(folder)
    SPDNetClassifier(epochs=2, random_state=0).fit(X[:1000], y[:1000]).predict(X)


def epoch(folder: Path) -> None:
    """The store is loaded, which checks all of it; one epoch over nine tenths, evaluation on the last."""
    data = load(folder / "store")
    places = torch.arange(len(data))
    train, test = (Part(data.matrices, data.labels, p) for p in (places[places % 10 > 0], places[::10]))
    net = seeded(0, lambda: models.SPDNet([N, 16], CLASSES))
    fit(net, train, test, Recipe(epochs=1, batch_size=100))


ROWS: dict[str, Callable[[Path], None]] = {
    "mean and dispersion, log-Euclidean": moments("lem"),
    "mean and dispersion, log-Cholesky": moments("lcm"),
    "mean and dispersion, affine-invariant": moments("aim"),
    "tangent features, log-Euclidean, to a file": features,
    "nearest mean, fit and predict": nearest,
    "network, prediction": network,
    "network, an epoch of training": epoch,
}
WRITE = "signals to covariances to the store"


class Peak(threading.Thread):
    """The largest anonymous memory of this process while it runs, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes, self._end = anonymous(), threading.Event()

    def run(self) -> None:
        while not self._end.wait(0.02):
            self.bytes = max(self.bytes, anonymous())

    def end(self) -> int:
        self._end.set()
        self.join()
        return max(self.bytes, anonymous())


def anonymous() -> int:
    """Bytes of memory that are not pages of a file."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


def measure(row: str, folder: Path, count: int) -> None:
    """Print seconds and bytes of one row."""
    torch.set_num_threads(1)
    peak = Peak()
    peak.start()
    start = time.perf_counter()
    if row == WRITE:
        store(folder, count)
    else:
        ROWS[row](folder)
    print(json.dumps({"seconds": time.perf_counter() - start, "bytes": peak.end()}))


def alone(row: str, folder: Path, count: int) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.blocks", str(folder), "--row", row, "--counts", str(count)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def exponent(counts: list[int], seconds: list[float]) -> float:
    """Of the power of the count that fits the seconds best; 1 is linear."""
    x, y = np.log(counts), np.log(seconds)
    return float(np.polyfit(x, y, 1)[0]) if len(counts) > 1 else math.nan


def page(counts: list[int], found: dict[str, list[dict[str, float]]]) -> str:
    """The page."""
    lines = [
        ["", *(f"{count:,}" for count in counts), "exponent", "µs a matrix", "peak, MB"],
        ["---", *["---:"] * (len(counts) + 3)],
    ]
    for row, results in found.items():
        seconds = [r["seconds"] for r in results]
        lines.append(
            [
                row,
                *(f"{s:.1f}" for s in seconds),
                f"{exponent(counts, seconds):.2f}",
                f"{1e6 * seconds[-1] / counts[-1]:.0f}",
                " / ".join(f"{r['bytes'] / 1e6:.0f}" for r in results),
            ]
        )
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return (
        "# More matrices than memory holds\n\n"
        f"{body}\n\n"
        f"Seconds for so many {N}×{N} matrices in float64, {counts[-1] * N * N * 8 / 1e9:.1f} GB of the "
        "largest count; the exponent of the power of the count that fits them; and the most anonymous "
        "memory for each count, torch and all else that is imported included. Pages of mapped files are "
        "not in it, which the system drops when it needs the room. One thread each. The affine-invariant "
        f"mean takes a pass over the store for each of its steps. On {processor()}.\n\n"
        "By `python -m benchmarks.blocks FOLDER`.\n"
    )


def main() -> None:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the stores are written, a local disk")
    parser.add_argument("--counts", default="25000,50000,100000,200000")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    counts = [int(c) for c in arguments.counts.split(",")]
    if arguments.row:
        measure(arguments.row, arguments.folder, counts[0])
        return
    found: dict[str, list[dict[str, float]]] = {row: [] for row in (WRITE, *ROWS)}
    for count in counts:
        folder = arguments.folder / str(count)
        for row, results in found.items():
            results.append(alone(row, folder, count))
            print(count, row, results[-1], flush=True)
        shutil.rmtree(folder)
    PAGE.write_text(page(counts, found), "utf-8")


if __name__ == "__main__":
    main()
