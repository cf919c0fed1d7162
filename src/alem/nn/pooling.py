"""From signals to covariance matrices, and their scale."""

from __future__ import annotations

from torch import Tensor, nn

from alem import linalg
from alem.linalg.covariance import require_estimator
from alem.linalg.errors import InvalidMatrixError, can_inspect, matrix_name, require_square, worst_index
from alem.linalg.precision import takes_half


class CovPool(nn.Module):
    """Signals `(..., channels, time)` to their covariances `(..., channels, channels)`.

    The arguments are those of :func:`alem.linalg.covariance`. The result is positive definite if there
    are more samples than channels, none a combination of the others; ``shrinkage="ledoit-wolf"`` or
    ``"oas"`` makes it so for shorter signals.
    """

    def __init__(
        self,
        shrinkage: float | str | None = None,
        loading: float = 0.0,
        assume_centered: bool = False,
    ) -> None:
        super().__init__()
        require_estimator(shrinkage, loading)
        self.shrinkage, self.loading, self.assume_centered = shrinkage, loading, assume_centered

    def extra_repr(self) -> str:
        return (
            f"shrinkage={self.shrinkage!r}, loading={self.loading}, assume_centered={self.assume_centered}"
        )

    def forward(self, x: Tensor) -> Tensor:
        return linalg.covariance(x, self.shrinkage, self.loading, self.assume_centered)


class TraceNorm(nn.Module):
    """n S / tr S: each matrix `(..., n, n)` scaled to a mean eigenvalue of one."""

    @takes_half
    def forward(self, X: Tensor) -> Tensor:
        require_square(X)
        mean = X.diagonal(dim1=-2, dim2=-1).mean(-1)
        if can_inspect(mean):
            _require_positive_trace(mean.detach())
        return X / mean[..., None, None]


def _require_positive_trace(mean: Tensor) -> None:
    bad = ~(mean > 0) | mean.isinf()
    if bool(bad.any()):
        index = worst_index(bad.to(mean.dtype))
        raise InvalidMatrixError(
            f"{matrix_name(index)} has a mean eigenvalue of {float(mean[index]):.3g} and cannot be scaled "
            "to one; drop matrices that are zero or not finite",
            index,
        )
