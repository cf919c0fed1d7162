"""The nearest mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from alem.estimators.base import MatrixEstimator, like, make_metric, read_weights
from alem.estimators.labels import decision, read_labels
from alem.geometry import Metric


class FrechetClassifier(ClassifierMixin, TransformerMixin, MatrixEstimator):
    """A matrix belongs to the class whose Fréchet mean is nearest (Barachant et al. 2012, "MDM").

    - ``metric``: a name of the catalogue, or a metric;
    - fitted: ``means_`` `(n_classes, n, n)`, ``classes_`` and ``metric_``.

    ``transform`` gives the distances, ``predict_proba`` the softmax of −d².
    """

    def __init__(self, metric: str | Metric = "aim") -> None:
        self.metric = metric

    @torch.no_grad()
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FrechetClassifier:
        """Take the mean of each class, weighted by ``sample_weight``."""
        matrices = self._matrices(X, reset=True)
        labels, self.classes_ = read_labels(y, len(matrices))
        weights = read_weights(sample_weight, matrices)
        self.metric_ = make_metric(self.metric, matrices.shape[-1])
        means = []
        for k, name in enumerate(self.classes_):
            of = torch.from_numpy(labels == k)
            if weights is not None and not bool(weights[of].sum() > 0):
                raise ValueError(f"all samples of class {str(name)!r} have weight 0: it has no mean")
            means.append(self.metric_.mean(matrices[of], None if weights is None else weights[of]))
        self.means_ = torch.stack(means).numpy()
        return self

    @torch.no_grad()
    def transform(self, X: Any) -> Any:
        """Distances to the means `(n_samples, n_classes)`."""
        return like(self._squares(X).sqrt(), X)

    def decision_function(self, X: Any) -> Any:
        """−d² `(n_samples, n_classes)`; of two classes their difference `(n_samples,)`."""
        return decision(-self._squares(X))

    def predict_proba(self, X: Any) -> Any:
        """The softmax of −d² `(n_samples, n_classes)`."""
        return torch.softmax(-self._squares(X), -1).numpy()

    def predict(self, X: Any) -> Any:
        """The class of the nearest mean `(n_samples,)`."""
        nearest = self._squares(X).argmin(-1).numpy()
        return self.classes_[nearest]

    @torch.no_grad()
    def _squares(self, X: Any) -> torch.Tensor:
        check_is_fitted(self)
        matrices = self._matrices(X, reset=False)
        means = torch.from_numpy(np.asarray(self.means_)).to(matrices.dtype)
        # A mean at a time: all pairs of large matrices would not fit into memory.
        return torch.stack([self.metric_.dist2(M, matrices) for M in means], -1)
