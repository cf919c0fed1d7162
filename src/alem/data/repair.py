"""Matrices that are not quite SPD: which are refused, which are regularised, and how it is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from alem import linalg
from alem.linalg.cholesky import is_well_inside
from alem.linalg.errors import InvalidMatrixError, require_finite, require_square, require_symmetric

# Added to a deficient matrix in units of its trace, as the covariances of FPHA are commonly released.
LOADING = 1e-3
# Below this much of the largest eigenvalue a negative one is no rounding of a double.
NEGATIVE = -1e-8
# Bytes of matrices looked at together: enough to be fast, few enough to leave a mapped file on the disk.
BLOCK = 2**26


@dataclass(frozen=True)
class Repairs:
    """Which matrices were degenerate, by their place, and what was done about it."""

    zero: tuple[int, ...] = ()
    deficient: tuple[int, ...] = ()
    loading: float = LOADING

    def __bool__(self) -> bool:
        return bool(self.zero or self.deficient)

    def describe(self, names: Sequence[str]) -> str:
        """A sentence for each kind, with the first few names; empty if there is nothing to say."""
        parts = []
        if self.zero:
            parts.append(
                f"{len(self.zero)} of {len(names)} matrices are all zero ({_some(self.zero, names)}): each "
                f"became {self.loading:g}·t·I, t the median trace of the others"
            )
        if self.deficient:
            parts.append(
                f"{len(self.deficient)} of {len(names)} matrices are singular to working precision "
                f"({_some(self.deficient, names)}): each became C + {self.loading:g}·tr(C)·I"
            )
        return "; ".join(parts)


def repair(matrices: Tensor, names: Sequence[str] | None = None, loading: float = LOADING) -> Repairs:
    """Regularise the degenerate ones of ``matrices`` `(N, n, n)`, in place, and say which they were.

    - A matrix with an entry that is not finite, not symmetric to √eps, or with an eigenvalue below
      −10⁻⁸ of the largest (−n·eps in a precision where that is more) raises InvalidMatrixError.
    - One whose smallest eigenvalue is not above n·eps of the largest becomes C + loading·tr(C)·I.
    - One that is all zero becomes loading·t·I, t the median of the traces of the others (1 if there are
      none): it carries no information, and this is the smallest matrix of the same kind.
    """
    require_square(matrices)
    if matrices.ndim != 3:
        raise InvalidMatrixError(f"expected matrices (N, n, n), got shape {tuple(matrices.shape)}")
    zero: list[int] = []
    deficient: list[int] = []
    for start, block in blocks(matrices):
        # One cheap look at what is nearly always right; a sum that overflows only looks more closely.
        if not (bool(block.sum().isfinite()) and torch.equal(block, block.mT)):
            _named(require_finite, block, start, names)
            _named(require_symmetric, block, start, names)
            _symmetrize(block)
        for i in _suspects(block):
            C = block[i]
            if not bool(C.any()):
                zero.append(start + i)
                continue
            if _is_deficient(C, start + i, names):
                deficient.append(start + i)
                C.diagonal().add_(loading * C.trace())
    if zero:
        traces = matrices.diagonal(dim1=-2, dim2=-1).sum(-1)
        others = traces[traces > 0]
        size = float(others.median()) if len(others) else 1.0
        for i in zero:
            matrices[i].diagonal().fill_(loading * size)
    return Repairs(tuple(zero), tuple(deficient), loading)


def blocks(matrices: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Views of ``matrices`` `(N, n, n)` of at most BLOCK bytes, or of one matrix, and where each begins."""
    each = max(1, BLOCK // max(1, matrices[0].nbytes)) if len(matrices) else 1
    for start in range(0, len(matrices), each):
        yield start, matrices[start : start + each]


def _symmetrize(block: Tensor) -> None:
    """Remove rounding that differs above and below the diagonal; symmetric matrices are not written."""
    skew = (block != block.mT).any(-1).any(-1)
    for i in skew.nonzero().flatten().tolist():
        block[i] = linalg.symmetrize(block[i])


def _margin(C: Tensor) -> float:
    return C.shape[-1] * torch.finfo(C.dtype).eps


def _suspects(block: Tensor) -> list[int]:
    """Those for which no Cholesky factor proves that they are well inside the cone."""
    return (~is_well_inside(block)).nonzero().flatten().tolist()


def _is_deficient(C: Tensor, i: int, names: Sequence[str] | None) -> bool:
    values = linalg.eigvalsh(C)
    least, most = float(values[0]), float(values[-1])
    if most <= 0 or least < min(NEGATIVE, -_margin(C)) * most:
        raise InvalidMatrixError(
            f"{_name(i, names)} has the eigenvalue {least:.3g} beside a largest of {most:.3g}: it is no "
            "covariance matrix; mend or drop it",
            (i,),
        )
    return least <= _margin(C) * most


def _named(check: Callable[[Tensor], None], block: Tensor, start: int, names: Sequence[str] | None) -> None:
    try:
        check(block)
    except InvalidMatrixError as error:
        i = error.index[0] if error.index else 0
        message = str(error).replace(f"matrix {i}", _name(start + i, names), 1)
        raise InvalidMatrixError(message, (start + i,)) from None


def _name(i: int, names: Sequence[str] | None) -> str:
    return f"matrix {i}" if names is None else f"matrix {i} ({names[i]})"


def _some(places: Sequence[int], names: Sequence[str]) -> str:
    shown = ", ".join(names[i] for i in places[:3])
    return shown if len(places) <= 3 else f"{shown}, …"
