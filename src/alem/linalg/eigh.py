"""Batched eigendecomposition of symmetric matrices: the only place in the library that decomposes."""

from __future__ import annotations

import torch
from torch import Tensor

from alem.linalg.errors import InvalidMatrixError, can_inspect, matrix_name, worst_index


def eigh(X: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues in ascending order `(..., n)` and orthonormal eigenvectors `(..., n, n)`.

    X = U diag(λ) Uᵀ. Only the lower triangle of X `(..., n, n)` is read. A matrix with a NaN or an
    infinity raises :class:`InvalidMatrixError` on the CPU in eager mode.
    """
    if not can_inspect(X):
        return torch.linalg.eigh(X)
    try:
        return torch.linalg.eigh(X)
    except RuntimeError as error:  # torch.linalg.LinAlgError is one
        raise explain(X, error) from error


def eigvalsh(X: Tensor) -> Tensor:
    """Eigenvalues of symmetric matrices, ascending, `(..., n)`; as :func:`eigh` otherwise."""
    if not can_inspect(X):
        return torch.linalg.eigvalsh(X)
    try:
        return torch.linalg.eigvalsh(X)
    except RuntimeError as error:  # torch.linalg.LinAlgError is one
        raise explain(X, error) from error


def explain(X: Tensor, error: Exception) -> InvalidMatrixError:
    """Turn a failed factorisation into an error that names the matrix and the remedy."""
    broken = ~torch.isfinite(X.detach()).all(-1).all(-1)
    if not bool(broken.any()):
        return InvalidMatrixError(f"the decomposition failed on finite input: {error}")
    index = worst_index(broken.to(torch.float32))
    return InvalidMatrixError(
        f"{matrix_name(index)} of a batch of shape {tuple(X.shape)} has a NaN or an infinity, so it "
        "has no eigendecomposition; find where it was made, or drop it",
        index,
    )
