"""The adaptive version of LCM: sound for any multipliers, and how little it adapts."""

import numpy as np
import pytest
import torch

from alem import geometry, linalg
from tests.claims import library, paper
from tests.claims.library import N, tensor

A = (0.5, 1.0, 2.0, 3.0)


@pytest.fixture
def metric():
    return library.adaptive_log_cholesky(A)


@pytest.fixture
def points():
    return tensor(paper.random_spd(np.random.default_rng(0), N, (3,)))


def same(a, b, tolerance=1e-10):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def test_adaptive_lcm_is_a_smooth_global_chart(metric, points):
    """At the identity, its multiples and ties too: no order of anything is involved."""
    ties = torch.stack([torch.diag(tensor(d)) for d in ([1] * 4, [2] * 4, [2, 2, 5, 5])])
    for P in (*points, *ties):
        same(metric.unchart(metric.chart(P)), P, 1e-13)
        assert torch.autograd.gradcheck(metric.chart, P.clone().requires_grad_())
    assert metric.is_diffeo


def test_multipliers_of_either_sign_make_a_chart(points):
    """⌊L⌋ + diag(A_i ln L_ii) has the inverse L_ii = exp(x_ii/A_i) for every A_i ≠ 0."""
    signed = np.array([0.5, -1.0, 2.0, -3.0])
    P = points[0].numpy()
    L = np.linalg.cholesky(P)
    X = np.tril(L, -1) + np.diag(signed * np.log(np.diag(L)))
    M = np.tril(X, -1) + np.diag(np.exp(np.diag(X) / signed))
    np.testing.assert_allclose(M @ M.T, P, atol=1e-13)


def test_adaptive_lcm_changes_distances_only(metric, points):
    """It is linear in the chart of LCM: product, mean, exp and geodesic do not see the multipliers."""
    lcm = geometry.LogCholesky()
    P, Q, _ = points
    V = tensor(paper.random_symmetric(np.random.default_rng(1), N))
    same(metric.compose(P, Q), lcm.compose(P, Q))
    same(metric.mean(points), lcm.mean(points))
    same(metric.exp(P, V), lcm.exp(P, V))
    same(metric.log(P, Q), lcm.log(P, Q))
    same(metric.geodesic(P, Q, 0.3), lcm.geodesic(P, Q, 0.3))
    difference = lcm.chart(P) - lcm.chart(Q)
    weights = torch.ones(N, N, dtype=P.dtype).tril(-1) + torch.diag(tensor(A) ** 2)
    same(metric.dist2(P, Q), (weights * difference**2).sum())
    assert abs(metric.dist(P, Q) - lcm.dist(P, Q)) > 0.1


def congruence(R, X):
    return R @ X @ R.mT


def test_what_adaptive_lcm_keeps(metric, points):
    P, Q, R = points
    same(metric.dist(metric.compose(R, P), metric.compose(R, Q)), metric.dist(P, Q))
    signs = torch.diag(tensor([1.0, -1.0, -1.0, 1.0]))
    same(metric.dist(congruence(signs, P), congruence(signs, Q)), metric.dist(P, Q))
    same(torch.logdet(metric.mean(points)), torch.logdet(points).mean())
    same(metric.mean(7 * points), 7 * metric.mean(points))


@pytest.mark.parametrize("name", ["rotation", "permutation", "scale", "V1", "V3", "powers"])
def test_what_adaptive_lcm_lacks(metric, points, name):
    """Plain LCM lacks the same."""
    R = tensor(paper.orthogonal(np.random.default_rng(2), N))
    swap = torch.eye(N, dtype=R.dtype)[[1, 0, 2, 3]]
    factors = tensor([0.2, 1.0, 7.0])

    def defect(m):
        if name in ("rotation", "permutation", "scale"):
            T = {"rotation": R, "permutation": swap, "scale": 3 * torch.eye(N, dtype=R.dtype)}[name]
            moved = congruence(T, points)
            return abs(m.dist(moved[0], moved[1]) - m.dist(points[0], points[1]))
        if name == "V1":
            scaled = m.mean(factors[:, None, None] * points)
            return (scaled - factors.prod() ** (1 / 3) * m.mean(points)).norm()
        p = {"V3": -1.0, "powers": 2.0}[name]
        return (m.mean(linalg.power(points, p)) - linalg.power(m.mean(points), p)).norm()

    for m in (metric, geometry.LogCholesky()):
        assert defect(m) > 1e-3
