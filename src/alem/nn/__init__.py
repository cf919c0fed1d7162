"""Layers on SPD matrices `(..., n, n)`; those that depend on the geometry take a metric."""

from alem.nn.batchnorm import LieBN
from alem.nn.bimap import BiMap
from alem.nn.chart_norm import ChartNorm, CoordinateNorm
from alem.nn.eig import ALog, ExpEig, LogEig, ReEig
from alem.nn.fuse import Fused, fuse
from alem.nn.karcher_norm import SPDBN, SPDNetBN
from alem.nn.mlr import GyroMLR
from alem.nn.pooling import CovPool, TraceNorm
from alem.nn.residual import RResBlock, SpectrumResponse
from alem.nn.sync import convert_sync
from alem.nn.vectorize import Vec, Vech
from alem.nn.whiten import Whiten

__all__ = [
    "SPDBN",
    "ALog",
    "BiMap",
    "ChartNorm",
    "CoordinateNorm",
    "CovPool",
    "ExpEig",
    "Fused",
    "GyroMLR",
    "LieBN",
    "LogEig",
    "RResBlock",
    "ReEig",
    "SPDNetBN",
    "SpectrumResponse",
    "TraceNorm",
    "Vec",
    "Vech",
    "Whiten",
    "convert_sync",
    "fuse",
]
