"""The Cholesky factor, its log-diagonal chart, and their differentials.

For ``X = LLᵀ``, L lower triangular with a positive diagonal, and symmetric V (Lin 2019,
"Riemannian geometry of symmetric positive definite matrices via Cholesky decomposition"):

    dL = L (L⁻¹ V L⁻ᵀ)_½,    dX = dL Lᵀ + L dLᵀ,

where ``(Y)_½`` is the lower triangle of Y with half its diagonal.
"""

from __future__ import annotations

import torch
from torch import Tensor

from alem.linalg import native
from alem.linalg.eigh import eigvalsh, native_prefers
from alem.linalg.errors import (
    NotPositiveDefiniteError,
    can_inspect,
    matrix_name,
    require_finite,
    require_in_range,
    require_square,
    worst_index,
)
from alem.linalg.precision import full_precision
from alem.linalg.vectorize import symmetrize


@full_precision
def cholesky(X: Tensor) -> Tensor:
    """The lower-triangular L with a positive diagonal and ``LLᵀ = X``, of ``(..., n, n)``.

    X is symmetrised first, so its gradient is symmetric. In eager mode on the CPU a matrix that
    has no factor raises ``NotPositiveDefiniteError``, and one that is not finite
    ``InvalidMatrixError``. On an accelerator, in a compiled graph and inside ``torch.func``
    transforms nothing is asked of the values: there the factor of such a matrix, and its
    gradient, are NaN.
    """
    require_square(X)
    S = symmetrize(X)
    L: Tensor
    L, info = torch.linalg.cholesky_ex(S)
    if can_inspect(L):
        _require_factor(S.detach(), L.detach(), info)
        return L
    # A product, not torch.where: its derivative is NaN too, where that of the other is zero.
    one = torch.ones_like(info, dtype=L.dtype)
    return L * one.masked_fill(info != 0, torch.nan)[..., None, None]


def try_cholesky(X: Tensor) -> tuple[Tensor, Tensor]:
    """The Cholesky factor, and an integer that is 0 where there is one: no exception, no synchronisation.

    Only the lower triangle is read; where there is no factor the result means nothing.
    Shapes: ``(..., n, n)`` to ``(..., n, n)`` and ``(...)``.
    """
    L, info = torch.linalg.cholesky_ex(X)
    return L, info


@full_precision
def is_positive_definite(X: Tensor) -> Tensor:
    """Whether ``(X + Xᵀ)/2`` has a finite Cholesky factor, the cheapest certificate there is.

    No gradient, no exception. Shapes: ``(..., n, n)`` to booleans ``(...)``.
    """
    require_square(X)
    return _is_factor(*torch.linalg.cholesky_ex(symmetrize(X.detach())))


def exceeds(X: Tensor, minimum: float) -> Tensor:
    """Whether all eigenvalues are greater than ``minimum``: whether X − minimum·I has a Cholesky factor.

    Only the lower triangle is read. No gradient, no exception.
    Shapes: ``(..., n, n)`` to booleans ``(...)``.
    """
    X = X.detach()
    if can_inspect(X) and native_prefers(X):
        return native.exceeds(X, minimum)
    lowered = X.clone()
    lowered.diagonal(dim1=-2, dim2=-1).sub_(minimum)
    return _is_factor(*torch.linalg.cholesky_ex(lowered))


@full_precision
def is_well_inside(X: Tensor) -> Tensor:
    """Whether a Cholesky factor proves all eigenvalues to be above n·eps·tr X, rounding of the largest.

    Only the lower triangle is read. No gradient, no exception.
    Shapes: ``(..., n, n)`` to booleans ``(...)``.
    """
    require_square(X)
    lowered = X.detach().clone()
    # The trace is at least the largest eigenvalue.
    trace = lowered.diagonal(dim1=-2, dim2=-1).sum(-1)
    margin = X.shape[-1] * torch.finfo(X.dtype).eps
    lowered.diagonal(dim1=-2, dim2=-1).sub_(margin * trace[..., None])
    return exceeds(lowered, 0.0) & (trace > 0)


@full_precision
def cholesky_log(X: Tensor) -> Tensor:
    """The log-Cholesky chart ``⌊L⌋ + diag(ln L_ii)`` of ``X = LLᵀ``, lower triangular.

    Shapes: SPD ``(..., n, n)`` to lower triangular ``(..., n, n)``.
    """
    L = cholesky(X)
    return _with_diagonal(L, _diagonal(L).log())


@full_precision
def cholesky_exp(Z: Tensor) -> Tensor:
    """The inverse of ``cholesky_log``: ``LLᵀ`` with ``L = ⌊Z⌋ + diag(exp Z_ii)``.

    The strictly upper part of ``Z`` is not read. Shapes: ``(..., n, n)`` to SPD ``(..., n, n)``.
    """
    require_square(Z)
    L = _with_diagonal(Z, _diagonal(Z).exp())
    return _in_range(symmetrize(L @ L.mT), Z)


@full_precision
def cholesky_pushforward(L: Tensor, V: Tensor) -> Tensor:
    """The differential of ``X ↦ L`` at ``X = LLᵀ`` along symmetric V: ``L (L⁻¹ V L⁻ᵀ)_½``.

    Shapes: two of ``(..., n, n)``, broadcast, to lower triangular ``(..., n, n)``.
    """
    return L @ _lower_half(whiten(L, V))


