"""The named metrics, and the table from name to metric."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from alem.geometry.affine_invariant import AffineInvariant
from alem.geometry.bures_wasserstein import BuresWasserstein
from alem.geometry.diffeo import (
    AdaptiveCholeskyLog,
    CholeskyLog,
    GapLog,
    MatrixLog,
    RankIncrementLog,
    SinhArcsinhLog,
)
from alem.geometry.metric import Metric
from alem.geometry.pullback import InnerProduct, PullbackMetric
from alem.geometry.rank_log import RankLog


class LogEuclidean(PullbackMetric):
    """LEM, and with a, b the family of O(n)-invariant log-Euclidean metrics (a,b)-LEM."""

    def __init__(self, a: float = 1.0, b: float = 0.0) -> None:
        super().__init__(MatrixLog(), InnerProduct(a, b))


class LogCholesky(PullbackMetric):
    """LCM (Lin 2019)."""

    def __init__(self) -> None:
        super().__init__(CholeskyLog())


class AdaptiveLogEuclidean(PullbackMetric):
    """The paper's ALEM and (a,b)-ALEM: a metric only while all multipliers are equal.

    See :class:`alem.geometry.RankLog` for ``rule`` and ``ties``.
    """

    def __init__(
        self, n: int, rule: str = "mul", a: float = 1.0, b: float = 0.0, ties: str = "broadened"
    ) -> None:
        super().__init__(RankLog(n, rule, ties), InnerProduct(a, b))


class AdaptiveLogCholesky(PullbackMetric):
    """LCM with a learned factor on each logarithm of the Cholesky diagonal."""

    def __init__(self, n: int) -> None:
        super().__init__(AdaptiveCholeskyLog(n))


class SinhArcsinhLogEuclidean(PullbackMetric):
    """A true adaptive metric, smooth, three parameters: a learned sinh-arcsinh of the logarithm."""

    def __init__(self, a: float = 1.0, b: float = 0.0) -> None:
        super().__init__(SinhArcsinhLog(), InnerProduct(a, b))


class RankIncrementLogEuclidean(PullbackMetric):
    """A true adaptive distance with n parameters: a learned factor on each gap of the log-spectrum."""

    def __init__(self, n: int, a: float = 1.0, b: float = 0.0) -> None:
        super().__init__(RankIncrementLog(n), InnerProduct(a, b))


class GapLogEuclidean(PullbackMetric):
    """A true adaptive metric, smooth and scale-invariant: learned interaction of log-eigenvalues."""

    def __init__(self, widths: int = 4, a: float = 1.0, b: float = 0.0) -> None:
        super().__init__(GapLog(widths), InnerProduct(a, b))


METRICS: dict[str, Callable[..., Metric]] = {
    "lem": LogEuclidean,
    "lcm": LogCholesky,
    "alem": AdaptiveLogEuclidean,
    "alcm": AdaptiveLogCholesky,
    "sinh": SinhArcsinhLogEuclidean,
    "rank": RankIncrementLogEuclidean,
    "gap": GapLogEuclidean,
    "aim": AffineInvariant,
    "bwm": BuresWasserstein,
}


def metric(name: str, n: int | None = None, **options: Any) -> Metric:
    """The metric of that name for n×n matrices; ``options`` go to its constructor.

    Every name takes ``n``; only metrics with parameters per dimension need it.
    """
    if name not in METRICS:
        raise ValueError(f"no metric is called {name!r}; there are {', '.join(METRICS)}")
    build = METRICS[name]
    if "n" in inspect.signature(build).parameters:
        if n is None:
            raise ValueError(f"the metric {name!r} has parameters per dimension: pass n")
        options["n"] = n
    return build(**options)
