"""Optimisers for models whose parameters are vectors, orthonormal matrices and SPD matrices."""

from alem.optim.amsgrad import RiemannianAMSGrad
from alem.optim.riemannian import NonFiniteGradientError
from alem.optim.sgd import RiemannianSGD

__all__ = ["NonFiniteGradientError", "RiemannianAMSGrad", "RiemannianSGD"]
