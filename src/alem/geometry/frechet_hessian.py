"""The inverse of the Hessian of a Fréchet mean, a linear operator on symmetric matrices.

In whitened coordinates, see :mod:`alem.geometry.frechet`,

    H[V] = Σ_i w_i U_i (Q_i ⊙ (U_iᵀ V U_i)) U_iᵀ,

self-adjoint and positive definite. It is applied by conjugate gradients: its matrix would have
(n(n+1)/2)² entries. U and Q `(..., N, n, n)` and w `(..., N)` are constants here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from alem import linalg
from alem.geometry.processes import total
from alem.linalg.autograd import Function, apply, opaque
from alem.linalg.errors import ConvergenceError
from alem.linalg.spectral import hadamard

# Of derivatives, and of the last Newton steps, which are small themselves.
_EXACT, _OF_A_STEP = 1e-14, 1e-9


def solve_hessian(g: Tensor, U: Tensor, Q: Tensor, w: Tensor, group: str = "") -> Tensor:
    """H⁻¹g `(..., n, n)` to 1e-9, differentiable in g only; the derivatives are H⁻¹ to 1e-14.

    ConvergenceError if not even to √eps; on an accelerator NaN.
    """
    return apply(_InverseHessian, g, U, Q, w, _OF_A_STEP, group)


_MAX_CONJUGATE_GRADIENTS = 200


def conjugate_gradients(
    g: Tensor, U: Tensor, Q: Tensor, w: Tensor, tolerance: float, group: str = ""
) -> tuple[Tensor, Tensor]:
    """H⁻¹g by conjugate gradients with H's diagonal as preconditioner, and the residual left.

    The residual is relative and in the norm of the preconditioner. On an accelerator the number of
    iterations is fixed, so that nothing waits for its values.
    """
    weight = w[..., None, None]
    squares = U * U
    # Symmetric to the last bit, as H[V] is: what is skew in the residual would never become less.
    diagonal = linalg.symmetrize(total((weight * (squares @ Q @ squares.mT)).sum(-3), group))
    g = linalg.symmetrize(g)

    def hessian(V: Tensor) -> Tensor:
        return total((weight * hadamard(U, Q, V.unsqueeze(-3))).sum(-3), group)

    def inner(A: Tensor, B: Tensor) -> Tensor:
        return (A * B).sum((-2, -1), keepdim=True)

    V, r = torch.zeros_like(g), g
    p = r / diagonal
    first = rest = inner(r, p)
    for _ in range(_MAX_CONJUGATE_GRADIENTS if g.device.type == "cpu" else 40):
        active = rest > tolerance**2 * first
        if g.device.type == "cpu" and not bool(active.any()):
            break
        Hp = hessian(p)
        step = torch.where(active, rest / inner(p, Hp), 0.0)
        V, r = V + step * p, r - step * Hp
        z = r / diagonal
        last, rest = rest, torch.where(active, inner(r, z), rest)
        p = z + torch.where(active, rest / last, 0.0) * p
    return V, torch.where(first == 0, 0.0, rest / first)[..., 0, 0].sqrt()


@opaque("alem::solve_frechet_hessian")
def _solve_hessian(g: Tensor, U: Tensor, Q: Tensor, w: Tensor, tolerance: float, group: str) -> Tensor:
    V, residual = conjugate_gradients(g, U, Q, w, tolerance, group)
    failed = ~(residual <= torch.finfo(g.dtype).eps ** 0.5)
    wrong = failed & g.isfinite().all(-1).all(-1)  # a gradient that was NaN before stays NaN
    if g.device.type == "cpu" and bool(wrong.any()):
        raise ConvergenceError(
            "the derivative of a Fréchet mean did not converge: relative residual "
            f"{float(residual[wrong].max()):.3g} after {_MAX_CONJUGATE_GRADIENTS} conjugate "
            "gradients; the matrices are too ill-conditioned, or too far apart"
        )
    return torch.where(failed[..., None, None], torch.nan, V).contiguous()


@_solve_hessian.register_fake
def _(g: Tensor, U: Tensor, Q: Tensor, w: Tensor, tolerance: float, group: str) -> Tensor:
    return g.new_empty(g.shape)


@_solve_hessian.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
    # What is not mapped broadcasts; only g must have the shape of the result.
    g, *rest = (a if d is None else a.movedim(d, 0) for a, d in zip(args, in_dims, strict=True))
    return _solve_hessian(g.expand(info.batch_size, *g.shape) if in_dims[0] is None else g, *rest), 0


class _InverseHessian(Function):
    """H⁻¹ applied to symmetric matrices; linear and self-adjoint, so that its derivative is itself."""

    @staticmethod
    def forward(g: Tensor, U: Tensor, Q: Tensor, w: Tensor, tolerance: float, group: str) -> Tensor:
        return _solve_hessian(linalg.symmetrize(g), U, Q, w, tolerance, group)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:4])
        ctx.save_for_forward(*inputs[1:4])
        ctx.group = inputs[5]

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        found = apply(_InverseHessian, G, *ctx.saved_tensors, _EXACT, ctx.group)
        return found, None, None, None, None, None


class _InverseHessianWithForwardMode(_InverseHessian):
    """The same with forward-mode differentiation, which Dynamo does not accept in a Function."""

    @staticmethod
    def jvp(ctx: Any, g_dot: Tensor, *_: None) -> Tensor:
        return apply(_InverseHessian, g_dot, *ctx.saved_tensors, _EXACT, ctx.group)


_InverseHessian.eager = _InverseHessianWithForwardMode
