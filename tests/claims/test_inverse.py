"""When the paper's inverse is one: the exact conditions (L) and (R), and the inverse that remembers."""

import numpy as np
import pytest
import torch

from alem import geometry
from tests.claims import library, paper
from tests.claims.library import tensor

TRIALS = 1000


def trials(seed):
    """Random multipliers, of either sign and some of them repeated, with random frames and logs."""
    rng = np.random.default_rng(seed)
    for k in range(TRIALS):
        n = 2 + k % 4
        A = 1 + 0.6 * rng.standard_normal(n)
        A = np.where(np.abs(A) < 0.25, -0.25, A)  # exp(1/A) in range
        if k % 3 == 0:
            A[rng.integers(n)] = A[0]
        yield A, paper.orthogonal(rng, n), np.sort(rng.standard_normal(n)), rng


def keeps_order(A, values):
    """A[argsort(values)] = A: sorting the values moves no multiplier to a place with another one."""
    return bool((A[np.argsort(values)] == A).all())


def test_left_inverse_exists_exactly_under_condition_l():
    """(L) mgexp(mlog S) = S ⇔ A[argsort(A t)] = A, no disagreement."""
    seen = {True: 0, False: 0}
    for A, U, t, _ in trials(1):
        S = paper.with_logs(U, t)
        back = paper.mgexp(paper.mlog(S, A), A)
        exact = bool(np.abs(back - S).max() < 1e-9 * np.abs(S).max())
        assert exact == keeps_order(A, A * t)
        seen[exact] += 1
    assert min(seen.values()) > TRIALS / 10


def test_right_inverse_exists_exactly_under_condition_r():
    """(R) mlog(mgexp X) = X ⇔ A[argsort(μ/A)] = A, no disagreement; ``in_chart`` is this condition."""
    seen = {True: 0, False: 0}
    for A, U, m, _ in trials(2):
        X = (U * m) @ U.T
        again = paper.mlog(paper.mgexp(X, A), A)
        exact = bool(np.abs(again - X).max() < 1e-7)
        assert exact == keeps_order(A, m / A)
        assert exact == bool(library.alem(A).in_chart(tensor(X)))
        seen[exact] += 1
    assert min(seen.values()) > TRIALS / 10


def test_distinct_multipliers_need_strictly_ascending_products():
    for A, _, t, _ in trials(3):
        if len(set(A)) == A.size:
            assert keeps_order(A, A * t) == bool((np.diff(A * t) > 0).all())
            assert keeps_order(A, t / A) == bool((np.diff(t / A) > 0).all())


