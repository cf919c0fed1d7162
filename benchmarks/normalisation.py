"""What LieBN does to the mean and the dispersion of a batch, under every metric that has a group.

    python -m benchmarks.normalisation        writes docs/results/normalisation.md

The layer is asked for the mean I and the dispersion 1. Under a true metric the batch has both
afterwards, to rounding. Under the paper's metric with unequal multipliers it does not: how far it
is off is measured here, with multipliers normally distributed about 1.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from alem import geometry, nn

BATCH, SEEDS = 30, 10
SIZES = (5, 30)
SPREADS = (0.01, 0.05, 0.2)


def deviation(metric: geometry.Metric, n: int, seed: int) -> tuple[float, float]:
    """Distance of the mean of the output from I, and dispersion − 1."""
    generator = torch.Generator().manual_seed(seed)
    X = geometry.sample_wishart(BATCH, n=n, generator=generator, dtype=torch.float64)
    Y = nn.LieBN(n, metric).double()(X).detach()
    with torch.no_grad():
        if isinstance(metric, geometry.PullbackMetric):
            # In coordinates: for the paper's metric the way back and forth would add an error of its own.
            C = metric.chart(Y)
            D = C - C.mean(0)
            return float(C.mean(0).norm()), float(metric.inner_product(D, D).mean() - 1)
        M = metric.mean(Y)
        return float(metric.dist(M, torch.eye(n, dtype=M.dtype))), float(metric.variance(Y, M) - 1)


def moved(name: str, n: int, spread: float, seed: int) -> geometry.Metric:
    """A metric whose parameters have moved by normal steps of that size."""
    metric = geometry.metric(name, n=n).double()
    generator = torch.Generator().manual_seed(100 + seed)
    with torch.no_grad():
        for p in metric.parameters():
            p.add_(spread * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return metric


def row(label: str, name: str, spread: float) -> str:
    """A line of the table: the mean over seeds for each size."""
    cells = []
    for n in SIZES:
        pairs = torch.tensor([deviation(moved(name, n, spread, s), n, s) for s in range(SEEDS)])
        cells += [f"{float(column):.1e}" for column in pairs.abs().mean(0)]
    line = f"| {label} | " + " | ".join(cells) + " |"
    print(line, flush=True)
    return line


def main() -> None:
    """Write the table."""
    warnings.simplefilter("ignore", geometry.NotADiffeomorphismWarning)
    sound = [name for name in geometry.METRICS if name not in ("alem", "bwm")]
    heads = [f"n = {n}: {what}" for n in SIZES for what in ("mean", "dispersion")]
    lines = [
        "# What LieBN normalises",
        "",
        f"Batches of {BATCH} Wishart matrices in float64 through `LieBN` with the bias I and the scale 1, "
        f"mean of {SEEDS} seeds: the distance of the Fréchet mean of the output from I, and the absolute "
        "difference of its dispersion from 1. Parameters of the metrics are moved from their start by "
        "normal steps of a standard deviation of 0.2, those of the paper's ALEM (multipliers, about 1) as "
        "stated. For ALEM with unequal multipliers both are the paper's formulas, in coordinates.",
        "",
        "Made by `python -m benchmarks.normalisation`.",
        "",
        "| metric | " + " | ".join(heads) + " |",
        "|---" * (len(heads) + 1) + "|",
        *(row(f"`{name}`", name, 0.2) for name in sound),
        row("`alem`, equal multipliers", "alem", 0.0),
        *(row(f"`alem`, standard deviation {spread}", "alem", spread) for spread in SPREADS),
    ]
    path = Path(__file__).parents[1] / "docs" / "results" / "normalisation.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
