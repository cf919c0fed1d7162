"""The nearest mean."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from alem.estimators.base import (
    MatrixEstimator,
    length,
    like,
    make_metric,
    needs_a_flat_metric,
    read_weights,
    require_same_metric,
)
from alem.estimators.blocks import by_block
from alem.estimators.labels import decision, read_labels
from alem.geometry import Metric, MomentSum, PullbackMetric
from alem.linalg.errors import places_are


class FrechetClassifier(ClassifierMixin, TransformerMixin, MatrixEstimator):
    """A matrix belongs to the class whose Fréchet mean is nearest (Barachant et al. 2012, "MDM").

    - ``metric``: a name of the catalogue, or a metric;
    - fitted: ``means_`` `(n_classes, n, n)`, ``classes_``, ``metric_``, and of a flat metric ``sums_``, to
      which ``partial_fit`` and ``merge`` add.

    ``transform`` gives the distances, ``predict_proba`` the softmax of −d².
    """

    def __init__(self, metric: str | Metric = "aim") -> None:
        self.metric = metric

    @torch.no_grad()
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FrechetClassifier:
        """Take the weighted mean of each class; of an array, a Dask array or blocks."""
        self.__dict__.pop("sums_", None)
        samples = self._samples(X, sample_weight)
        metric = make_metric(self.metric, samples.n)
        if not metric.is_flat and not samples.can_repeat:
            raise TypeError(
                f"{type(metric).__name__} takes several passes over the blocks, and these can be gone "
                "through only once; give a list of blocks, or take a flat metric"
            )
        self._fitted_metric, self.metric_ = self.metric, metric
        places, self.classes_ = read_labels(y, length(X))
        labels, k = torch.from_numpy(places), len(self.classes_)
        weights = read_weights(sample_weight, len(labels))
        weights = torch.ones(len(labels), dtype=torch.float64) if weights is None else weights
        self._require_weights(labels, weights)
        samples = samples.weighted(weights)
        if isinstance(metric, PullbackMetric):
            return self._take(samples.reduce(partial(_class_sums, metric, labels, k), _joined))
        # What has no weight is not looked at.
        of = (samples.weighted(weights * (labels == i)) for i in range(k))
        self.means_ = torch.stack([metric.moments(s, dispersion=False).mean for s in of]).numpy()
        return self

    @available_if(needs_a_flat_metric)
    @torch.no_grad()
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> FrechetClassifier:
        """Add samples; ``classes``, all there will be, are needed at the first call."""
        first = not getattr(self, "sums_", None)
        if not first:
            require_same_metric(self)
        matrices = self._matrices(X, reset=first)
        places, found = read_labels(y, len(matrices))
        if first:
            if classes is None:
                raise ValueError("the first partial_fit needs classes=, all that there will be")
            self.classes_ = np.unique(classes)
            self._fitted_metric = self.metric
            self.metric_ = make_metric(self.metric, matrices.shape[-1])
            self.sums_: list[MomentSum] = []
        strange = np.setdiff1d(found, self.classes_)
        if len(strange) or (classes is not None and not np.array_equal(np.unique(classes), self.classes_)):
            raise ValueError(f"the classes are {self.classes_.tolist()}, as the first partial_fit was told")
        labels = torch.from_numpy(np.searchsorted(self.classes_, found)[places])
        weights = read_weights(sample_weight, len(labels))
        added = _class_sums(self.metric_, labels, len(self.classes_), 0, matrices, weights)
        return self._take(_joined(self.sums_, added) if self.sums_ else added)

    @available_if(needs_a_flat_metric)
    @torch.no_grad()
    def merge(self, other: FrechetClassifier) -> FrechetClassifier:
        """Add the samples of another that has been fitted to the same classes, in another process say."""
        for one in (self, other):
            check_is_fitted(one)
            require_same_metric(one)
        if not np.array_equal(self.classes_, other.classes_):
            raise ValueError(
                f"{self.classes_.tolist()} and {other.classes_.tolist()} are different classes"
            )
        return self._take(_joined(self.sums_, other.sums_))

    def _require_weights(self, labels: Tensor, weights: Tensor) -> None:
        total = torch.bincount(labels, weights, len(self.classes_))
        for name, weight in zip(self.classes_, total, strict=True):
            if not bool(weight > 0):
                raise ValueError(f"all samples of class {str(name)!r} have weight 0: it has no mean")

    def _take(self, sums: list[MomentSum]) -> FrechetClassifier:
        """The means, NaN where a class has had no sample yet: it is farther than any other."""
        self.sums_ = sums
        n = self.n_features_in_
        self.means_ = np.stack([s.mean.numpy() if s.weight else np.full((n, n), np.nan) for s in sums])
        return self

    @by_block
    @torch.no_grad()
    def transform(self, X: Any) -> Any:
        """Distances to the means `(n_samples, n_classes)`."""
        return like(self._squares(X).sqrt(), X)

    @by_block
    def decision_function(self, X: Any) -> Any:
        """−d² `(n_samples, n_classes)`; of two classes their difference `(n_samples,)`."""
        return decision(-self._squares(X))

    @by_block
    def predict_proba(self, X: Any) -> Any:
        """The softmax of −d² `(n_samples, n_classes)`."""
        return torch.softmax(-self._squares(X), -1).numpy()

    @by_block
    def predict(self, X: Any) -> Any:
        """The class of the nearest mean `(n_samples,)`."""
        nearest = self._squares(X).argmin(-1).numpy()
        return self.classes_[nearest]

    @torch.no_grad()
    def _squares(self, X: Any) -> torch.Tensor:
        check_is_fitted(self)
        matrices = self._matrices(X, reset=False)
        means = torch.from_numpy(np.asarray(self.means_)).to(matrices.dtype)
        known = ~means.isnan().any(-1).any(-1)
        squares = matrices.new_full((len(matrices), len(means)), torch.inf)
        if self.metric_.is_flat:
            squares[:, known] = self.metric_.pairwise_dist2(matrices, means[known])
            return squares
        # A mean at a time: all pairs of large matrices would not fit into memory.
        for k, M in enumerate(means):
            squares[:, k] = self.metric_.dist2(M, matrices)
        return squares


def _class_sums(
    metric: Metric, labels: Tensor, n_classes: int, start: int, X: Tensor, w: Tensor | None
) -> list[MomentSum]:
    """The sums of a block, class by class; ``labels`` are those of all samples."""
    assert isinstance(metric, PullbackMetric)
    own = labels[start : start + len(X)]
    if len(own) != len(X):
        raise ValueError(f"y has {len(labels)} labels, and there are more samples than that")
    sums = []
    for k in range(n_classes):
        of = (own == k).nonzero()[:, 0]
        with places_are(of.tolist()):
            sums.append(MomentSum(metric).add(X[of], None if w is None else w[of]))
    return sums


def _joined(a: list[MomentSum], b: list[MomentSum]) -> list[MomentSum]:
    return [MomentSum(s.metric).merge(s).merge(t) for s, t in zip(a, b, strict=True)]
