"""The Fréchet mean of a metric without a closed form, of matrices that are looked at block after block.

The iteration is that of :mod:`alem.geometry.frechet`, each evaluation one pass over the blocks. Residual
and objective are those of all matrices; the Hessian, which would need a pass for each of its conjugate
gradients, is that of a random sample which stays in memory. So the limit is exact, and a pass multiplies
the error by how much the two Hessians differ, some hundredths.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from alem import linalg
from alem.geometry.blocks import Blocks, Moments, pieces
from alem.geometry.frechet import Equation, Residual, State, newton, residual, tolerance
from alem.geometry.frechet import newton_step as step_of
from alem.geometry.validation import check_spd
from alem.linalg.errors import ConvergenceError, InvalidMatrixError, places_are

if TYPE_CHECKING:
    from alem.geometry.metric import Metric

# Bytes of the sample, but of no fewer matrices than the number. Its share of all is such that its conjugate
# gradients, some ten products of matrices each, take about a tenth of the time of a pass.
SAMPLE_BYTES, SAMPLE_LEAST, SHARE = 2**25, 64, 1 / 64
# The decrement asked for; the step that follows leaves some hundredths of it.
_EXACT = 1e-10
# A step that leaves more of the decrement than this had a Hessian of too few matrices.
_SLOW = 0.2
MAX_PASSES = 60


def frechet_moments(metric: Metric, equation: Equation, blocks: Blocks, dispersion: bool) -> Moments:
    """Mean and dispersion, the mean to 1e-10 or to what :func:`alem.geometry.frechet.frechet_mean` reaches.

    As many matrices as the sample holds are averaged at once.
    """
    sample = blocks.reduce(_sample, _both)
    if sample is None:
        raise InvalidMatrixError("there are no matrices, or all weights are 0: nothing has a mean")
    weight, dtype = float(sample.total), sample.X.dtype
    few = sample if sample.is_whole else sample.first(int(SHARE * sample.number))
    X, w = few.weighted()
    M = metric.mean(X, w).double()
    if sample.is_whole:
        variance = metric.variance(X, M, w).to(dtype) if dispersion else None
        return Moments(M.to(dtype), variance, weight)
    if not blocks.can_repeat:
        raise TypeError(
            f"the {equation.name} mean takes several passes over the blocks, and these can be gone "
            "through only once; give a list of blocks, or an object whose __iter__ begins anew, or take a "
            "flat metric"
        )
    M = _iterate(equation, M, blocks, sample)
    variance = None
    if dispersion:
        total = blocks.reduce(partial(_squares, metric, M), torch.add)
        variance = (total / weight).to(dtype)
    return Moments(M.to(dtype), variance, weight)


def _iterate(equation: Equation, M: Tensor, blocks: Blocks, sample: Sample) -> Tensor:
    size = max(SAMPLE_LEAST, int(SHARE * sample.number))
    last2 = torch.inf

    def step(R: Tensor, g: Tensor) -> Tensor:
        X, w = sample.first(size).weighted()
        w = w / w.sum()
        _, U, Q = residual(equation, R, X, w)
        return step_of(g, U, Q, w)

    def evaluate(R: Tensor) -> State:
        nonlocal size, last2
        found = blocks.reduce(partial(_residual, equation, R), _joined)
        assert found is not None  # some weight is positive
        total, _, steepest = found
        V = step(R, total.g)
        if float((total.g * V).sum()) > last2 * _SLOW**2 and size < len(sample.X):
            size *= 4  # the Hessian of so few is too unlike that of all
            V = step(R, total.g)
        decrement2 = (total.g * V).sum()
        last2 = float(decrement2)
        wanted2 = tolerance(equation, R, total.rounding2, _EXACT**2)
        # Nobody asks for U, nor for more of Q than its maximum, which descend does.
        return State(R, total.g, V, R, steepest, total.objective, decrement2, wanted2)

    at = newton(equation, equation.root(M), evaluate, MAX_PASSES)
    # What a mean in memory is taken for will do, if no more can be had.
    enough2 = tolerance(equation, at.R, at.tolerance2 * 0, torch.finfo(M.dtype).eps).maximum(at.tolerance2)
    if not bool(at.decrement2 <= enough2):
        raise ConvergenceError(
            f"the {equation.name} mean did not converge in {MAX_PASSES} passes over the blocks: "
            f"Newton decrement {float(at.decrement2) ** 0.5:.2g}, wanted {float(enough2) ** 0.5:.2g}; the "
            "matrices are too ill-conditioned or too far apart for a sample of them to speak for all: "
            "average them in memory, or take a flat metric"
        )
    return linalg.unwhiten(at.R, linalg.exp(at.V))


def _residual(
    equation: Equation, R: Tensor, start: int, X: Tensor, w: Tensor | None
) -> tuple[Residual, Tensor, Tensor] | None:
    """The residual of a block, its weight, and the largest Q."""
    total = None
    for _, piece, v in pieces(X, w):
        W = v.sum()
        of, _, Q = residual(equation, R, piece.double(), v / W)
        total = _joined(total, (of, W, Q.amax().reshape(1, 1, 1)))
    return total


def _joined(
    a: tuple[Residual, Tensor, Tensor] | None, b: tuple[Residual, Tensor, Tensor] | None
) -> tuple[Residual, Tensor, Tensor] | None:
    if a is None or b is None:
        return b if a is None else a
    (one, W, Q), (other, v, q) = a, b
    share = v / (W + v)
    joined = Residual(
        one.g + share * (other.g - one.g),
        one.objective + share * (other.objective - one.objective),
        one.rounding2.maximum(other.rounding2),
    )
    return joined, W + v, Q.maximum(q)


def _squares(metric: Metric, M: Tensor, start: int, X: Tensor, w: Tensor | None) -> Tensor:
    """Σ w d²(M, X)."""
    parts = (v @ metric.dist2(M, piece.double()) for _, piece, v in pieces(X, w))
    return sum(parts, torch.zeros((), dtype=M.dtype))


class Sample(NamedTuple):
    """Matrices chosen at random, with weights whose sums estimate those of all (Duffield et al. 2007).

    Each matrix has the priority w/u, u uniform in (0, 1]; the k first are kept, and count as the larger of
    their own weight and the priority of the one after them. While all fit, it is all of them.
    """

    X: Tensor
    w: Tensor
    priority: Tensor
    next_priority: Tensor
    total: Tensor  # of the weights of all
    number: int  # of all

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return not bool(self.next_priority > 0)

    def weighted(self) -> tuple[Tensor, Tensor]:
        """The matrices, in double precision, and what they count."""
        return self.X.double(), self.w.maximum(self.next_priority)

    def first(self, k: int | None = None) -> Sample:
        """The first k, or as many of them as fit."""
        k = max(SAMPLE_LEAST, SAMPLE_BYTES // (8 * self.X[0].numel()) if k is None else k)
        order = self.priority.argsort(descending=True)
        kept, following = order[:k], self.next_priority
        if len(order) > k:
            following = following.maximum(self.priority[order[k]])
        return Sample(self.X[kept], self.w[kept], self.priority[kept], following, self.total, self.number)


def _sample(start: int, X: Tensor, w: Tensor | None) -> Sample | None:
    """That of a block, the same wherever it is made; all that counts is checked."""
    generator = torch.Generator().manual_seed(start)
    sample = None
    for places, piece, v in pieces(X, w):
        with places_are(places):
            check_spd(piece)
        u = 1.0 - torch.rand(len(v), generator=generator, dtype=v.dtype).to(v.device)
        of_piece = Sample(piece, v, v / u, torch.zeros_like(v[0]), v.sum(), len(v))
        sample = _both(sample, of_piece.first())
    return sample


def _both(a: Sample | None, b: Sample | None) -> Sample | None:
    """The sample of two parts together."""
    if a is None or b is None:
        return b if a is None else a
    if a.X.shape[1:] != b.X.shape[1:]:
        raise InvalidMatrixError(
            f"matrices of size {b.X.shape[-1]} cannot be averaged with those of size {a.X.shape[-1]}"
        )
    dtype = torch.promote_types(a.X.dtype, b.X.dtype)
    following = a.next_priority.maximum(b.next_priority)
    X = torch.cat([a.X.to(dtype), b.X.to(dtype)])
    w, priority = torch.cat([a.w, b.w]), torch.cat([a.priority, b.priority])
    return Sample(X, w, priority, following, a.total + b.total, a.number + b.number).first()
