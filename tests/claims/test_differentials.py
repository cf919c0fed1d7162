"""Propositions III.8, III.9, VI.1 and VIII.1: differentials and gradients, and where they end."""

import numpy as np
import pytest
import torch
from scipy.linalg import expm_frechet

from alem import geometry, linalg
from tests.claims import library, paper
from tests.claims.library import tensor

A = np.array([1.0, 2.0, 0.5, 1.5])
OFF_DIAGONAL = np.array([[0.0, 1.0], [1.0, 0.0]])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def eigenvector_differential(X, V):
    """D_U, the paper's (σ_i I − X)⁺ V u_i, with numpy's ordering and rank decision."""
    s, U = np.linalg.eigh(X)
    columns = [
        np.linalg.pinv(s_i * np.eye(s.size) - X, rcond=1e-10) @ V @ U[:, i] for i, s_i in enumerate(s)
    ]
    return s, U, np.stack(columns, axis=1)


def printed_mlog_differential(S, V, A):
    s, U, D = eigenvector_differential(S, V)
    Q = (D * (A * np.log(s))) @ U.T
    return Q + Q.T + (U * (A / s * np.diag(U.T @ V @ U))) @ U.T


def printed_mgexp_differential(X, V, A):
    m, U, D = eigenvector_differential(X, V)
    Q = (D * np.exp(m / A)) @ U.T
    return Q + Q.T + (U * (np.exp(m / A) / A * np.diag(U.T @ V @ U))) @ U.T


def series_differential(X, V, A, terms=40):
    """Σ_k 1/k! Σ_l (PX)^{k−l−1} (D_P X + P V) (PX)^l."""
    _, U, D = eigenvector_differential(X, V)
    P = (U / A) @ U.T
    D_P = (D / A) @ U.T + (U / A) @ D.T
    PX, inner = P @ X, D_P @ X + P @ V
    powers = [np.linalg.matrix_power(PX, k) for k in range(terms)]
    total, factorial = np.zeros_like(X), 1.0
    for k in range(1, terms):
        factorial *= k
        total += sum(powers[k - j - 1] @ inner @ powers[j] for j in range(k)) / factorial
    return total


# Proposition III.8


def test_printed_differentials_hold_for_simple_spectra(rng):
    """Read with X for S in the second half, and U(·)Uᵀ for the printed Uᵀ(·)U in the proof."""
    S, V = paper.random_spd(rng, 4), paper.random_symmetric(rng, 4)
    X = paper.random_symmetric(rng, 4)
    forward = paper.derivative(lambda Z: paper.mlog(Z, A), S, V)
    np.testing.assert_allclose(printed_mlog_differential(S, V, A), forward, atol=1e-7)
    ours = library.alem(A, ties="exact").pushforward(*tensor(S, V)).detach()
    np.testing.assert_allclose(ours, forward, atol=1e-7)
    backward = paper.derivative(lambda Z: paper.mgexp(Z, A), X, V)
    scale = np.abs(backward).max()
    np.testing.assert_allclose(printed_mgexp_differential(X, V, A), backward, atol=1e-7 * scale)


def test_printed_differentials_are_wrong_at_ties_even_for_lem():
    """A = 1, S = I, V off the diagonal: the formula gives 0, the derivative of log at I is V."""
    one = np.ones(2)
    np.testing.assert_allclose(printed_mlog_differential(np.eye(2), OFF_DIAGONAL, one), 0, atol=1e-14)
    true = paper.derivative(lambda Z: paper.mlog(Z, one), np.eye(2), OFF_DIAGONAL)
    np.testing.assert_allclose(true, OFF_DIAGONAL, atol=1e-9)
    ours = geometry.LogEuclidean().pushforward(*tensor(np.eye(2), OFF_DIAGONAL))
    np.testing.assert_allclose(ours, OFF_DIAGONAL, atol=1e-14)
    zero = np.zeros((2, 2))
    np.testing.assert_allclose(printed_mgexp_differential(zero, OFF_DIAGONAL, one), 0, atol=1e-14)
    np.testing.assert_allclose(expm_frechet(zero, OFF_DIAGONAL)[1], OFF_DIAGONAL)


# Proposition III.9


def test_series_holds_for_simple_spectra(rng):
    X, V = paper.random_symmetric(rng, 4), paper.random_symmetric(rng, 4)
    backward = paper.derivative(lambda Z: paper.mgexp(Z, A), X, V)
    np.testing.assert_allclose(series_differential(X, V, A), backward, atol=1e-7 * np.abs(backward).max())


