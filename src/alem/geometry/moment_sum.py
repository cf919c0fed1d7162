"""The moments of a flat metric as sums that grow matrix by matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from alem.geometry.blocks import Moments, pieces, require_block
from alem.linalg.errors import InvalidMatrixError, places_are, require_symmetric

if TYPE_CHECKING:
    from alem.geometry.pullback import PullbackMetric


class MomentSum:
    """Mean and dispersion of all matrices added so far, under a flat metric::

        total = MomentSum(metric)
        for X in blocks:
            total.add(X)
        total.mean, total.variance

    Kept are the total weight, the mean in the chart and Σ w ‖φ(X) − mean‖², in double precision, whatever
    the number of matrices. Sums of parts, made anywhere, merge into that of the whole (Chan, Golub,
    LeVeque 1983). The parameters of the metric must not change meanwhile.
    """

    def __init__(self, metric: PullbackMetric) -> None:
        if not metric.is_flat:
            raise TypeError(
                f"the mean of {type(metric).__name__} is no sum; Metric.moments iterates for it"
            )
        self.metric = metric
        self._state: dict[str, Tensor] = {}
        self._weight: Tensor | None = None
        self._centre = self._spread = torch.zeros((), dtype=torch.float64)
        self._dtype: torch.dtype | None = None

    @torch.no_grad()
    def add(self, X: Tensor, weights: Tensor | None = None) -> MomentSum:
        """Add SPD matrices `(k, n, n)`, with weights `(k,)`, all or none; itself."""
        require_block(X, weights)
        total = MomentSum(self.metric)
        for places, piece, w in pieces(X, weights):
            W = w.sum()
            with places_are(places):
                require_symmetric(piece)
                Y = self.metric.chart(piece).double()
            centre = torch.tensordot(w / W, Y, 1)
            D = Y - centre
            total._join(W, centre, w @ self.metric.inner_product(D, D), X.dtype)
        return self.merge(total)

    @torch.no_grad()
    def merge(self, other: MomentSum) -> MomentSum:
        """Add all that the other has; itself."""
        if other._weight is None:
            return self
        now = _state(other.metric) if other.metric is not self.metric else {}
        mine, theirs = self._state or _state(self.metric), other._state or now or _state(self.metric)
        if (
            type(self.metric) is not type(other.metric)
            or str(self.metric) != str(other.metric)
            or mine.keys() != theirs.keys()
            or not all(torch.equal(value, theirs[key]) for key, value in mine.items())
        ):
            raise ValueError(
                f"moments of different metrics do not add: {self.metric} and {other.metric}, or the same "
                "with other parameters"
            )
        assert other._dtype is not None
        self._state = mine
        self._join(other._weight, other._centre, other._spread, other._dtype)
        return self

    def _join(self, W: Tensor, centre: Tensor, spread: Tensor, dtype: torch.dtype) -> None:
        if self._weight is None:
            self._weight, self._centre, self._spread, self._dtype = W, centre, spread, dtype
            return
        if centre.shape != self._centre.shape:
            raise InvalidMatrixError(
                f"matrices of size {centre.shape[-1]} do not add to those of size {self._centre.shape[-1]}"
            )
        assert self._dtype is not None
        self._dtype = torch.promote_types(self._dtype, dtype)
        step = centre - self._centre
        share = W / (self._weight + W)
        self._spread = self._spread + spread + self._weight * share * self.metric.inner_product(step, step)
        self._centre = self._centre + share * step
        self._weight = self._weight + W

    @property
    def weight(self) -> float:
        """The sum of all weights."""
        return 0.0 if self._weight is None else float(self._weight)

    @property
    def mean(self) -> Tensor:
        """The Fréchet mean `(n, n)`, in the precision of the matrices."""
        self._require_some()
        with torch.no_grad():
            return self.metric.unchart(self._centre.to(self._dtype))

    @property
    def variance(self) -> Tensor:
        """The dispersion about the mean, Σ w d²(M, X) / Σ w, a scalar."""
        self._require_some()
        return (self._spread / self.weight).to(self._dtype)

    def moments(self, dispersion: bool = True) -> Moments:
        """All of it."""
        return Moments(self.mean, self.variance if dispersion else None, self.weight)

    def _require_some(self) -> None:
        if self._weight is None:
            raise ValueError("there are no matrices, or all weights are 0: nothing has a mean")


def _state(metric: PullbackMetric) -> dict[str, Tensor]:
    """A copy of the parameters."""
    return {key: value.detach().clone() for key, value in metric.state_dict().items()}
