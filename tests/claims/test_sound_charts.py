"""What to use instead: which adaptive chart keeps which property, and how smooth it is."""

import numpy as np
import pytest
import torch

from alem import geometry, linalg
from tests.claims import library, paper
from tests.claims.library import N, tensor

CHARTS = {
    "lem": lambda: geometry.LogEuclidean(),
    "sinh": library.sinh,
    "rank": library.rank,
    "gap": lambda: library.gap((0.2, 0.15, -0.1)),
}
KEEPS = {
    "lem": {"scale", "positive powers", "negative powers", "V1", "V2", "V3", "V4"},
    "sinh": {"V2", "V3"},
    "rank": {"scale", "positive powers", "V1"},
    "gap": {"scale", "V1", "V3", "V4"},
}


def power_defect(metric, X, p):
    left = linalg.power(metric.mean(X), p)
    return ((left - metric.mean(linalg.power(X, p))).norm() / left.norm()).item()


def scale_defect(metric, X, rng):
    return abs(metric.dist(9 * X[0], 9 * X[1]) - metric.dist(X[0], X[1])).item()


def homogeneity_defect(metric, X, rng):
    factors = tensor([0.2, 1.0, 7.0])
    left = metric.mean(factors[:, None, None] * X)
    right = factors.prod() ** (1 / 3) * metric.mean(X)
    return ((left - right).norm() / right.norm()).item()


def monotonicity_defect(metric, X, rng):
    """The largest decrease of an eigenvalue, relative, as commuting points grow."""
    U, t = paper.orthogonal(rng, N), rng.standard_normal((400, 3, N))
    growth = rng.uniform(0, 1, t.shape) * rng.integers(0, 2, t.shape)
    before = metric.mean(tensor(paper.with_logs(U, t)))
    after = metric.mean(tensor(paper.with_logs(U, t + growth)))
    grown = torch.linalg.eigvalsh(after - before)[..., 0] / before.norm(dim=(-2, -1))
    return max(0.0, -grown.min().item())


def determinant_defect(metric, X, rng):
    return abs(torch.logdet(metric.mean(X)) - torch.logdet(X).mean()).item()


DEFECTS = {
    "scale": scale_defect,
    "positive powers": lambda m, X, rng: power_defect(m, X, 2.0),
    "negative powers": lambda m, X, rng: power_defect(m, X, -2.0),
    "V1": homogeneity_defect,
    "V2": monotonicity_defect,
    "V3": lambda m, X, rng: power_defect(m, X, -1.0),
    "V4": determinant_defect,
}


@pytest.mark.parametrize("prop", DEFECTS)
@pytest.mark.parametrize("chart", CHARTS)
def test_which_chart_keeps_which_property(chart, prop):
    """Kept to rounding, lost by far more; V2 for points that commute."""
    rng = np.random.default_rng(0)
    X = tensor(paper.random_spd(rng, N, (3,)))
    with torch.no_grad():
        defect = DEFECTS[prop](CHARTS[chart](), X, rng)
    assert defect < 1e-10 if prop in KEEPS[chart] else defect > 1e-3


@pytest.mark.parametrize("chart", ["sinh", "rank", "gap"])
def test_sound_charts_are_rotation_invariant_and_not_lem(chart):
    rng = np.random.default_rng(1)
    P, Q, R = tensor(*paper.random_spd(rng, N, (2,)), paper.orthogonal(rng, N))
    metric, lem = CHARTS[chart](), geometry.LogEuclidean()
    turned = metric.dist(R @ P @ R.mT, R @ Q @ R.mT)
    torch.testing.assert_close(turned, metric.dist(P, Q), rtol=1e-11, atol=0)
    X = torch.stack([P, Q])
    V = tensor(paper.random_symmetric(rng, N))
    for operation in (lambda m: m.mean(X), lambda m: m.compose(P, Q), lambda m: m.exp(P, V)):
        ours, theirs = operation(metric), operation(lem)
        assert (ours - theirs).norm() > 1e-3 * theirs.norm()


@pytest.mark.parametrize("build", [geometry.SinhArcsinhLogEuclidean, geometry.GapLogEuclidean])
def test_sound_charts_start_at_lem(build):
    P = tensor(paper.random_spd(np.random.default_rng(2), N))
    same = build().double().chart(P)
    torch.testing.assert_close(same, geometry.LogEuclidean().chart(P), rtol=1e-12, atol=1e-12)
    rank = geometry.RankIncrementLogEuclidean(N).double().chart(P)
    torch.testing.assert_close(rank, same, rtol=1e-12, atol=1e-12)