def test_series_holds_at_ties_for_equal_multipliers(rng):
    U, V = paper.orthogonal(rng, 3), paper.random_symmetric(rng, 3)
    X = (U * np.array([0.3, 0.3, -1.0])) @ U.T
    expected = expm_frechet(X / 2, V / 2)[1]
    np.testing.assert_allclose(series_differential(X, V, np.full(3, 2.0)), expected, atol=1e-13)


def test_series_fails_at_ties_for_unequal_multipliers():
    """At the tie it gives one number, the two one-sided derivatives others."""
    two, X, V = np.array([1.0, 2.0]), np.zeros((2, 2)), np.diag([1.0, -1.0])
    sides = [sign * (paper.mgexp(X + sign * 1e-6 * V, two) - np.eye(2)) / 1e-6 for sign in (1, -1)]
    assert np.linalg.norm(sides[0] - sides[1]) > 0.5
    assert max(np.linalg.norm(series_differential(X, V, two) - side) for side in sides) > 0.5


def test_series_proof_lacks_the_power():
    """Σ (BΣ)^k/k! is the exponential; the printed Σ BΣ/k! is e·BΣ."""
    B, m = np.array([1.0, 0.5]), np.array([0.3, 0.9])
    factorials = np.cumprod(np.arange(1.0, 21.0))
    with_power = 1 + sum((B * m) ** k / f for k, f in enumerate(factorials, start=1))
    np.testing.assert_allclose(with_power, np.exp(B * m))
    printed = (1 + np.sum(1 / factorials)) * B * m
    assert np.abs(printed - np.exp(B * m)).min() > 0.1


# Propositions VI.1 and VIII.1


def printed_gradient(x, f, slope, U, G):
    """U[K ⊙ (Uᵀ G U)]Uᵀ with divided differences off the diagonal."""
    gaps = x[:, None] - x[None, :] + np.eye(x.size)
    K = np.where(np.eye(x.size) > 0, np.diag(slope), (f[:, None] - f[None, :]) / gaps)
    return U @ (K * (U.T @ G @ U)) @ U.T


def test_gradient_of_mlog_in_the_matrix(rng):
    """For simple spectra, with the upstream gradient symmetrised."""
    S, V, G = paper.random_spd(rng, 4), paper.random_symmetric(rng, 4), rng.standard_normal((4, 4))
    symmetric = (G + G.T) / 2
    s, U = np.linalg.eigh(S)
    printed = printed_gradient(s, A * np.log(s), A / s, U, symmetric)
    moved = np.sum(G * paper.derivative(lambda Z: paper.mlog(Z, A), S, V))
    assert np.sum(printed * V) == pytest.approx(moved, rel=1e-7)
    P = tensor(S).requires_grad_()
    (library.alem(A, ties="exact").chart(P) * tensor(G)).sum().backward()
    np.testing.assert_allclose(P.grad, printed, atol=1e-13)
    unsymmetrised = printed_gradient(s, A * np.log(s), A / s, U, G)
    assert np.abs(unsymmetrised - printed).max() > 0.1


def test_gradient_of_mlog_in_the_multipliers(rng):
    """The factor is ln Σ; the printed log_α Σ = A ln Σ is off by A. Only the diagonal counts."""
    S, G = paper.random_spd(rng, 4), paper.random_symmetric(rng, 4)
    s, U = np.linalg.eigh(S)
    inside = np.diag(U.T @ G @ U)
    true = [
        paper.derivative(lambda B: np.sum(G * paper.mlog(S, B)), A, direction) for direction in np.eye(4)
    ]
    np.testing.assert_allclose(inside * np.log(s), true, atol=1e-8)
    metric = library.alem(A)
    (metric.chart(tensor(S)) * tensor(G)).sum().backward()
    np.testing.assert_allclose(metric.diffeo.weight.grad, inside * np.log(s), atol=1e-14)
    assert np.abs(inside * A * np.log(s) - true).max() > 0.1


def test_gradients_of_mexp(rng):
    """At symmetric X, definite or not, with α(Σ) where the proof has α(X)."""
    X, G = paper.random_symmetric(rng, 4), paper.random_symmetric(rng, 4)
    V = paper.random_symmetric(rng, 4)
    m, U = np.linalg.eigh(X)
    assert m[0] < 0
    f = np.exp(m / A)
    in_X = printed_gradient(m, f, f / A, U, G)
    in_A = np.diag(U.T @ G @ U) * f * (-m / A**2)
    moved = np.sum(G * paper.derivative(lambda Z: paper.mgexp(Z, A), X, V))
    assert np.sum(in_X * V) == pytest.approx(moved, rel=1e-6)
    metric = library.alem(A, ties="exact")
    Z = tensor(X).requires_grad_()
    with library.the_papers_formula():
        (metric.unchart(Z) * tensor(G)).sum().backward()
    np.testing.assert_allclose(Z.grad, in_X, atol=1e-12 * np.abs(in_X).max())
    np.testing.assert_allclose(metric.diffeo.weight.grad, in_A, atol=1e-12 * np.abs(in_A).max())


