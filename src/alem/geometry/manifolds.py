"""The manifolds of constrained parameters, as geoopt's ``Manifold``, so that its optimisers take them.

Beside geoopt's methods each has three in which work is shared, which :mod:`alem.optim` prefers where it
finds them: ``gradient``, the Riemannian gradient g with ⟨g, g⟩; ``descend``, the retraction of −rate·g;
and ``carry``, the retraction of −rate·v with v transported. A number that belongs to a matrix is a Python
float where it is for one matrix on the CPU, where a kernel costs more than a look, and a tensor
`(..., 1, 1)` elsewhere, so that a step does not synchronise an accelerator.
"""

from __future__ import annotations

import math

import torch
from geoopt import ManifoldParameter
from geoopt.manifolds.base import Manifold
from torch import Tensor

from alem import linalg
from alem.geometry.affine_invariant import AffineInvariant
from alem.linalg.cholesky import try_cholesky
from alem.linalg.errors import can_inspect
from alem.linalg.precision import full_precision_methods

__all__ = ["SPD", "ManifoldParameter", "Stiefel"]

_AIM = AffineInvariant()
Number = float | Tensor


@full_precision_methods
class Stiefel(Manifold):  # type: ignore[misc]
    """Matrices W `(..., p, n)` with WWᵀ = I, or WᵀW = I if p > n, under the canonical metric.

    ⟨U, V⟩ = tr U(I − ½WᵀW)Vᵀ, the gradient is G − WGᵀW. Formulas are for p ≤ n; a tall matrix is the
    transpose of a wide one. Edelman, Arias, Smith 1998, "The geometry of algorithms with
    orthogonality constraints".
    """

    name = "Stiefel"
    ndim = 2
    reversible = False

    def egrad2rgrad(self, x: Tensor, u: Tensor) -> Tensor:
        """G − WGᵀW from the Euclidean gradient G."""
        if not _is_wide(x):
            return self.egrad2rgrad(x.mT, u.mT).mT
        return _add_product(u, x @ u.mT, x, alpha=-1.0)

    def gradient(self, x: Tensor, u: Tensor) -> tuple[Tensor, Number]:
        """g = G − WGᵀW and ⟨g, g⟩ = ‖g‖² − ½‖gWᵀ‖², in which gWᵀ = GWᵀ − WGᵀ."""
        if not _is_wide(x):
            g, square = self.gradient(x.mT, u.mT)
            return g.mT, square
        A = x @ u.mT
        g = _add_product(u, A, x, alpha=-1.0)
        along, within = _norm(g), _norm(A - A.mT)
        return g, along * along - 0.5 * within * within

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        """tr U(I − ½WᵀW)Vᵀ `(...)`."""
        if not _is_wide(x):
            return self.inner(x.mT, u.mT, None if v is None else v.mT, keepdim=keepdim)
        ux = u @ x.mT
        v, vx = (u, ux) if v is None else (v, v @ x.mT)
        return (u * v).sum((-2, -1), keepdim=keepdim) - 0.5 * (ux * vx).sum((-2, -1), keepdim=keepdim)

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        """The nearest tangent vector, U − sym(UWᵀ)W."""
        if not _is_wide(x):
            return self.proju(x.mT, u.mT).mT
        A = u @ x.mT
        return _add_product(u, A + A.mT, x, alpha=-0.5)

    def projx(self, x: Tensor) -> Tensor:
        """The nearest point, the polar factor (XXᵀ)^{−½}X."""
        if not _is_wide(x):
            return self.projx(x.mT).mT
        return _polish(linalg.inverse_sqrt(x @ x.mT) @ x)

    def retr(self, x: Tensor, u: Tensor) -> Tensor:
        """Q of W + V = LQ, L lower triangular with a positive diagonal; V is the tangent part of ``u``.

        L is the Cholesky factor of (W + V)(W + V)ᵀ = I + VVᵀ, which loses eps·‖V‖² of orthonormality, and
        a Newton–Schulz step squares the loss. V is shortened to √p·eps^{−¼}/20 where it is longer, so that
        the loss is small enough to be squared away: on average a turn of 70° in single precision, of 89.9°
        in double.
        """
        if not _is_wide(x):
            return self.retr(x.mT, u.mT).mT
        return _retract(x, -self.proju(x, u), 1.0)

    expmap = retr  # as geoopt's: the geodesic would cost the exponential of a 2p×2p matrix

    def descend(self, x: Tensor, u: Tensor, rate: Number) -> Tensor:
        """retr(−rate·g) with g = G − WGᵀW, which is tangent already."""
        if not _is_wide(x):
            return self.descend(x.mT, u.mT, rate).mT
        return _retract(x, self.egrad2rgrad(x, u), rate)

    def carry(self, x: Tensor, v: Tensor, rate: Number) -> tuple[Tensor, Tensor]:
        """retr(−rate·V) for tangent V, and V transported there."""
        if not _is_wide(x):
            y, v = self.carry(x.mT, v.mT, rate)
            return y.mT, v.mT
        y = _retract(x, v, rate)
        return y, self.proju(y, v)

    def transp(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """The projection of V on the tangent space at ``y``."""
        return self.proju(y, v)

    def defect(self, x: Tensor) -> Tensor:
        """‖WWᵀ − I‖_F `(...)`."""
        W = x if _is_wide(x) else x.mT
        return (W @ W.mT - _eye_like(W)).norm(dim=(-2, -1))

    def _check_point_on_manifold(
        self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        return _within("‖WWᵀ − I‖", self.defect(x), max(atol, torch.finfo(x.dtype).eps ** 0.5))

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        return _within("the normal part", u - self.proju(x, u), atol + rtol * float(u.abs().max()))


@full_precision_methods
class SPD(Manifold):  # type: ignore[misc]
    """Symmetric positive definite matrices P `(..., n, n)` under the affine-invariant metric.

    With P = LLᵀ a tangent vector V is L⁻¹VL⁻ᵀ in the whitened frame, the gradient P sym(G) P is
    Lᵀ sym(G) L there, and the metric is the Frobenius inner product.
    """

    name = "SPD"
    ndim = 2
    reversible = False

    def egrad2rgrad(self, x: Tensor, u: Tensor) -> Tensor:
        """P sym(G) P from the Euclidean gradient G."""
        return linalg.unwhiten(x, linalg.symmetrize(u))

    def gradient(self, x: Tensor, u: Tensor) -> tuple[Tensor, Number]:
        """g = P sym(G) P and ⟨g, g⟩ = ‖Lᵀ sym(G) L‖²."""
        L = _factor(x)
        Y = L.mT @ linalg.symmetrize(u) @ L
        length = _norm(Y)
        return linalg.unwhiten(L, Y), length * length

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        """tr P⁻¹UP⁻¹V `(...)`."""
        inner = _AIM.inner(x, u, u if v is None else v)
        return inner[..., None, None] if keepdim else inner

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        """The symmetric part."""
        return linalg.symmetrize(u)

    def projx(self, x: Tensor) -> Tensor:
        """The nearest matrix that is symmetric, with eigenvalues of n·eps of the largest at least."""
        values, U = linalg.eigh(linalg.symmetrize(x))
        least = x.shape[-1] * torch.finfo(x.dtype).eps * values.abs().amax(-1, keepdim=True)
        return linalg.unwhiten(U, torch.diag_embed(values.maximum(least)))

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        """L exp(L⁻¹VL⁻ᵀ) Lᵀ."""
        return _AIM.exp(x, u)

    def retr(self, x: Tensor, u: Tensor) -> Tensor:
        """The exponential, kept within the matrices that floats can hold.

        An eigenvalue of L⁻¹VL⁻ᵀ counts as ±ln(1/eps)/10 at most: 1.6 in single, 3.6 in double precision.
        A momentum of 0.9 adds up to ten such steps, and 1/eps is the largest condition number there is.
        A result that is singular to rounding is lifted by a multiple of the identity.
        """
        L = _factor(x)
        B, _, _ = _root_of_exp(L, linalg.whiten(L, -u), 1.0)
        return _lift(B @ B.mT)

    def descend(self, x: Tensor, u: Tensor, rate: Number) -> Tensor:
        """P − τg + ½τ²gP⁻¹g, g = P sym(G) P: the exponential of −τg to second order, without its cost.

        Positive definite, being ½(P + (P − τg)P⁻¹(P − τg)). τ is the rate, or less where the length of the
        step would exceed 1: so far the polynomial falls where the exponential does.
        """
        H = linalg.symmetrize(u) @ x
        square = (H * H.mT).sum((-2, -1), keepdim=True)  # of the length of g, or rounding below zero
        length = math.sqrt(max(square.item(), 0.0)) if _is_one_on_cpu(x) else square.clamp_(min=0.0).sqrt_()
        H = H * _shortened(rate, length, 1.0)
        A = x @ H
        return _lift(_add_product(x, A, H, alpha=0.5).sub_(A))

    def carry(self, x: Tensor, v: Tensor, rate: Number) -> tuple[Tensor, Tensor]:
        """retr(−rate·V), and V as far as it counts, parallel along the geodesic whose velocity it is."""
        L = _factor(x)
        B, values, _ = _root_of_exp(L, linalg.whiten(L, v), rate)
        return _lift(B @ B.mT), linalg.symmetrize((B * values) @ B.mT)

    def retr_transp(self, x: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """retr(u), and V carried parallel to itself along the way."""
        L = _factor(x)
        B, _, U = _root_of_exp(L, linalg.whiten(L, -u), 1.0)
        return _lift(B @ B.mT), linalg.unwhiten(B @ U.mT, linalg.whiten(L, v))

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        """L log(L⁻¹QL⁻ᵀ) Lᵀ."""
        return _AIM.log(x, y)

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """‖log(L⁻¹QL⁻ᵀ)‖_F `(...)`."""
        dist = _AIM.dist(x, y)
        return dist[..., None, None] if keepdim else dist

    def transp(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """V carried parallel to itself along the geodesic to ``y``."""
        return _AIM.transport(x, y, v)

    def _check_shape(self, shape: tuple[int, ...], name: str) -> tuple[bool, str | None]:
        if len(shape) < 2 or shape[-1] != shape[-2]:
            return False, f"`{name}` has shape {tuple(shape)}; SPD matrices are (..., n, n)"
        return True, None

    def _check_point_on_manifold(
        self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        if not bool(linalg.is_positive_definite(x).all()):
            return False, "it is not positive definite"
        return self._check_vector_on_tangent(x, x, atol=0.0, rtol=max(atol, rtol))

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        return _within("the skew part", u - u.mT, atol + rtol * float(u.abs().max()))


def _is_wide(x: Tensor) -> bool:
    return x.shape[-2] <= x.shape[-1]


def _eye_like(W: Tensor) -> Tensor:
    """The identity of the size of WWᵀ."""
    return torch.eye(W.shape[-2], dtype=W.dtype, device=W.device)


def _add_product(C: Tensor, A: Tensor, B: Tensor, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """βC + αAB, in one kernel where there is one."""
    if A.ndim == 2:
        return torch.addmm(C, A, B, beta=beta, alpha=alpha)
    return torch.add(beta * C, A @ B, alpha=alpha)


def _is_one_on_cpu(x: Tensor) -> bool:
    return x.ndim == 2 and can_inspect(x)


def _norm(V: Tensor) -> Number:
    """‖V‖_F."""
    if _is_one_on_cpu(V):
        return torch.linalg.vector_norm(V).item()
    return torch.linalg.vector_norm(V, dim=(-2, -1), keepdim=True)


def _shortened(rate: Number, length: Number, longest: float) -> Number:
    """The rate, or longest/length where that is less; ``length`` may be overwritten."""
    if isinstance(length, Tensor):
        return length.reciprocal_().mul_(longest).clamp_(max=rate)
    if length == 0.0:
        return rate
    return rate.clamp(max=longest / length) if isinstance(rate, Tensor) else min(rate, longest / length)


def _retract(W: Tensor, V: Tensor, rate: Number) -> Tensor:
    """Q of W − τV = LQ for wide W and tangent V, τ the rate or less: see :meth:`Stiefel.retr`."""
    longest = math.sqrt(W.shape[-2]) * torch.finfo(W.dtype).eps ** -0.25 / 20
    length = _norm(V)
    # A step of length 1 at most loses rounding and no more: there is nothing to polish, if one can see it.
    is_short = isinstance(length, float) and isinstance(rate, float) and rate * length <= 1.0
    tau = _shortened(rate, length, longest)
    Y = torch.addcmul(W, V, tau, value=-1) if isinstance(tau, Tensor) else torch.sub(W, V, alpha=tau)
    L, _ = try_cholesky(Y @ Y.mT)
    # QᵀLᵀ = Yᵀ: solved from this side it takes a fraction of the time.
    Q = torch.linalg.solve_triangular(L.mT, Y.mT, upper=True, left=False).mT
    return Q if is_short else _polish(Q)


def _polish(Q: Tensor) -> Tensor:
    """A Newton–Schulz step, (3Q − QQᵀQ)/2: where ‖QQᵀ − I‖ is δ it becomes ¾δ²."""
    return _add_product(Q, Q @ Q.mT, Q, beta=1.5, alpha=-0.5)


def _factor(P: Tensor) -> Tensor:
    """As :func:`linalg.cholesky`, of which it skips what a symmetric matrix on the CPU does not need."""
    if can_inspect(P):
        L, info = try_cholesky(P)
        if not _any(info):
            return L
    return linalg.cholesky(P)


def _root_of_exp(L: Tensor, Y: Tensor, rate: Number) -> tuple[Tensor, Tensor, Tensor]:
    """B with BBᵀ = L exp(−rate·Y) Lᵀ and BUᵀ = L exp(−rate·Y/2), Y = U diag(y) Uᵀ; y `(..., 1, n)`; U.

    y is bounded so that |rate·y| is at most ln(1/eps)/10: see :meth:`SPD.retr`.
    """
    y, U = linalg.eigh(Y)
    most = -0.1 * math.log(torch.finfo(y.dtype).eps)
    y = y[..., None, :]
    if isinstance(rate, Tensor):
        y = y.clamp(-most / rate, most / rate)
    else:
        bound = most / max(rate, 1e-30)  # a rate of 0 bounds nothing, and a float32 can hold this
        y = y.clamp(-bound, bound)
    return (L @ U) * (-0.5 * rate * y).exp_(), y, U


def _lift(P: Tensor) -> Tensor:
    """sym P, with 2t on the diagonal where P − tI has no Cholesky factor, t = 10·eps·tr P.

    t is ten times the rounding of P, so that whatever comes out has a factor.
    """
    P = linalg.symmetrize(P)
    diagonal = P.diagonal(dim1=-2, dim2=-1)
    t = diagonal.sum(-1, keepdim=True).mul_(10 * torch.finfo(P.dtype).eps)
    lowered = P.clone()
    lowered.diagonal(dim1=-2, dim2=-1).sub_(t)
    _, info = try_cholesky(lowered)
    if not can_inspect(info) or _any(info):
        diagonal.addcmul_(t, (info != 0)[..., None], value=2.0)
    return P


def _any(info: Tensor) -> bool:
    """Whether a number is not zero."""
    return bool(info.item() if info.ndim == 0 else info.any())


def _within(what: str, error: Tensor, tolerance: float) -> tuple[bool, str | None]:
    """Whether no entry is larger than the tolerance, and the sentence that says it is."""
    size = float(error.abs().max()) if error.numel() else 0.0
    return (True, None) if size <= tolerance else (False, f"{what} is {size:.3g}, over {tolerance:.3g}")
