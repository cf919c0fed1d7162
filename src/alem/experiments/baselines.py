"""What a user would do without a network: classifiers of scikit-learn on tangent vectors."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alem import linalg
from alem.data import Dataset
from alem.experiments.method import Method

Array = NDArray[np.float64]


class MissingPackageError(ImportError):
    """A package that is asked for is not installed."""


def require_baseline(method: Method) -> None:
    """Raise unless there is such a baseline and its packages are installed."""
    if method.kind not in BASELINES:
        raise ValueError(f"no baseline is called {method.kind!r}; there are {', '.join(BASELINES)}")
    for package, install in (("sklearn", "scikit-learn"), ("pyriemann", "pyriemann")):
        if package == "pyriemann" and method.kind == "log-euclidean":
            continue
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise MissingPackageError(
                f"the baseline {method.kind} needs {install}: pip install {install}"
            ) from error


def fit_baseline(method: Method, data: Dataset, train: Tensor, test: Tensor, seed: int) -> Tensor:
    """Train on some samples and label others, places to labels."""
    require_baseline(method)
    X, y = data.matrices[train].double(), data.labels[train].numpy()
    guesses = BASELINES[method.kind](X, y, data.matrices[test].double(), seed, **dict(method.options))
    return torch.from_numpy(np.asarray(guesses, dtype=np.int64))


def _tangent_space(
    X: Tensor, y: Any, X_test: Tensor, seed: int, metric: str = "riemann", classifier: str = "logistic"
) -> Any:
    """pyRiemann's tangent space at the mean of the training matrices, standard scaling, a classifier."""
    from pyriemann.tangentspace import TangentSpace

    tangent = TangentSpace(metric=metric)
    features = tangent.fit_transform(X.numpy(), y)
    return _classify(classifier, features, y, tangent.transform(X_test.numpy()), seed)


def _log_euclidean(X: Tensor, y: Any, X_test: Tensor, seed: int, classifier: str = "ridge") -> Any:
    """vech(ln X), a classifier."""
    features, others = (linalg.vech(linalg.log(A)).numpy() for A in (X, X_test))
    return _classify(classifier, features, y, others, seed)


def _mean_distance(X: Tensor, y: Any, X_test: Tensor, seed: int, metric: str = "riemann") -> Any:
    """pyRiemann's minimum distance to the mean of a class."""
    from pyriemann.classification import MDM

    return MDM(metric=metric).fit(X.numpy(), y).predict(X_test.numpy())


def _classify(name: str, X: Array, y: Any, X_test: Array, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    makers: dict[str, Callable[[], Any]] = {
        "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
        # The strength of the penalty is chosen on the training samples, by leaving one out.
        "ridge": lambda: make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-2, 4, 13))),
        "svm": lambda: make_pipeline(StandardScaler(), SVC(C=10.0)),
    }
    if name not in makers:
        raise ValueError(f"no classifier is called {name!r}; there are {', '.join(makers)}")
    return makers[name]().fit(X, y).predict(X_test)


BASELINES: dict[str, Callable[..., Any]] = {
    "tangent-space": _tangent_space,
    "log-euclidean": _log_euclidean,
    "mean-distance": _mean_distance,
}
