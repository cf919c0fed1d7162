"""LEM and LCM are pullbacks of flat metrics, and what every flat metric with a true chart has."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch

from alem import geometry, linalg
from tests.claims import library, paper
from tests.claims.library import N, tensor


@pytest.fixture
def vector(rng):
    return tensor(paper.random_symmetric(rng, N))


def same(a, b, tolerance=1e-10):
    return torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


# Theorem III.1 and its corollary


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (0.7, 0.2), (2.0, -0.4)])
def test_log_euclidean_metric_is_a_pullback(rng, a, b):
    P, V = paper.random_spd(rng, N), paper.random_symmetric(rng, N)
    pushed = paper.derivative(scipy.linalg.logm, P, V)
    defined = a * np.sum(pushed**2) + b * np.trace(np.linalg.solve(P, V)) ** 2
    metric = geometry.LogEuclidean(a, b)
    assert metric.norm(*tensor(P, V)).item() == pytest.approx(math.sqrt(defined), rel=1e-7)


def test_log_cholesky_metric_is_a_pullback(rng):
    """Against the tensor Lin defined: on Cholesky factors, with the differential of Cholesky."""
    P, V = paper.random_spd(rng, N), paper.random_symmetric(rng, N)
    L = np.linalg.cholesky(P)
    inner = np.linalg.solve(L, np.linalg.solve(L, V).T)
    W = L @ (np.tril(inner, -1) + np.diag(np.diag(inner)) / 2)
    defined = np.sum(np.tril(W, -1) ** 2) + np.sum((np.diag(W) / np.diag(L)) ** 2)

    def chart(S):
        factor = np.linalg.cholesky(S)
        return np.tril(factor, -1) + np.diag(np.log(np.diag(factor)))

    by_differences = np.sum(paper.derivative(chart, P, V) ** 2)
    metric = geometry.LogCholesky()
    assert metric.inner(*tensor(P, V, V)).item() == pytest.approx(defined, rel=1e-12)
    assert by_differences == pytest.approx(defined, rel=1e-7)


def test_flat_spaces_are_isometric_to_symmetric_matrices(rng):
    X, Y = tensor(*paper.random_symmetric(rng, N, (2,)))
    product = geometry.InnerProduct(0.7, 0.2)
    same(product(X, Y), (product.isometry(X) * product.isometry(Y)).sum())

    L, M = X.tril(), Y.tril()
    same((linalg.tril_to_sym(L) * linalg.tril_to_sym(M)).sum(), (L * M).sum())
    mirrored = L + L.tril(-1).mT  # without the factor 1/√2 below the diagonal it is no isometry
    assert abs((mirrored**2).sum() - (L**2).sum()) > 0.1


def test_inner_product_has_the_norm_squared(rng):
    """The paper prints a‖X‖ + b tr(X)², which is no inner product: doubling X must give four times."""
    X = tensor(paper.random_symmetric(rng, N))
    product = geometry.InnerProduct(0.7, 0.2)
    same(product(X, X), 0.7 * (X**2).sum() + 0.2 * torch.trace(X) ** 2)
    same(product(2 * X, 2 * X), 4 * product(X, X))

    def printed(Y):
        return 0.7 * (Y**2).sum().sqrt() + 0.2 * torch.trace(Y) ** 2

    assert abs(printed(2 * X) - 4 * printed(X)) > 0.1


def test_inner_product_is_definite_exactly_if_a_and_a_plus_nb_are_positive():
    eye = torch.eye(N, dtype=torch.float64)
    assert geometry.InnerProduct(1.0, -0.24)(eye, eye) > 0
    for a, b in [(0.0, 1.0), (-1.0, 1.0), (1.0, -0.25), (1.0, -0.3)]:
        assert a <= 0 or a * N + b * N**2 <= 0
        with pytest.raises(ValueError, match=r"a > 0|positive definite"):
            geometry.InnerProduct(a, b)(eye, eye)


def test_trace_term_of_alem_is_that_of_the_pushed_vector(rng):
    """tr(P⁻¹V) serves LEM only; with multipliers A the term is tr(mlog_* V) = Σ A_i (UᵀVU)_ii/σ_i."""
    A = np.array([1.0, 2.0, 0.5, 1.5])
    P, V = paper.random_spd(rng, N), paper.random_symmetric(rng, N)
    flat, bent = geometry.LogEuclidean(), library.alem(A, ties="exact")
    printed = np.trace(np.linalg.solve(P, V))
    pushed = paper.derivative(lambda S: paper.mlog(S, A), P, V)
    assert torch.trace(flat.pushforward(*tensor(P, V))).item() == pytest.approx(printed, rel=1e-12)
    assert torch.trace(bent.pushforward(*tensor(P, V))).item() == pytest.approx(np.trace(pushed), rel=1e-7)
    assert abs(np.trace(pushed) - printed) > 0.1
    weighted = library.alem(A, ties="exact", a=0.7, b=0.2).inner(*tensor(P, V, V)).item()
    assert weighted == pytest.approx(0.7 * np.sum(pushed**2) + 0.2 * np.trace(pushed) ** 2, rel=1e-7)


# Lemma III.3 on every true chart


def test_true_charts_make_a_hilbert_space(metric, points):
    P, Q, R = points
    same(metric.scale(P, 1.0), P)
    same(metric.scale(metric.scale(P, -0.5), 1.4), metric.scale(P, -0.7))
    same(metric.scale(P, 0.3 + 0.4), metric.compose(metric.scale(P, 0.3), metric.scale(P, 0.4)))
    same(
        metric.scale(metric.compose(P, Q), 0.7),
        metric.compose(metric.scale(P, 0.7), metric.scale(Q, 0.7)),
    )
    same(
        metric.hilbert_inner(metric.compose(P, metric.scale(Q, -0.7)), R),
        metric.hilbert_inner(P, R) - 0.7 * metric.hilbert_inner(Q, R),
    )
    assert metric.hilbert_inner(P, P) > 0


def test_true_charts_make_an_abelian_group(metric, points):
    P, Q, R = points
    neutral = torch.eye(N, dtype=P.dtype)
    tied = torch.diag(tensor([2.0, 2.0, 2.0, 5.0]))  # a bijection is all that the algebra needs
    for S in (R, tied):
        same(metric.compose(metric.compose(P, Q), S), metric.compose(P, metric.compose(Q, S)))
        same(metric.compose(P, S), metric.compose(S, P))
        same(metric.compose(S, neutral), S)
        same(metric.compose(S, metric.invert(S)), neutral)


def test_riemannian_operators_of_true_charts(metric, points, vector):
    P, Q, _ = points
    step = 1e-5
    slope = (metric.chart(P + step * vector) - metric.chart(P - step * vector)) / (2 * step)
    same(metric.pushforward(P, vector), slope, 1e-6)
    same(metric.exp(P, metric.log(P, Q)), Q)
    same(metric.log(P, metric.exp(P, vector)), vector)
    same(metric.norm(P, metric.log(P, Q)), metric.dist(P, Q))
    carried = metric.transport(P, Q, vector)
    same(metric.norm(Q, carried), metric.norm(P, vector))
    same(metric.transport(P, Q, metric.log(P, Q)), -metric.log(Q, P))


def test_distance_is_the_length_of_the_geodesic(metric, points):
    """Of its curve, measured with the metric's own tensor; no other curve tried is shorter."""
    P, Q, R = points
    times = torch.linspace(0, 1, 401, dtype=torch.float64)

    def length(curve):
        middle = (curve[1:] + curve[:-1]) / 2
        return metric.norm(middle, curve[1:] - curve[:-1]).sum().item()

    distance = metric.dist(P, Q).item()
    assert length(metric.geodesic(P, Q, times)) == pytest.approx(distance, rel=1e-4)
    straight = P + times[:, None, None] * (Q - P)
    assert length(straight) > distance
    assert metric.dist(P, R).item() + metric.dist(R, Q).item() > distance


def test_true_charts_are_bi_invariant(metric, points, vector):
    P, Q, R = points
    same(metric.dist(metric.compose(R, P), metric.compose(R, Q)), metric.dist(P, Q))
    step = 1e-5
    ends = [metric.compose(R, P + sign * step * vector) for sign in (1, -1)]
    translated = (ends[0] - ends[1]) / (2 * step)
    same(metric.norm(metric.compose(R, P), translated), metric.norm(P, vector), 1e-6)


def test_true_charts_are_isomorphisms(metric, points):
    P, Q, _ = points
    same(metric.chart(metric.compose(P, Q)), metric.chart(P) + metric.chart(Q))
    same(metric.chart(metric.scale(P, -0.7)), -0.7 * metric.chart(P))
    v, w = metric.coordinates(P), metric.coordinates(Q)
    same(metric.hilbert_inner(P, Q), v @ w)
    same(metric.dist(P, Q), (v - w).norm())
    same(metric.point(v), P)
    assert metric.is_diffeo