def test_mean_anchored_rank_increments_keep_the_determinant():
    """Not offered here: φ centred at c₁·mean t has V4, and with palindromic gaps V3; else not V3."""

    def phi(t, c):
        t = np.sort(t)
        steps = np.concatenate([[0], np.cumsum(c[1:] * np.diff(t))])
        return c[0] * t.mean() + steps - steps.mean()

    def inverse(x, c):
        steps = np.concatenate([[0], np.cumsum(np.diff(x) / c[1:])])
        return x.mean() / c[0] + steps - steps.mean()

    def mean_logs(c, points):
        charts = []
        for S in points:
            s, W = np.linalg.eigh(S)
            charts.append((W * phi(np.log(s), c)) @ W.T)
        x, W = np.linalg.eigh(np.mean(charts, 0))
        return W, inverse(x, c)

    rng = np.random.default_rng(3)
    points = paper.random_spd(rng, N, (3,))
    for c, dual in ((np.array([1.3, 0.5, 2.0, 0.5]), True), (np.array([1.3, 0.5, 2.0, 0.8]), False)):
        U, t = mean_logs(c, points)
        assert t.sum() == pytest.approx(np.mean(np.linalg.slogdet(points)[1]))
        W, u = mean_logs(c, [np.linalg.inv(S) for S in points])
        error = np.abs((U * t) @ U.T + (W * u) @ W.T).max()
        assert error < 1e-12 if dual else error > 1e-3


# Round trips


@pytest.mark.parametrize("chart", CHARTS)
def test_round_trips_of_sound_charts(chart):
    """S → X → S to rounding, at random spectra and at ties."""
    rng = np.random.default_rng(4)
    U = paper.orthogonal(rng, N)
    ties = paper.with_logs(U, [[0, 0, 0, 0], [1, 1, 2, 3], [-1, 2, 2, 2], [0.5, 0.5, 0.7, 0.7]])
    S = tensor(np.concatenate([paper.random_spd(rng, N, (50,)), ties]))
    metric = CHARTS[chart]()
    back = metric.unchart(metric.chart(S))
    error = (back - S).norm(dim=(-2, -1)) / S.norm(dim=(-2, -1))
    assert error.max() < 1e-13


def test_inverse_of_a_flattening_sinh_inflates_the_condition():
    """δ = .6: X → S → X loses digits, because S has condition 1e8 where exp X has 400."""
    metric = library.sinh(c=1.0, delta=0.6, s=1.0)
    U = paper.orthogonal(np.random.default_rng(5), N)
    X = tensor((U * np.array([-3.0, -1.0, 2.0, 3.0])) @ U.T)
    S = metric.unchart(X)
    assert torch.linalg.cond(S) > 1e8
    assert torch.linalg.cond(torch.matrix_exp(X)) < 500
    assert 1e-12 < (metric.chart(S) - X).abs().max() < 1e-6


# Smoothness at ties


@pytest.mark.parametrize("logs", [(0, 0, 0, 0), (1, 1, 2, 3), (-1, 2, 2, 2)])
@pytest.mark.parametrize("chart", ["sinh", "gap"])
def test_smooth_charts_are_smooth_at_ties(chart, logs):
    P = tensor(paper.with_logs(paper.orthogonal(np.random.default_rng(6), N), logs))
    P = ((P + P.mT) / 2).requires_grad_()
    metric = CHARTS[chart]()
    assert torch.autograd.gradcheck(metric.chart, P)
    assert torch.autograd.gradgradcheck(metric.chart, P)


def jacobian_and_loewner(phi, t, *parameters):
    t = tensor(t)
    differential = phi.first(t, t[:, None] - t[None, :], *parameters)
    return differential.diagonal_block().numpy(), differential.loewner.numpy()


def test_gap_chart_has_one_derivative_at_ties():
    """C¹ exactly if K at the tie of i and j is J_ii − J_ij."""
    parameters = [p.detach() for p in CHARTS["gap"]().diffeo.function()[1]]
    J, K = jacobian_and_loewner(linalg.GAP, [-0.4, 0.7, 0.7, 1.5], *parameters)
    assert K[1, 2] == pytest.approx(J[1, 1] - J[1, 2], rel=1e-13)
    assert K[1, 2] == pytest.approx(J[2, 2] - J[2, 1], rel=1e-13)


