"""Three ways to classify covariance matrices, compared by cross-validation on the digits."""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from alem import data
from alem.estimators import FrechetClassifier, SPDNetClassifier, TangentSpace


def main() -> None:
    """Print a mean and a deviation for each."""
    digits = data.digits()
    X, y = digits.matrices[:600].numpy(), digits.labels[:600].numpy()
    ways: dict[str, Any] = {
        "nearest mean": FrechetClassifier("aim"),
        "tangent space": make_pipeline(
            TangentSpace("aim"), StandardScaler(), LogisticRegression(max_iter=2000)
        ),
        "SPDNet": SPDNetClassifier(epochs=30, random_state=0),
    }
    for name, way in ways.items():
        scores = cross_val_score(way, X, y, cv=3)
        print(f"{name:15s}{scores.mean():7.1%} ± {scores.std():.1%}")


if __name__ == "__main__":
    main()
