"""Functions of a spectrum as data: what they are, and how they change, in the eigenframe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from alem.linalg import divided
from alem.linalg.errors import can_inspect


@dataclass(frozen=True)
class Differential:
    """The derivative of a spectral map in the eigenframe: V ↦ K ⊙ V + diag(C diag V)."""

    loewner: Tensor
    coupling: Tensor | None = None

    def diagonal_block(self) -> Tensor:
        """J = diag(K_ii) + C, the Jacobian of φ."""
        own = torch.diag_embed(self.loewner.diagonal(dim1=-2, dim2=-1))
        return own if self.coupling is None else own + self.coupling

    def apply(self, V: Tensor) -> Tensor:
        """DF[V]."""
        return self._multiply(V, self.coupling)

    def adjoint(self, V: Tensor) -> Tensor:
        """DFᵀ[V], the transpose with respect to the Frobenius inner product."""
        return self._multiply(V, None if self.coupling is None else self.coupling.mT)

    def solve(self, V: Tensor) -> Tensor:
        """DF⁻¹[V]."""
        return self._divide(V, transpose=False)

    def solve_adjoint(self, V: Tensor) -> Tensor:
        """DF⁻ᵀ[V]."""
        return self._divide(V, transpose=True)

    def _multiply(self, V: Tensor, coupling: Tensor | None) -> Tensor:
        result = self.loewner * V
        if coupling is None:
            return result
        return result + torch.diag_embed(_matvec(coupling, V.diagonal(dim1=-2, dim2=-1)))

    def _divide(self, V: Tensor, transpose: bool) -> Tensor:
        if self.coupling is None:
            return V / self.loewner
        J = self.diagonal_block()
        diagonal = torch.linalg.solve(J.mT if transpose else J, V.diagonal(dim1=-2, dim2=-1)[..., None])
        on_diagonal = torch.eye(V.shape[-1], dtype=torch.bool, device=V.device)
        return torch.where(on_diagonal, diagonal, V / torch.where(on_diagonal, 1.0, self.loewner))


def _matvec(A: Tensor, x: Tensor) -> Tensor:
    return (A @ x[..., None])[..., 0]


class Stage(NamedTuple):
    """A map that the native library has too, by its name there, with its numbers in the order it takes."""

    name: str
    numbers: tuple[float | Tensor, ...] = ()
    is_coupled: bool = False  # whether its values depend on all eigenvalues


class SpectralMap(ABC):
    """φ on ordered spectra, as data: what :func:`spectral` needs to know of a function.

    ``x`` `(..., n)` holds the eigenvalues in ascending order and ``gaps`` `(..., n, n)` their
    differences x_i − x_j. The two are given separately because where x is itself the result of a
    function, the differences can be known to more digits than x holds.
    """

    n_parameters: int = 0
    positive: bool = False  # whether φ is defined on positive eigenvalues only
    increasing: bool = False  # whether φ keeps every spectrum in ascending order
    grows: bool = False  # whether φ of what a float holds may be more than it holds
    by_rank: bool = False  # whether φ_i depends on the rank i, not only on the set of eigenvalues

    @abstractmethod
    def values(self, x: Tensor, *parameters: Tensor) -> Tensor:
        """φ(x) `(..., n)`."""

    @abstractmethod
    def first(self, x: Tensor, gaps: Tensor, *parameters: Tensor) -> Differential:
        """The derivative of F in the eigenframe."""

    def second(self, x: Tensor, gaps: Tensor, left: Tensor, right: Tensor, *parameters: Tensor) -> Tensor:
        """The gradient in X of ⟨left, DF(X)[right]⟩, in the eigenframe; left and right symmetric.

        This general rule holds for separated eigenvalues. With N = [DF right, left] +
        [DFᵀ left, right], a skew matrix, it is N_ij/(x_i − x_j) off the diagonal and the plain
        derivative in x on it. Maps that are smooth at repeated eigenvalues override it.
        """
        differential = self.first(x, gaps, *parameters)
        turned = _commutator(differential.apply(right), left) + _commutator(
            differential.adjoint(left), right
        )

        def in_fixed_frame(y: Tensor) -> Tensor:
            # gaps + differences(y − x): at y = x the gaps to all their digits
            moved = self.first(y, gaps + differences(y - x), *parameters)
            return (left * moved.apply(right)).sum()

        diagonal = torch.func.grad(in_fixed_frame)(x)
        return turned * self.reciprocal_gaps(x, gaps) + torch.diag_embed(diagonal)

    def stages(self, n: int, *parameters: Tensor) -> tuple[Stage, ...] | None:
        """What this is to the native library for n eigenvalues, innermost first; None if not there."""
        return None

    def reciprocal_gaps(self, x: Tensor, gaps: Tensor) -> Tensor:
        """1/(x_i − x_j), and 0 where the two are equal."""
        tied = gaps == 0
        return torch.where(tied, 0.0, 1.0 / torch.where(tied, 1.0, gaps))


def _commutator(A: Tensor, B: Tensor) -> Tensor:
    return A @ B - B @ A


def differences(x: Tensor) -> Tensor:
    """x_i − x_j `(..., n, n)`."""
    return x[..., :, None] - x[..., None, :]


class ScalarMap(SpectralMap):
    """φ_i = f(x_i): one function applied to each eigenvalue. Exact at repeated eigenvalues."""

    @abstractmethod
    def divided(self, x: Tensor, y: Tensor, *parameters: Tensor) -> Tensor:
        """f[x, y]; f′(x) where x = y."""

    @abstractmethod
    def divided2(self, x: Tensor, y: Tensor, z: Tensor, *parameters: Tensor) -> Tensor:
        """f[x, y, z]."""

    @abstractmethod
    def width(self, x: Tensor, *parameters: Tensor) -> Tensor:
        """The scale `(..., n)` on which f bends at each x: closer eigenvalues count as a cluster."""

    def first(self, x: Tensor, gaps: Tensor, *parameters: Tensor) -> Differential:
        return Differential(self.divided(x[..., :, None], x[..., None, :], *parameters))

    def second(self, x: Tensor, gaps: Tensor, left: Tensor, right: Tensor, *parameters: Tensor) -> Tensor:
        """Σ_k f[x_i, x_k, x_j] (left_ik right_kj + right_ik left_kj).

        f[x, y, z] is a difference of first differences over a gap, so the sum is one of matrix
        products: over the gap between i and j or, where these are close, between j and k. What is left
        are the terms with i, j and k all close.
        """
        K = self.divided(x[..., :, None], x[..., None, :], *parameters)
        width = self.width(x, *parameters)
        width = divided.closeness(x.dtype) * torch.minimum(width[..., :, None], width[..., None, :])
        close = (gaps.abs() < width) | (gaps == 0)
        reciprocal = torch.where(close, 0.0, 1.0 / torch.where(close, 1.0, gaps))
        K_left, reciprocal_right = K * left, reciprocal * right
        apart = (K_left @ right - left @ (K * right)) * reciprocal
        together = K_left @ reciprocal_right - K * (left @ reciprocal_right)
        cluster = self._cluster(x, close, left, right, parameters)
        total = torch.where(close, together + cluster, apart)
        return total + total.mT

    def _cluster(
        self, x: Tensor, close: Tensor, left: Tensor, right: Tensor, parameters: tuple[Tensor, ...]
    ) -> Tensor:
        """Σ_k f[x_i, x_k, x_j] left_ik right_kj over the k close to j, for the i close to j."""
        right = close * right
        reach = int(close.sum(-1).max()) - 1 if can_inspect(close) and close.numel() else x.shape[-1]
        if 2 * reach + 1 < x.shape[-1]:
            return self._band(x, reach, left, right, parameters)
        total = torch.zeros_like(left * right)
        for ks in slices(total):
            weight = self.divided2(
                x[..., :, None, None], x[..., None, ks, None], x[..., None, None, :], *parameters
            )
            total = total + (weight * left[..., :, ks, None] * right[..., None, ks, :]).sum(-2)
        return total

    def _band(
        self, x: Tensor, reach: int, left: Tensor, right: Tensor, parameters: tuple[Tensor, ...]
    ) -> Tensor:
        """The same sum, over i and k within ``reach`` of j: in a sorted spectrum clusters are bands."""
        n = x.shape[-1]
        j = torch.arange(n, device=x.device)
        near = j[:, None] + torch.arange(-reach, reach + 1, device=x.device)
        inside = (near >= 0) & (near < n)
        near = near.clamp(0, n - 1)
        neighbours = x[..., near]
        # indices j, i, k
        weight = self.divided2(
            neighbours[..., :, None], neighbours[..., None, :], x[..., :, None, None], *parameters
        )
        left = left[..., near[:, :, None], near[:, None, :]]
        right = (right[..., near, j[:, None]] * inside)[..., None, :]
        sums = (weight * left * right).sum(-1) * inside
        total = torch.zeros(*sums.shape[:-1], n, dtype=sums.dtype, device=sums.device)
        return total.scatter_add(-1, near.expand(sums.shape), sums).mT


def slices(like: Tensor) -> list[slice]:
    """The indices 0 … n−1 of matrices `(..., n, n)` in runs, for sums whose terms are as large as they.

    All at once while that takes no more than 2²² numbers, else fewer: memory stays bounded, and a
    compiled graph of small matrices stays short.
    """
    n = like.shape[-1]
    run = max(1, 2**22 // max(1, like.numel()))
    return [slice(k, k + run) for k in range(0, n, run)]


class Chain(SpectralMap):
    """φ = outer ∘ inner; parameters are the inner's, then the outer's.

    The gaps handed to the outer map are inner[x_i, x_j]·(x_i − x_j), exact to rounding, not the
    differences of rounded values.
    """

    def __init__(self, outer: SpectralMap, inner: SpectralMap) -> None:
        if not Chain.possible(outer, inner):
            raise ValueError(f"{outer} goes by rank and {inner} does not keep the order of eigenvalues")
        self.outer, self.inner = outer, inner
        self.n_parameters = outer.n_parameters + inner.n_parameters
        self.positive = inner.positive
        self.increasing = outer.increasing and inner.increasing
        self.grows = outer.grows or inner.grows
        self.by_rank = outer.by_rank or inner.by_rank

    @staticmethod
    def possible(outer: SpectralMap, inner: SpectralMap) -> bool:
        """Whether one decomposition serves both: what goes by rank needs its values in order."""
        return inner.increasing or not outer.by_rank

    def _split(self, parameters: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        return parameters[: self.inner.n_parameters], parameters[self.inner.n_parameters :]

    def stages(self, n: int, *parameters: Tensor) -> tuple[Stage, ...] | None:
        p, q = self._split(parameters)
        inner, outer = self.inner.stages(n, *p), self.outer.stages(n, *q)
        if inner is None or outer is None:
            return None
        stages = inner + outer
        return stages if sum(stage.is_coupled for stage in stages) <= 1 else None  # it does one at most

    def values(self, x: Tensor, *parameters: Tensor) -> Tensor:
        p, q = self._split(parameters)
        return self.outer.values(self.inner.values(x, *p), *q)

    def _firsts(
        self, x: Tensor, gaps: Tensor, parameters: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor, Differential, Differential]:
        p, q = self._split(parameters)
        y = self.inner.values(x, *p)
        inner = self.inner.first(x, gaps, *p)
        inner_gaps = inner.loewner * gaps
        return y, inner_gaps, inner, self.outer.first(y, inner_gaps, *q)

    def first(self, x: Tensor, gaps: Tensor, *parameters: Tensor) -> Differential:
        _, _, inner, outer = self._firsts(x, gaps, parameters)
        loewner = outer.loewner * inner.loewner
        if inner.coupling is None and outer.coupling is None:
            return Differential(loewner)
        coupling = outer.diagonal_block() @ inner.diagonal_block()
        own = torch.diag_embed(loewner.diagonal(dim1=-2, dim2=-1))
        return Differential(loewner, coupling - own)

    def second(self, x: Tensor, gaps: Tensor, left: Tensor, right: Tensor, *parameters: Tensor) -> Tensor:
        p, q = self._split(parameters)
        y, inner_gaps, inner, outer = self._firsts(x, gaps, parameters)
        bent = self.outer.second(y, inner_gaps, left, inner.apply(right), *q)
        return inner.adjoint(bent) + self.inner.second(x, gaps, outer.adjoint(left), right, *p)
