"""How long a step of the optimisers takes, beside geoopt's, and its share of a training step.

Both sides step in turn, block by block, in one process; a time is the shortest block, so that what
else the machine does falls out of the ratio. geoopt stands three times: with the parameters of alem,
which it accepts; with its own manifolds (SPD, whose retraction is of second order, and the canonical
Stiefel manifold); and with its Stiefel manifold of the Euclidean metric, which is another algorithm
with other learning rates, and cheaper.

    python -m benchmarks.optimizers        writes docs/results/optimizers.md
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path

import geoopt
import torch
from torch import Tensor
from torch.nn import functional

from alem import geometry, models, optim
from alem.bench.alone import inputs, of_geoopt
from alem.bench.rows import sgd

PAGE = Path(__file__).parents[1] / "docs" / "results" / "optimizers.md"
DTYPES = (torch.float32, torch.float64)
Step = Callable[[], object]
OPTIMIZERS: dict[str, tuple[Callable[..., Step], Callable[..., Step]]] = {
    "SGD": (
        lambda p: optim.RiemannianSGD(p, lr=1e-9).step,
        lambda p: geoopt.optim.RiemannianSGD(p, lr=1e-9).step,
    ),
    "SGD, momentum 0.9": (
        lambda p: optim.RiemannianSGD(p, lr=1e-9, momentum=0.9).step,
        lambda p: geoopt.optim.RiemannianSGD(p, lr=1e-9, momentum=0.9).step,
    ),
    "AMSGrad": (
        lambda p: optim.RiemannianAMSGrad(p, lr=1e-9).step,
        lambda p: geoopt.optim.RiemannianAdam(p, lr=1e-9, amsgrad=True).step,
    ),
}
DIMS = ((20, 10), (93, 30), (93, 70, 50, 30), (512, 100))


def parameters(case: str, dtype: torch.dtype, stiefel: type | None = None) -> list[Tensor]:
    """The parameters of a case with random gradients, on geoopt's manifolds if one is given."""
    moved = inputs.parameters(case, str(dtype).removeprefix("torch."))
    return of_geoopt.own(moved, stiefel) if stiefel else sgd.own(moved)


def alternate(ours: Step, theirs: Step, rounds: int = 60, block: int = 6) -> tuple[float, float]:
    """Microseconds of the two: the shortest of many blocks of steps, in turn."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for i, side in enumerate((ours, theirs)):
            start = time.perf_counter()
            for _ in range(block):
                side()
            best[i] = min(best[i], (time.perf_counter() - start) / block)
    return 1e6 * best[0], 1e6 * best[1]


def share(dims: tuple[int, ...], name: str, dtype: torch.dtype) -> tuple[float, float]:
    """Milliseconds of the optimiser and of the whole training step, batch 30, medians."""
    torch.manual_seed(0)
    steps = 300 if max(dims) < 50 else 12
    model = models.SPDNet(dims, 4).to(dtype)
    step = OPTIMIZERS[name][0](model)
    X = geometry.sample_wishart(30, n=dims[0], dtype=dtype)
    y = torch.randint(0, 4, (30,))
    optimiser, total = [], []
    for _ in range(steps):
        start = time.perf_counter()
        model.zero_grad()
        functional.cross_entropy(model(X), y).backward()
        middle = time.perf_counter()
        step()
        end = time.perf_counter()
        optimiser.append(end - middle)
        total.append(end - start)
    return 1e3 * sorted(optimiser)[steps // 2], 1e3 * sorted(total)[steps // 2]


def main() -> None:
    """Write the page."""
    torch.set_num_threads(1)
    lines = [
        "# Time of an optimiser's step",
        "",
        "Microseconds of a step of alem's optimisers, and how many times as long geoopt's take: on the "
        "same parameters, and on those of its own manifolds, Stiefel with the canonical metric or with "
        "the Euclidean one. Below ×1 geoopt is faster. On SPD matrices geoopt's own retraction is of "
        "second order, as alem's in SGD without momentum is, there in steps of length 1 at most; with "
        "momentum and in AMSGrad alem's is the exponential, and geoopt on alem's parameters uses it "
        "throughout. geoopt's Euclidean Stiefel gradient is a different one, with other learning rates. "
        "One thread, the two sides in turn, the shortest of many blocks.",
        "",
        f"Made by `python -m benchmarks.optimizers` on {platform.machine()}, torch {torch.__version__}, "
        f"geoopt {geoopt.__version__}.",
        "",
    ]
    for dtype in DTYPES:
        label = str(dtype).removeprefix("torch.")
        lines += [
            f"## {label}",
            "",
            "| parameters | optimiser | alem, µs | geoopt, same | geoopt, its own | geoopt, Euclidean |",
            "|---|---|---:|---:|---:|---:|",
        ]
        for case in inputs.PARAMETERS:
            for name, (ours, theirs) in OPTIMIZERS.items():
                times, cells = [], []
                for stiefel in (None, geoopt.CanonicalStiefel, geoopt.EuclideanStiefel):
                    if stiefel is geoopt.EuclideanStiefel and inputs.PARAMETERS[case][0][0] != "O":
                        cells.append("")
                        continue
                    mine = ours(parameters(case, dtype))
                    alem, other = alternate(mine, theirs(parameters(case, dtype, stiefel)))
                    times.append(alem)
                    cells.append(f"×{other / alem:.2f}")
                row = f"| {case} | {name} | {min(times):.0f} | {' | '.join(cells)} |"
                lines.append(row)
                print(label, row, flush=True)
        lines.append("")
    lines += [
        "## Share of a training step",
        "",
        "`models.SPDNet` with four classes, batch 30, forward, backward and step; medians.",
        "",
        "| dimensions | dtype | optimiser | step of the optimiser, ms | whole step, ms | share |",
        "|---|---|---|---:|---:|---:|",
    ]
    for dims in DIMS:
        for dtype in DTYPES:
            for name in OPTIMIZERS:
                part, whole = share(dims, name, dtype)
                cells = ["→".join(map(str, dims)), str(dtype).removeprefix("torch."), name]
                lines.append(f"| {' | '.join(cells)} | {part:.2f} | {whole:.1f} | {part / whole:.1%} |")
                print(lines[-1], flush=True)
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
