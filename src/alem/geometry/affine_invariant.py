"""The affine-invariant metric: the distance does not change when P, Q become APAᵀ, AQAᵀ.

Everything is whitened by the Cholesky factor L of a base point, P = LLᵀ: where the formulas have
P^{1/2}, any root of P will do, and this is the cheapest and most accurate one.

Pennec, Fillard, Ayache 2006, "A Riemannian framework for tensor computing".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from alem import linalg
from alem.geometry import frechet
from alem.geometry.blocks import Blocks, Moments, as_blocks
from alem.geometry.frechet_blocks import frechet_moments
from alem.geometry.metric import Metric, bounded, root
from alem.geometry.processes import Group, name_of
from alem.linalg.errors import can_inspect


class AffineInvariant(Metric):
    """AIM: d(P, Q) = ‖log(L⁻¹QL⁻ᵀ)‖_F with P = LLᵀ.

    Its group is P ⊙ Q = L Q Lᵀ, whose left translations are isometries (Thanwerdas, Pennec 2022,
    "Theoretically and computationally convenient geometries on full-rank correlation matrices").
    Errors are of the order of eps·cond(P)·cond(Q).
    """

    has_group = True

    def inner(self, P: Tensor, V: Tensor, W: Tensor) -> Tensor:
        """tr(P⁻¹VP⁻¹W) `(...)`."""
        L = linalg.cholesky(P)
        return (linalg.whiten(L, V) * linalg.whiten(L, W)).sum((-2, -1))

    def tangent_coordinates(self, P: Tensor, V: Tensor) -> Tensor:
        """vech(P^{-½}VP^{-½}), the coordinates of Barachant et al. 2013 when V is log(P, Q)."""
        R = linalg.inverse_sqrt(P)
        return linalg.vech(R @ V @ R)

    def log_coordinates(self, P: Tensor, Q: Tensor) -> Tensor:
        R = linalg.inverse_sqrt(P)
        return linalg.vech(linalg.log(linalg.symmetrize(R @ Q @ R)))

    def tangent_vector(self, P: Tensor, v: Tensor) -> Tensor:
        R = linalg.sqrt(P)
        return linalg.symmetrize(R @ linalg.unvech(v) @ R)

    def exp(self, P: Tensor, V: Tensor) -> Tensor:
        """L exp(L⁻¹VL⁻ᵀ) Lᵀ."""
        L = linalg.cholesky(P)
        return linalg.unwhiten(L, linalg.exp(linalg.whiten(L, V)))

    def bounded_exp(self, P: Tensor, V: Tensor, limit: float) -> Tensor:
        L = linalg.cholesky(P)
        Y = linalg.whiten(L, V)
        length = root(Y.square().sum((-2, -1)))
        return linalg.unwhiten(L, linalg.exp(bounded(Y, length, limit)))

    def log(self, P: Tensor, Q: Tensor) -> Tensor:
        """L log(L⁻¹QL⁻ᵀ) Lᵀ."""
        L = linalg.cholesky(P)
        return linalg.unwhiten(L, _log_whitened(L, P, Q))

    def dist2(self, P: Tensor, Q: Tensor) -> Tensor:
        """‖log(L⁻¹QL⁻ᵀ)‖²_F `(...)`; no digits are lost however close P and Q are."""
        return _log_whitened(linalg.cholesky(P), P, Q).square().sum((-2, -1))

    def geodesic(self, P: Tensor, Q: Tensor, t: float | Tensor) -> Tensor:
        """L (L⁻¹QL⁻ᵀ)ᵗ Lᵀ; t broadcasts against `(...)`."""
        L = linalg.cholesky(P)
        return linalg.unwhiten(L, linalg.power(linalg.whiten(L, Q), t))

    def transport(self, P: Tensor, Q: Tensor, V: Tensor) -> Tensor:
        """EVEᵀ with E = L (L⁻¹QL⁻ᵀ)^{1/2} L⁻¹, the square root of QP⁻¹."""
        L = linalg.cholesky(P)
        return linalg.unwhiten(L @ linalg.sqrt(linalg.whiten(L, Q)), linalg.whiten(L, V))

    def mean(self, X: Tensor, weights: Tensor | None = None) -> Tensor:
        """The Karcher mean, Σ w_i log(R⁻¹X_iR⁻ᵀ) = 0 for M = RRᵀ; see :mod:`alem.geometry.frechet`."""
        return frechet.frechet_mean(_EQUATION, X, weights)

    def shared_mean(self, X: Tensor, group: Group | None) -> Tensor:
        return frechet.frechet_mean(_EQUATION, X, group=name_of(group))

    def moments(self, blocks: Iterable[Any] | Blocks, dispersion: bool = True) -> Moments:
        return frechet_moments(self, _EQUATION, as_blocks(blocks), dispersion)

    def compose(self, P: Tensor, Q: Tensor) -> Tensor:
        """L Q Lᵀ with P = LLᵀ."""
        return linalg.unwhiten(linalg.cholesky(P), Q)

    def invert(self, P: Tensor) -> Tensor:
        """L⁻¹L⁻ᵀ with P = LLᵀ; not P⁻¹, which is L⁻ᵀL⁻¹."""
        L = linalg.cholesky(P)
        return linalg.whiten(L, torch.eye(L.shape[-1], dtype=L.dtype, device=L.device))

    def scale(self, P: Tensor, k: float | Tensor) -> Tensor:
        """Pᵏ, on the geodesic from the identity through P; k broadcasts against `(...)`."""
        return linalg.power(P, k)

    def relative(self, P: Tensor, Q: Tensor) -> Tensor:
        """log(L⁻¹QL⁻ᵀ) with P = LLᵀ."""
        return _log_whitened(linalg.cholesky(P), P, Q)

    def place(self, P: Tensor, T: Tensor) -> Tensor:
        """L exp(T) Lᵀ with P = LLᵀ."""
        return linalg.unwhiten(linalg.cholesky(P), linalg.exp(T))


class _ShiftedLog(linalg.ScalarMap):
    """σ ↦ ln(s + σ) with s, 0 or 1, a parameter of shape `(...)`; 1 + σ is not rounded first."""

    n_parameters = 1

    def values(self, x: Tensor, s: Tensor) -> Tensor:  # type: ignore[override]
        return torch.where(s[..., None] == 0, x.log(), x.log1p())

    def divided(self, x: Tensor, y: Tensor, s: Tensor) -> Tensor:  # type: ignore[override]
        s = s[..., None, None]
        return linalg.LOG.divided(x + s, y + s)

    def divided2(self, x: Tensor, y: Tensor, z: Tensor, s: Tensor) -> Tensor:  # type: ignore[override]
        s = s[..., None, None, None]
        return linalg.LOG.divided2(x + s, y + s, z + s)

    def width(self, x: Tensor, s: Tensor) -> Tensor:  # type: ignore[override]
        return x + s[..., None]


_SHIFTED_LOG = _ShiftedLog()


def _log_whitened(L: Tensor, P: Tensor, Q: Tensor) -> Tensor:
    """log(L⁻¹QL⁻ᵀ) with P = LLᵀ, exactly 0 at P = Q.

    Where ‖Δ‖ < ½ for Δ = L⁻¹(Q − P)L⁻ᵀ it is log(I + Δ): there the eigenvalues of I + Δ are above ½,
    so that nothing cancels in them, and the small ones of Δ keep the digits that I + Δ would drop.
    """
    Y, Delta = linalg.whiten(L, Q), linalg.whiten(L, Q - P)
    near = Delta.detach().norm(dim=(-2, -1)) < 0.5
    A = torch.where(near[..., None, None], Delta, Y)
    log = linalg.spectral(A, _SHIFTED_LOG, near.to(Y.dtype))
    if can_inspect(log) and not bool(log.isfinite().all()):
        linalg.cholesky(Q)  # says what is wrong with Q
        return linalg.log(Y)
    return log


class _Equation(frechet.Equation):
    """Σ w_i log Y_i = 0 with Y_i = R⁻¹X_iR⁻ᵀ and Q_jk = x coth x, x = (ln y_j − ln y_k)/2.

    x coth x are the eigenvalues of the Hessian of half a squared distance in a symmetric space of
    non-positive curvature; they lie between 1 and 1 + |x|.
    """

    name = "affine-invariant"
    phi = linalg.LOG
    sign = -1.0

    def start(self, S: Tensor) -> Tensor:
        """The log-Euclidean mean."""
        return linalg.exp(S)

    def root(self, M: Tensor) -> Tensor:
        return linalg.cholesky(M)

    def whiten(self, R: Tensor, X: Tensor) -> Tensor:
        return linalg.whiten(R, X)

    def curvature(self, y: Tensor) -> Tensor:
        log = y.log()
        return 1 / linalg.divided.tanhc((log[..., :, None] - log[..., None, :]) / 2)

    def objective(self, y: Tensor, w: Tensor) -> Tensor:
        return 0.5 * (w * y.log().square().sum(-1)).sum(-1)

    def descend(self, R: Tensor, g: Tensor, Q: Tensor) -> Tensor:
        """A gradient step as long as the largest curvature allows."""
        return linalg.unwhiten(R, linalg.exp(g / Q.amax((-3, -2, -1))[..., None, None]))

    def offset(self, R: Tensor) -> None:
        return None


_EQUATION = frechet.register(_Equation())
