"""Proposition IV.5, similarity invariance: rotations yes, scale no."""

import numpy as np
import pytest

from tests.claims import library, paper
from tests.claims.library import tensor


def test_rotations_keep_distances_for_any_multipliers():
    rng = np.random.default_rng(0)
    for n in (2, 3, 6):
        A = rng.choice([-1, 1], n) * np.exp(rng.standard_normal(n))
        P, Q = paper.random_spd(rng, n, (2,))
        R = paper.orthogonal(rng, n)
        before, after = paper.dist(P, Q, A), paper.dist(R @ P @ R.T, R @ Q @ R.T, A)
        assert after == pytest.approx(before, rel=1e-11)
        ours = library.alem(A).dist(*tensor(R @ P @ R.T, R @ Q @ R.T)).item()
        assert ours == pytest.approx(before, rel=1e-11)


def test_reflections_keep_distances_too():
    """The paper says SO(n); O(n) holds."""
    rng = np.random.default_rng(1)
    A = np.array([1.0, 2.0, 0.5])
    P, Q = paper.random_spd(rng, 3, (2,))
    R = np.diag([1.0, 1.0, -1.0]) @ paper.orthogonal(rng, 3)
    R[:, 0] *= -np.sign(np.linalg.det(R))
    assert np.linalg.det(R) == pytest.approx(-1)
    assert paper.dist(R @ P @ R.T, R @ Q @ R.T, A) == pytest.approx(paper.dist(P, Q, A), rel=1e-11)


def test_scaling_changes_distances():
    """A = (1, 2), diag(e, e²) and diag(e², e): 3√2 becomes 4√2 when both are multiplied by e."""
    A = np.array([1.0, 2.0])
    P, Q = paper.diagonal(1, 2), paper.diagonal(2, 1)
    assert paper.dist(P, Q, A) == pytest.approx(3 * np.sqrt(2))
    assert paper.dist(np.e * P, np.e * Q, A) == pytest.approx(4 * np.sqrt(2))
    ours = library.alem(A).dist(*tensor(np.e * P, np.e * Q)).item()
    assert ours == pytest.approx(4 * np.sqrt(2))


def test_scaling_adds_a_matrix_that_depends_on_the_frame():
    """mlog(kS) = mlog S + ln k · U A Uᵀ, so distances survive exactly if U₁AU₁ᵀ = U₂AU₂ᵀ."""
    rng = np.random.default_rng(2)
    A = np.array([1.0, 2.0, 2.0])
    U, W = paper.orthogonal(rng, 3, (2,))
    P = paper.with_logs(U, [-1.0, 0.3, 0.9])
    np.testing.assert_allclose(
        paper.mlog(3 * P, A), paper.mlog(P, A) + np.log(3) * (U * A) @ U.T, atol=1e-13
    )
    turned = U.copy()  # in the plane where A is 2 twice, which U A Uᵀ does not notice
    turned[:, 1:] = U[:, 1:] @ paper.rotation(0.7)
    for frame, survives in ((turned, True), (U, True), (W, False)):
        Q = paper.with_logs(frame, [-0.5, 0.1, 1.9])
        change = abs(paper.dist(3 * P, 3 * Q, A) - paper.dist(P, Q, A))
        assert change < 1e-12 if survives else change > 0.1


@pytest.mark.parametrize("c", [1.7, -0.4])
def test_equal_multipliers_are_similarity_invariant(c):
    rng = np.random.default_rng(3)
    P, Q = paper.random_spd(rng, 4, (2,))
    R = paper.orthogonal(rng, 4)
    A = np.full(4, c)
    moved = paper.dist(9 * R @ P @ R.T, 9 * R @ Q @ R.T, A)
    assert moved == pytest.approx(paper.dist(P, Q, A), rel=1e-11)
