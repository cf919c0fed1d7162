"""Labels in, decisions out, as scikit-learn has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from alem.estimators.base import as_array


def read_labels(y: Any, n_samples: int | None) -> tuple[Any, Any]:
    """Places of the labels among the classes, and the classes in order; of any number if None is given."""
    labels = column_or_1d(as_array(y), warn=True)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    if n_samples is not None and len(labels) != n_samples:
        raise ValueError(
            f"X has {n_samples} matrices and y {len(labels)} labels; there must be one for each"
        )
    classes, places = np.unique(labels, return_inverse=True)
    return places, classes


def decision(scores: torch.Tensor) -> Any:
    """Scores `(n, n_classes)` as scikit-learn has them: of two classes the second minus the first."""
    return (scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores).numpy()
