"""How far apart two classes of digits lie, under every metric of the catalogue.

Each 8×8 image of scikit-learn's digits becomes a region covariance (Tuzel, Porikli and Meer, ECCV
2006): the covariance over its pixels of position, intensity and the sizes of the first and second
derivatives.
"""

from __future__ import annotations

import time

import torch
from sklearn.datasets import load_digits
from torch import Tensor

from alem import geometry, linalg

FIRST, SECOND = 3, 8


def pixel_features(images: Tensor) -> Tensor:
    """x, y, I, |I_x|, |I_y|, |I_xx|, |I_yy| of every pixel: (k, h, w) to (k, 7, h·w)."""
    height, width = images.shape[-2:]
    y, x = torch.meshgrid(
        torch.linspace(-1, 1, height, dtype=images.dtype),
        torch.linspace(-1, 1, width, dtype=images.dtype),
        indexing="ij",
    )
    d_y, d_x = torch.gradient(images, dim=(-2, -1))
    (d_yy,) = torch.gradient(d_y, dim=-2)
    (d_xx,) = torch.gradient(d_x, dim=-1)
    maps = [x.expand_as(images), y.expand_as(images), images]
    maps += [d.abs() for d in (d_x, d_y, d_xx, d_yy)]
    return torch.stack(maps, dim=-3).flatten(-2)


def main() -> None:
    """Print for each metric the distance between the two means, its ratio to the spread, and the time."""
    digits = load_digits()
    images = torch.from_numpy(digits.images) / digits.images.max()
    labels = torch.from_numpy(digits.target)
    covariances = linalg.covariance(pixel_features(images), loading=1e-3)
    n = covariances.shape[-1]
    first, second = covariances[labels == FIRST], covariances[labels == SECOND]

    print(f"{len(covariances)} digits as {n}×{n} region covariances.")
    print(
        f"Distance between the mean of the {FIRST}s ({len(first)}) and the mean of the {SECOND}s "
        f"({len(second)}), and how many\ntimes the spread of a class about its mean that is: metrics "
        "differ in scale, this ratio does not.\n"
    )
    print(f"{'metric':<8}{'class':<28}{'distance':>10}{'ratio':>8}{'ms':>9}")
    for name in geometry.METRICS:
        metric = geometry.metric(name, n=n).to(covariances.dtype)
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
