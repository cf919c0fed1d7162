"""The flat metrics against other libraries and against their definitions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from pyriemann.geometry import distance, geodesic, kernel, mean, tangentspace
from torch import Tensor

from alem import geometry, linalg
from alem.geometry import InnerProduct, LogCholesky, LogEuclidean, PullbackMetric

from .conftest import FLAT, learned_metric, spd, sym

P, Q, X, V = spd(3, seed=1), spd(3, seed=2), spd(6, seed=3), sym(3, seed=4)
ORACLES = {"lem": "logeuclid", "lcm": "logchol"}


def near(ours: Tensor, theirs: np.ndarray | Tensor, tolerance: float = 1e-11) -> None:
    expected = theirs if isinstance(theirs, Tensor) else torch.tensor(theirs, dtype=ours.dtype)
    torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ORACLES)
def test_agrees_with_pyriemann(name: str) -> None:
    m, key = geometry.metric(name), ORACLES[name]
    p, q, x = P.numpy(), Q.numpy(), X.numpy()
    near(m.dist(P, Q), getattr(distance, f"distance_{key}")(p, q))
    near(m.geodesic(P, Q, 0.3), getattr(geodesic, f"geodesic_{key}")(p, q, 0.3))
    weights = np.arange(1.0, 7.0)
    near(m.mean(X, torch.as_tensor(weights)), getattr(mean, f"mean_{key}")(x, sample_weight=weights))
    near(m.log(P[0], X), getattr(tangentspace, f"log_map_{key}")(x, p[0]), 1e-10)
    near(m.exp(P[0], 0.1 * V), getattr(tangentspace, f"exp_map_{key}")(0.1 * V.numpy(), p[0]), 1e-10)
    near(m.pairwise_dist(X, P), distance.pairwise_distance(x, p, metric=key))


def test_the_linear_kernel_agrees_with_pyriemann() -> None:
    near(
        LogEuclidean().kernel(X, P),
        kernel.kernel_logeuclid(X.numpy(), P.numpy(), Cref=np.eye(4)),
    )


def test_lem_agrees_with_geomstats_and_geoopt() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import geoopt
        from geomstats.geometry.spd_matrices import SPDLogEuclideanMetric, SPDMatrices

        lem_of_geoopt = geoopt.SymmetricPositiveDefinite("LEM")  # warns that it is not complete
    space = SPDMatrices(4, equip=False)
    space.equip_with_metric(SPDLogEuclideanMetric)
    theirs, m = space.metric, LogEuclidean()
    p, q, v = P.numpy(), Q.numpy(), V.numpy()
    near(m.inner(P, V, Q), theirs.inner_product(v, q, p), 1e-9)
    near(m.dist2(P, Q), theirs.squared_dist(p, q), 1e-10)
    near(m.exp(P, 0.1 * V), theirs.exp(0.1 * v, p), 1e-9)
    near(m.log(P, Q), theirs.log(q, p), 1e-9)
    near(m.transport(P, Q, V), theirs.parallel_transport(v, p, end_point=q), 1e-8)
    near(m.dist(P, Q), lem_of_geoopt.dist(P, Q), 1e-10)


def test_lcm_is_lins_formula() -> None:
    """The closed forms of Lin (2019), written out independently of the chart."""
    m, L, K = LogCholesky(), torch.linalg.cholesky(P), torch.linalg.cholesky(Q)
    logs = [A.diagonal(dim1=-2, dim2=-1).log() for A in (L, K)]
    strict = (L.tril(-1) - K.tril(-1)).square().sum((-2, -1))
    near(m.dist2(P, Q), strict + (logs[0] - logs[1]).square().sum(-1))
    product = L.tril(-1) + K.tril(-1) + torch.diag_embed((logs[0] + logs[1]).exp())
    near(m.compose(P, Q), product @ product.mT)
    whitened = torch.linalg.solve(L, torch.linalg.solve(L, V).mT)
    half = whitened.tril(-1) + 0.5 * torch.diag_embed(whitened.diagonal(dim1=-2, dim2=-1))
    W = L @ half
    scaled = W.diagonal(dim1=-2, dim2=-1) / L.diagonal(dim1=-2, dim2=-1)
    near(m.inner(P, V, V), W.tril(-1).square().sum((-2, -1)) + scaled.square().sum(-1))


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (2.0, 0.5), (0.7, -0.1)])
def test_the_two_parameter_inner_product(a: float, b: float) -> None:
    m = LogEuclidean(a, b)
    D = linalg.log(P) - linalg.log(Q)
    trace = D.diagonal(dim1=-2, dim2=-1).sum(-1)
    near(m.dist2(P, Q), a * (D * D).sum((-2, -1)) + b * trace**2)
    near((m.coordinates(P) - m.coordinates(Q)).square().sum(-1), m.dist2(P, Q))
    near(m.point(m.coordinates(P)), P)
    # the trace part of the tensor is tr(P⁻¹V)² (Thanwerdas and Pennec)
    expected = a * LogEuclidean().inner(P, V, V)
    expected = expected + b * torch.linalg.solve(P, V).diagonal(dim1=-2, dim2=-1).sum(-1) ** 2
    near(m.inner(P, V, V), expected, 1e-9)


def test_a_form_that_is_not_definite_is_refused() -> None:
    with pytest.raises(ValueError, match="a > 0"):
        LogEuclidean(a=-1.0)
    m = LogEuclidean(a=1.0, b=-0.25)  # definite for n < 4
    m.dist(P[..., :3, :3], Q[..., :3, :3])
    with pytest.raises(ValueError, match=r"a \+ n·b > 0"):
        m.dist(P, Q)


@pytest.mark.parametrize("name", FLAT)
def test_pushforward_and_pullback_are_the_differentials(name: str) -> None:
    m = learned_metric(name, 4).requires_grad_(False)
    X = m.chart(P)
    W = m.chart(Q)
    near(m.pushforward(P, V), torch.func.jvp(m.chart, (P,), (V,))[1], 1e-10)
    near(m.pullback(X, W), torch.func.jvp(m.unchart, (X,), (W,))[1], 1e-9)
    near(m.pullback(X, m.pushforward(P, V)), V, 1e-8)
    h = 1e-5
    near(m.pushforward(P, V), (m.chart(P + h * V) - m.chart(P - h * V)) / (2 * h), 1e-5)


@pytest.mark.parametrize("name", FLAT)
def test_kernels_are_positive_semi_definite(name: str) -> None:
    m = learned_metric(name, 4)
    for gamma in (None, 0.2):
        K = m.kernel(X, X, gamma).detach()
        assert torch.linalg.eigvalsh(K)[0] > -1e-12
    near(m.kernel(X, P)[2, 1], m.hilbert_inner(X[2], P[1]))
    near(m.kernel(X, P, 0.2)[2, 1], torch.exp(-0.2 * m.dist2(X[2], P[1])))


def test_a_new_flat_metric_costs_a_chart() -> None:
    class LogOfSquare(geometry.SpectralChart):
        """P ↦ 2 log P, whose inverse is X ↦ exp(X/2): a chart that the library does not have."""

        def function(self) -> tuple:
            return linalg.Chain(linalg.RankScale("exact"), linalg.LOG), (torch.full((4,), 2.0),)

        def inverse(self, branch: Tensor | None = None) -> tuple:
            return linalg.Chain(linalg.EXP, linalg.RankScale("exact")), (torch.full((4,), 0.5),)

    m, lem = PullbackMetric(LogOfSquare(), InnerProduct(4.0)), LogEuclidean()
    near(m.dist(P, Q), 4 * lem.dist(P, Q))
    near(m.exp(P, 0.1 * V), lem.exp(P, 0.1 * V), 1e-9)
    near(m.transport(P, Q, V), lem.transport(P, Q, V), 1e-9)
    near(m.mean(X), lem.mean(X))
