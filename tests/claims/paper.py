"""The paper's formulas in NumPy, written from the paper alone: the oracle of these tests.

``A`` holds the multipliers A_i = 1/ln a_i in ascending order of the eigenvalues; ``(..., n, n)``
arrays broadcast.
"""

import numpy as np


def mlog(S, A):
    """U diag(A_i ln σ_i) Uᵀ (the paper's general logarithm)."""
    s, U = np.linalg.eigh(S)
    return _recompose(U, A * np.log(s))


def mgexp(X, A):
    """U diag(exp(μ_i/A_i)) Uᵀ (what the paper calls its inverse)."""
    m, U = np.linalg.eigh(X)
    return _recompose(U, np.exp(m / A))


def dist(P, Q, A):
    return np.linalg.norm(mlog(P, A) - mlog(Q, A), axis=(-2, -1))


def compose(P, Q, A):
    return mgexp(mlog(P, A) + mlog(Q, A), A)


def invert(P, A):
    return mgexp(-mlog(P, A), A)


def scale(k, P, A):
    return mgexp(k * mlog(P, A), A)


def mean(points, A, weights=None):
    """The closed form of the Fréchet mean."""
    return mgexp(np.average(mlog(np.stack(points), A), axis=0, weights=weights), A)


def objective(M, points, A):
    """What a Fréchet mean minimises: the mean of the squared distances to the points."""
    return np.mean([dist(M, P, A) ** 2 for P in points])


def power(S, p):
    s, U = np.linalg.eigh(S)
    return _recompose(U, s**p)


def diagonal(*logs):
    """The diagonal matrix whose entries have these natural logarithms."""
    return np.diag(np.exp(np.array(logs, dtype=float)))


def logs(S):
    """The natural logarithms of the entries of a diagonal matrix."""
    assert np.allclose(S, np.diag(np.diag(S)), atol=1e-12)
    return np.log(np.diag(S))


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def orthogonal(rng, n, size=()):
    return np.linalg.qr(rng.standard_normal((*size, n, n)))[0]


def random_symmetric(rng, n, size=()):
    M = rng.standard_normal((*size, n, n))
    return (M + np.swapaxes(M, -2, -1)) / 2


def random_spd(rng, n, size=(), spread=1.0):
    """SPD matrices whose log-eigenvalues are normal with that spread."""
    return _recompose(orthogonal(rng, n, size), np.exp(spread * rng.standard_normal((*size, n))))


def with_logs(U, t):
    """The SPD matrices U diag(exp t) Uᵀ."""
    return _recompose(U, np.exp(np.asarray(t, dtype=float)))


def derivative(f, X, V, step=1e-6):
    """The derivative of f at X along V, by central differences."""
    return (f(X + step * V) - f(X - step * V)) / (2 * step)


def _recompose(U, values):
    return (U * values[..., None, :]) @ np.swapaxes(U, -2, -1)


# The pair of matrices on which most claims about means fail, with A = (1, 2).
PAIR = diagonal(1, 3), diagonal(5, 1)