@full_precision
def cholesky_pullback(L: Tensor, W: Tensor) -> Tensor:
    """The inverse of ``cholesky_pushforward``: ``W Lᵀ + L Wᵀ`` for lower-triangular W.

    Shapes: two of ``(..., n, n)``, broadcast, to symmetric ``(..., n, n)``.
    """
    WL = W @ L.mT
    return WL + WL.mT


@full_precision
def cholesky_log_pushforward(X: Tensor, V: Tensor) -> Tensor:
    """The differential of ``cholesky_log`` at X along symmetric V: ``⌊dL⌋ + diag(dL_ii / L_ii)``.

    ``dL_ii / L_ii`` is half the diagonal of ``L⁻¹ V L⁻ᵀ``, with no division.
    Shapes: two of ``(..., n, n)``, broadcast, to lower triangular ``(..., n, n)``.
    """
    L = cholesky(X)
    half = _lower_half(whiten(L, V))
    return _with_diagonal(L @ half, _diagonal(half))


@full_precision
def cholesky_exp_pushforward(Z: Tensor, W: Tensor) -> Tensor:
    """The differential of ``cholesky_exp`` at Z along lower-triangular W: ``dL Lᵀ + L dLᵀ``.

    ``dL = ⌊W⌋ + diag(W_ii exp Z_ii)``; strictly upper parts are not read.
    Shapes: two of ``(..., n, n)``, broadcast, to symmetric ``(..., n, n)``.
    """
    require_square(Z)
    diagonal = _diagonal(Z).exp()
    L = _with_diagonal(Z, diagonal)
    return _in_range(cholesky_pullback(L, _with_diagonal(W, _diagonal(W) * diagonal)), Z, W)


@full_precision
def whiten(L: Tensor, Q: Tensor) -> Tensor:
    """``L⁻¹ Q L⁻ᵀ`` of symmetric Q, by two triangular solves: I where ``Q = LLᵀ``.

    Shapes: two of ``(..., n, n)``, broadcast, to symmetric ``(..., n, n)``.
    """
    require_square(Q)
    if Q.ndim > 2 and (L.ndim == 2 or L.shape[-3] == 1):
        # One L for all matrices of the last batch dimension: one system with many rows, many times faster.
        L = L if L.ndim == 2 else L.squeeze(-3)
        return symmetrize(_solve_rows(L, _solve_rows(L, Q).mT))
    half = torch.linalg.solve_triangular(L, Q, upper=False)
    return symmetrize(torch.linalg.solve_triangular(L, half.mT, upper=False))


def _solve_rows(L: Tensor, Q: Tensor) -> Tensor:
    """``Q_i L⁻ᵀ`` for L `(..., n, n)` and Q `(..., N, n, n)`."""
    rows = torch.linalg.solve_triangular(L.mT, Q.flatten(-3, -2), upper=True, left=False)
    return rows.unflatten(-2, Q.shape[-3:-1])


@full_precision
def unwhiten(L: Tensor, Y: Tensor) -> Tensor:
    """``L Y Lᵀ`` of symmetric Y, the inverse of ``whiten``.

    Shapes: two of ``(..., n, n)``, broadcast, to symmetric ``(..., n, n)``.
    """
    return _in_range(symmetrize(L @ Y @ L.mT), Y)


def _in_range(X: Tensor, *causes: Tensor) -> Tensor:
    """X itself, which the product that made it may have taken beyond the largest float."""
    if can_inspect(X):
        require_in_range(X.detach(), *(cause.detach() for cause in causes))
    return X


def _diagonal(X: Tensor) -> Tensor:
    return X.diagonal(dim1=-2, dim2=-1)


def _with_diagonal(Z: Tensor, diagonal: Tensor) -> Tensor:
    """The strict lower triangle of Z with the given diagonal."""
    return Z.tril(-1) + torch.diag_embed(diagonal)


def _lower_half(Y: Tensor) -> Tensor:
    """``(Y)_½``: the lower triangle with half the diagonal."""
    return _with_diagonal(Y, 0.5 * _diagonal(Y))


def _is_factor(L: Tensor, info: Tensor) -> Tensor:
    """Whether the factorisation succeeded and is finite.

    A non-finite entry (i, j) of a matrix reaches L_ii or stops the factorisation, so the diagonal
    tells, at the price of n looks instead of n².
    """
    return (info == 0) & _diagonal(L).isfinite().all(-1)


def _require_factor(S: Tensor, L: Tensor, info: Tensor) -> None:
    """Raise, naming the worst matrix, unless every symmetric S has got a finite factor L."""
    failed = ~_is_factor(L, info)
    if not failed.any():
        return
    require_finite(S)
    # In double precision, so that the message does not carry rounding of its own.
    eigenvalues = eigvalsh(S.double())
    index_ = worst_index((-eigenvalues[..., 0]).masked_fill(~failed, -torch.inf))
    smallest, largest = eigenvalues[index_][0].item(), eigenvalues[index_][-1].item()
    count = int(failed.sum())
    others = f" ({count} of {failed.numel()} fail)" if failed.numel() > 1 else ""
    raise NotPositiveDefiniteError(
        f"{matrix_name(index_)} of a batch of shape {tuple(S.shape)} is not positive definite in "
        f"{S.dtype}{others}: its eigenvalues run from {smallest:.3e} to {largest:.3e}; "
        "add eps·I (covariances: the loading or shrinkage of covariance()), or, if it should "
        "be definite, check that it is symmetric before it comes here",
        index_,
    )
