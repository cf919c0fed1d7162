"""Learning on symmetric positive definite matrices, with metrics that can themselves be learned."""

from alem import geometry, linalg

__all__ = ["geometry", "linalg"]
__version__ = "0.1.0"
