"""What layers ask of their input before they work on it."""

from __future__ import annotations

from torch import Tensor

from alem.linalg.errors import InvalidMatrixError, require_square


def require_matrices(layer: str, X: Tensor, n: int, like: Tensor) -> None:
    """Raise InvalidMatrixError unless X is `(..., n, n)` and in the dtype of ``like``, the layer's own."""
    require_square(X)
    if X.shape[-1] != n:
        raise InvalidMatrixError(f"{layer} was made for n = {n} and got matrices of shape {tuple(X.shape)}")
    if X.dtype != like.dtype:
        raise InvalidMatrixError(
            f"{layer} holds {like.dtype} and got matrices of {X.dtype}; convert one of them, with "
            f"module.to(X.dtype) or X.to({like.dtype})"
        )
