"""What layers ask of their arguments and of their input before they work on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral

from torch import Tensor

from alem import linalg
from alem.geometry import METRICS, Metric, PullbackMetric
from alem.linalg.errors import (
    InvalidMatrixError,
    NotPositiveDefiniteError,
    can_inspect,
    require_square,
)


def require_count(layer: str, name: str, value: int) -> None:
    """Raise ValueError unless the argument ``name`` is a whole number of 1 or more."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{layer} needs a whole number {name} of 1 or more, got {name}={value!r}")


def require_momentum(layer: str, name: str, value: float) -> None:
    """Raise ValueError unless the argument ``name`` is a share that the new has in an average."""
    if not 0 < value <= 1:
        raise ValueError(f"{layer} needs a {name} above 0 and up to 1, the share of the new, got {value}")


def require_eps(layer: str, eps: float) -> None:
    """Raise ValueError unless eps is positive and finite: a variance of zero has no inverse."""
    if not 0 < eps < math.inf:
        raise ValueError(f"{layer} needs a positive eps, by which it divides at the least, got {eps}")


def require_metric(layer: str, metric: object, n: int) -> None:
    """Raise TypeError unless ``metric`` is a metric, ValueError unless it is one of n×n matrices."""
    if not isinstance(metric, Metric):
        name = repr(metric if isinstance(metric, str) and metric in METRICS else "lem")
        raise TypeError(
            f"{layer} takes a metric object and got {metric!r}; make one with "
            f"alem.geometry.metric({name}, n={n})"
        )
    if isinstance(metric, PullbackMetric):
        made_for = getattr(metric.diffeo, "n", None)
        if made_for not in (None, n):
            raise ValueError(
                f"{layer} is for n = {n}, and its {type(metric).__name__} was made for n = {made_for}; "
                f"give each layer a metric of its own size: alem.geometry.metric(name, n={n})"
            )
        metric.inner_product.check(n)


def require_matrices(layer: str, X: Tensor, n: int, like: Tensor) -> None:
    """Raise InvalidMatrixError unless X is `(..., n, n)` and in the dtype of ``like``, the layer's own."""
    require_square(X)
    if X.shape[-1] != n:
        raise InvalidMatrixError(f"{layer} was made for n = {n} and got matrices of shape {tuple(X.shape)}")
    if X.dtype != like.dtype:
        raise InvalidMatrixError(
            f"{layer} holds {like.dtype} and got matrices of {X.dtype}; convert one of them, with "
            f"module.to(X.dtype) or X.to({like.dtype})"
        )


def require_some(layer: str, X: Tensor, what: str = "matrices") -> None:
    """Raise InvalidMatrixError if X, a batch to train on, is empty."""
    if X.numel() == 0:
        raise InvalidMatrixError(
            f"{layer} in training mode got no {what}, shape {tuple(X.shape)}: an empty batch has no mean; "
            "skip it, or call eval()"
        )


def moved_mean(layer: str, move: Callable[[], Tensor], batch: Tensor) -> Tensor:
    """The running mean `(n, n)` that ``move`` gives; an error says whose it is.

    That it is positive definite is asked where looking at ``batch``, which it follows, is free.
    """
    if not can_inspect(batch):
        return move()
    try:
        mean = move()
        linalg.cholesky(mean)
    except InvalidMatrixError as error:
        kind = (
            NotPositiveDefiniteError if isinstance(error, NotPositiveDefiniteError) else InvalidMatrixError
        )
        raise kind(
            f"the running mean of {layer} cannot follow this batch, whose mean {batch.dtype} does not hold "
            f"as a positive definite matrix; it stays as it was. Leave out matrices of a far larger or "
            f"smaller scale. In detail: {error}"
        ) from error
    return mean
