"""Theorem III.6: the group, the Hilbert space and the metric exist only for equal multipliers."""

import numpy as np
import pytest
import torch

from alem import geometry
from tests.claims import library, paper
from tests.claims.library import tensor

ASCENDING = np.array([1.0, 2.0])
DESCENDING = np.array([2.0, 1.0])
TRIPLE = paper.diagonal(1, 3), paper.diagonal(5, 1), paper.diagonal(-1, 2)


def library_says(operation, A, *points):
    """The same by the library, which warns of it."""
    metric = library.alem(A)
    with pytest.warns(geometry.NotADiffeomorphismWarning):
        return getattr(metric, operation)(*(tensor(P) for P in points)).detach().numpy()


# Unequal multipliers


def test_inverse_elements_fail():
    S = paper.diagonal(1, 3)
    product = paper.compose(S, paper.invert(S, DESCENDING), DESCENDING)
    np.testing.assert_allclose(paper.logs(product), [-1, 1.5], atol=1e-14)
    np.testing.assert_allclose(library_says("invert", DESCENDING, S), paper.invert(S, DESCENDING))


def test_the_identity_is_not_neutral():
    S = paper.diagonal(1, 1.5)
    product = paper.compose(np.eye(2), S, DESCENDING)
    np.testing.assert_allclose(paper.logs(product), [2, 0.75])
    np.testing.assert_allclose(library_says("compose", DESCENDING, np.eye(2), S), product)


def test_associativity_fails():
    a, b, c = TRIPLE
    left = paper.compose(paper.compose(a, b, ASCENDING), c, ASCENDING)
    right = paper.compose(a, paper.compose(b, c, ASCENDING), ASCENDING)
    np.testing.assert_allclose(paper.logs(left), [4.5, 9])
    np.testing.assert_allclose(paper.logs(right), [5.5, 8])
    ours = library_says("compose", ASCENDING, a, b)
    np.testing.assert_allclose(ours, paper.compose(a, b, ASCENDING))


def test_one_times_a_point_is_not_the_point():
    S = paper.diagonal(1, 1.5)
    np.testing.assert_allclose(paper.logs(paper.scale(1, S, DESCENDING)), [2, 0.75])


def test_the_chart_is_no_homomorphism():
    """mlog(P ⊙ Q) ≠ mlog P + mlog Q: what item 3 calls an isomorphism is no homomorphism."""
    a, b, _ = TRIPLE
    total = paper.mlog(a, ASCENDING) + paper.mlog(b, ASCENDING)
    product = paper.mlog(paper.compose(a, b, ASCENDING), ASCENDING)
    assert np.linalg.norm(total - product) > 1


def test_bi_invariance_fails():
    a, b, c = TRIPLE
    before = paper.dist(a, c, ASCENDING)
    after = paper.dist(paper.compose(b, a, ASCENDING), paper.compose(b, c, ASCENDING), ASCENDING)
    assert before == pytest.approx(np.sqrt(8))  # 2.83
    assert after == pytest.approx(np.sqrt(17))  # 4.12


def test_operators_of_the_theorem_are_no_inverses_of_each_other():
    """Exp_P(Log_P Q) as printed, from a P where all is well to a Q where (L) fails."""
    P, Q = paper.diagonal(-1, 3), paper.diagonal(1, 1.5)
    X, Y = paper.mlog(P, DESCENDING), paper.mlog(Q, DESCENDING)
    V = paper.derivative(lambda Z: paper.mgexp(Z, DESCENDING), X, Y - X)
    W = paper.derivative(lambda S: paper.mlog(S, DESCENDING), P, V, step=1e-8)
    np.testing.assert_allclose(W, Y - X, atol=1e-5)
    np.testing.assert_allclose(paper.logs(paper.mgexp(X + W, DESCENDING)), [2, 0.75], atol=1e-5)


def test_centring_does_not_centre():
    """LieBN moves the mean of a batch to the neutral element; with A = (1, 2) it ends elsewhere."""
    M = paper.mean(paper.PAIR, ASCENDING)
    centred = [paper.compose(paper.invert(M, ASCENDING), S, ASCENDING) for S in paper.PAIR]
    assert np.abs(paper.logs(paper.mean(centred, ASCENDING))).max() > 0.5


# Equal multipliers


@pytest.mark.parametrize("c", [1.7, -0.4])
def test_equal_multipliers_centre(c):
    rng = np.random.default_rng(0)
    metric = library.alem([c] * 4)
    X = tensor(paper.random_spd(rng, 4, (6,)))
    centred = metric.compose(metric.invert(metric.mean(X)), X)
    torch.testing.assert_close(metric.mean(centred), torch.eye(4, dtype=X.dtype))
    halved = metric.scale(centred, 0.5)
    torch.testing.assert_close(metric.variance(halved), metric.variance(X) / 4)


@pytest.mark.parametrize("c", [1.7, -0.4])
def test_equal_multipliers_are_a_multiple_of_lem(c):
    """d = |c| d_LE and all else is LEM's: only a scalar is learned."""
    rng = np.random.default_rng(1)
    lem, metric = geometry.LogEuclidean(), library.alem([c] * 4)
    X = tensor(paper.random_spd(rng, 4, (5,)))
    V = tensor(paper.random_symmetric(rng, 4))
    P, Q = X[0], X[1]

    def same(ours, theirs):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)

    same(metric.dist(P, Q), abs(c) * lem.dist(P, Q))
    same(metric.inner(P, V, V), c**2 * lem.inner(P, V, V))
    same(metric.hilbert_inner(P, Q), c**2 * lem.hilbert_inner(P, Q))
    same(metric.compose(P, Q), lem.compose(P, Q))
    same(metric.invert(P), lem.invert(P))
    same(metric.scale(P, -0.7), lem.scale(P, -0.7))
    same(metric.mean(X), lem.mean(X))
    same(metric.exp(P, V), lem.exp(P, V))
    same(metric.log(P, Q), lem.log(P, Q))
    same(metric.transport(P, Q, V), lem.transport(P, Q, V))
    same(metric.geodesic(P, Q, 0.3), lem.geodesic(P, Q, 0.3))
    A = np.full(4, c)
    np.testing.assert_allclose(metric.mean(X).detach(), paper.mean(list(X.numpy()), A), rtol=1e-11)
