"""torch's own eigendecomposition."""

from __future__ import annotations

import torch
from torch import Tensor

from .inputs import matrices
from .task import Task


def eigh(spectrum: str, batch: int, n: int, dtype: str, device: str = "cpu") -> Task:
    """``torch.linalg.eigh``."""
    X = matrices(spectrum, batch, n, dtype, device)
    return Task(lambda: torch.linalg.eigh(X), lambda: errors(X, *torch.linalg.eigh(X)))


def errors(X: Tensor, values: Tensor, vectors: Tensor) -> dict[str, Tensor]:
    """Of a decomposition: ‖UΛUᵀ − X‖/‖X‖ and ‖UᵀU − I‖/√n, each in float64, the mean over the batch."""
    X, values, vectors = X.double(), values.double(), vectors.double()
    rest = vectors * values.unsqueeze(-2) @ vectors.mT - X
    gram = vectors.mT @ vectors - torch.eye(X.shape[-1], dtype=X.dtype, device=X.device)
    return {
        "reconstruction": (_norm(rest) / _norm(X)).mean(),
        "orthogonality": (_norm(gram) / X.shape[-1] ** 0.5).mean(),
    }


def _norm(X: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(X)
