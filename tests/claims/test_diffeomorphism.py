"""The general logarithm is a diffeomorphism only if all its multipliers are equal."""

import numpy as np
import pytest
import torch

from alem import geometry
from tests.claims import library, paper
from tests.claims.library import tensor


def multipliers(rng, n):
    """Signs and sizes mixed, neighbours never equal."""
    return rng.choice([-1.0, 1.0], n) * np.exp(rng.standard_normal(n))


# Our implementation is the paper's


@pytest.mark.parametrize("n", [2, 5])
def test_the_library_computes_the_papers_formula(n):
    rng = np.random.default_rng(n)
    A = multipliers(rng, n)
    P, Q = paper.random_spd(rng, n, (2,))
    p, q = tensor(P, Q)
    metric = library.alem(A)
    with library.the_papers_formula():
        pairs = [
            (metric.chart(p), paper.mlog(P, A)),
            (metric.unchart(p), paper.mgexp(P, A)),
            (metric.dist(p, q), paper.dist(P, Q, A)),
            (metric.compose(p, q), paper.compose(P, Q, A)),
            (metric.invert(p), paper.invert(P, A)),
            (metric.scale(p, -0.7), paper.scale(-0.7, P, A)),
            (metric.mean(torch.stack([p, q])), paper.mean([P, Q], A)),
        ]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours.detach(), theirs, rtol=1e-10, atol=1e-10)


def test_the_library_warns_where_there_is_no_inverse():
    """Once for each metric, and never where the rank of a base point makes the inverse exact."""
    wrong, base = tensor(np.diag([1.0, 1.5]), paper.diagonal(1.0, 3.0))
    metric = library.alem([1.0, 2.0])
    metric.exp(base, torch.zeros_like(base))  # a warning would be an error here
    with pytest.warns(geometry.NotADiffeomorphismWarning, match="for 1 of 1 matrices none exists"):
        metric.unchart(wrong)
    metric.unchart(wrong)
    P, Q = tensor(*paper.PAIR)
    for operation, A in (
        (lambda m: m.compose(P, Q), (1.0, 2.0)),
        (lambda m: m.mean(torch.stack([P, Q])), (1.0, 2.0)),
        (lambda m: m.scale(P, -1.0), (2.0, 1.0)),
        (lambda m: m.invert(P), (2.0, 1.0)),
    ):
        with pytest.warns(geometry.NotADiffeomorphismWarning):
            operation(library.alem(A))


def test_is_diffeo_says_equal_multipliers():
    assert library.alem([1.7, 1.7, 1.7]).is_diffeo
    assert library.alem([-0.4, -0.4]).is_diffeo
    assert not library.alem([1.0, 1.0, 1.0 + 1e-12]).is_diffeo


# The core result


@pytest.mark.parametrize("n", [2, 3, 6])
def test_unequal_neighbours_always_collapse_a_plane(n):
    """A_i ≠ A_{i+1}: some t_i < t_{i+1} have A_i t_i = A_{i+1} t_{i+1}; turning that plane moves S only."""
    rng = np.random.default_rng(n)
    for _ in range(50):
        A, i = multipliers(rng, n), rng.integers(n - 1)
        pair = 1 / A[i : i + 2]
        pair *= np.sign(pair[1] - pair[0])
        below = pair[0] - np.arange(i, 0, -1)
        above = pair[1] + np.arange(1, n - i - 1)
        t = np.concatenate([below, pair, above])
        assert (np.diff(t) > 0).all()
        U = paper.orthogonal(rng, n)
        turned = U.copy()
        turned[:, i : i + 2] = U[:, i : i + 2] @ paper.rotation(0.8)
        S, R = paper.with_logs(U, t), paper.with_logs(turned, t)
        assert np.abs(S - R).max() > 1e-3 * min(np.abs(S).max(), np.exp(t[i]))
        np.testing.assert_allclose(paper.mlog(S, A), paper.mlog(R, A), atol=1e-7)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_a_multiple_of_the_identity_or_its_negative_is_not_reached(n):
    """mlog S = yI needs t_i = y/A_i in ascending order, and −yI the opposite."""
    rng = np.random.default_rng(n)
    for _ in range(50):
        A = multipliers(rng, n)
        ascending = [bool((np.diff(y / A) >= 0).all()) for y in (1.0, -1.0)]
        assert not all(ascending)
        in_chart = library.alem(A).in_chart(tensor(np.stack([np.eye(n), -np.eye(n)])))
        assert in_chart.tolist() == ascending
    c = np.full(n, -1.3)
    for y in (1.0, -1.0):
        S = paper.mgexp(y * np.eye(n), c)
        np.testing.assert_allclose(paper.mlog(S, c), y * np.eye(n), atol=1e-14)


# Proposition III.4, by counterexample


def test_round_trip_fails():
    A = np.array([2.0, 1.0])
    S = paper.diagonal(1, 1.5)
    back = paper.mgexp(paper.mlog(S, A), A)
    np.testing.assert_allclose(paper.logs(back), [2, 0.75])


