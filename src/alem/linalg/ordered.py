"""Maps of a spectrum in which the i-th value depends on the rank i or on all the eigenvalues.

They act on the ascending logarithms t of a spectrum and are put behind :data:`alem.linalg.LOG` by
:class:`alem.linalg.Chain`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from alem.linalg import divided
from alem.linalg.autograd import opaque
from alem.linalg.errors import (
    ConvergenceError,
    InvalidMatrixError,
    can_inspect,
    matrix_name,
    worst_index,
)
from alem.linalg.spectral_map import Differential, SpectralMap, Stage, differences, slices

# How close two numbers are when their difference is no longer known: a hundred roundings of the
# largest of the spectrum, the size of the error that an eigensolver leaves.
UNRESOLVED = 100.0


class RankScale(SpectralMap):
    """φ_i = a_i t_i, a factor for each rank: ``a`` `(n,)` or one set per matrix `(..., n)`.

    Neither continuous nor one-to-one for unequal factors: where two eigenvalues meet whose factors
    differ, the value jumps and no derivative is right. ``ties`` says what is done there:

    - ``"exact"``: the exact derivative; an error (NaN in compiled graphs and on accelerators) where
      two values with unequal factors are closer than rounding resolves;
    - ``"broadened"``: 1/g is replaced by g/(g² + δ²), δ the larger of 1e-4 and that distance. It is
      biased, by 1 % at g = 10δ and 50 % at g = δ, and always finite.

    Rounding resolves a hundred eps of the largest eigenvalue; ``of_logarithms`` says that the t are
    logarithms of the eigenvalues, so that in t this is a hundred eps · exp(t_max − t).
    """

    n_parameters = 1
    by_rank = True

    def __init__(self, ties: str = "broadened", of_logarithms: bool = False) -> None:
        if ties not in ("exact", "broadened"):
            raise ValueError(f"ties must be 'exact' or 'broadened', got {ties!r}")
        self.ties, self.of_logarithms = ties, of_logarithms

    def stages(self, n: int, *parameters: Tensor) -> tuple[Stage, ...] | None:
        (a,) = parameters
        is_plain = a.shape == (n,) and self.ties == "broadened"
        return (Stage("scale", (float(self.of_logarithms), a)),) if is_plain else None

    def values(self, x: Tensor, a: Tensor) -> Tensor:  # type: ignore[override]
        return a * x

    def first(self, x: Tensor, gaps: Tensor, a: Tensor) -> Differential:  # type: ignore[override]
        """K_ij = ā + Δa·x̄/(x_i − x_j), bars the means over i and j: exact, and a_i on the diagonal."""
        unequal = differences(a)
        mean_a = (a[..., :, None] + a[..., None, :]) / 2
        mean_x = (x[..., :, None] + x[..., None, :]) / 2
        if self.ties == "exact" and can_inspect(gaps):
            self._require_resolved(x, gaps, unequal)
        return Differential(mean_a + unequal * mean_x * self._reciprocals(x, gaps, unequal))

    def second(  # type: ignore[override]
        self, x: Tensor, gaps: Tensor, left: Tensor, right: Tensor, a: Tensor
    ) -> Tensor:
        """The general rule for unequal factors; for equal ones, which nothing tears apart, its limit.

        K_ik − K_kj = (a_i − a_k) x_k (1/(x_i − x_k) − 1/(x_j − x_k)) where a_i = a_j, so that the gap
        between i and j cancels.
        """
        unequal = differences(a)
        reciprocals = self._reciprocals(x, gaps, unequal)
        torn = super().second(x, gaps, left, right, a)
        half = (unequal * reciprocals * left * x[..., None, :]) @ (reciprocals * right)
        other = (unequal * reciprocals * right * x[..., None, :]) @ (reciprocals * left)
        diagonal = torch.eye(x.shape[-1], dtype=torch.bool, device=x.device)
        return torch.where((unequal == 0) & ~diagonal, half + other, torn)

    def _reciprocals(self, x: Tensor, gaps: Tensor, unequal: Tensor) -> Tensor:
        """The reciprocal gaps, 0 where neither factors nor values differ."""
        same = (unequal == 0) & (gaps == 0)
        return torch.where(same, 0.0, self.reciprocal_gaps(x, torch.where(same, 1.0, gaps)))

    def reciprocal_gaps(self, x: Tensor, gaps: Tensor) -> Tensor:
        if self.ties == "exact":
            diagonal = torch.eye(x.shape[-1], dtype=torch.bool, device=x.device)
            return torch.where(diagonal, 0.0, 1.0 / torch.where(diagonal, 1.0, gaps))
        delta = self._unresolved(x).clamp(min=1e-4)
        return gaps / (gaps * gaps + delta * delta)

    def _unresolved(self, x: Tensor) -> Tensor:
        x = x.detach()
        if self.of_logarithms:
            mean = (x[..., :, None] + x[..., None, :]) / 2
            largest = torch.exp(x.amax(-1)[..., None, None] - mean)
        else:
            largest = x.abs().amax(-1)[..., None, None]
        return UNRESOLVED * torch.finfo(x.dtype).eps * largest

    def _require_resolved(self, x: Tensor, gaps: Tensor, unequal: Tensor) -> None:
        bad = ((gaps.abs() <= self._unresolved(x)) & (unequal != 0)).any(-1).any(-1)
        if bool(bad.any()):
            index = worst_index(bad.to(x.dtype))
            raise InvalidMatrixError(
                f"{matrix_name(index)} has equal eigenvalues to which unequal factors apply: there is "
                "no derivative there; use ties='broadened', or equal factors",
                index,
            )


class RankIncrement(SpectralMap):
    """φ_i = c_1 t_1 + Σ_{k=2..i} c_k (t_k − t_{k−1}), c > 0 `(n,)`: the k-th gap is scaled by c_k.

    A homeomorphism, Lipschitz both ways, and its own inverse with 1/c. At repeated eigenvalues it is
    continuous but not differentiable unless the c involved are equal; the derivative given there is
    a generalised Jacobian, the mean of the c involved.
    """

    n_parameters = 1
    by_rank = True
    increasing = True

    def stages(self, n: int, *parameters: Tensor) -> tuple[Stage, ...] | None:
        return (Stage("increment", parameters, is_coupled=True),) if parameters[0].shape == (n,) else None

    def values(self, x: Tensor, c: Tensor) -> Tensor:  # type: ignore[override]
        steps = torch.cat([x[..., :1], x[..., 1:] - x[..., :-1]], -1)
        return torch.cumsum(c * steps, -1)

    def first(self, x: Tensor, gaps: Tensor, c: Tensor) -> Differential:  # type: ignore[override]
        """K_ij = Σ c_k d_k / Σ d_k over the gaps d_k between i and j, a mean of the c in between."""
        n = x.shape[-1]
        c = c.expand(x.shape)
        step = torch.cat([torch.zeros_like(x[..., :1]), gaps.diagonal(offset=-1, dim1=-2, dim2=-1)], -1)
        # Row i sums from i on, so nothing cancels; the lower triangle is the mirror image.
        beyond = torch.ones(n, n, dtype=x.dtype, device=x.device).triu(1)
        length = torch.cumsum(beyond * step[..., None, :], -1)
        weighted = torch.cumsum(beyond * (c * step)[..., None, :], -1)
        count = torch.cumsum(beyond, -1).clamp(min=1.0)
        plain = torch.cumsum(beyond * c[..., None, :], -1) / count
        tied = length == 0
        upper = torch.where(tied, plain, weighted / torch.where(tied, 1.0, length)).triu(1)
        # J_im = c_m − c_{m+1} for m < i, c_i for m = i
        drop = c - torch.cat([c[..., 1:], torch.zeros_like(c[..., :1])], -1)
        jacobian = drop[..., None, :].expand(*x.shape, n).tril(-1) + torch.diag_embed(c)
        return Differential(upper + upper.mT, jacobian)

    def second(  # type: ignore[override]
        self, x: Tensor, gaps: Tensor, left: Tensor, right: Tensor, c: Tensor
    ) -> Tensor:
        # Linear in c, as in RankScale. At ties it is one element of a generalised derivative.
        return super().second(x, gaps, left, right, c - c.mean(-1, keepdim=True))


class Gap(SpectralMap):
    """φ_i = c·t_i + (1/n) Σ_j h(t_i − t_j), h(d) = Σ_k v_k s_k tanh(d/s_k).

    Parameters c > 0 `()`, v and s > 0 `(K,)`, with Σ_k min(v_k, 0) > −c. As a map of matrices T it
    is cT + (1/n) Tr₂ h(T⊗I − I⊗T), the gradient of a strongly convex function, and smooth everywhere.
    """

    n_parameters = 3
    increasing = True

    def stages(self, n: int, *parameters: Tensor) -> tuple[Stage, ...] | None:
        c, v, s = parameters
        is_plain = c.ndim == 0 and v.ndim == 1 and v.shape == s.shape
        return (Stage("gap", (c, float(v.numel()), v, s), is_coupled=True),) if is_plain else None

    def values(self, x: Tensor, c: Tensor, v: Tensor, s: Tensor) -> Tensor:  # type: ignore[override]
        bend = (v * s * torch.tanh(differences(x)[..., None] / s)).sum(-1)
        return c * x + bend.mean(-1)

    def first(  # type: ignore[override]
        self, x: Tensor, gaps: Tensor, c: Tensor, v: Tensor, s: Tensor
    ) -> Differential:
        """K_ij = c + (1/n) Σ_k h[t_i − t_k, t_j − t_k], C_ik = −h′(t_i − t_k)/n.

        tanh[x, y] = tanhc(x − y)(1 − tanh x tanh y), and x − y is t_i − t_j for every k, so the sum
        over k is a matrix product.
        """
        n = x.shape[-1]
        d = gaps[..., None, :, :] / s[:, None, None]
        v = v[:, None, None]
        T = torch.tanh(d)
        loewner = c + (v * divided.tanhc(d) * (1 - T @ T.mT / n)).sum(-3)
        coupling = -(v * (1 - T * T)).sum(-3) / n
        return Differential(loewner, coupling)

    def second(  # type: ignore[override]
        self, x: Tensor, gaps: Tensor, left: Tensor, right: Tensor, c: Tensor, v: Tensor, s: Tensor
    ) -> Tensor:
        """D²F[left, right], which is the gradient because F is one: see the sum in :func:`_bend`."""
        s = s[:, None, None]
        bent = _bend(gaps[..., None, :, :] / s, left[..., None, :, :], right[..., None, :, :])
        return (v[:, None, None] / s * bent).sum(-3)


def _bend(gaps: Tensor, A: Tensor, B: Tensor) -> Tensor:
    """The second derivative along A and B of (1/n) Tr₂ tanh(T⊗I − I⊗T) in the frame of T.

    Written out over h = tanh at the nodes t_ik = t_i − t_k, and symmetrised in A and B:

        Σ_kp h[t_ik, t_pk, t_jk] A_ip B_pj  −  Σ_k h[t_ik, t_jk, t_jk] A_ij B_kk
        −  Σ_k h[t_ik, t_ik, t_jk] A_kk B_ij  +  δ_ij Σ_kq h[t_ik, t_iq, t_ik] A_kq B_qk.

    With a = x − y, b = y − z, X = tanh x and so on, τ(d) = tanh(d)/d,

        tanh[x, y, z] = τ[a, −b](1 − YZ) − Y τ(a) τ(a + b)(1 − XZ),

    where a and b do not depend on k, so that every sum over k is a product with T_ik = tanh t_ik.
    """
    n = gaps.shape[-1]
    T = torch.tanh(gaps)
    tau = divided.tanhc(gaps)
    one_minus = n - T @ T.mT  # Σ_k (1 − T_ik T_jk)
    row_sum = T.sum(-1)

    slopes = divided.tanhc_difference(gaps, gaps)  # τ′, an odd function

    # x, y, z = t_ik, t_pk, t_jk: a = t_i − t_p, −b = t_j − t_p, and τ[a, −b] over a + b = t_i − t_j or,
    # for a gap below ∛eps, where that loses as much as this neglects, the mean of τ′ at its ends.
    close = gaps.abs() < torch.finfo(gaps.dtype).eps ** (1 / 3)
    tau_A, one_minus_B = tau * A, one_minus * B
    apart = (tau_A @ one_minus_B - A @ (tau * one_minus_B)) / torch.where(close, 1.0, gaps)
    together = ((slopes * A) @ one_minus_B + A @ (slopes.mT * one_minus_B)) / 2
    third = (tau_A * row_sum[..., None, :]) @ B
    for ps in slices(third):
        products = (T[..., :, None, :] * T[..., None, ps, :]) @ T.mT[..., None, :, :]  # i, p, j
        third = third - (products * tau_A[..., :, ps, None] * B[..., None, ps, :]).sum(-2)
    half = torch.where(close, together, apart) - tau * third
    total = half + half.mT

    # x, y, z = t_ik, t_jk, t_jk: a = t_i − t_j, b = 0
    slope_at_zero = divided.tanhc_difference(gaps, torch.zeros_like(gaps))
    squares = 1 - T * T
    for M, N in ((A, B), (B, A)):
        weights = N.diagonal(dim1=-2, dim2=-1)[..., None]
        flat = (squares @ weights).mT  # Σ_k (1 − T_jk²) N_kk
        odd = (T @ weights).mT - T @ (weights * (T * T).mT)  # Σ_k T_jk (1 − T_ik T_jk) N_kk
        weight = slope_at_zero * flat - tau * tau * odd
        total = total - (weight + weight.mT) * M

    # x, y, z = t_ik, t_iq, t_ik: a = t_q − t_k, b = −a
    product = A * B
    bent = product * slopes.mT
    even = bent.sum((-2, -1))[..., None] - ((T @ bent) * T).sum(-1)
    odd = ((squares @ (product * tau)) * T).sum(-1)
    return (total + 2 * torch.diag_embed(even - odd)) / n


GAP = Gap()


class InverseGap(SpectralMap):
    """The inverse of :class:`Gap`, with the same parameters."""

    n_parameters = 3
    increasing = True

    def values(self, x: Tensor, c: Tensor, v: Tensor, s: Tensor) -> Tensor:  # type: ignore[override]
        """The t with φ(t) = x.

        The equation is solved without derivatives. The two Newton steps that follow polish the last
        digits and carry the implicit derivatives: exact in the first and the second order.
        """
        t = _solve_gap(x.detach(), c.detach(), v.detach(), s.detach())
        for _ in range(2):
            t = t - _newton_step(t, x, c, v, s)[0]
        return t

    def first(  # type: ignore[override]
        self, x: Tensor, gaps: Tensor, c: Tensor, v: Tensor, s: Tensor
    ) -> Differential:
        return self._invert(self._forward(x, c, v, s)[2])

    def second(  # type: ignore[override]
        self, x: Tensor, gaps: Tensor, left: Tensor, right: Tensor, c: Tensor, v: Tensor, s: Tensor
    ) -> Tensor:
        """−DΨ[D²Φ[DΨ left, DΨ right]] for Ψ = Φ⁻¹; both are self-adjoint."""
        t, t_gaps, forward = self._forward(x, c, v, s)
        bent = GAP.second(t, t_gaps, forward.solve(left), forward.solve(right), c, v, s)
        return -forward.solve(bent)

    def _forward(self, x: Tensor, c: Tensor, v: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Differential]:
        t = self.values(x, c, v, s)
        t_gaps = differences(t)
        return t, t_gaps, GAP.first(t, t_gaps, c, v, s)

    @staticmethod
    def _invert(forward: Differential) -> Differential:
        loewner = 1 / forward.loewner
        own = torch.diag_embed(loewner.diagonal(dim1=-2, dim2=-1))
        return Differential(loewner, torch.linalg.inv(forward.diagonal_block()) - own)


def _newton_step(t: Tensor, x: Tensor, c: Tensor, v: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """J(t)⁻¹(φ(t) − x) and the residual φ(t) − x."""
    residual = GAP.values(t, c, v, s) - x
    gaps = differences(t)
    J = GAP.first(t, gaps, c, v, s).diagonal_block()
    return torch.linalg.solve(J, residual[..., None])[..., 0], residual


_MAX_NEWTON_STEPS = 60


@opaque("alem::solve_gap")
def _solve_gap(x: Tensor, c: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """Newton's method with a line search for φ(t) = x, to √eps of the largest |x|.

    φ is the gradient of a strongly convex function, so the Newton direction always shortens the
    residual and the search always ends. An opaque operator: the number of steps depends on the
    data. It raises ConvergenceError on the CPU; elsewhere what did not converge becomes NaN.
    """
    tolerance = torch.finfo(x.dtype).eps ** 0.5 * x.abs().amax(-1, keepdim=True)
    # The mean is known. tanh is concave where it is positive, so Newton's method does not overshoot from
    # where gaps are smaller than they will be: those of the steepest φ there is.
    mean = x.mean(-1, keepdim=True)
    t = mean / c + (x - mean) / (c + v.clamp(min=0).sum())
    for _ in range(_MAX_NEWTON_STEPS):
        step, residual = _newton_step(t, x, c, v, s)
        if can_inspect(x) and bool((residual.abs() <= tolerance).all()):
            break
        trials = torch.stack([t - 0.5**k * step for k in range(8)])
        errors = (GAP.values(trials, c, v, s) - x).norm(dim=-1)
        best = errors.argmin(0)[None, ..., None].expand(1, *t.shape)
        t = torch.gather(trials, 0, best)[0]
    residual = GAP.values(t, c, v, s) - x
    # For parameters out of bounds φ may have other roots, but none that keeps the order.
    ordered = t[..., 1:] - t[..., :-1] >= -tolerance
    failed = ~((residual.abs() <= tolerance).all(-1) & ordered.all(-1))
    if can_inspect(x) and bool(failed.any()):
        index = worst_index(failed.to(x.dtype))
        raise ConvergenceError(
            f"the inverse of the gap map was not found for {matrix_name(index)} in {_MAX_NEWTON_STEPS} "
            f"steps: residual {float(residual[index].abs().max()):.3g}; are the matrix and the parameters "
            "finite, and is Σ min(v, 0) > −c?"
        )
    return torch.where(failed[..., None], torch.nan, t)


@_solve_gap.register_fake
def _(x: Tensor, c: Tensor, v: Tensor, s: Tensor) -> Tensor:
    return torch.empty_like(x)


@_solve_gap.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], *args: Tensor) -> tuple[Tensor, int]:
    x, c, v, s = (
        a.expand(info.batch_size, *a.shape) if d is None else a.movedim(d, 0)
        for a, d in zip(args, in_dims, strict=True)
    )
    if all(d is None for d in in_dims[1:]):
        return _solve_gap(x, *args[1:]), 0
    solved = [_solve_gap(*one) for one in zip(x, c, v, s, strict=True)]
    return torch.stack(solved), 0


RANK_INCREMENT = RankIncrement()
INVERSE_GAP = InverseGap()
