"""Batched eigendecomposition of symmetric matrices: the only place in the library that decomposes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from alem.linalg.errors import InvalidMatrixError, can_inspect, require_finite

Result = TypeVar("Result")


def eigh(X: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues in ascending order `(..., n)` and orthonormal eigenvectors `(..., n, n)`.

    X = U diag(λ) Uᵀ. Only the lower triangle of X `(..., n, n)` is read. A matrix with a NaN or an
    infinity raises :class:`InvalidMatrixError` on the CPU in eager mode.
    """
    return _decompose(torch.linalg.eigh, X)


def eigvalsh(X: Tensor) -> Tensor:
    """Eigenvalues of symmetric matrices, ascending, `(..., n)`; as :func:`eigh` otherwise."""
    return _decompose(torch.linalg.eigvalsh, X)


def _decompose(method: Callable[[Tensor], Result], X: Tensor) -> Result:
    if not can_inspect(X):
        return method(X)
    # LAPACK may return finite nonsense for a NaN. A sum that is finite proves that there is none.
    if not bool(torch.isfinite(X.detach().sum())):
        require_finite(X)
    try:
        return method(X)
    except RuntimeError as error:  # torch.linalg.LinAlgError is one
        raise InvalidMatrixError(f"the eigendecomposition failed on finite matrices: {error}") from error
