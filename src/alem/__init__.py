"""Learning on symmetric positive definite matrices, with metrics that can themselves be learned."""

__version__ = "0.1.0"
