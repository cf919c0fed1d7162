"""The paper's adaptive logarithm, as published: a chart only while its multipliers are equal."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor, nn

from alem import linalg
from alem.geometry.diffeo import Diffeo, SpectralChart, SpectralFunction
from alem.linalg import Chain
from alem.linalg.errors import InvalidMatrixError, can_inspect

# e as a parameter in single precision stores it; it counts as e, so that the start is exact.
SINGLE_E = float(torch.tensor(math.e, dtype=torch.float32))


class NotADiffeomorphismWarning(UserWarning):
    """An inverse was asked for that does not exist; the paper's formula was computed instead."""


class RankLog(SpectralChart):
    """The paper's logarithm U diag(A_i ln σ_i) Uᵀ, a multiplier for each rank of the spectrum.

    The one parameter `(n,)` is A for ``rule="mul"``, B = 1/A for ``"div"``, the base α = exp(1/A) for
    ``"relu"`` and ln A for ``"exp"``; each starts at the natural logarithm, A = 1.

    **Not a diffeomorphism** unless all A_i are equal, and then it is a multiple of the natural
    logarithm. For unequal A_i it jumps where eigenvalues meet, takes some pairs of matrices to one,
    and misses others. :meth:`branch` remembers the order of A_i ln σ_i, with which ``unchart`` finds
    the way back; without it ``unchart`` is the paper's formula, exact where :meth:`in_chart`
    says so. ``log`` and ``transport`` use the differential at a point, which is singular where two of the
    A_i ln σ_i meet. ``ties`` is the derivative's policy at repeated eigenvalues: see
    :class:`alem.linalg.RankScale`.

    What the paper leaves open: the base of ``"relu"`` is max(10⁻⁶, α), and 1 + 10⁻⁶ where that is
    exactly 1; signs of A and B are free; a multiplier that is zero or not finite is an error.
    """

    RULES = ("mul", "div", "relu", "exp")
    SMALLEST_BASE = 1e-6

    def __init__(self, n: int, rule: str = "mul", ties: str = "broadened") -> None:
        super().__init__()
        if rule not in self.RULES:
            raise ValueError(f"rule must be one of {', '.join(self.RULES)}, got {rule!r}")
        start = {"mul": 1.0, "div": 1.0, "relu": math.e, "exp": 0.0}[rule]
        self.n, self.rule, self.ties = n, rule, ties
        self.weight = nn.Parameter(torch.full((n,), start))
        self._log = Chain(linalg.RankScale(ties, of_logarithms=True), linalg.LOG)
        self._scale = linalg.RankScale(ties)
        self._exp = Chain(linalg.EXP, self._scale)
        self._warned = False

    def extra_repr(self) -> str:
        return f"n={self.weight.numel()}, rule={self.rule!r}, ties={self.ties!r}"

    def multipliers(self) -> Tensor:
        """A `(n,)`: φ_i = A_i ln σ_i."""
        A = self._multipliers()
        values = A.tolist() if can_inspect(A) else []
        if not (all(values) and math.isfinite(sum(values))):  # a NaN is not zero, and the sum shows it
            worst = next((i for i, a in enumerate(values) if not math.isfinite(a) or a == 0), None)
            if worst is None:  # all are well, and their sum is beyond floats
                return A
            value, weight = values[worst], float(self.weight.detach()[worst])
            raise InvalidMatrixError(
                f"multiplier {worst} of the adaptive logarithm is {value} (rule {self.rule!r}, parameter "
                f"{weight}): no logarithm has it; lower the metric's learning rate, or use rule='exp', "
                "which cannot get there"
            )
        return A

    def _multipliers(self) -> Tensor:
        weight = self.weight.double()
        if self.rule == "mul":
            return weight
        if self.rule == "div":
            return 1 / weight
        if self.rule == "exp":
            return weight.exp()
        base = weight.clamp(min=self.SMALLEST_BASE)
        log = torch.where(base == 1, 1 + self.SMALLEST_BASE, base).log()
        return 1 / torch.where(base == SINGLE_E, 1 + (log - log.detach()), log)

    @property
    def is_diffeo(self) -> bool:
        A = self.multipliers().detach()
        return bool((A[0] == A).all())

    def is_same(self, other: Diffeo) -> bool:
        return False  # with unequal multipliers it is not the inverse of its inverse

    def function(self) -> SpectralFunction:
        return self._log, (self.multipliers(),)

    def inverse(self, branch: Tensor | None = None) -> SpectralFunction:
        A = self.multipliers()
        return self._exp, (1 / (A if branch is None else A[branch]),)

    def branch(self, P: Tensor) -> Tensor:
        """The ranks in ascending order of A_i ln σ_i `(..., n)`."""
        with torch.no_grad():
            t = linalg.eigvalsh(linalg.symmetrize(P)).log()
            return torch.argsort(self._multipliers() * t, dim=-1, stable=True)

    def keep(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The natural logarithm T of ``unchart(X)``, and the rank in X of each eigenvalue of T `(..., n)`.

        The logarithm, because double precision need not hold the point itself as positive definite.
        """
        A = self.multipliers()
        T = linalg.spectral(X, *self._at(X, (self._scale, (1 / A,))))
        with torch.no_grad():
            return T, torch.argsort(linalg.eigvalsh(linalg.symmetrize(X)) / A, dim=-1, stable=True)

    def recall(self, P: Tensor, beside: Tensor | None = None) -> Tensor:
        A = self.multipliers()
        return linalg.spectral(P, *self._at(P, (self._scale, (A if beside is None else A[beside],))))

    def in_chart(self, X: Tensor, branch: Tensor | None = None) -> Tensor:
        """Whether the eigenvalues that ``unchart`` gives X come out in the order of their ranks."""
        with torch.no_grad():
            A = self._multipliers()
            order = torch.arange(A.numel(), device=A.device) if branch is None else branch
            order = order.expand(X.shape[:-1])
            t = linalg.eigvalsh(linalg.symmetrize(X)) / A[order]
            by_rank = torch.empty_like(t).scatter(-1, order, t)
            return (A[torch.argsort(by_rank, dim=-1, stable=True)] == A).all(-1)

    def unchart(self, X: Tensor, branch: Tensor | None = None) -> Tensor:
        self.warn_unless_exact(X, branch)
        return super().unchart(X, branch)

    def pullback(self, X: Tensor, W: Tensor) -> Tensor:
        self.warn_unless_exact(X)
        return super().pullback(X, W)

    def warn_unless_exact(self, X: Tensor, branch: Tensor | None = None) -> None:
        """Warn once of ``unchart(X)``, and only where looking at values is free: eager mode on the CPU."""
        if self._warned or not can_inspect(X) or self.is_diffeo:
            return
        outside = int((~self.in_chart(X, branch)).sum())
        if branch is not None and not outside:
            return
        warnings.warn(
            "the adaptive logarithm with unequal multipliers is not one-to-one: what follows is the "
            f"paper's formula, not an inverse, and for {outside} of {X.shape[:-2].numel()} matrices none "
            "exists; 'sinh', 'rank' and 'gap' are adaptive metrics with true inverses",
            NotADiffeomorphismWarning,
            stacklevel=3,
        )
        self._warned = True  # not reached where the warning is turned into an error
