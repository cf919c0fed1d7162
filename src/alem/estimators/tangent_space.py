"""SPD matrices as vectors: their tangent coordinates at a mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted
from torch import Tensor

from alem.estimators.base import (
    MatrixEstimator,
    as_array,
    like,
    make_metric,
    needs_a_flat_metric,
    read_weights,
    require_same_metric,
)
from alem.estimators.blocks import by_block
from alem.geometry import Metric, MomentSum, PullbackMetric
from alem.linalg import vech_dim


class TangentSpace(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MatrixEstimator):
    """The coordinates of Log_M X in an orthonormal frame at M, the Fréchet mean of the training matrices.

    `(n_samples, n, n)` to `(n_samples, n(n+1)/2)`: Euclidean lengths are the metric's at M, so that any
    vector method may follow. With ``metric="aim"`` these are the coordinates of Barachant et al. 2013, in
    the order of :func:`alem.linalg.vech`.

    - ``metric``: a name of the catalogue, or a metric;
    - fitted: ``reference_`` `(n, n)`, the mean, ``metric_``, and of a flat metric ``sum_``, to which
      ``partial_fit`` and ``merge`` add.
    """

    def __init__(self, metric: str | Metric = "aim") -> None:
        self.metric = metric

    @torch.no_grad()
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> TangentSpace:
        """Take the mean, weighted by ``sample_weight``; of an array, a Dask array or blocks."""
        self.__dict__.pop("sum_", None)
        samples = self._samples(X, sample_weight)
        self._fitted_metric, self.metric_ = self.metric, make_metric(self.metric, samples.n)
        if isinstance(self.metric_, PullbackMetric):
            return self._take(self.metric_.moment_sum(samples))
        return self._set(self.metric_.moments(samples, dispersion=False).mean)

    @available_if(needs_a_flat_metric)
    @torch.no_grad()
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> TangentSpace:
        """Add samples to those whose mean it is."""
        if not hasattr(self, "sum_"):
            return self.fit(X, y, sample_weight)
        require_same_metric(self)
        matrices = self._matrices(X, reset=False)
        return self._take(self.sum_.add(matrices, read_weights(sample_weight, len(matrices))))

    @available_if(needs_a_flat_metric)
    @torch.no_grad()
    def merge(self, other: TangentSpace) -> TangentSpace:
        """Add the samples of another that has been fitted, in another process say."""
        for one in (self, other):
            check_is_fitted(one)
            require_same_metric(one)
        return self._take(self.sum_.merge(other.sum_))

    def _take(self, total: MomentSum) -> TangentSpace:
        self.sum_ = total
        return self._set(total.mean)

    def _set(self, mean: Tensor) -> TangentSpace:
        self.reference_ = mean.numpy()
        self._n_features_out = vech_dim(mean.shape[-1])
        return self

    @by_block
    @torch.no_grad()
    def transform(self, X: Any) -> Any:
        """Tangent coordinates `(n_samples, n(n+1)/2)`, in the precision of X."""
        check_is_fitted(self)
        matrices = self._matrices(X, reset=False)
        M = torch.from_numpy(np.asarray(self.reference_)).to(matrices.dtype)
        return like(self.metric_.log_coordinates(M, matrices), X)

    @torch.no_grad()
    def inverse_transform(self, X: Any) -> Any:
        """The matrices `(n_samples, n, n)` with the given coordinates."""
        check_is_fitted(self)
        array = check_array(as_array(X), dtype=[np.float64, np.float32], copy=True)
        if array.shape[1] != self._n_features_out:
            raise ValueError(
                f"inverse_transform needs coordinates (n_samples, {self._n_features_out}), got shape "
                f"{array.shape}"
            )
        v = torch.from_numpy(array)
        M = torch.from_numpy(np.asarray(self.reference_)).to(v)
        return like(self.metric_.exp(M, self.metric_.tangent_vector(M, v)), X)
