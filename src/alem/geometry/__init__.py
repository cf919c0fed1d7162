"""Geometries of symmetric positive definite matrices, fixed and learnable, on one contract."""

from alem.geometry import gyro
from alem.geometry.affine_invariant import AffineInvariant
from alem.geometry.blocks import Blocks, Moments
from alem.geometry.bures_wasserstein import BuresWasserstein
from alem.geometry.catalogue import (
    METRICS,
    AdaptiveLogCholesky,
    AdaptiveLogEuclidean,
    GapLogEuclidean,
    LogCholesky,
    LogEuclidean,
    RankIncrementLogEuclidean,
    SinhArcsinhLogEuclidean,
    metric,
)
from alem.geometry.diffeo import (
    AdaptiveCholeskyLog,
    CholeskyLog,
    Diffeo,
    GapLog,
    MatrixLog,
    RankIncrementLog,
    SinhArcsinhLog,
    SpectralChart,
)
from alem.geometry.metric import Metric
from alem.geometry.moment_sum import MomentSum
from alem.geometry.parameters import Constrained, spd_parameter, stiefel_parameter
from alem.geometry.pullback import InnerProduct, PullbackMetric
from alem.geometry.rank_log import NotADiffeomorphismWarning, RankLog
from alem.geometry.sampling import sample_log_normal, sample_wishart
from alem.geometry.validation import check_spd

__all__ = [
    "METRICS",
    "AdaptiveCholeskyLog",
    "AdaptiveLogCholesky",
    "AdaptiveLogEuclidean",
    "AffineInvariant",
    "Blocks",
    "BuresWasserstein",
    "CholeskyLog",
    "Constrained",
    "Diffeo",
    "GapLog",
    "GapLogEuclidean",
    "InnerProduct",
    "LogCholesky",
    "LogEuclidean",
    "MatrixLog",
    "Metric",
    "MomentSum",
    "Moments",
    "NotADiffeomorphismWarning",
    "PullbackMetric",
    "RankIncrementLog",
    "RankIncrementLogEuclidean",
    "RankLog",
    "SinhArcsinhLog",
    "SinhArcsinhLogEuclidean",
    "SpectralChart",
    "check_spd",
    "gyro",
    "metric",
    "sample_log_normal",
    "sample_wishart",
    "spd_parameter",
    "stiefel_parameter",
]
