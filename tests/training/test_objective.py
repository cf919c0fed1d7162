from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score
from torch import nn

from alem.training import (
    CLASSIFICATION,
    REGRESSION,
    WEIGHTED_CLASSIFICATION,
    History,
    Part,
    Recipe,
    fit,
    weighted_labels,
)

G = torch.Generator().manual_seed(0)
OUTPUTS = torch.randn(40, 3, generator=G, dtype=torch.float64)
LABELS = torch.arange(40) % 3
WEIGHTS = torch.rand(40, generator=G, dtype=torch.float64)
WEIGHTS[5] = 0


def test_classification_is_that_of_scikit_learn() -> None:
    p = torch.softmax(OUTPUTS, -1).numpy()
    assert float(CLASSIFICATION.loss(OUTPUTS, LABELS)) == pytest.approx(log_loss(LABELS, p))
    assert float(CLASSIFICATION.score(OUTPUTS, LABELS)) == accuracy_score(LABELS, p.argmax(1))
    rows = weighted_labels(LABELS, WEIGHTS, 3)
    w = WEIGHTS.numpy()
    loss, score = (f(OUTPUTS, rows) for f in (WEIGHTED_CLASSIFICATION.loss, WEIGHTED_CLASSIFICATION.score))
    assert float(loss) == pytest.approx(log_loss(LABELS, p, sample_weight=w))
    assert float(score) == pytest.approx(accuracy_score(LABELS, p.argmax(1), sample_weight=w))


def test_regression_is_that_of_scikit_learn() -> None:
    y = torch.randn(40, 3, generator=G, dtype=torch.float64) + 0.5 * OUTPUTS
    targets = torch.cat([y, (WEIGHTS / WEIGHTS.mean())[:, None]], 1)
    w = WEIGHTS.numpy()
    loss, score = REGRESSION.loss(OUTPUTS, targets), REGRESSION.score(OUTPUTS, targets)
    assert float(loss) == pytest.approx(mean_squared_error(y, OUTPUTS, sample_weight=w))
    assert float(score) == pytest.approx(r2_score(y, OUTPUTS, sample_weight=w))


def test_targets_that_do_not_vary_are_explained_or_not() -> None:
    targets = torch.cat([torch.ones(4, 1), torch.ones(4, 1)], 1)
    assert float(REGRESSION.score(torch.ones(4, 1), targets)) == 1.0
    assert float(REGRESSION.score(torch.zeros(4, 1), targets)) == 0.0


def test_a_training_minimises_its_objective_and_ends_when_it_is_told() -> None:
    X = torch.eye(2, dtype=torch.float64) * torch.linspace(1, 2, 30, dtype=torch.float64)[:, None, None]
    y = torch.stack([X[:, 0, 0], torch.ones(30, dtype=torch.float64)], 1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 1)).double()
    part = Part(X, y, torch.arange(30))
    seen: list[int] = []

    def watch(history: History) -> bool:
        seen.append(len(history))
        return len(history) == 40

    fitted = fit(net, part, part, Recipe(lr=0.1, epochs=100), watch=watch, objective=REGRESSION)
    assert seen == list(range(1, 41))
    assert fitted.stopped is None
    assert fitted.history.test_accuracy[-1] == pytest.approx(
        r2_score(y[:, 0], net(X).detach().numpy()[:, 0]), abs=1e-12
    )
    assert fitted.history.loss[-1] < 0.1 * np.mean(fitted.history.loss[:2])
