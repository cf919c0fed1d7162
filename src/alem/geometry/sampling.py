"""Random SPD matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from alem import linalg
from alem.geometry.pullback import PullbackMetric
from alem.linalg.precision import product


def sample_wishart(
    *size: int,
    n: int,
    dof: int | None = None,
    scale: Tensor | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Draw `(*size, n, n)` from the Wishart distribution W(scale, dof), divided by dof.

    Its mean is ``scale`` (the identity if not given); the matrices are definite for dof ≥ n, and dof is
    2n if not given.
    """
    dof = 2 * n if dof is None else dof
    if dof < n:
        raise ValueError(f"with dof = {dof} < n = {n} every sample would be singular")
    if scale is not None:
        if scale.shape[-2:] != (n, n):
            raise ValueError(
                f"the scale of {n}×{n} samples must be {n}×{n}, got shape {tuple(scale.shape)}"
            )
        dtype, device = scale.dtype, scale.device
    G = torch.randn(*size, n, dof, generator=generator, dtype=dtype, device=device)
    W = product(G, G.mT) / dof
    return linalg.symmetrize(W if scale is None else linalg.unwhiten(linalg.cholesky(scale), W))


def sample_log_normal(
    metric: PullbackMetric,
    *size: int,
    mean: Tensor,
    sigma: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw `(*size, n, n)` whose coordinates are normal about those of ``mean`` `(n, n)`.

    φ(S) = φ(mean) + σ·E with E standard normal for the metric's inner product; the expected squared
    distance to ``mean`` is σ² n(n+1)/2.
    """
    if not isinstance(metric, PullbackMetric):
        raise TypeError(f"log-normal samples need a flat metric with a chart, not {type(metric).__name__}")
    centre = metric.coordinates(mean)
    noise = torch.randn(
        *size, centre.shape[-1], generator=generator, dtype=centre.dtype, device=centre.device
    )
    return metric.point(centre + sigma * noise)
