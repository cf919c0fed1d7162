"""From signals to SPD matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from alem import geometry, linalg
from alem.estimators.base import float_like, like, read_array
from alem.estimators.blocks import by_block, is_blocks, is_dask, slices, some, whole_samples
from alem.linalg import InvalidMatrixError
from alem.linalg.covariance import require_estimator


class Covariances(TransformerMixin, BaseEstimator):
    """The covariance of each signal `(n_samples, channels, times)` to `(n_samples, channels, channels)`.

    - ``shrinkage``: None, a number in [0, 1], ``"ledoit-wolf"`` or ``"oas"``;
    - ``loading`` adds loading·tr(C)·I; ``assume_centered`` takes the mean over time as 0.

    See :func:`alem.linalg.covariance`. A covariance that is not positive definite is refused.
    """

    def __init__(
        self,
        shrinkage: float | str | None = None,
        loading: float = 0.0,
        assume_centered: bool = False,
    ) -> None:
        self.shrinkage = shrinkage
        self.loading = loading
        self.assume_centered = assume_centered

    def fit(self, X: Any, y: Any = None) -> Covariances:
        """Look at the shape of the signals, in a list of blocks of the first; there is nothing to learn."""
        require_estimator(self.shrinkage, self.loading)
        if is_dask(X):
            first = self._stand_in(whole_samples(X))
        elif is_blocks(X):
            if iter(X) is X:
                raise TypeError(
                    "fit would use up the first block of this generator; fit to an array of its kind"
                )
            first = next(iter(some(X)))
        else:
            first = next(slices(X))
        self._signals(first, reset=True)
        return self

    @by_block
    def transform(self, X: Any) -> Any:
        """SPD matrices `(n_samples, channels, channels)`, in the precision of X."""
        check_is_fitted(self)
        x = self._signals(X, reset=False)
        C = linalg.covariance(x, self.shrinkage, self.loading, self.assume_centered)
        try:
            geometry.check_spd(C)
        except InvalidMatrixError as error:
            raise type(error)(
                f"the covariance of a signal is no SPD matrix: {error}; with shrinkage='oas', say, "
                "Covariances regularises",
                error.index,
            ) from None
        return like(C, X)

    def _stand_in(self, X: Any) -> Any:
        """A signal such as those of a Dask array X, and long enough to have a covariance of full rank."""
        channels = X.shape[1]
        return np.random.default_rng(0).normal(size=(1, channels, 2 * channels + 2)).astype(float_like(X))

    def _signals(self, X: Any, reset: bool) -> torch.Tensor:
        return torch.from_numpy(read_array(self, X, reset, 3, "signals (n_samples, channels, times)"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags
