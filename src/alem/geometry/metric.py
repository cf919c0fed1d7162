"""The contract every geometry of SPD matrices keeps, and what follows from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from alem.geometry.blocks import Blocks, Moments
from alem.geometry.processes import Group, gather
from alem.linalg.errors import InvalidMatrixError, can_inspect, matrix_name, worst_index
from alem.linalg.precision import full_precision_methods
from alem.linalg.scalar import number_like


@full_precision_methods
class Metric(nn.Module, ABC):
    """A Riemannian metric on the symmetric positive definite matrices.

    Points P, Q, X are SPD matrices and tangent vectors V, W symmetric ones, `(..., n, n)`; leading
    dimensions broadcast, dtype and device are kept, everything is differentiable. A geometry states
    ``inner``, ``exp``, ``log``, ``transport``, ``mean`` and an orthonormal frame; the rest
    follows. It is a module because its parameters, if it has any, can be learned. Its public methods, and
    those of every subclass, compute with all digits of their arguments also within autocast.
    """

    is_flat: bool = False
    is_complete: bool = True  # whether every geodesic goes on forever, so that exp is onto
    has_group: bool = False  # whether compose, invert, scale, relative and place exist

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        full_precision_methods(cls)

    @abstractmethod
    def inner(self, P: Tensor, V: Tensor, W: Tensor) -> Tensor:
        """⟨V, W⟩_P `(...)`."""

    @abstractmethod
    def exp(self, P: Tensor, V: Tensor) -> Tensor:
        """The end at time 1 of the geodesic that leaves P with velocity V."""

    @abstractmethod
    def log(self, P: Tensor, Q: Tensor) -> Tensor:
        """The velocity at P of the geodesic that reaches Q at time 1."""

    @abstractmethod
    def transport(self, P: Tensor, Q: Tensor, V: Tensor) -> Tensor:
        """V carried parallel to itself along the geodesic from P to Q."""

    @abstractmethod
    def mean(self, X: Tensor, weights: Tensor | None = None) -> Tensor:
        """The Fréchet mean of X `(..., N, n, n)` over dimension −3: argmin_M Σ w_i d²(M, X_i).

        ``weights`` `(..., N)` are not negative and need not sum to one.
        """

    @abstractmethod
    def tangent_coordinates(self, P: Tensor, V: Tensor) -> Tensor:
        """V in an orthonormal frame at P: a vector `(..., n(n+1)/2)` whose length is ‖V‖_P."""

    @abstractmethod
    def tangent_vector(self, P: Tensor, v: Tensor) -> Tensor:
        """The tangent vector at P with such coordinates, the inverse of :meth:`tangent_coordinates`."""

    def shared_mean(self, X: Tensor, group: Group | None) -> Tensor:
        """The mean of the matrices X `(N, n, n)` of all processes of ``group``; of None of this one alone.

        N may differ, but each has one at least, and all run on processors of one kind: they have to take
        the same steps. The gradient of X is its share of that of the sum of all losses.
        """
        return self.mean(gather(X, group))

    def log_coordinates(self, P: Tensor, Q: Tensor) -> Tensor:
        """Log_P Q in the frame of :meth:`tangent_coordinates`: a vector whose length is d(P, Q)."""
        return self.tangent_coordinates(P, self.log(P, Q))

    def norm(self, P: Tensor, V: Tensor) -> Tensor:
        """‖V‖_P `(...)`; its gradient at V = 0 is zero."""
        return root(self.inner(P, V, V))

    def dist2(self, P: Tensor, Q: Tensor) -> Tensor:
        """The squared distance d²(P, Q) `(...)`."""
        V = self.log(P, Q)
        return self.inner(P, V, V)

    def dist(self, P: Tensor, Q: Tensor) -> Tensor:
        """The geodesic distance `(...)`; its gradient at P = Q is zero."""
        return root(self.dist2(P, Q))

    def geodesic(self, P: Tensor, Q: Tensor, t: float | Tensor) -> Tensor:
        """The point at time t of the geodesic with P at 0 and Q at 1; t broadcasts against `(...)`."""
        return self.exp(P, time_like(t, P) * self.log(P, Q))

    def bounded_exp(self, P: Tensor, V: Tensor, limit: float) -> Tensor:
        """Exp_P(V/(1 + ‖V‖_P/c)), less than c = ``limit`` away from P however long V is."""
        return self.exp(P, bounded(V, self.norm(P, V), limit))

    def variance(self, X: Tensor, mean: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """Σ w_i d²(M, X_i) / Σ w_i over dimension −3, M the Fréchet mean unless given `(..., n, n)`."""
        M = self.mean(X, weights) if mean is None else mean
        distances = self.dist2(M.unsqueeze(-3), X)
        return (normalized_weights(X, weights) * distances).sum(-1)

    def moments(self, blocks: Iterable[Any] | Blocks, dispersion: bool = True) -> Moments:
        """The Fréchet mean of more matrices than memory holds, their dispersion and total weight.

        ``blocks`` are tensors or arrays `(k, n, n)`, or pairs of them and weights `(k,)`. A flat metric
        goes through them once, in constant memory, and is exact; any other several times, so that they must
        be a list or something else that can be begun anew. Without ``dispersion`` its pass is saved.
        """
        raise NotImplementedError(f"{type(self).__name__} has no mean over blocks; average them in memory")

    def pairwise_dist2(self, X: Tensor, Y: Tensor) -> Tensor:
        """Squared distances `(..., N, M)` between the matrices of X `(..., N, n, n)` and of Y."""
        return self.dist2(X.unsqueeze(-3), Y.unsqueeze(-4))

    def pairwise_dist(self, X: Tensor, Y: Tensor) -> Tensor:
        """Distances `(..., N, M)` between the matrices of X `(..., N, n, n)` and of Y `(..., M, n, n)`."""
        return root(self.pairwise_dist2(X, Y))

    def compose(self, P: Tensor, Q: Tensor) -> Tensor:
        """The group product P ⊙ Q, where the metric has a group."""
        raise NotImplementedError(self._no_group())

    def invert(self, P: Tensor) -> Tensor:
        """The group inverse of P, where the metric has a group."""
        raise NotImplementedError(self._no_group())

    def scale(self, P: Tensor, k: float | Tensor) -> Tensor:
        """k ⊛ P, the point k times as far from the identity; k broadcasts against `(...)`."""
        raise NotImplementedError(self._no_group())

    def relative(self, P: Tensor, Q: Tensor) -> Tensor:
        """Q as seen from P: Log_I(P⁻¹ ⊙ Q), a matrix whose Frobenius norm is d(P, Q)."""
        raise NotImplementedError(self._no_group())

    def place(self, P: Tensor, T: Tensor) -> Tensor:
        """P ⊙ Exp_I(T), the inverse of :meth:`relative`: the Q that is at T as seen from P."""
        raise NotImplementedError(self._no_group())

    def _no_group(self) -> str:
        return f"{type(self).__name__} has no group of SPD matrices that its distances respect"


def root(x: Tensor) -> Tensor:
    """√x with gradient 0 where x is 0, or negative by rounding: the distance of a point to itself."""
    zero = x <= 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, x).sqrt())


def bounded(V: Tensor, length: Tensor, limit: float) -> Tensor:
    """V/(1 + length/limit), for lengths `(...)` of the tangent vectors V."""
    return V * (limit / (limit + length))[..., None, None]


def time_like(t: float | Tensor, P: Tensor) -> Tensor:
    """A number or tensor `(...)` as a factor of matrices `(..., n, n)`, in the dtype of P."""
    return number_like(t, P)[..., None, None]


def normalized_weights(X: Tensor, weights: Tensor | None) -> Tensor:
    """Weights `(..., N)` that sum to one over the matrices of X `(..., N, n, n)`."""
    if X.ndim < 3 or X.shape[-3] == 0:
        raise InvalidMatrixError(f"expected matrices (..., N, n, n) to average, got shape {tuple(X.shape)}")
    if weights is None:
        return X.new_full(X.shape[:-2], 1.0 / X.shape[-3])
    if can_inspect(weights):
        _require_weights(weights.detach())
    weights = weights.to(X.dtype).expand(*torch.broadcast_shapes(weights.shape, X.shape[:-2]))
    return weights / weights.sum(-1, keepdim=True)


def _require_weights(w: Tensor) -> None:
    bad = ~((w >= 0) & w.isfinite()).all(-1) | (w.sum(-1) <= 0)
    if bool(bad.any()):
        index = worst_index(bad.double())
        which = matrix_name(index).replace("matrix", "mean")
        raise InvalidMatrixError(
            f"the weights of {which} are {w[index].tolist()}; they must be finite, not negative and not "
            "all zero",
            index,
        )
