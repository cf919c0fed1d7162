from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pyriemann.tangentspace import TangentSpace as Theirs
from sklearn.pipeline import make_pipeline

from alem import geometry
from alem.estimators import Covariances as OurCovariances
from alem.estimators import TangentSpace
from alem.geometry import METRICS

from .conftest import classes_of_spd


def test_affine_invariant_features_are_those_of_pyriemann(samples: Any) -> None:
    X, _ = samples
    ours, theirs = TangentSpace().fit(X), Theirs(metric="riemann").fit(X)
    np.testing.assert_allclose(ours.reference_, theirs.reference_, atol=1e-7)
    # They read the upper triangle row by row, we the lower one.
    i, j = np.triu_indices(4)
    np.testing.assert_allclose(ours.transform(X)[:, j * (j + 1) // 2 + i], theirs.transform(X), atol=1e-6)


@pytest.mark.parametrize("name", METRICS)
def test_features_have_the_lengths_of_the_metric_and_go_back(name: str, samples: Any) -> None:
    X, _ = samples
    space = TangentSpace(metric=name).fit(X)
    v = space.transform(X)
    assert v.shape == (60, 10)
    assert space.get_feature_names_out()[0] == "tangentspace0"
    m = geometry.metric(name, n=4).double()
    distance = m.dist(torch.from_numpy(space.reference_), torch.from_numpy(X))
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), distance.detach(), rtol=1e-7)
    np.testing.assert_allclose(v.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(space.inverse_transform(v), X, atol=1e-8)


def test_tensors_and_single_precision_stay_what_they_are(samples: Any) -> None:
    X, _ = samples
    x = torch.from_numpy(X).float()
    space = TangentSpace("lem").fit(x)
    assert isinstance(space.transform(x), torch.Tensor)
    assert space.transform(x).dtype == torch.float32
    assert space.transform(X).dtype == np.float64
    assert isinstance(space.inverse_transform(space.transform(x)), torch.Tensor)


def test_the_inverse_takes_what_transform_gives(samples: Any) -> None:
    X, _ = samples
    space = TangentSpace("lem").fit(X)
    v = space.transform(X)
    for given in (
        v.tolist(),
        np.asfortranarray(v),
        v[::-1][::-1],
        space.set_output(transform="pandas").transform(X),
    ):
        back = space.inverse_transform(given)
        assert back.dtype == np.float64
        np.testing.assert_allclose(back, X, atol=1e-9)


def test_a_metric_object_is_not_shared(samples: Any) -> None:
    X, _ = samples
    metric = geometry.metric("sinh", n=4).double()
    space = TangentSpace(metric).fit(X)
    before = space.transform(X)
    with torch.no_grad():
        next(metric.parameters()).add_(1.0)
    np.testing.assert_array_equal(space.transform(X), before)


def test_weights_move_the_mean(samples: Any) -> None:
    X, _ = samples
    w = np.r_[np.ones(30), np.zeros(30)]
    np.testing.assert_allclose(
        TangentSpace("lem").fit(X, sample_weight=w).reference_, TangentSpace("lem").fit(X[:30]).reference_
    )


def test_pyriemann_stands_on_both_sides() -> None:
    from pyriemann.classification import MDM
    from pyriemann.estimation import Covariances, Shrinkage
    from pyriemann.tangentspace import FGDA
    from sklearn.linear_model import LogisticRegression

    signals = np.random.default_rng(0).standard_normal((40, 4, 50)) * np.linspace(0.5, 2, 40)[:, None, None]
    y = np.arange(40) >= 20
    before = make_pipeline(Covariances("oas"), FGDA(), TangentSpace("aim"), LogisticRegression())
    assert before.fit(signals, y).score(signals, y) > 0.9
    after = make_pipeline(OurCovariances("oas"), Shrinkage(0.01), MDM())
    assert after.fit(signals, y).score(signals, y) > 0.9


def test_what_cannot_be_read_is_said(samples: Any) -> None:
    X, _ = samples
    with pytest.raises(
        ValueError, match=r"SPD matrices \(n_samples, n, n\), got an array of shape \(60, 16\)"
    ):
        TangentSpace().fit(X.reshape(60, 16))
    bad = X.copy()
    bad[7] = -bad[7]
    with pytest.raises(ValueError, match=r"X: matrix 7 .* not positive definite"):
        TangentSpace().fit(bad)
    for value in (np.nan, np.inf):
        bad = X.copy()
        bad[7, 1, 1] = value
        with pytest.raises(ValueError, match=r"X: matrix 7 .* NaN or infinite"):
            TangentSpace().fit(bad)
    with pytest.raises(ValueError, match="fitted to 4 channels, X has 3"):
        TangentSpace().fit(X).transform(classes_of_spd(n=3)[0])
    with pytest.raises(ValueError, match=r"needs coordinates \(n_samples, 10\)"):
        TangentSpace().fit(X).inverse_transform(X[:, 0])
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        TangentSpace().fit(X, sample_weight=-np.ones(60))
