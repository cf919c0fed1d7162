"""W X Wᵀ for a batch of symmetric X and one W: the linear map of matrices that keeps them positive."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from alem.linalg.autograd import Function, apply
from alem.linalg.precision import HALVES, product_dtype
from alem.linalg.vectorize import symmetrize


def congruence(W: Tensor, X: Tensor) -> Tensor:
    """W X Wᵀ of symmetric X, symmetric to the last bit.

    Shapes: `(m, n)` and `(..., n, n)` to `(..., m, m)`. The gradient of W needs WX alone, which is kept: a
    product of n×n matrices less than by automatic differentiation. It is right for symmetric X only.

    Within autocast the products, those of the derivatives too, are made in its dtype, and the result is in
    float32: the one function here that autocast lowers.
    """
    dtype = product_dtype(X)
    if dtype != X.dtype:
        W, X = W.to(dtype), X.to(dtype)
    return apply(_Congruence, W, X)[0]


class _Congruence(Function):
    @staticmethod
    def forward(W: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
        WX = torch.matmul(W.expand(*X.shape[:-2], *W.shape), X)
        Y = WX @ W.mT
        return symmetrize(Y.float() if Y.dtype in HALVES else Y), WX

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, output[1])
        ctx.save_for_forward(*inputs, output[1])

    @staticmethod
    def backward(ctx: Any, G: Tensor | None, _: None) -> tuple[Tensor | None, Tensor | None]:
        if G is None:
            return None, None
        W, X, WX = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again, through all it depends on
            WX = W @ X
        W_grad = X_grad = None
        G = symmetrize(G).to(W.dtype)
        if ctx.needs_input_grad[0]:  # 2 Σ GWX over the batch, as one product
            W_grad = 2 * (G.flatten(0, -2).mT @ WX.flatten(0, -2))
        if ctx.needs_input_grad[1]:
            GW = G @ W
            X_grad = W.mT.expand(*GW.shape[:-2], *W.mT.shape) @ GW
        return W_grad, X_grad


class _CongruenceWithForwardMode(_Congruence):
    """The same with forward-mode differentiation, which Dynamo does not accept in a Function."""

    @staticmethod
    def jvp(ctx: Any, W_dot: Tensor | None, X_dot: Tensor | None) -> tuple[Tensor, None]:
        W, X, _ = ctx.saved_tensors
        WX = W @ X  # not the one that was kept, which depends on nothing
        Y_dot = torch.zeros((), dtype=W.dtype, device=W.device)
        if W_dot is not None:
            Y_dot = Y_dot + 2 * symmetrize(WX @ W_dot.mT)
        if X_dot is not None:
            Y_dot = Y_dot + symmetrize(W @ X_dot @ W.mT)
        return Y_dot, None


_Congruence.eager = _CongruenceWithForwardMode