# K where eigenvalues meet


def loewner(t, multipliers):
    """K of mlog, by the library, at the spectrum exp t."""
    spectrum = torch.exp(tensor(t))
    gaps = spectrum[:, None] - spectrum[None, :]
    chain = linalg.Chain(linalg.RankScale("exact"), linalg.LOG)
    return chain.first(spectrum, gaps, tensor(multipliers)).loewner.numpy()


def test_k_diverges_where_eigenvalues_meet():
    """K = Ā L + ΔA t̄/(σ_i − σ_j), so K·gap → ΔA ln σ: no value at the tie is right."""
    for gap in (1e-3, 1e-6, 1e-9):
        s = np.array([np.e, np.e + gap])
        k = loewner(np.log(s), [1.0, 2.0])[0, 1]
        direct = (2 * np.log(s[1]) - np.log(s[0])) / (s[1] - s[0])
        assert k == pytest.approx(direct, rel=1e-5)
        assert k * gap == pytest.approx(1.0, rel=2 * gap + 1e-6)


def test_k_at_one_depends_on_the_path():
    for path, limit in (((-1, 1), 1.5), ((1, 2), 3), ((1, 1.1), 12), ((-2, -1), 0)):
        k = loewner(1e-7 * np.array(path), [1.0, 2.0])[0, 1]
        assert k == pytest.approx(limit, abs=1e-5)


def test_the_printed_k_at_ties_is_not_symmetric():
    """f′(σ_i) = A_i/σ_i for K_ij and A_j/σ_j for K_ji: not the gradient of anything."""
    s, multipliers = np.array([np.e, np.e]), np.array([1.0, 2.0])
    K = np.where(np.eye(2) > 0, np.diag(multipliers / s), (multipliers / s)[:, None])
    assert abs(K[0, 1] - K[1, 0]) == pytest.approx(1 / np.e)


def test_tie_policies_of_the_library():
    """``exact`` refuses; ``broadened`` is finite, Ā/σ at the tie, and biased near it."""
    tie, V = np.e * np.eye(2), OFF_DIAGONAL
    with pytest.raises(linalg.InvalidMatrixError, match="equal eigenvalues"):
        library.alem([1.0, 2.0], ties="exact").pushforward(*tensor(tie, V))
    broadened = library.alem([1.0, 2.0]).pushforward(*tensor(tie, V))
    assert broadened[0, 1].item() == pytest.approx(1.5 / np.e)
    near = np.diag(np.exp([1.0, 1.0001]))
    exact, biased = (
        library.alem([1.0, 2.0], ties=ties).pushforward(*tensor(near, V))[0, 1].item()
        for ties in ("exact", "broadened")
    )
    assert biased == pytest.approx(exact / 2, rel=0.01)


def test_clamped_eigenvalues_meet_on_open_sets(rng):
    """ReEig makes exact ties of rank-deficient inputs: the general logarithm then amplifies noise."""
    multipliers = np.array([1, 1.1, 0.9, 1, 1, 1])
    F = rng.standard_normal((6, 3))
    noise = 1e-10 * paper.random_symmetric(rng, 6)

    def rectified(S):
        s, U = np.linalg.eigh(S)
        R = (U * np.maximum(s, 1e-4)) @ U.T
        return (R + R.T) / 2

    clean = rectified(F @ F.T)
    for noisy in (rectified(F @ F.T + noise), clean + noise):
        assert np.abs(clean - noisy).max() < 1e-8
        jump = np.linalg.norm(paper.mlog(clean, multipliers) - paper.mlog(noisy, multipliers))
        calm = np.linalg.norm(paper.mlog(clean, np.ones(6)) - paper.mlog(noisy, np.ones(6)))
        assert jump > 0.5
        assert calm < 5e-6
    s = np.linalg.eigvalsh(clean)
    f, gaps = multipliers * np.log(s), s[:, None] - s[None, :] + np.eye(6)
    with np.errstate(divide="ignore"):  # where rounding left the tie exact
        K = np.abs((f[:, None] - f[None, :]) / gaps)[:3, :3]
    assert K.max() > 1e12
