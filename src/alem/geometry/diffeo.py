"""Charts: maps from the SPD matrices to a flat space of matrices, with inverse and differentials."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from alem import linalg
from alem.linalg import Chain, InvalidMatrixError, SpectralMap
from alem.linalg.precision import full_precision_methods

SpectralFunction = tuple[SpectralMap, tuple[Tensor, ...]]


@full_precision_methods
class Diffeo(nn.Module, ABC):
    """A chart φ of the SPD matrices `(..., n, n)`.

    A chart states φ, its inverse and the two differentials. :meth:`jet` and :meth:`displacement` may
    be overridden where sharing work between them pays.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        full_precision_methods(cls)

    @abstractmethod
    def chart(self, P: Tensor) -> Tensor:
        """φ(P)."""

    @abstractmethod
    def unchart(self, X: Tensor, branch: Tensor | None = None) -> Tensor:
        """φ⁻¹(X). ``branch`` selects an inverse where φ is not one-to-one: see :meth:`branch`."""

    @abstractmethod
    def pushforward(self, P: Tensor, V: Tensor) -> Tensor:
        """The differential of φ at P along V."""

    @abstractmethod
    def pullback(self, X: Tensor, W: Tensor) -> Tensor:
        """The differential of φ⁻¹ at X along W."""

    def jet(self, P: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        """φ(P) and the differential of φ at P along V."""
        return self.chart(P), self.pushforward(P, V)

    def solve(self, P: Tensor, W: Tensor) -> Tensor:
        """The V that the differential of φ at P takes to W."""
        return self.pullback(self.chart(P), W)

    def displacement(self, P: Tensor, Y: Tensor) -> Tensor:
        """The V that the differential of φ at P takes to Y − φ(P)."""
        X = self.chart(P)
        return self.pullback(X, Y - X)

    @property
    def is_diffeo(self) -> bool:
        """Whether φ is one-to-one, onto, and bi-Lipschitz or better, with its present parameters."""
        return True

    def is_same(self, other: Diffeo) -> bool:
        """Whether ``chart(other.unchart(X)) = X`` for every X and however training goes on."""
        return other is self

    def in_chart(self, X: Tensor, branch: Tensor | None = None) -> Tensor:
        """Whether ``chart(unchart(X)) = X``, per matrix `(...)`."""
        return torch.ones(X.shape[:-2], dtype=torch.bool, device=X.device)

    def branch(self, P: Tensor) -> Tensor | None:
        """What :meth:`unchart` needs to know to find the way back to P; None for true charts."""
        return None

    def keep(self, X: Tensor) -> tuple[Tensor, Tensor | None]:
        """X as something that does not change with the parameters of φ, the point φ⁻¹(X); and None.

        Where φ is not one-to-one, a point is not enough, and what is needed beside it takes the place of
        None. :meth:`recall` gives X back, in the chart as it is then.
        """
        return self.unchart(X), None

    def recall(self, P: Tensor, beside: Tensor | None = None) -> Tensor:
        """The X of which :meth:`keep` has made P: φ(P)."""
        return self.chart(P)

    def flat(self, X: Tensor) -> Tensor:
        """The projection of a matrix `(..., n, n)` to the flat space, here the symmetric matrices."""
        return linalg.symmetrize(X)

    def vector(self, X: Tensor) -> Tensor:
        """Coordinates of a matrix of the flat space, an isometry for the Frobenius inner product."""
        return linalg.vech(X)

    def matrix(self, v: Tensor) -> Tensor:
        """The inverse of :meth:`vector`."""
        return linalg.unvech(v)


class SpectralChart(Diffeo):
    """φ(P) = U diag(φ(σ)) Uᵀ: a chart that is a function of the spectrum and its inverse another."""

    n: int | None = None  # the size of matrices, where there is a parameter for each dimension

    @abstractmethod
    def function(self) -> SpectralFunction:
        """φ as a spectral map with its parameters."""

    @abstractmethod
    def inverse(self, branch: Tensor | None = None) -> SpectralFunction:
        """φ⁻¹ as a spectral map with its parameters."""

    def chart(self, P: Tensor) -> Tensor:
        return linalg.spectral(P, *self._at(P, self.function()))

    def unchart(self, X: Tensor, branch: Tensor | None = None) -> Tensor:
        return linalg.spectral(X, *self._at(X, self.inverse(branch)))

    def pushforward(self, P: Tensor, V: Tensor) -> Tensor:
        return self.jet(P, V)[1]

    def pullback(self, X: Tensor, W: Tensor) -> Tensor:
        return linalg.pushforward(X, W, *self._at(X, self.inverse()))

    def jet(self, P: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        return linalg.jet(P, V, *self._at(P, self.function()))

    def solve(self, P: Tensor, W: Tensor) -> Tensor:
        return linalg.solve_pushforward(P, W, *self._at(P, self.function()))

    def displacement(self, P: Tensor, Y: Tensor) -> Tensor:
        return linalg.displacement(P, Y, *self._at(P, self.function()))

    def _at(self, X: Tensor, function: SpectralFunction) -> tuple[Any, ...]:
        """The map and its parameters, computed in double, in the dtype of X, which the result keeps."""
        phi, parameters = function
        require_size(X, self.n)
        return (phi, *(p.to(X.dtype) for p in parameters))


def require_size(X: Tensor, n: int | None) -> None:
    """Raise InvalidMatrixError unless X is `(..., n, n)`, where n is given."""
    if n is not None and X.shape[-1] != n:
        raise InvalidMatrixError(f"a metric made for n = {n} was given matrices of shape {tuple(X.shape)}")


class MatrixLog(SpectralChart):
    """φ(P) = log P, the chart of the log-Euclidean metric (Arsigny et al. 2005); any base above 1."""

    def __init__(self, base: float = math.e) -> None:
        super().__init__()
        if not base > 1:
            raise ValueError(f"the base of the logarithm must be above 1, got {base}")
        self.base = base
        natural = base == math.e
        unit = math.log(base)
        self._log = linalg.LOG if natural else Chain(linalg.Multiple(1 / unit), linalg.LOG)
        self._exp = linalg.EXP if natural else Chain(linalg.EXP, linalg.Multiple(unit))

    def extra_repr(self) -> str:
        return "" if self.base == math.e else f"base={self.base}"

    def function(self) -> SpectralFunction:
        return self._log, ()

    def inverse(self, branch: Tensor | None = None) -> SpectralFunction:
        return self._exp, ()

    def is_same(self, other: Diffeo) -> bool:
        return type(other) is type(self) and other.base == self.base


class CholeskyLog(Diffeo):
    """φ(P) = ⌊L⌋ + diag(ln L_ii), P = LLᵀ, lower triangular (Lin 2019)."""

    def chart(self, P: Tensor) -> Tensor:
        return linalg.cholesky_log(P)

    def unchart(self, X: Tensor, branch: Tensor | None = None) -> Tensor:
        return linalg.cholesky_exp(X)

    def pushforward(self, P: Tensor, V: Tensor) -> Tensor:
        return linalg.cholesky_log_pushforward(P, V)

    def pullback(self, X: Tensor, W: Tensor) -> Tensor:
        return linalg.cholesky_exp_pushforward(X, W)

    def is_same(self, other: Diffeo) -> bool:
        return other is self or (type(self) is type(other) is CholeskyLog)

    def flat(self, X: Tensor) -> Tensor:
        """The lower triangle."""
        return X.tril()

    def vector(self, X: Tensor) -> Tensor:
        return linalg.vec_tril(X)

    def matrix(self, v: Tensor) -> Tensor:
        return linalg.unvec_tril(v)


class AdaptiveCholeskyLog(CholeskyLog):
    """φ(P) = ⌊L⌋ + diag(A_i ln L_ii), A = exp θ, with θ `(n,)` learned and 0 at the start.

    A global smooth chart for every θ. It is linear in the log-Cholesky chart, so the group, means and
    geodesics are those of LCM whatever θ is; only distances change.
    """

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n
        self.theta = nn.Parameter(torch.zeros(n))

    def extra_repr(self) -> str:
        return f"n={self.n}"

    def _stretch(self, Z: Tensor, sign: float) -> Tensor:
        require_size(Z, self.theta.numel())
        factor = torch.exp(sign * self.theta.to(Z.dtype))
        diagonal = Z.diagonal(dim1=-2, dim2=-1)
        return Z.tril(-1) + torch.diag_embed(factor * diagonal)

    def chart(self, P: Tensor) -> Tensor:
        return self._stretch(super().chart(P), 1.0)

    def unchart(self, X: Tensor, branch: Tensor | None = None) -> Tensor:
        return super().unchart(self._stretch(X, -1.0))

    def pushforward(self, P: Tensor, V: Tensor) -> Tensor:
        return self._stretch(super().pushforward(P, V), 1.0)

    def pullback(self, X: Tensor, W: Tensor) -> Tensor:
        return super().pullback(self._stretch(X, -1.0), self._stretch(W, -1.0))


class SinhArcsinhLog(SpectralChart):
    """φ = f(log P) with f(t) = c·s·sinh(δ·asinh(t/s)), c, δ, s = exp θ; θ `(3,)` is 0 at LEM.

    A smooth global chart with a closed inverse for every θ.
    """

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(3))

    def function(self) -> SpectralFunction:
        return _SINH_LOG, self.theta.double().exp().unbind()

    def inverse(self, branch: Tensor | None = None) -> SpectralFunction:
        return _EXP_SINH, linalg.SINH_ARCSINH.inverse_parameters(*self.theta.double().exp().unbind())


class RankIncrementLog(SpectralChart):
    """φ_i = c_1 t_1 + Σ_{k=2..i} c_k (t_k − t_{k−1}), t = ln σ ascending, c = exp θ; θ `(n,)` is 0 at LEM.

    A global homeomorphism, Lipschitz both ways, with a closed inverse; not differentiable at
    repeated eigenvalues unless the c involved are equal.
    """

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n
        self.theta = nn.Parameter(torch.zeros(n))

    def extra_repr(self) -> str:
        return f"n={self.n}"

    def function(self) -> SpectralFunction:
        return _INCREMENT_LOG, (self.theta.double().exp(),)

    def inverse(self, branch: Tensor | None = None) -> SpectralFunction:
        return _EXP_INCREMENT, ((-self.theta.double()).exp(),)


class GapLog(SpectralChart):
    """φ_i = c·t_i + (1/n) Σ_j Σ_k v_k s_k tanh((t_i − t_j)/s_k), t = ln σ.

    c = exp θ_0, v_k = (c/K)(exp(κ θ_k) − 1), s_k = exp(width_k): smooth and scale-invariant, and a
    global chart for every value of its 1 + 2K parameters. θ is 0 at LEM, where the widths, spread
    over e⁰ … e², do not matter yet; κ = 12 only sets how far one step of θ goes. The inverse is found
    by Newton's method.
    """

    STEP_SIZE = 12.0

    def __init__(self, widths: int = 4) -> None:
        super().__init__()
        if widths < 1:
            raise ValueError(f"GapLog needs at least one width, got {widths}")
        self.theta = nn.Parameter(torch.zeros(1 + widths))
        self.log_width = nn.Parameter(torch.linspace(0.0, 2.0, widths))

    def _parameters_of_map(self) -> tuple[Tensor, Tensor, Tensor]:
        theta, log_width = self.theta.double(), self.log_width.double()
        c = theta[0].exp()
        v = c / log_width.numel() * torch.expm1(self.STEP_SIZE * theta[1:])
        return c, v, log_width.exp()

    def function(self) -> SpectralFunction:
        return _GAP_LOG, self._parameters_of_map()

    def inverse(self, branch: Tensor | None = None) -> SpectralFunction:
        return _EXP_GAP, self._parameters_of_map()


_SINH_LOG = Chain(linalg.SINH_ARCSINH, linalg.LOG)
_EXP_SINH = Chain(linalg.EXP, linalg.SINH_ARCSINH)
_INCREMENT_LOG = Chain(linalg.RANK_INCREMENT, linalg.LOG)
_EXP_INCREMENT = Chain(linalg.EXP, linalg.RANK_INCREMENT)
_GAP_LOG = Chain(linalg.GAP, linalg.LOG)
_EXP_GAP = Chain(linalg.EXP, linalg.INVERSE_GAP)
