"""Learning on symmetric positive definite matrices, with metrics that can themselves be learned."""

from alem import geometry, linalg, models, nn, optim

__all__ = ["geometry", "linalg", "models", "nn", "optim"]
__version__ = "0.1.0"
