"""The Bures–Wasserstein metric: the distance of optimal transport between centred Gaussians.

It makes M ↦ MMᵀ, from matrices with their Euclidean distance, a Riemannian submersion. A geodesic
P(t) lifts to a straight line M(t) = L + tN with P = LLᵀ, and a tangent vector V at MMᵀ to the
matrix X = SM, where SP + PS = V; d(P, Q) = ‖N‖ and ⟨V, W⟩ = ⟨X_V, X_W⟩ are Euclidean.

Bhatia, Jain, Lim 2019, "On the Bures–Wasserstein distance between positive definite matrices";
Malagò, Montrucchio, Pistone 2018, "Wasserstein Riemannian geometry of Gaussian densities".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from alem import linalg
from alem.geometry import frechet
from alem.geometry.blocks import Blocks, Moments, as_blocks
from alem.geometry.bures_wasserstein_transport import transport_lift
from alem.geometry.frechet_blocks import frechet_moments
from alem.geometry.metric import Metric, time_like
from alem.geometry.processes import Group, name_of
from alem.linalg.cholesky import is_positive_definite
from alem.linalg.errors import (
    InvalidMatrixError,
    can_inspect,
    matrix_name,
    require_positive,
    require_square,
    worst_index,
)
from alem.linalg.lyapunov import lyapunov


class BuresWasserstein(Metric):
    """BWM: d²(P, Q) = tr P + tr Q − 2 tr (P^½ Q P^½)^½.

    Not complete: a geodesic ends where it meets a singular matrix, so that ``exp`` has a domain,
    :meth:`in_domain`. It has no group. Errors are of the order of eps·cond(P)·cond(Q) at most.
    """

    is_complete = False

    def inner(self, P: Tensor, V: Tensor, W: Tensor) -> Tensor:
        """½ tr(SW) with SP + PS = V, `(...)`."""
        V, W = linalg.symmetrize(V), linalg.symmetrize(W)
        return 0.5 * (lyapunov(P, V) * W).sum((-2, -1))

    def tangent_coordinates(self, P: Tensor, V: Tensor) -> Tensor:
        """vech(U(UᵀVU / √(2(p_i + p_j)))Uᵀ) with P = U diag(p) Uᵀ; differentiable in V, not in P."""
        U, scale = _frame(P)
        return linalg.vech(_rotate(U, _rotate(U.mT, linalg.symmetrize(V)) / scale))

    def tangent_vector(self, P: Tensor, v: Tensor) -> Tensor:
        U, scale = _frame(P)
        return _rotate(U, _rotate(U.mT, linalg.unvech(v)) * scale)

    def in_domain(self, P: Tensor, V: Tensor) -> Tensor:
        """Whether V has an exponential at P: I + S positive definite; booleans `(...)`."""
        S = lyapunov(P.detach(), linalg.symmetrize(V.detach()))
        return is_positive_definite(_identity(S) + S)

    def exp(self, P: Tensor, V: Tensor) -> Tensor:
        """(I + S) P (I + S) = P + V + SPS with SP + PS = V.

        InvalidMatrixError outside its domain, in eager mode on the CPU; elsewhere ask ``in_domain``.
        """
        S = lyapunov(P, linalg.symmetrize(V))
        A = _identity(S) + S
        if can_inspect(A):
            _require_domain(A.detach())
        return linalg.unwhiten(A @ linalg.cholesky(P), _identity(S))

    def log(self, P: Tensor, Q: Tensor) -> Tensor:
        """TP + PT − 2P with T = P^{-½} (P^½QP^½)^½ P^{-½}, the optimal transport map: N Lᵀ + L Nᵀ."""
        L, N = self._lift(P, Q)
        half = N @ L.mT
        return half + half.mT

    def dist2(self, P: Tensor, Q: Tensor) -> Tensor:
        """‖N‖²_F `(...)`; no digits are lost however close P and Q are."""
        return self._lift(P, Q)[1].square().sum((-2, -1))

    def geodesic(self, P: Tensor, Q: Tensor, t: float | Tensor) -> Tensor:
        """((1−t)I + tT) P ((1−t)I + tT) = (L + tN)(L + tN)ᵀ; t broadcasts against `(...)`."""
        L, N = self._lift(P, Q)
        M = L + time_like(t, P) * N
        return linalg.symmetrize(M @ M.mT)

    def transport(self, P: Tensor, Q: Tensor, V: Tensor) -> Tensor:
        """V carried from P to Q, to a relative 1e-9; there is no closed form.

        Computed in double precision; ConvergenceError where the tolerance is not met in eager mode
        on the CPU, NaN elsewhere. See :mod:`alem.geometry.bures_wasserstein_transport`.
        """
        P_, Q_, V_ = P.double(), Q.double(), linalg.symmetrize(V.double())
        L, N = self._lift(P_, Q_)
        X = transport_lift(L, N, lyapunov(P_, V_) @ L)
        half = X @ (L + N).mT
        return (half + half.mT).to(P.dtype)

    def mean(self, X: Tensor, weights: Tensor | None = None) -> Tensor:
        """The barycenter, Σ w_i (RᵀX_iR)^½ = RᵀR for M = RRᵀ; see :mod:`alem.geometry.frechet`."""
        return frechet.frechet_mean(_EQUATION, X, weights)

    def shared_mean(self, X: Tensor, group: Group | None) -> Tensor:
        return frechet.frechet_mean(_EQUATION, X, group=name_of(group))

    def moments(self, blocks: Iterable[Any] | Blocks, dispersion: bool = True) -> Moments:
        return frechet_moments(self, _EQUATION, as_blocks(blocks), dispersion)

    def _lift(self, P: Tensor, Q: Tensor) -> tuple[Tensor, Tensor]:
        """L with LLᵀ = P and the N of shortest length with (L + N)(L + N)ᵀ = Q.

        N = (T − I)L = L⁻ᵀ D, D = Z − G for Z = (LᵀQL)^½ and G = LᵀL. The difference would cancel
        where P and Q are close; but Z² − G² = Lᵀ(Q − P)L, and so

            (Z + G) D + D (Z + G) = 2 Lᵀ(Q − P)L.

        Both are first scaled to a trace of about 1: their product would leave the range of float32.
        """
        require_square(P)
        require_square(Q)
        root = _root_of_scale(P.detach(), Q.detach())
        P, Q = P / root**2, Q / root**2
        L = linalg.cholesky(P)
        Z = linalg.sqrt(L.mT @ Q @ L)
        D = lyapunov(Z + L.mT @ L, 2 * (L.mT @ linalg.symmetrize(Q - P) @ L))
        return root * L, root * torch.linalg.solve_triangular(L.mT, D, upper=True)


def _root_of_scale(P: Tensor, Q: Tensor) -> Tensor:
    """About (tr P tr Q)^¼, a power of two, `(..., 1, 1)`; 1 where there is none."""
    p, q = (A.diagonal(dim1=-2, dim2=-1).sum(-1).log2() for A in (P, Q))
    log = torch.nan_to_num((p + q) / 4, nan=0.0, posinf=0.0, neginf=0.0).round()
    return torch.exp2(log)[..., None, None]


def _frame(P: Tensor) -> tuple[Tensor, Tensor]:
    """The eigenframe of P, and √(2(p_i + p_j)) in it."""
    if P.requires_grad:
        raise NotImplementedError(
            "Bures-Wasserstein tangent coordinates have no derivative by the base point; detach it"
        )
    p, U = linalg.eigh(P)
    if can_inspect(p):
        require_positive(p)
    return U, (2 * (p[..., :, None] + p[..., None, :])).sqrt()


def _rotate(U: Tensor, V: Tensor) -> Tensor:
    return linalg.symmetrize(U @ V @ U.mT)


def _identity(S: Tensor) -> Tensor:
    return torch.eye(S.shape[-1], dtype=S.dtype, device=S.device)


def _require_domain(A: Tensor) -> None:
    outside = ~is_positive_definite(A)
    if bool(outside.any()):
        index = worst_index(outside.to(A.dtype))
        least = float(linalg.eigvalsh(A[index])[0])
        raise InvalidMatrixError(
            f"the Bures–Wasserstein geodesic of {matrix_name(index)} meets a singular matrix before "
            f"time 1: the smallest eigenvalue of I + S is {least:.3g}; shorten the tangent vector by "
            f"more than a factor of {1 - least:.3g}, or ask in_domain first",
            index,
        )


class _Equation(frechet.Equation):
    """Σ w_i Z_i = RᵀR with Z_i = (RᵀX_iR)^½ and Q_jk = z_j z_k / (z_j + z_k).

    T_i = R⁻ᵀZ_iR⁻¹ is the transport map from M to X_i, and T_iMT_i = X_i. Varied along RVRᵀ this
    reads EZ + ZE = −ZVZ for E = Rᵀ dT R. R has orthogonal columns.
    """

    name = "Bures-Wasserstein"
    phi = linalg.SQRT
    sign = 1.0

    def start(self, S: Tensor) -> Tensor:
        """(Σ w_i √X_i)², the mean of matrices that commute."""
        return S @ S

    def root(self, M: Tensor) -> Tensor:
        L = linalg.cholesky(M)
        return L @ linalg.eigh(linalg.symmetrize(L.mT @ L))[1]

    def whiten(self, R: Tensor, X: Tensor) -> Tensor:
        return linalg.symmetrize(R.mT @ X @ R)

    def curvature(self, y: Tensor) -> Tensor:
        z = y.rsqrt()
        return 1 / (z[..., :, None] + z[..., None, :])

    def objective(self, y: Tensor, w: Tensor) -> Tensor:
        return -2 * (w * y.sqrt().sum(-1)).sum(-1)

    def descend(self, R: Tensor, g: Tensor, Q: Tensor) -> Tensor:
        """(Σ w_iT_i) M (Σ w_iT_i), which always descends.

        Álvarez-Esteban et al. 2016, "A fixed-point approach to barycenters in Wasserstein space".
        """
        A = R + (R / self.offset(R)[..., None, :]) @ g
        return A @ A.mT

    def offset(self, R: Tensor) -> Tensor:
        return R.square().sum(-2)


_EQUATION = frechet.register(_Equation())
