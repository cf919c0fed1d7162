"""Parallel transport of the Bures–Wasserstein metric along a geodesic, by collocation.

Let M(t) = L + tN be the horizontal lift of the geodesic. A field X(t) along it is the lift of a
parallel one if MᵀX stays symmetric (X is horizontal) and dX/dt is vertical, that is MΩ with skew Ω:

    dX/dt = MΩ,    GΩ + ΩG = XᵀN − NᵀX,    G = MᵀM.

The flow turns X without stretching it, by π/2 at most where the ends commute. It is analytic, with
poles at the times −1/(τ − 1) where M(t) is singular, τ the eigenvalues of the transport map. They
can lie close to the ends, so time is stretched by (t + p)/(1 + q − t) = p/(1 + q) e^{ρu}, which
keeps them away from 0 ≤ u ≤ 1.

There the equation is solved by collocation at Gauss points, X = X₀ + KX for the values at all nodes
at once, and that by Picard's iteration, which is opaque to autograd. As for the Fréchet mean, two
corrections by (I − K)⁻¹, held fixed, carry the first and the second derivative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.polynomial import legendre
from torch import Tensor

from alem import linalg
from alem.linalg.autograd import Function, apply, opaque
from alem.linalg.errors import ConvergenceError, can_inspect, matrix_name, worst_index
from alem.linalg.lyapunov import lyapunov
from alem.linalg.spectral import rotate

TOLERANCE = 1e-9
# Enough for rounding error where the eigenvalues of the transport map are within a factor of a
# thousand of each other, and for the tolerance within a factor of a million.
NODES = 32
# Picard's iteration converges like cᵏ/k!: 20 sweeps are common, 45 were the most that was measured.
SWEEPS = 60


def _gauss_collocation(nodes: int) -> tuple[Tensor, Tensor]:
    """Nodes `(k,)` in [0, 1]; integrals `(k + 1, k)` of the Lagrange polynomials to each and to 1."""
    x, weights = legendre.leggauss(nodes)
    # column j: the Legendre coefficients of the j-th Lagrange polynomial
    lagrange = (np.arange(nodes)[:, None] + 0.5) * legendre.legvander(x, nodes - 1).T * weights
    up_to = legendre.legvander(np.append(x, 1.0), nodes) @ legendre.legint(lagrange, lbnd=-1)
    return torch.from_numpy((x + 1) / 2), torch.from_numpy(up_to / 2)


_U, _INTEGRAL = _gauss_collocation(NODES)


def transport_lift(L: Tensor, N: Tensor, X: Tensor) -> Tensor:
    """The horizontal X at L carried along L + tN to t = 1, in double precision.

    To TOLERANCE relative to ‖X‖, judged by what the exact flow keeps: ‖X‖ and the symmetry of MᵀX.
    Shapes: three of `(..., n, n)`, broadcast, to `(..., n, n)`.
    """
    t, speed = _stretched_time(L.detach(), N.detach())
    M = L.unsqueeze(-3) + t * N.unsqueeze(-3)
    G = linalg.symmetrize(M.mT @ M)
    g, U = linalg.eigh(G.detach())
    X, N, rate, G, U = torch.broadcast_tensors(X.unsqueeze(-3), N.unsqueeze(-3), speed * M, G, U)
    g = g.expand(U.shape[:-1])

    def right_side(Y: Tensor) -> Tensor:
        C = Y.mT @ N
        return rate @ lyapunov(G, C - C.mT, (g, U))

    frozen = (N.detach(), rate.detach(), g, U)
    Y = _picard(X.detach(), torch.zeros_like(X[..., 0, 0]), *frozen, False)
    negligible = 1e-14 * _length(X.detach())
    for _ in range(2):
        residual = X + _integrate(right_side(Y)) - Y
        Y = Y + apply(_Correction, residual, negligible, *frozen, False)
    end = (X + _integrate(right_side(Y), to_end=True))[..., 0, :, :]

    error = _error(
        residual.detach(), end.detach(), X.detach()[..., 0, :, :], (L + N[..., 0, :, :]).detach()
    )
    failed = ~(error <= TOLERANCE)
    if can_inspect(failed):
        if bool(failed.any()):
            index = worst_index(error)
            raise ConvergenceError(
                f"Bures–Wasserstein transport of {matrix_name(index)} has a relative error of "
                f"{float(error[index]):.3g}, more than {TOLERANCE}: the ends are too ill-conditioned, "
                "or too far apart; go there in several steps along the geodesic"
            )
        return end
    return end * torch.ones_like(error).masked_fill(failed, torch.nan)[..., None, None]


def _stretched_time(L: Tensor, N: Tensor) -> tuple[Tensor, Tensor]:
    """t and dt/du at the nodes, `(..., NODES, 1, 1)`."""
    # T − I = NL⁻¹; 2 and 1/2 keep the range from being empty, 1e-12 from being infinite
    K = torch.linalg.solve_triangular(L, N, upper=False, left=False)
    tau = 1 + linalg.eigvalsh(linalg.symmetrize(K))[..., None, None, None]
    largest = tau[..., -1, :, :, :].clamp(min=2.0)
    least = tau[..., 0, :, :, :].clamp(min=1e-12, max=0.5)
    p, q, rho = 1 / (largest - 1), least / (1 - least), (largest / least).log()
    e = p / (1 + q) * torch.exp(rho * _U.to(L.device)[:, None, None])
    return (e * (1 + q) - p) / (1 + e), (1 + p + q) * rho * e / (1 + e) ** 2


def _length(X: Tensor) -> Tensor:
    return X.norm(dim=(-2, -1))


def _integrate(F: Tensor, to_end: bool = False, transpose: bool = False) -> Tensor:
    """∫₀ᵘ F of the values at the nodes, up to each node or to 1; or the transpose of the former."""
    integral = _INTEGRAL.to(F.device)
    integral = integral[-1:] if to_end else integral[:-1]
    return ((integral.mT if transpose else integral) @ F.flatten(-2)).unflatten(-1, F.shape[-2:])


def _error(residual: Tensor, end: Tensor, start: Tensor, M: Tensor) -> Tensor:
    """Of the iteration, of the length, and of the symmetry of MᵀX, the largest relative to ‖X‖."""
    skew = M.mT @ end
    skew = _length(skew - skew.mT) / _length(M)
    stretch = (_length(end) - _length(start)).abs()
    worst = torch.maximum(torch.maximum(skew, stretch), _length(residual).amax(-1))
    return torch.where(worst == 0, 0.0, worst / _length(start))


@opaque("alem::picard")
def _picard(
    X: Tensor, negligible: Tensor, N: Tensor, rate: Tensor, g: Tensor, U: Tensor, transpose: bool
) -> Tensor:
    """(I − K)⁻¹X or (I − Kᵀ)⁻¹X for X `(..., NODES, n, n)`: the limit of Y ← X + KY.

    To 1e-14 of X, or to what is ``negligible`` `(..., NODES)`; what does not get to TOLERANCE in
    SWEEPS becomes NaN. On an accelerator all sweeps are made, so that nothing waits for values.
    """
    sums = g[..., :, None] + g[..., None, :]

    def skew(C: Tensor) -> Tensor:
        Omega = rotate(U, rotate(U.mT, C) / sums)
        return Omega - Omega.mT

    size = torch.maximum(negligible.amax(-1), 1e-14 * _length(X).amax(-1))
    Y = X
    for _ in range(SWEEPS):
        if transpose:
            # adjoint of X ↦ rate·Ω(X): Y ↦ N(Aᵀ − A), A the Lyapunov solution for rateᵀY
            new = X - N @ skew(rate.mT @ _integrate(Y, transpose=True))
        else:
            new = X + _integrate(rate @ skew(Y.mT @ N))
        update, Y = _length(new - Y).amax(-1), new
        if X.device.type == "cpu" and bool((update <= size).all()):
            break
    failed = ~(update <= TOLERANCE / 1e-14 * size)
    # contiguous, as the fake says: a compiled graph relies on the strides
    return torch.where(failed[..., None, None, None], torch.nan, Y).contiguous()


@_picard.register_fake
def _(
    X: Tensor, negligible: Tensor, N: Tensor, rate: Tensor, g: Tensor, U: Tensor, transpose: bool
) -> Tensor:
    return X.new_empty(X.shape)


@_picard.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
    *tensors, transpose = args
    X, *rest = (
        a.unsqueeze(0) if d is None else a.movedim(d, 0) for a, d in zip(tensors, in_dims[:-1], strict=True)
    )
    return _picard(X.expand(info.batch_size, *X.shape[1:]), *rest, transpose), 0


class _Correction(Function):
    """(I − K)⁻¹ applied to a residual; its derivative is the transpose, and the other way round."""

    @staticmethod
    def forward(
        r: Tensor,
        negligible: Tensor,
        N: Tensor,
        rate: Tensor,
        g: Tensor,
        U: Tensor,
        transpose: bool,
    ) -> Tensor:
        return _picard(r, negligible, N, rate, g, U, transpose)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.transpose = inputs[-1]
        ctx.save_for_backward(*inputs[1:-1])
        ctx.save_for_forward(*inputs[1:-1])

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        negligible, *frozen = ctx.saved_tensors
        zero = torch.zeros_like(negligible)
        corrected = apply(_Correction, G, zero, *frozen, not ctx.transpose)
        return corrected, None, None, None, None, None, None


class _CorrectionWithForwardMode(_Correction):
    """The same with forward-mode differentiation, which Dynamo does not accept in a Function."""

    @staticmethod
    def jvp(ctx: Any, r_dot: Tensor, *_: None) -> Tensor:
        negligible, *frozen = ctx.saved_tensors
        return apply(_Correction, r_dot, torch.zeros_like(negligible), *frozen, ctx.transpose)


_Correction.eager = _CorrectionWithForwardMode
