"""Matrices as vectors, for the classifiers that follow."""

from __future__ import annotations

from torch import Tensor, nn

from alem import linalg
from alem.linalg.precision import takes_half


class Vec(nn.Module):
    """All n² entries of a matrix: `(..., n, n)` to `(..., n²)`."""

    @takes_half
    def forward(self, X: Tensor) -> Tensor:
        return X.flatten(-2)


class Vech(nn.Module):
    """The n(n+1)/2 coordinates of a symmetric matrix, isometrically: see :func:`alem.linalg.vech`."""

    def forward(self, X: Tensor) -> Tensor:
        return linalg.vech(X)
