"""Section IV on Fréchet means: the closed form, powers, and the properties U1 to V4."""

import numpy as np
import pytest
import scipy.optimize

from tests.claims import paper
from tests.claims.paper import PAIR

A = np.array([1.0, 2.0])
EQUAL = np.array([1.6, 1.6])


def commuting(rng, count, n=3):
    U = paper.orthogonal(rng, n)
    return [paper.with_logs(U, t) for t in rng.standard_normal((count, n))]


# Proposition IV.1


def test_the_closed_form_does_not_minimise():
    M = paper.mean(PAIR, A)
    np.testing.assert_allclose(paper.logs(M), [2.75, 3.5])
    assert paper.objective(M, PAIR, A) == pytest.approx(46.3, abs=0.05)
    assert paper.objective(paper.diagonal(2.9, 2.8), PAIR, A) == pytest.approx(27.1, abs=0.05)


def test_the_closed_form_minimises_where_its_argument_has_an_inverse():
    """(R) at the mean of the images: then the objective is that of a mean in a flat space."""
    U = paper.orthogonal(np.random.default_rng(0), 2)
    points = [paper.with_logs(U, t) for t in ([0.5, 1.0], [0.2, 1.7])]
    M = paper.mean(points, A)
    best = paper.objective(M, points, A)
    X = np.mean([paper.mlog(P, A) for P in points], axis=0)
    np.testing.assert_allclose(paper.mlog(M, A), X, atol=1e-12)
    flat = np.mean([np.sum((paper.mlog(P, A) - X) ** 2) for P in points])
    assert best == pytest.approx(flat)


def test_equal_multipliers_minimise_with_weights():
    """The weights are divided by Σ_j w_j; the printed Σ_j w_i would be m·w_i and cancel them."""
    rng = np.random.default_rng(1)
    points = list(paper.random_spd(rng, 2, (4,)))
    weights = np.array([0.1, 2.0, 0.5, 1.0])
    M = paper.mean(points, EQUAL, weights)

    def objective(x):
        H = np.array([[x[0], x[1]], [x[1], x[2]]])
        candidate = paper.mgexp(H, np.ones(2))
        return sum(w * paper.dist(candidate, P, EQUAL) ** 2 for w, P in zip(weights, points, strict=True))

    start = paper.mlog(points[0], np.ones(2))[np.triu_indices(2)]
    found = scipy.optimize.minimize(objective, start, method="BFGS")
    np.testing.assert_allclose(paper.mlog(M, np.ones(2))[np.triu_indices(2)], found.x, atol=1e-5)
    printed = paper.mean(points, EQUAL)
    assert np.abs(printed - M).max() > 0.01


# Proposition IV.3


@pytest.mark.parametrize("beta", [0.0, 0.5, 3.0])
def test_nonnegative_powers_pass_through_the_formula(beta):
    """For any multipliers: β ≥ 0 keeps the order of the eigenvalues on both sides."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        any_A = rng.choice([-1, 1], 4) * np.exp(rng.standard_normal(4))
        points = list(paper.random_spd(rng, 4, (3,), spread=0.4))
        left = paper.power(paper.mean(points, any_A), beta)
        right = paper.mean([paper.power(P, beta) for P in points], any_A)
        np.testing.assert_allclose(left, right, atol=1e-7 * np.abs(left).max())


def test_inverses_do_not_pass_through_the_formula():
    right = paper.mean([paper.power(P, -1) for P in PAIR], A)
    left = paper.power(paper.mean(PAIR, A), -1)
    np.testing.assert_allclose(paper.logs(left), [-2.75, -3.5])
    np.testing.assert_allclose(paper.logs(right), [-3.5, -1.25])


@pytest.mark.parametrize(
    ("multipliers", "holds"),
    [((1, 2, 1), True), ((1, 2, 1.5), False), ((1, 2, 2, 1), True), ((1, 2, 3, 1), False)],
)
def test_negative_powers_need_palindromic_multipliers(multipliers, holds):
    rng = np.random.default_rng(3)
    multipliers = np.array(multipliers, dtype=float)
    points = list(paper.random_spd(rng, multipliers.size, (3,)))
    left = paper.power(paper.mean(points, multipliers), -1.0)
    right = paper.mean([paper.power(P, -1.0) for P in points], multipliers)
    error = np.abs(left - right).max()
    assert error < 1e-12 if holds else error > 0.05


# Proposition IV.4


def test_u1_the_order_of_the_points_does_not_matter():
    rng = np.random.default_rng(4)
    points = list(paper.random_spd(rng, 4, (3,)))
    any_A = np.array([1.0, 2.0, 0.5, -1.5])
    M = paper.mean(points, any_A)
    for order in ([1, 0, 2], [2, 0, 1], [2, 1, 0]):
        np.testing.assert_allclose(paper.mean([points[i] for i in order], any_A), M, rtol=1e-10)


def test_u2_the_mean_of_one_point_may_be_another():
    """FM(S, S, S) = mgexp(mlog S), which is S exactly under (L)."""
    S = paper.diagonal(1, 1.5)
    found = paper.mean([S, S, S], np.array([2.0, 1.0]))
    np.testing.assert_allclose(paper.logs(found), [2, 0.75])
    np.testing.assert_allclose(paper.mean([S, S, S], A), S)


def test_commuting_points_do_not_have_the_geometric_mean():
    """The proof prints (Σ A_i)^{1/n} for (∏ A_i)^{1/n}; neither is the formula's value on the pair."""
    M = paper.mean(PAIR, A)
    geometric = paper.power(PAIR[0] @ PAIR[1], 0.5)
    np.testing.assert_allclose(paper.logs(M), [2.75, 3.5])
    np.testing.assert_allclose(paper.logs(geometric), [3, 2])
    printed = paper.power(PAIR[0] + PAIR[1], 0.5)
    for multipliers in (A, EQUAL):
        assert np.abs(paper.mean(PAIR, multipliers) - printed).max() > 1


