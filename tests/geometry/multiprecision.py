"""Functions of symmetric matrices in 60 digits, and matrices of a given condition number."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import torch
from torch import Tensor

mpmath.mp.dps = 60
Matrix = mpmath.matrix


def exact(A: Tensor) -> Matrix:
    return mpmath.matrix(A.double().tolist())


def function(f: Callable[[mpmath.mpf], mpmath.mpf], A: Matrix) -> Matrix:
    """f of a symmetric matrix."""
    x, U = mpmath.eigsy((A + A.T) / 2)
    return U * mpmath.diag([f(e) for e in x]) * U.T


def trace(A: Matrix) -> mpmath.mpf:
    return sum(A[i, i] for i in range(A.rows))


def norm(A: Matrix) -> mpmath.mpf:
    return mpmath.sqrt(sum(e * e for e in A))


def relative_error(value: Tensor, reference: Matrix | mpmath.mpf) -> float:
    """Normwise for matrices."""
    if value.ndim:
        return float(norm(exact(value) - reference) / norm(reference))
    return float(abs(mpmath.mpf(value.item()) - reference) / abs(reference))


def conditioned(n: int, condition: float, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """An SPD matrix with that condition number and largest eigenvalue 1, in a random frame."""
    generator = torch.Generator().manual_seed(seed)
    U = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))[0]
    X = U @ torch.diag(condition ** -torch.linspace(0, 1, n, dtype=torch.float64)) @ U.mT
    return ((X + X.mT) / 2).to(dtype)


def symmetric(*size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(*size, size[-1], generator=generator, dtype=torch.float64)
    return (A + A.mT) / 2


# Condition numbers of P and Q, up to a product of 1e13.
CONDITIONS = [(1.0, 1.0), (10.0, 10.0), (1e3, 1e3), (1e6, 1e7), (1e1, 1e12), (1e12, 1e1), (1e13, 1.0)]
ACCURACY_CASES = [(torch.float64, c) for c in CONDITIONS] + [
    (torch.float32, c) for c in [(1.0, 1.0), (1e2, 1e2), (1e5, 1.0), (1.0, 1e5)]
]
CONSTANT = 16  # of eps·cond(P)·cond(Q); 6 was measured


def check_accuracy(metric, dtype, conditions, exact_log, exact_exp, tangent) -> None:
    """dist, log and exp of a metric against their exact counterparts, at three random pairs."""
    bound = CONSTANT * torch.finfo(dtype).eps * conditions[0] * conditions[1]
    for seed in range(3):
        P, Q = (conditioned(4, c, seed + 50 * i, dtype) for i, c in enumerate(conditions))
        if conditions == (1.0, 1.0):
            Q = 2 * Q  # at distance 0 there is no relative error
        distance, log = exact_log(P, Q)
        assert relative_error(metric.dist(P, Q), distance) <= bound
        assert relative_error(metric.log(P, Q), log) <= bound
        S = symmetric(4, seed=seed).to(dtype)
        V = tangent(P, S / S.norm())
        assert relative_error(metric.exp(P, V), exact_exp(P, V)) <= bound
