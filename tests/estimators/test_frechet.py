from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyriemann.classification import MDM
from scipy.special import softmax
from sklearn.model_selection import GridSearchCV

from alem.estimators import FrechetClassifier
from alem.geometry import METRICS


@pytest.mark.parametrize(
    ("ours", "theirs"), [("aim", "riemann"), ("lem", "logeuclid"), ("bwm", "wasserstein")]
)
def test_agrees_with_pyriemann(ours: str, theirs: str, samples: Any) -> None:
    X, y = samples
    a, b = FrechetClassifier(ours).fit(X, y), MDM(metric=theirs).fit(X, y)
    np.testing.assert_allclose(a.transform(X), b.transform(X), rtol=1e-5)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    np.testing.assert_array_equal(a.classes_, b.classes_)


@pytest.mark.parametrize("name", METRICS)
def test_probabilities_and_decisions_follow_the_distances(name: str, samples: Any) -> None:
    X, y = samples
    model = FrechetClassifier(name).fit(X, y)
    d = model.transform(X)
    np.testing.assert_array_equal(model.predict(X), model.classes_[d.argmin(1)])
    np.testing.assert_allclose(model.predict_proba(X), softmax(-(d**2), 1), rtol=1e-8)
    np.testing.assert_allclose(model.decision_function(X), -(d**2))
    assert model.score(X, y) > 0.6


def test_two_classes_have_one_decision(samples: Any) -> None:
    X, y = samples
    two = y != "left"
    model = FrechetClassifier().fit(X[two], y[two])
    decision = model.decision_function(X)
    assert decision.shape == (60,)
    np.testing.assert_array_equal(model.classes_[(decision > 0).astype(int)], model.predict(X))


def test_weights_choose_the_samples_of_a_mean(samples: Any) -> None:
    X, y = samples
    w = (np.arange(60) < 30).astype(float)
    half = FrechetClassifier().fit(X[:30], y[:30])
    np.testing.assert_allclose(FrechetClassifier().fit(X, y, w).means_, half.means_, atol=1e-9)
    with pytest.raises(ValueError, match="all samples of class 'up' have weight 0"):
        FrechetClassifier().fit(X, y, (y != "up").astype(float))


def test_the_metric_can_be_searched(samples: Any) -> None:
    X, y = samples
    search = GridSearchCV(FrechetClassifier(), {"metric": ["lem", "aim", "lcm"]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.5
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
