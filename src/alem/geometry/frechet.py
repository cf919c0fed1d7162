"""The Fréchet mean of a metric without a closed form, by Newton's method, differentiated implicitly.

Let M = RRᵀ. In coordinates whitened by R, a point near M is R e^V Rᵀ, the mean of X_1 … X_N makes

    g = Σ_i w_i φ(Y_i) − S

vanish, Y_i = U_i diag(y_i) U_iᵀ being X_i in those coordinates, and minus the derivative of g in V is

    H[V] = Σ_i w_i U_i (Q_i ⊙ (U_iᵀ V U_i)) U_iᵀ,

self-adjoint and positive definite. φ, S and Q are what a metric states: an :class:`Equation`.

The solver is opaque to autograd. Two Newton steps with H held fixed follow it in ordinary,
differentiable operations: the first carries the exact first derivative of the mean in X and w. At
its result the first derivative of g is zero, and so the second step carries the second derivative.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from alem import linalg
from alem.geometry.frechet_hessian import conjugate_gradients, solve_hessian
from alem.geometry.metric import normalized_weights
from alem.geometry.processes import maximum, replicated, total
from alem.linalg.autograd import opaque
from alem.linalg.errors import (
    ConvergenceError,
    InvalidMatrixError,
    matrix_name,
    require_square,
    worst_index,
)


class Equation(ABC):
    """The equation of a Fréchet mean, in whitened coordinates.

    Where R becomes R e^{V/2}, Y becomes e^{±V/2} Y e^{±V/2}, with the sign ``sign``.
    """

    name: str
    phi: linalg.ScalarMap
    sign: float

    @abstractmethod
    def start(self, S: Tensor) -> Tensor:
        """A first estimate M `(..., n, n)` of the mean of X, from S = Σ w_i φ(X_i)."""

    @abstractmethod
    def root(self, M: Tensor) -> Tensor:
        """An R with RRᵀ = M, and RᵀR diagonal where :meth:`offset` is not None."""

    @abstractmethod
    def whiten(self, R: Tensor, X: Tensor) -> Tensor:
        """The Y of X; both broadcast."""

    @abstractmethod
    def curvature(self, y: Tensor) -> Tensor:
        """Q `(..., n, n)` from the eigenvalues y `(..., n)` of Y."""

    @abstractmethod
    def objective(self, y: Tensor, w: Tensor) -> Tensor:
        """What Σ_i w_i d²(M, X_i), up to constants and factors, has beside the sum of :meth:`offset`.

        The gradient of both together is −g.
        """

    @abstractmethod
    def descend(self, R: Tensor, g: Tensor, Q: Tensor) -> Tensor:
        """A better estimate than RRᵀ, however far the mean: a step of a fixed-point iteration."""

    @abstractmethod
    def offset(self, R: Tensor) -> Tensor | None:
        """The diagonal `(..., n)` of S at V = 0, or None where S = 0 throughout."""


EQUATIONS: dict[str, Equation] = {}


def register(equation: Equation) -> Equation:
    """Make an equation known to the solver, which finds it by its name."""
    EQUATIONS[equation.name] = equation
    return equation


def frechet_mean(equation: Equation, X: Tensor, weights: Tensor | None = None, group: str = "") -> Tensor:
    """argmin_M Σ_i w_i d²(M, X_i) over dimension −3.

    Computed in double precision: until the Newton decrement ⟨g, H⁻¹g⟩^½, the distance to the mean
    in the norm of the Hessian, is at most √eps = 1.5e-8, or 100·eps·cond(M) for cond(M) > 7e5, but
    never above 1e-3; times (tr M)^½ where the metric has a scale. The two differentiable steps then
    square that error twice. ConvergenceError where it is not reached; on an accelerator NaN.

    With ``group`` the X of all its processes have one mean, and what is summed over matrices is summed
    over them; see :mod:`alem.geometry.processes`. There are no weights then.

    Shapes: SPD `(..., N, n, n)` and weights `(..., N)`, broadcast, to `(..., n, n)`.
    """
    require_square(X)
    Y = X.double()
    w = normalized_weights(Y, weights)
    if group:
        assert weights is None
        of_all = total(w.new_full((), X.shape[-3]), group)
        w = w * (X.shape[-3] / of_all)
    Y = Y.expand(*w.shape, *X.shape[-2:])
    R, U, Q = _solve(Y.detach(), w.detach(), equation.name, group)
    frozen = (U, Q, w.detach(), group)

    Y = equation.whiten(R.unsqueeze(-3), Y)
    offset = equation.offset(R)
    S = None if offset is None else torch.diag_embed(offset)
    V = solve_hessian(_residual(equation, Y, w, S, group), *frozen)
    # V is at most 1e-8: to fourth order these are e^{V/2} and, for Y, e^{±V/2}.
    half = _half_exp(V)
    side = _half_exp(equation.sign * replicated(V, group)).unsqueeze(-3)
    S = None if S is None else half @ S @ half
    g = _residual(equation, side @ Y @ side, w, S, group)
    V = solve_hessian(g, *frozen)
    M = linalg.unwhiten(R @ half, torch.eye(V.shape[-1], dtype=V.dtype, device=V.device) + V)
    return replicated(M, group).to(X.dtype)


def _residual(equation: Equation, Y: Tensor, w: Tensor, S: Tensor | None, group: str) -> Tensor:
    g = total((w[..., None, None] * linalg.spectral(Y, equation.phi)).sum(-3), group)
    return g if S is None else g - S


def _half_exp(V: Tensor) -> Tensor:
    return torch.eye(V.shape[-1], dtype=V.dtype, device=V.device) + V / 2 + V @ V / 8


# --- the solver ----------------------------------------------------------------------------------

# Data take 2 to 6 evaluations, matrices of condition 1e6 that point every way up to 15.
MAX_EVALUATIONS = 100
# A Newton step squares the error, at best, so more than four digits of it are not worth having.
_LOOSE = 1e-4
# Beyond e⁴ the Hessian says nothing about the objective.
_LONGEST_STEP = 4.0
# No mean is worth returning with an error of a thousandth.
_LOOSEST = 1e-3
# Armijo's condition: the share of the decrease that the gradient promises which must be kept.
_SUFFICIENT = 1e-4


@opaque("alem::solve_frechet")
def _solve(X: Tensor, w: Tensor, name: str, group: str) -> tuple[Tensor, Tensor, Tensor]:
    """R with RRᵀ the mean, and the U and Q of the Hessian there."""
    equation = EQUATIONS[name]
    S = total((w[..., None, None] * linalg.spectral(X, equation.phi)).sum(-3), group)
    R = equation.root(equation.start(S))
    at = newton(equation, R, lambda R: _evaluate(equation, R, X, w, group), MAX_EVALUATIONS)
    failed = ~(at.decrement2 <= at.tolerance2)
    if X.device.type == "cpu" and bool(failed.any()):
        index = worst_index(failed.to(X.dtype))
        decrement, wanted = (float(a[index]) ** 0.5 for a in (at.decrement2, at.tolerance2))
        raise ConvergenceError(
            f"the {name} mean of {matrix_name(index).replace('matrix', 'set')} did not converge in "
            f"{MAX_EVALUATIONS} evaluations: Newton decrement {decrement:.2g}, wanted {wanted:.2g}; "
            "its matrices are too ill-conditioned, or too far apart, for double precision"
        )
    R = torch.where(failed[..., None, None], torch.nan, at.R)
    # contiguous, as the fake says: a compiled graph relies on the strides
    return R.contiguous(), at.U.contiguous(), at.Q.contiguous()


def newton(equation: Equation, R: Tensor, evaluate: Callable[[Tensor], State], evaluations: int) -> State:
    """A Newton step is kept where it lowers the objective or halves the decrement.

    Where it does not, the next trial is a step of the metric's own fixed-point iteration.
    """
    try:
        return _newton(equation, R, evaluate, evaluations)
    except InvalidMatrixError as error:
        raise ConvergenceError(
            f"the {equation.name} mean did not converge: the iteration left the positive definite "
            "matrices; they are too ill-conditioned, or too far apart, for double precision"
        ) from error


def _newton(equation: Equation, R: Tensor, evaluate: Callable[[Tensor], State], evaluations: int) -> State:
    at = evaluate(R)
    newton = torch.ones_like(at.objective, dtype=torch.bool)
    for _ in range(evaluations):
        converged = at.decrement2 <= at.tolerance2
        if bool(converged.all()):
            break
        step = linalg.unwhiten(at.R, linalg.exp(at.V))
        if not bool(newton.all()):
            step = _where(newton, step, equation.descend(at.R, at.g, at.Q))
        trial = evaluate(equation.root(step))
        lower = trial.objective <= at.objective - _SUFFICIENT * newton * at.decrement2
        closer = newton & (trial.decrement2 < at.decrement2 / 4)
        keep = (lower | closer) & ~converged
        newton = keep | ~newton
        at = State(*(_where(keep, new, old) for new, old in zip(trial, at, strict=True)))
    return at


class State(NamedTuple):
    """An estimate RRᵀ and what is known there."""

    R: Tensor
    g: Tensor
    V: Tensor  # the Newton step H⁻¹g
    U: Tensor
    Q: Tensor
    objective: Tensor
    decrement2: Tensor  # ⟨g, V⟩, the square of the Newton decrement
    tolerance2: Tensor


def _evaluate(equation: Equation, R: Tensor, X: Tensor, w: Tensor, group: str) -> State:
    sums, U, Q = residual(equation, R, X, w, group)
    V = newton_step(sums.g, U, Q, w, group)
    tolerance2 = tolerance(equation, R, sums.rounding2, torch.finfo(R.dtype).eps)
    return State(R, sums.g, V, U, Q, sums.objective, (sums.g * V).sum((-2, -1)), tolerance2)


class Residual(NamedTuple):
    """What matrices say of an estimate; that of all is the weighted mean of that of the parts."""

    g: Tensor
    objective: Tensor
    rounding2: Tensor  # of all, the largest


def residual(
    equation: Equation, R: Tensor, X: Tensor, w: Tensor, group: str = ""
) -> tuple[Residual, Tensor, Tensor]:
    """The residual at RRᵀ, and the U and Q of the Hessian."""
    y, U = linalg.eigh(equation.whiten(R.unsqueeze(-3), X))
    g = total((w[..., None, None] * ((U * equation.phi.values(y)[..., None, :]) @ U.mT)).sum(-3), group)
    offset = equation.offset(R)
    if offset is None:
        rounding2 = _rounding2(y)
    else:
        g, rounding2 = g - torch.diag_embed(offset), _rounding2_of_roots(y, offset)
    objective = total(equation.objective(y, w), group)
    objective = objective if offset is None else objective + offset.sum(-1)
    return Residual(g, objective, maximum(rounding2, group)), U, equation.curvature(y)


def newton_step(g: Tensor, U: Tensor, Q: Tensor, w: Tensor, group: str = "") -> Tensor:
    """H⁻¹g, no longer than a step may be."""
    V = torch.nan_to_num(conjugate_gradients(g, U, Q, w, _LOOSE, group)[0])
    return V / (V.norm(dim=(-2, -1), keepdim=True) / _LONGEST_STEP).clamp(min=1.0)


def tolerance(equation: Equation, R: Tensor, rounding2: Tensor, least2: float) -> Tensor:
    """The square of the decrement that is asked for: ``least2``, unless rounding is more.

    That is what a hundred roundings do to such a matrix, or one to the worst of those averaged.
    """
    m = linalg.eigvalsh(linalg.symmetrize(R.mT @ R))
    condition = (m[..., -1] / m[..., 0]).abs()
    hundred2 = (100 * torch.finfo(R.dtype).eps * condition).square().clamp(min=least2, max=_LOOSEST**2)
    offset = equation.offset(R)
    return hundred2.maximum(rounding2) * (1.0 if offset is None else offset.sum(-1))


def _rounding2(y: Tensor) -> Tensor:
    """The square of what one rounding does to the logarithm of the worst-conditioned Y."""
    condition = (y[..., -1] / y[..., 0]).abs().amax(-1)
    return (torch.finfo(y.dtype).eps * condition).square().clamp(max=_LOOSEST**2)


def _rounding2_of_roots(y: Tensor, scale: Tensor) -> Tensor:
    """The same for roots z = √y: eps·y_max/z_min at the least one, and a Hessian of about z_min there."""
    z = y.clamp(min=0).sqrt()
    least, largest = z[..., 0], z[..., -1]
    worst = (torch.finfo(y.dtype).eps * largest.square()).square() / least.pow(3)
    # A tenth: the gradient is less than the decrement says where z is small.
    return (worst.amax(-1) / scale.sum(-1)).clamp(max=(_LOOSEST / 10) ** 2)


def _where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``torch.where`` with a condition per batch element."""
    return torch.where(condition.reshape(condition.shape + (1,) * (a.ndim - condition.ndim)), a, b)


@_solve.register_fake
def _(X: Tensor, w: Tensor, name: str, group: str) -> tuple[Tensor, Tensor, Tensor]:
    *batch, _, n, _ = X.shape
    return X.new_empty(*batch, n, n), X.new_empty(X.shape), X.new_empty(X.shape)


@_solve.register_vmap
def _(
    info: Any, in_dims: tuple[int | None, ...], X: Tensor, w: Tensor, name: str, group: str
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    X, w = (
        a.expand(info.batch_size, *a.shape) if d is None else a.movedim(d, 0)
        for a, d in ((X, in_dims[0]), (w, in_dims[1]))
    )
    return _solve(X, w, name, group), (0, 0, 0)
