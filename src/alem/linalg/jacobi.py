"""Jacobi's eigenvalue iteration: slow, simple, and convergent where faster methods may fail."""

from __future__ import annotations

import torch
from torch import Tensor

_SWEEPS = 60  # they converge quadratically; ten are many


def jacobi(X: Tensor) -> tuple[Tensor, Tensor] | None:
    """Ascending eigenvalues `(n,)` and eigenvectors of a finite symmetric X `(n, n)`; None if it fails.

    Cyclic by rows (Golub, Van Loan, "Matrix Computations", 8.5), in double precision, scaled by the largest
    entry. Only the lower triangle is read.
    """
    n = X.shape[-1]
    A = X.double().tril()
    A = A + A.tril(-1).mT
    scale = A.abs().amax() if n else A.new_ones(())
    A = A / scale if bool(scale > 0) else A
    U = torch.eye(n, dtype=A.dtype)
    for _ in range(_SWEEPS):
        off = (A - A.diagonal().diag()).norm()
        if bool(off <= 1e-16 * A.norm()) or n < 2:
            values, order = (scale * A.diagonal()).sort()
            return values.to(X.dtype), U[:, order].to(X.dtype)
        for p in range(n - 1):
            for q in range(p + 1, n):
                a = float(A[p, q])
                if a == 0.0:
                    continue
                theta = (float(A[q, q]) - float(A[p, p])) / (2 * a)
                t = (1.0 if theta >= 0 else -1.0) / (abs(theta) + (theta * theta + 1) ** 0.5)
                c = 1 / (t * t + 1) ** 0.5
                J = torch.tensor([[c, t * c], [-t * c, c]], dtype=A.dtype)
                pair = [p, q]
                A[:, pair] = A[:, pair] @ J
                A[pair] = J.mT @ A[pair]
                A[p, q] = A[q, p] = 0.0
                U[:, pair] = U[:, pair] @ J
    return None