def test_matrices_collapse_to_one():
    """A = (2, 1): every rotation of diag(e, e²) goes to 2I, at distance 0, with a degenerate tensor."""
    A = np.array([2.0, 1.0])
    S = paper.diagonal(1, 2)
    rotations = [paper.rotation(angle) for angle in np.linspace(0, np.pi, 7)]
    for R in rotations:
        np.testing.assert_allclose(paper.mlog(R @ S @ R.T, A), 2 * np.eye(2), atol=1e-14)
    Q = rotations[2] @ S @ rotations[2].T
    spin = np.array([[0.0, -1.0], [1.0, 0.0]])
    V = spin @ S - S @ spin
    assert np.linalg.norm(Q - S) > 1
    assert np.linalg.norm(V) > 1
    metric = library.alem(A, ties="exact")
    assert metric.dist(*tensor(S, Q)).item() == pytest.approx(0, abs=1e-14)
    assert metric.norm(*tensor(S, V)).item() == pytest.approx(0, abs=1e-14)


def test_two_matrices_have_one_image():
    A = np.array([1.0, 2.0])
    for preimage in ([-1.5, -0.5], [-0.75, -1]):
        image = paper.mlog(paper.diagonal(*preimage), A)
        np.testing.assert_allclose(image, np.diag([-1.5, -1]), atol=1e-14)


def test_some_matrices_have_no_preimage():
    """A = (1, 2), X = diag(1, 1.5): t = (1, .75) or, the ranks exchanged, (.5, 1.5) by rank."""
    A = np.array([1.0, 2.0])
    X = np.diag([1.0, 1.5])
    candidates = [X.diagonal() / A, X.diagonal()[::-1] / A]
    # mlog S = X fixes the eigenvectors of S, and leaves only these log-eigenvalues by rank
    assert [bool(t[0] < t[1]) for t in candidates] == [False, False]
    assert not library.alem(A).in_chart(tensor(X))
    again = paper.mlog(paper.mgexp(X, A), A)
    assert np.linalg.norm(again - X) > 0.5


# Smoothness


def test_it_jumps_where_eigenvalues_meet():
    """A = (1, 2) at eI: the two sides differ by |ΔA| |ln σ| √2."""
    A = np.array([1.0, 2.0])
    for log_sigma in (1.0, 0.5, -2.0):
        tie, step = np.exp(log_sigma) * np.eye(2), 1e-9 * np.diag([1.0, -1.0])
        jump = np.linalg.norm(paper.mlog(tie + step, A) - paper.mlog(tie - step, A))
        assert jump == pytest.approx(abs(log_sigma) * np.sqrt(2), rel=1e-6)


def test_it_is_not_differentiable_at_the_identity():
    A, V, eye = np.array([1.0, 2.0]), np.diag([1.0, -1.0]), np.eye(2)
    for step in (1e-3, 1e-6):
        one_sided = [paper.mlog(eye + sign * step * V, A) / step for sign in (1, -1)]
        np.testing.assert_allclose(sum(one_sided), eye, atol=5 * step)
        assert np.linalg.norm(paper.mlog(eye + step * V, A)) < 4 * step  # continuous there


def test_equal_multipliers_are_smooth_everywhere():
    metric = library.alem([1.7, 1.7])
    for P in tensor(np.eye(2), np.e * np.eye(2)):
        assert torch.autograd.gradcheck(metric.chart, P.requires_grad_())


# Supplement B-A: is the map well defined at all?


def test_repeated_eigenvalues_leave_it_undefined():
    """A = (1, 2), S = eI: U = I gives diag(1, 2), any other frame of S a rotation of it."""
    A = np.array([1.0, 2.0])
    S, R = np.e * np.eye(2), paper.rotation(0.5)
    np.testing.assert_allclose(R @ S @ R.T, S, atol=1e-14)
    frames = [U @ np.diag(A * 1.0) @ U.T for U in (np.eye(2), R)]
    np.testing.assert_allclose(paper.mlog(S, A), frames[0], atol=1e-14)
    assert np.linalg.norm(frames[0] - frames[1]) > 0.5


def test_at_one_or_with_equal_multipliers_repeated_eigenvalues_do_no_harm():
    R = paper.rotation(0.5)
    for A, t in ([1.0, 2.0], 0.0), ([1.5, 1.5], 1.0):
        X = np.diag(np.array(A) * t)
        np.testing.assert_allclose(R @ X @ R.T, X, atol=1e-14)


def test_order_and_sign_of_the_eigenvectors_do_not_matter():
    """What the argument of the supplement does prove: for simple spectra the map is defined."""
    rng = np.random.default_rng(0)
    A = multipliers(rng, 5)
    S = paper.random_spd(rng, 5)
    s, U = np.linalg.eigh(S)
    order = rng.permutation(5)
    flipped = U[:, order] * rng.choice([-1.0, 1.0], 5)
    rebuilt = (flipped * (A * np.log(s))[order]) @ flipped.T
    np.testing.assert_allclose(rebuilt, paper.mlog(S, A), atol=1e-12)
