"""The library's metrics at parameters that are not their defaults, and numbers in and out of torch."""

import contextlib
import warnings

import torch

from alem import geometry

N = 4  # the size the true charts below are set up for


def alem(A, **options):
    """The paper's metric with the multipliers A."""
    A = torch.as_tensor(A, dtype=torch.float64)
    metric = geometry.AdaptiveLogEuclidean(A.numel(), **options).double()
    metric.diffeo.weight.data = A
    return metric


@contextlib.contextmanager
def the_papers_formula():
    """Let the library compute inverses that do not exist."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", geometry.NotADiffeomorphismWarning)
        yield


def adaptive_log_cholesky(A):
    A = torch.as_tensor(A, dtype=torch.float64)
    metric = geometry.AdaptiveLogCholesky(A.numel()).double()
    metric.diffeo.theta.data = A.log()
    return metric


def sinh(c=1.3, delta=0.7, s=0.8):
    metric = geometry.SinhArcsinhLogEuclidean().double()
    metric.diffeo.theta.data = torch.tensor([c, delta, s], dtype=torch.float64).log()
    return metric


def rank(c=(1.3, 0.5, 2.0, 0.8)):
    c = torch.as_tensor(c, dtype=torch.float64)
    metric = geometry.RankIncrementLogEuclidean(c.numel()).double()
    metric.diffeo.theta.data = c.log()
    return metric


def gap(theta=(0.2, 0.1, -0.05)):
    metric = geometry.GapLogEuclidean(widths=len(theta) - 1).double()
    metric.diffeo.theta.data = torch.tensor(theta, dtype=torch.float64)
    return metric


# Every chart that is one, by name, for 4×4 matrices.
TRUE_METRICS = {
    "lem": lambda: geometry.LogEuclidean(),
    "(a,b)-lem": lambda: geometry.LogEuclidean(a=0.7, b=0.2),
    "lcm": lambda: geometry.LogCholesky(),
    "alem, equal multipliers": lambda: alem([1.7] * N),
    "alcm": lambda: adaptive_log_cholesky([0.5, 1.0, 2.0, 3.0]),
    "sinh": sinh,
    "rank": rank,
    "gap": gap,
}


def tensor(*arrays):
    """float64 tensors of arrays; one array, one tensor."""
    made = tuple(torch.as_tensor(a, dtype=torch.float64) for a in arrays)
    return made[0] if len(made) == 1 else made