def test_sufficient_orders_of_the_multipliers():
    """A > 0 ascending where σ > 1, descending where σ < 1, and both about a fixed crossing of 1."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        A, t = np.sort(rng.uniform(0.1, 3, 6)), np.sort(rng.uniform(0, 2, 6))
        assert keeps_order(A, A * t)
        assert keeps_order(A[::-1], A[::-1] * -t[::-1])
        valley = np.concatenate([A[::-2], A[::2]])
        crossing = np.sort(np.concatenate([-t[:3], t[3:]]))
        assert keeps_order(valley, valley * crossing)


def test_only_equal_multipliers_serve_every_spectrum():
    """Unequal neighbours: one of t and −t breaks (L), one of X and −X breaks (R)."""
    for A, _, _, _ in trials(5):
        constant = np.ptp(A) == 0
        places = np.arange(1.0, A.size + 1)
        # close to ±I: the order of the products follows that of ±A, or of ±1/A
        probes = [sign + 1e-9 * places for sign in (1, -1)]
        assert all(keeps_order(A, A * t) for t in probes) == constant
        assert all(keeps_order(A, m / A) for m in probes) == constant


@pytest.mark.parametrize(("sd", "low", "high"), [(0.01, 0.05, 0.15), (0.05, 0.8, 0.95), (0.2, 1, 1)])
def test_how_often_the_sorted_inverse_is_wrong(sd, low, high):
    """Wishart matrices, n = 30, A ~ N(1, sd²): about 10, 90 and 100 % of round trips fail."""
    generator = torch.Generator().manual_seed(0)
    S = geometry.sample_wishart(200, n=30, generator=generator, dtype=torch.float64).numpy()
    A = 1 + sd * np.random.default_rng(0).standard_normal((200, 30))
    back = paper.mgexp(paper.mlog(S, A), A)
    wrong = np.abs(back - S).max((-2, -1)) > 1e-9
    assert low <= wrong.mean() <= high


def test_how_seldom_the_group_and_the_mean_stay_in_the_image():
    """n = 30, sd = .05: about 8 % of X₁ + X₂, 1 % of means and 12 % of X₁ − M have an inverse."""
    rng = np.random.default_rng(0)
    generator = torch.Generator().manual_seed(0)
    S = geometry.sample_wishart(100, 6, n=30, generator=generator, dtype=torch.float64).numpy()
    A = 1 + 0.05 * rng.standard_normal((100, 30))
    X = paper.mlog(S, A[:, None])
    M = X.mean(1)

    def share(Y):
        return np.mean((np.diff(np.linalg.eigvalsh(Y) / A) > 0).all(-1))

    assert share(X[:, 0] + X[:, 1]) < 0.2
    assert share(M) < 0.05
    assert share(X[:, 0] - M) < 0.25


# What can be saved


def test_the_inverse_that_remembers_the_ranks_is_exact():
    for A, U, t, _ in trials(6):
        S = tensor(paper.with_logs(U, t))
        diffeo = library.alem(A).diffeo
        X, ranks = diffeo.chart(S), diffeo.branch(S)
        assert bool(diffeo.in_chart(X, ranks))
        error = (diffeo.unchart(X, ranks) - S).abs().max() / S.abs().max()
        # the order of A_i t_i is lost to rounding where two of them are nearly equal
        assert error < 1e-12 / min(1.0, float(np.diff(np.sort(A * t)).min()))


def test_exp_with_the_ranks_of_its_base_point_is_locally_exact():
    """Exp_S(0) = S with the identity as differential, also where the sorted inverse is wrong."""
    metric = library.alem([2.0, 1.0])
    S, V = tensor(paper.diagonal(1, 1.5), [[0.3, 0.2], [0.2, -0.1]])
    torch.testing.assert_close(metric.exp(S, torch.zeros_like(S)), S)
    step = 1e-6
    slope = (metric.exp(S, step * V) - metric.exp(S, -step * V)) / (2 * step)
    torch.testing.assert_close(slope, V, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(metric.log(S, metric.exp(S, 0.01 * V)), 0.01 * V)


def test_positive_multiples_are_powers_on_the_domain():
    """k ⊛ S = S^k for k > 0 wherever (L) holds, and not elsewhere."""
    A = np.array([1.0, 2.0, 3.0])
    U = paper.orthogonal(np.random.default_rng(0), 3)
    S = paper.with_logs(U, [0.5, 0.9, 1.4])
    for k in (0.3, 2.0):
        np.testing.assert_allclose(paper.scale(k, S, A), paper.power(S, k), rtol=1e-10)
    outside = paper.diagonal(1, 1.5)
    assert np.abs(paper.scale(2, outside, np.array([2.0, 1.0])) - outside @ outside).max() > 1


def test_a_mean_of_images_may_have_no_preimage():
    """A = (1, 2): the images of eight rotations of diag(e, e³) average to 3.5 I, which is no image."""
    A = np.array([1.0, 2.0])
    rotations = [paper.rotation(k * np.pi / 8) for k in range(8)]
    X = np.mean([paper.mlog(R @ paper.diagonal(1, 3) @ R.T, A) for R in rotations], axis=0)
    np.testing.assert_allclose(X, 3.5 * np.eye(2), atol=1e-14)
    assert 3.5 / A[0] > 3.5 / A[1]  # the log-eigenvalues it asks for, in the wrong order
    assert not library.alem(A).in_chart(tensor(3.5 * np.eye(2)))