def test_rank_chart_has_a_kink_at_ties():
    """c = (1.3, .5, 2, .8), tie of 2 and 3: K = c₃ = 2, against .5 and 3.5 from J; kink 1.5."""
    c = tensor([1.3, 0.5, 2.0, 0.8])
    J, K = jacobian_and_loewner(linalg.RANK_INCREMENT, [-0.4, 0.7, 0.7, 1.5], c)
    assert K[1, 2] == pytest.approx(2.0)
    assert [J[1, 1] - J[1, 2], J[2, 2] - J[2, 1]] == pytest.approx([0.5, 3.5])
    metric, V = library.rank(c), np.diag([0.0, -1.0, 1.0, 0.0])

    def chart(t):
        return metric.chart(tensor(np.diag(np.exp(t)))).detach().numpy()

    tie, step = np.array([-0.4, 0.7, 0.7, 1.5]), 1e-6
    sides = [(chart(tie + sign * step * np.diag(V)) - chart(tie)) / step for sign in (1, -1)]
    kink = np.diag(sides[0] + sides[1])[1:3] / 2
    np.testing.assert_allclose(kink, [1.5, 1.5], atol=1e-6)
    assert np.abs(sides[0] + sides[1]).max() > 1  # a derivative would cancel


def test_rank_chart_is_lipschitz_both_ways():
    """Against log S, with the singular values of its one Jacobian and the c as bounds, ties crossed."""
    c = np.array([1.3, 0.5, 2.0, 0.8])
    J, _ = jacobian_and_loewner(linalg.RANK_INCREMENT, [0.0, 1.0, 2.0, 3.0], tensor(c))
    bounds = np.linalg.svd(J, compute_uv=False)
    lowest, highest = min(bounds.min(), c.min()), max(bounds.max(), c.max())
    rng = np.random.default_rng(7)
    X, Y = tensor(*paper.random_symmetric(rng, N, (2, 400)))
    metric = library.rank(c)
    moved = metric.chart(torch.matrix_exp(X)) - metric.chart(torch.matrix_exp(Y))
    ratio = (moved.norm(dim=(-2, -1)) / (X - Y).norm(dim=(-2, -1))).detach().numpy()
    assert lowest <= ratio.min()
    assert ratio.max() <= highest


def test_rank_chart_loewner_matrix_averages_the_factors():
    """(φ_j − φ_i)/(t_j − t_i) = Σ c_k d_k/Σ d_k; at a tie of all, the plain mean of the c between."""
    c = tensor([1.3, 0.5, 2.0, 0.8])
    t = np.array([-0.4, 0.1, 0.7, 1.5])
    _, K = jacobian_and_loewner(linalg.RANK_INCREMENT, t, c)
    phi = linalg.RANK_INCREMENT.values(tensor(t), c).numpy()
    assert K[0, 3] == pytest.approx((phi[3] - phi[0]) / (t[3] - t[0]))
    _, tied = jacobian_and_loewner(linalg.RANK_INCREMENT, np.zeros(4), c)
    assert tied[0, 3] == pytest.approx(np.mean([0.5, 2.0, 0.8]))
    assert tied[1, 3] == pytest.approx(np.mean([2.0, 0.8]))


def test_gradient_of_the_rank_chart_transposes_its_jacobian():
    """U[K_off ⊙ G̃ + diag(Jᵀ diag G̃/σ)]Uᵀ with G̃ = Uᵀ sym(∇) U; J is not symmetric."""
    rng = np.random.default_rng(8)
    c = np.array([1.3, 0.5, 2.0, 0.8])
    S, G = paper.random_spd(rng, N), paper.random_symmetric(rng, N)
    s, U = np.linalg.eigh(S)
    t = np.log(s)
    J = np.tril(np.ones((N, N))) @ np.diag(c) @ (np.eye(N) - np.eye(N, k=-1))
    phi = np.cumsum(c * np.concatenate([t[:1], np.diff(t)]))
    K = (phi[:, None] - phi[None, :]) / (s[:, None] - s[None, :] + np.eye(N))
    inner = U.T @ G @ U
    P = tensor(S).requires_grad_()
    (library.rank(c).chart(P) * tensor(G)).sum().backward()
    for block, right in ((J.T, True), (J, False)):
        formula = U @ (K * inner + np.diag(block @ np.diag(inner) / s)) @ U.T
        assert (np.abs(formula - P.grad.numpy()).max() < 1e-12) == right
