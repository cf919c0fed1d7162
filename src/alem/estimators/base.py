"""What the estimators share: reading arrays, and the metric they were asked for."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data
from torch import Tensor

from alem import geometry
from alem.estimators.blocks import Samples, is_blocks, is_dask, whole_samples
from alem.geometry import Metric
from alem.linalg import InvalidMatrixError


class MatrixEstimator(BaseEstimator):
    """An estimator whose samples are SPD matrices."""

    def _matrices(self, X: Any, reset: bool) -> Tensor:
        """X as an SPD tensor `(n_samples, n, n)` on the CPU, checked; ``reset`` in ``fit``."""
        array = read_array(self, X, reset, 3, "SPD matrices (n_samples, n, n)")
        matrices = torch.from_numpy(array)
        try:
            return geometry.check_spd(matrices)
        except InvalidMatrixError as error:
            raise type(error)(f"X: {error}", error.index) from None

    def _samples(self, X: Any, sample_weight: Any = None) -> Samples:
        """The SPD matrices of an array, a Dask array or blocks, checked as they are gone through."""
        if is_dask(X):
            X = whole_samples(X)
            self._matrices(self._stand_in(X), reset=True)
        return Samples(self._matrices, X, read_weights(sample_weight, length(X)))

    def _stand_in(self, X: Any) -> Any:
        """One sample such as those of a Dask array X."""
        return np.eye(X.shape[1], X.shape[2])[None].astype(float_like(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.positive_only = False
        return tags


def float_like(X: Any) -> Any:
    """The dtype of a Dask array X, or float64 where it holds no floats."""
    return X.dtype if X.dtype.kind == "f" else np.float64


def length(X: Any) -> int | None:
    """How many samples X has, if it says so before it has been gone through."""
    return None if is_blocks(X) or not hasattr(X, "__len__") else len(X)


def read_array(estimator: BaseEstimator, X: Any, reset: bool, ndim: int, what: str) -> Any:
    """A writable float array of ``ndim`` dimensions with scikit-learn's checks; tensors are welcome."""
    if is_dask(X) or is_blocks(X):
        raise TypeError(
            f"{type(estimator).__name__} takes {what} as an array here, got a {type(X).__name__}: bring "
            "them into memory; or write them with alem.data.save_blocks and train with alem train"
        )
    array = validate_data(
        estimator,
        as_array(X),
        reset=reset,
        allow_nd=True,
        ensure_2d=False,
        ensure_all_finite=False,  # who reads on names the matrix or the channel
        dtype=[np.float64, np.float32],
        copy=True,
    )
    if array.ndim != ndim:
        raise ValueError(f"{type(estimator).__name__} needs {what}, got an array of shape {array.shape}")
    if reset:
        estimator.n_features_in_ = array.shape[1]
    elif array.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"{type(estimator).__name__} was fitted to {estimator.n_features_in_} channels, X has "
            f"{array.shape[1]} (shape {array.shape})"
        )
    return array


def as_array(values: Any) -> Any:
    """A tensor as an array of a dtype that NumPy knows; anything else as it is."""
    if not isinstance(values, Tensor):
        return values
    values = values.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


def like(result: Tensor, X: Any) -> Any:
    """A result as X was given: a tensor on its device for a tensor, else a NumPy array."""
    return result.to(X.device) if isinstance(X, Tensor) else result.numpy()


def read_weights(sample_weight: Any, n_samples: int | None) -> Tensor | None:
    """Weights `(n_samples,)`, of any number if that is not known, in double precision; or None."""
    if sample_weight is None:
        return None
    weights = np.asarray(as_array(sample_weight), dtype=np.float64)
    if weights.shape != (weights.size if n_samples is None else n_samples,):
        wanted = "one number for each sample" if n_samples is None else f"shape ({n_samples},)"
        raise ValueError(f"sample_weight must have {wanted}, got shape {weights.shape}")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError("sample_weight must be finite, not negative and not all zero")
    return torch.from_numpy(weights)


def is_flat(metric: str | Metric) -> bool:
    """Whether means under the metric are sums, to which matrices can be added."""
    return (metric if isinstance(metric, Metric) else geometry.metric(metric, n=1)).is_flat


def needs_a_flat_metric(estimator: Any) -> bool:
    """For ``available_if``: a method is there only where the metric of the estimator is flat."""
    if not is_flat(estimator.metric):
        raise AttributeError(
            f"{type(estimator).__name__}(metric={estimator.metric!r}) cannot be fitted in parts: its mean "
            "takes several passes; take a flat metric, 'lem' say, or give fit all blocks"
        )
    return True


def require_same_metric(estimator: Any) -> None:
    """Raise ValueError unless what was fitted is of the metric that the estimator has now."""
    if estimator.metric is not estimator._fitted_metric and estimator.metric != estimator._fitted_metric:
        raise ValueError(
            f"{type(estimator).__name__} was fitted with metric={estimator._fitted_metric!r} and has now "
            f"metric={estimator.metric!r}: sums of one are nothing to the other; call fit"
        )


def make_metric(metric: str | Metric, n: int) -> Metric:
    """A copy of the metric, or that of the catalogue in double precision."""
    return copy.deepcopy(metric) if isinstance(metric, Metric) else geometry.metric(metric, n=n).double()