def test_commuting_points_with_one_order_have_the_geometric_mean():
    """One ordered frame, and (L) at the result."""
    U = paper.orthogonal(np.random.default_rng(5), 3)
    increasing = np.array([1.0, 1.5, 4.0])
    points = [paper.with_logs(U, t) for t in ([0.1, 0.5, 1.0], [0.3, 0.4, 2.0], [0.0, 1.0, 1.1])]
    geometric = paper.with_logs(U, np.mean([[0.1, 0.5, 1.0], [0.3, 0.4, 2.0], [0.0, 1.0, 1.1]], 0))
    np.testing.assert_allclose(paper.mean(points, increasing), geometric, rtol=1e-12)


def test_equal_multipliers_have_the_geometric_mean_of_commuting_points():
    points = commuting(np.random.default_rng(6), 3)
    product = points[0] @ points[1] @ points[2]
    np.testing.assert_allclose(
        paper.mean(points, np.full(3, 1.6)), paper.power((product + product.T) / 2, 1 / 3), rtol=1e-10
    )


def test_v1_joint_homogeneity():
    scaled = paper.mean([np.exp(2) * PAIR[0], PAIR[1]], A)
    expected = np.exp(1) * paper.mean(PAIR, A)
    np.testing.assert_allclose(paper.logs(scaled), [3.25, 5.5])
    np.testing.assert_allclose(paper.logs(expected), [3.75, 4.5])
    points = list(paper.random_spd(np.random.default_rng(7), 2, (3,)))  # that do not commute
    factors = np.array([0.5, 2.0, 3.0])
    scaled = paper.mean([f * P for f, P in zip(factors, points, strict=True)], EQUAL)
    np.testing.assert_allclose(scaled, factors.prod() ** (1 / 3) * paper.mean(points, EQUAL), rtol=1e-12)


def test_v2_monotonicity_fails():
    lower = [paper.diagonal(-2.5, 0.5), paper.diagonal(2, 1.5)]
    upper = [paper.diagonal(-1.5, 2.5), paper.diagonal(2.5, 3)]
    before, after = paper.mean(lower, A), paper.mean(upper, A)
    np.testing.assert_allclose(paper.logs(before), [0.75, 0.625])
    np.testing.assert_allclose(paper.logs(after), [0.5, 2.75])
    assert paper.logs(after)[0] < paper.logs(before)[0]


def test_v2_monotonicity_of_equal_multipliers_needs_commuting_points():
    rng = np.random.default_rng(8)
    for _ in range(200):
        U, t, growth = paper.orthogonal(rng, 2), rng.standard_normal((3, 2)), rng.uniform(0, 1, (3, 2))
        before = paper.mean(list(paper.with_logs(U, t)), EQUAL)
        after = paper.mean(list(paper.with_logs(U, t + growth)), EQUAL)
        assert np.linalg.eigvalsh(after - before)[0] > 0
    worst = 0.0
    for _ in range(200):
        P, Q = paper.random_spd(rng, 2, (2,), spread=2.0)
        step = rng.standard_normal(2)
        before = paper.mean([P, Q], EQUAL)
        after = paper.mean([P + np.outer(step, step), Q], EQUAL)
        worst = min(worst, np.linalg.eigvalsh(after - before)[0] / np.linalg.norm(before))
    assert worst < -1e-3


def test_v3_self_duality():
    dual = paper.power(paper.mean([paper.power(P, -1) for P in PAIR], A), -1)
    np.testing.assert_allclose(paper.logs(dual), [3.5, 1.25])
    np.testing.assert_allclose(paper.logs(paper.mean(PAIR, A)), [2.75, 3.5])
    points = list(paper.random_spd(np.random.default_rng(9), 2, (3,)))
    dual = paper.power(paper.mean([paper.power(P, -1) for P in points], EQUAL), -1)
    np.testing.assert_allclose(dual, paper.mean(points, EQUAL), rtol=1e-12)


def test_v4_determinant_identity():
    found = paper.logs(paper.mean(PAIR, A)).sum()
    expected = np.mean([paper.logs(P).sum() for P in PAIR])
    assert found == pytest.approx(6.25)
    assert expected == pytest.approx(5)
    points = paper.random_spd(np.random.default_rng(10), 2, (3,))
    assert np.linalg.det(paper.mean(list(points), EQUAL)) == pytest.approx(
        np.prod(np.linalg.det(points)) ** (1 / 3)
    )
