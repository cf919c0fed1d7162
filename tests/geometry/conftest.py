"""Metrics and matrices that the geometry tests share."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alem import geometry

NAMES = tuple(geometry.METRICS)
FLAT = tuple(name for name in NAMES if geometry.metric(name, n=2).is_flat)
GROUPS = tuple(name for name in NAMES if geometry.metric(name, n=2).has_group)
LEARNED = tuple(name for name in NAMES if list(geometry.metric(name, n=2).parameters()))


def learned_metric(name: str, n: int, dtype: torch.dtype = torch.float64) -> geometry.Metric:
    """A metric away from its start: moved parameters, and for the paper's ALEM equal ones."""
    metric = geometry.metric(name, n=n).to(dtype)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in metric.parameters():
            step = torch.randn(parameter.shape, generator=generator, dtype=dtype)
            # ALEM is a metric for equal multipliers only.
            parameter.add_(0.25 * (step if name != "alem" else step[:1]))
    return metric


def spd(*size: int, n: int = 4, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return geometry.sample_wishart(*size, n=n, generator=generator, dtype=dtype)


def sym(*size: int, n: int = 4, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(*size, n, n, generator=generator, dtype=dtype)
    return A + A.mT


def tied(n: int = 3) -> dict[str, Tensor]:
    """Matrices with repeated and nearly repeated eigenvalues."""
    Q = torch.linalg.qr(sym(n=n, seed=7))[0]

    def rotated(*values: float) -> Tensor:
        return Q @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ Q.mT

    return {
        "identity": torch.eye(n, dtype=torch.float64),
        "double": torch.diag(torch.tensor([2.0, 2.0, 5.0], dtype=torch.float64)),
        "triple": rotated(1.7, 1.7, 1.7),
        "near": rotated(1.0, 1.0 + 1e-9, 3.0),
    }


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param
