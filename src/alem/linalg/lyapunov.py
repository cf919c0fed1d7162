"""The Lyapunov equation PX + XP = C with positive definite P.

It is the inverse of the differential of A ↦ A² at P. In the eigenframe of P it is a division,

    X = U (UᵀCU / (p_i + p_j)) Uᵀ,

which no tie of eigenvalues disturbs, and its derivative is again a Lyapunov equation,

    P dX + dX P = dC − dP X − X dP,

so that it is differentiable to any order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from alem.linalg.autograd import Function, apply
from alem.linalg.eigh import eigh
from alem.linalg.errors import can_inspect, require_positive, require_square
from alem.linalg.precision import full_precision
from alem.linalg.spectral import rotate
from alem.linalg.vectorize import symmetrize


@full_precision
def lyapunov(P: Tensor, C: Tensor, frame: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """The X with PX + XP = C, for symmetric positive definite P and any C.

    ``frame`` is the decomposition ``eigh(P)`` where it is known already; no gradient goes through
    it, and none is lost. Shapes: two of ``(..., n, n)``, broadcast, to ``(..., n, n)``.
    """
    require_square(P)
    P = symmetrize(P)
    p, U = eigh(P.detach()) if frame is None else frame
    if can_inspect(p):
        require_positive(p)
    shape = torch.broadcast_shapes(P.shape, C.shape)
    return apply(_Lyapunov, C.expand(shape), P.expand(shape), p.detach(), U.detach())


class _Lyapunov(Function):
    """X as a function of C and P, given the decomposition of P."""

    @staticmethod
    def forward(C: Tensor, P: Tensor, p: Tensor, U: Tensor) -> Tensor:
        return rotate(U, rotate(U.mT, C) / (p[..., :, None] + p[..., None, :]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:], output)
        ctx.save_for_forward(*inputs[1:], output)

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        P, p, U, X = ctx.saved_tensors
        B = apply(_Lyapunov, G, P, p, U)
        P_grad = -symmetrize(B @ X.mT + X.mT @ B) if ctx.needs_input_grad[1] else None
        return B, P_grad, None, None


class _LyapunovWithForwardMode(_Lyapunov):
    """The same with forward-mode differentiation, which Dynamo does not accept in a Function."""

    @staticmethod
    def jvp(ctx: Any, C_dot: Tensor | None, P_dot: Tensor | None, *_: None) -> Tensor:
        P, p, U, X = ctx.saved_tensors
        moved = torch.zeros_like(X) if C_dot is None else C_dot
        if P_dot is not None:
            moved = moved - P_dot @ X - X @ P_dot
        return apply(_Lyapunov, moved, P, p, U)


_Lyapunov.eager = _LyapunovWithForwardMode
