"""How far apart two classes of digits lie, under every metric of the catalogue."""

from __future__ import annotations

import time

import torch

from alem import data, geometry

FIRST, SECOND = 3, 8


def main() -> None:
    """Print for each metric the distance between the two means, its ratio to the spread, and the time."""
    digits = data.digits()
    first, second = (digits.matrices[digits.labels == label] for label in (FIRST, SECOND))

    print(f"{len(digits)} digits as {digits.n}×{digits.n} region covariances.")
    print(
        f"Distance between the mean of the {FIRST}s ({len(first)}) and the mean of the {SECOND}s "
        f"({len(second)}), and how many\ntimes the spread of a class about its mean that is: metrics "
        "differ in scale, this ratio does not.\n"
    )
    print(f"{'metric':<8}{'class':<28}{'distance':>10}{'ratio':>8}{'ms':>9}")
    for name in geometry.METRICS:
        metric = geometry.metric(name, n=digits.n).to(digits.matrices.dtype)
        start = time.perf_counter()
        with torch.no_grad():
            means = [metric.mean(X) for X in (first, second)]
            distance = metric.dist(*means).item()
            spread = sum(metric.variance(X, M).item() for X, M in zip((first, second), means, strict=True))
        elapsed = 1e3 * (time.perf_counter() - start)
        ratio = distance / (spread / 2) ** 0.5
        print(f"{name:<8}{type(metric).__name__:<28}{distance:>10.4f}{ratio:>8.3f}{elapsed:>9.1f}")


if __name__ == "__main__":
    main()
