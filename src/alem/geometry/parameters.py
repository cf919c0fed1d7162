"""Parameters that live on a manifold: orthonormal matrices and SPD matrices.

They are geoopt's, so that geoopt's optimisers accept them as well as :mod:`alem.optim`. geoopt takes
half a second to import and is imported when the first such parameter is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from alem import linalg
from alem.geometry.validation import check_spd
from alem.linalg.errors import InvalidMatrixError, matrix_name, require_finite, worst_index

if TYPE_CHECKING:
    from alem.geometry.manifolds import Stiefel


def stiefel_parameter(W: Tensor) -> nn.Parameter:
    """A parameter whose rows, or columns if these are fewer, are orthonormal `(..., p, n)`.

    ‖WWᵀ − I‖ must not exceed √eps, far more than rounding leaves; steps then keep it at rounding.
    """
    from alem.geometry.manifolds import ManifoldParameter, Stiefel

    manifold = Stiefel()
    _require_orthonormal(W, manifold)
    return ManifoldParameter(W.detach(), manifold=manifold)


def spd_parameter(P: Tensor) -> nn.Parameter:
    """A parameter that is a symmetric positive definite matrix `(..., n, n)`, a copy of sym P.

    Its geometry is the affine-invariant one. P must pass :func:`alem.geometry.check_spd`.
    """
    from alem.geometry.manifolds import SPD, ManifoldParameter

    if not P.is_meta:
        check_spd(P)
    return ManifoldParameter(linalg.symmetrize(P.detach()), manifold=SPD())


def _require_orthonormal(W: Tensor, manifold: Stiefel) -> None:
    """Raise InvalidMatrixError, naming the worst matrix, unless W is on the manifold."""
    if W.ndim < 2 or 0 in W.shape:
        raise InvalidMatrixError(f"expected matrices (..., p, n), got shape {tuple(W.shape)}")
    if W.dtype not in (torch.float32, torch.float64):
        raise InvalidMatrixError(f"expected float32 or float64, got {W.dtype}; convert with W.float()")
    if W.is_meta:
        return
    require_finite(W)
    defect = manifold.defect(W.detach())
    if bool((defect > torch.finfo(W.dtype).eps ** 0.5).any()):
        index = worst_index(defect)
        rows, gram = ("rows", "WWᵀ") if W.shape[-2] <= W.shape[-1] else ("columns", "WᵀW")
        raise InvalidMatrixError(
            f"{matrix_name(index)} of shape {tuple(W.shape)} has no orthonormal {rows}: ‖{gram} − I‖ is "
            f"{float(defect[index]):.3g}; pass torch.nn.init.orthogonal_(W), or an orthonormal factor of W",
            index,
        )
