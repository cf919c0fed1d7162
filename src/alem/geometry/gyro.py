"""Gyrovector operations of any complete metric, from its exp, log and transport at the identity.

P ⊕ Q = Exp_P(Γ_{I→P}(Log_I Q)) and what follows from it (Nguyen and Yang 2023). On a flat metric
with a true chart ⊕ is the group's product and every gyration is the identity.
"""

from __future__ import annotations

import torch
from torch import Tensor

from alem.geometry.metric import Metric, root, time_like


def add(metric: Metric, P: Tensor, Q: Tensor) -> Tensor:
    """P ⊕ Q."""
    E = _identity(metric, P)
    return metric.exp(P, metric.transport(E, P, metric.log(E, Q)))


def negate(metric: Metric, P: Tensor) -> Tensor:
    """⊖P = Exp_I(−Log_I P)."""
    return scale(metric, P, -1.0)


def scale(metric: Metric, P: Tensor, t: float | Tensor) -> Tensor:
    """t ⊗ P = Exp_I(t Log_I P)."""
    E = _identity(metric, P)
    return metric.exp(E, time_like(t, P) * metric.log(E, P))


def gyration(metric: Metric, P: Tensor, Q: Tensor, R: Tensor) -> Tensor:
    """gyr[P, Q]R = ⊖(P ⊕ Q) ⊕ (P ⊕ (Q ⊕ R)): how far ⊕ is from associative."""
    whole = add(metric, P, add(metric, Q, R))
    return add(metric, negate(metric, add(metric, P, Q)), whole)


def inner(metric: Metric, P: Tensor, Q: Tensor) -> Tensor:
    """⟨P, Q⟩ = ⟨Log_I P, Log_I Q⟩_I `(...)`."""
    E = _identity(metric, P)
    return metric.inner(E, metric.log(E, P), metric.log(E, Q))


def norm(metric: Metric, P: Tensor) -> Tensor:
    """√⟨P, P⟩ `(...)`."""
    return root(inner(metric, P, P))


def dist(metric: Metric, P: Tensor, Q: Tensor) -> Tensor:
    """‖⊖P ⊕ Q‖ `(...)`."""
    return norm(metric, add(metric, negate(metric, P), Q))


def cosine(metric: Metric, P: Tensor, Q: Tensor, S: Tensor) -> Tensor:
    """cos ∠QPS = ⟨⊖P ⊕ Q, ⊖P ⊕ S⟩/(‖⊖P ⊕ Q‖ ‖⊖P ⊕ S‖) `(...)`, the angle at P."""
    minus_P = negate(metric, P)
    to_Q, to_S = add(metric, minus_P, Q), add(metric, minus_P, S)
    return inner(metric, to_Q, to_S) / (norm(metric, to_Q) * norm(metric, to_S))


def hyperplane(metric: Metric, S: Tensor, P: Tensor, A: Tensor) -> Tensor:
    """⟨Log_P S, A⟩_P `(...)`: zero on the hyperplane through P with normal A, signed off it."""
    _require_complete(metric)
    return metric.inner(P, metric.log(P, S), A)


def hyperplane_dist(metric: Metric, S: Tensor, P: Tensor, A: Tensor) -> Tensor:
    """The pseudo-distance of S to that hyperplane `(...)`.

    It is defined as sin ∠SPQ* · d(S, P) with Q* the point of the hyperplane in the direction nearest
    to S. Directions at P form a Euclidean space, so this is ``|⟨Log_P S, A⟩_P| / ‖A‖_P``.
    """
    return hyperplane(metric, S, P, A).abs() / metric.norm(P, A)


def _identity(metric: Metric, P: Tensor) -> Tensor:
    _require_complete(metric)
    return torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)


def _require_complete(metric: Metric) -> None:
    if not metric.is_complete:
        raise NotImplementedError(
            f"{type(metric).__name__} has no gyro operations: its exponential at the identity does not "
            "reach every matrix"
        )
