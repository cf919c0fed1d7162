"""scikit-learn estimators on SPD matrices `(n_samples, n, n)`, NumPy arrays or torch tensors."""

try:
    import sklearn  # noqa: F401 (to say what is missing)
except ImportError as error:
    raise ImportError("alem.estimators needs scikit-learn: pip install 'alem[train]'") from error

from alem.estimators.covariances import Covariances
from alem.estimators.frechet import FrechetClassifier
from alem.estimators.spdnet import SPDNetClassifier, SPDNetRegressor
from alem.estimators.tangent_space import TangentSpace

__all__ = ["Covariances", "FrechetClassifier", "SPDNetClassifier", "SPDNetRegressor", "TangentSpace"]
