"""Checks for users to run on their data; the operations themselves do not pay for them."""

from __future__ import annotations

import torch
from torch import Tensor

from alem import linalg
from alem.linalg.cholesky import is_well_inside
from alem.linalg.errors import (
    InvalidMatrixError,
    NotPositiveDefiniteError,
    matrix_name,
    require_finite,
    require_square,
    require_symmetric,
    worst_index,
)


def check_spd(X: Tensor) -> Tensor:
    """Return X `(..., n, n)` if it is a batch of SPD matrices; else raise InvalidMatrixError.

    The error says which matrix is worst, how bad it is and what to do. Matrices must be real,
    float32 or float64, finite, symmetric to √eps of their largest entry, and positive definite by
    more than rounding: the smallest eigenvalue above n·eps of the largest.
    """
    require_square(X)
    if X.shape[-1] == 0:
        raise InvalidMatrixError(f"expected matrices of size 1 at least, got shape {tuple(X.shape)}")
    X_ = X.detach()
    require_finite(X_)
    require_symmetric(X_)
    _refuse_indefinite(X_)
    return X


def _refuse_indefinite(X: Tensor) -> None:
    if bool(is_well_inside(X).all()):
        return
    x = linalg.eigvalsh(linalg.symmetrize(X))
    margin = x[..., 0] - X.shape[-1] * torch.finfo(X.dtype).eps * x[..., -1].abs()
    if bool((margin <= 0).any()):
        index = worst_index(-margin / x[..., -1].abs().clamp(min=torch.finfo(X.dtype).tiny))
        least, most = float(x[index][0]), float(x[index][-1])
        state = "not positive definite" if least <= 0 else "singular to working precision"
        raise NotPositiveDefiniteError(
            f"{matrix_name(index)} of shape {tuple(X.shape)} is {state}: its smallest eigenvalue is "
            f"{least:.3g}, its largest {most:.3g}; regularise, for example with "
            "X + 1e-3·tr(X)·I, or with shrinkage in alem.linalg.covariance",
            index,
        )
