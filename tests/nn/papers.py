"""The layers as their papers define them: the oracle of these tests.

Plain NumPy and SciPy in float64, one matrix at a time, by the general matrix functions of SciPy. It
imports nothing of the library. P, Q, S are SPD matrices `(n, n)`, V, W, A symmetric ones, and X is a
list of SPD matrices.
"""

import dataclasses
import warnings

import numpy as np
from scipy import linalg
from scipy.integrate import solve_ivp
from scipy.linalg import eigh, eigvalsh, expm, solve_continuous_lyapunov, solve_sylvester, sqrtm

EPS = 1e-5  # what SPDBN adds to a variance

# --- matrix functions ----------------------------------------------------------------------------


def symmetric(M):
    return (M + M.T) / 2


def logm(M):
    """SciPy's logarithm of a matrix with positive eigenvalues."""
    with warnings.catch_warnings():
        # SciPy warns of errors above 1000 eps = 2e-13; these tests tolerate 1e-10.
        warnings.filterwarnings("ignore", "logm result may be inaccurate", RuntimeWarning)
        return np.real(linalg.logm(M))


def log(P):
    return symmetric(logm(P))


def exp(X):
    return symmetric(expm(X))


def root(P):
    return symmetric(np.real(sqrtm(P)))


def power(P, k):
    return exp(k * log(P))


def log_differential(P, V):
    """The derivative of the logarithm at P along V: log [[P, V], [0, P]] = [[log P, it], [0, log P]]."""
    n = len(P)
    return symmetric(logm(np.block([[P, V], [np.zeros((n, n)), P]]))[:n, n:])


def cholesky_differential(P, V):
    """The lower triangular dL with dL Lᵀ + L dLᵀ = V, P = LLᵀ, from the linear system for its entries."""
    n, L = len(P), np.linalg.cholesky(P)
    rows, columns = np.tril_indices(n)
    images = []
    for i, j in zip(rows, columns, strict=True):
        E = np.zeros((n, n))
        E[i, j] = 1
        images.append((E @ L.T + L @ E.T)[rows, columns])
    dL = np.zeros((n, n))
    dL[rows, columns] = np.linalg.solve(np.stack(images, axis=1), V[rows, columns])
    return dL


# --- geometries ----------------------------------------------------------------------------------


class Flat:
    """A chart φ and a fixed inner product of what it gives.

    A centre is the mean of coordinates φ(X_i), which for a true chart is φ of the Fréchet mean.
    """

    def inner_flat(self, X, Y):
        return np.sum(X * Y)

    def dist2(self, P, Q):
        D = self.chart(P) - self.chart(Q)
        return self.inner_flat(D, D)

    def norm2(self, P, V):
        W = self.differential(P, V)
        return self.inner_flat(W, W)

    def exp(self, P, V):
        return self.unchart(self.chart(P) + self.differential(P, V))

    def geodesic(self, P, Q, t):
        return self.unchart((1 - t) * self.chart(P) + t * self.chart(Q))

    def centre(self, X):
        return sum(self.chart(P) for P in X) / len(X)

    def centre_at(self, M):
        return self.chart(M)

    def point(self, centre):
        return self.unchart(centre)

    def variance(self, X, centre):
        D = [self.chart(P) - centre for P in X]
        return sum(self.inner_flat(E, E) for E in D) / len(X)

    def normalize(self, P, centre, k, bias):
        """bias ⊙ (k ⊛ (M⁻¹ ⊙ P))."""
        return self.unchart(k * (self.chart(P) - centre) + self.chart(bias))

    def hyperplane(self, S, P, A):
        """⟨Log_P S, Γ_{I→P} A⟩_P = ⟨φ(S) − φ(P), φ_* A⟩, φ_* at the identity."""
        return self.inner_flat(self.chart(S) - self.chart(P), self.differential(np.eye(len(A)), A))


@dataclasses.dataclass
class LogEuclidean(Flat):
    """(a,b)-LEM: φ = log, ⟨X, Y⟩ = a tr XY + b tr X tr Y."""

    a: float = 1.0
    b: float = 0.0

    def chart(self, P):
        return log(P)

    def unchart(self, X):
        return exp(X)

    def differential(self, P, V):
        return log_differential(P, V)

    def inner_flat(self, X, Y):
        return self.a * np.trace(X @ Y) + self.b * np.trace(X) * np.trace(Y)

    def hyperplane(self, S, P, A):
        """The derivative of the logarithm at the identity is the identity."""
        return self.inner_flat(log(S) - log(P), A)


class LogCholesky(Flat):
    """LCM: φ(P) = ⌊L⌋ + ln diag L, P = LLᵀ (Lin 2019)."""

    def chart(self, P):
        L = np.linalg.cholesky(P)
        return np.tril(L, -1) + np.diag(np.log(np.diag(L)))

    def unchart(self, X):
        L = np.tril(X, -1) + np.diag(np.exp(np.diag(X)))
        return L @ L.T

    def differential(self, P, V):
        dL = cholesky_differential(P, V)
        return np.tril(dL, -1) + np.diag(np.diag(dL) / np.diag(np.linalg.cholesky(P)))

    def hyperplane(self, S, P, A):
        """φ_* at the identity is ⌊A⌋ + diag(A)/2."""
        return self.inner_flat(self.chart(S) - self.chart(P), np.tril(A, -1) + np.diag(np.diag(A)) / 2)


@dataclasses.dataclass
class AdaptiveLogEuclidean(Flat):
    """The paper's ALEM: φ(P) = U diag(A_i ln σ_i) Uᵀ, σ ascending, with what it calls the inverse."""

    A: np.ndarray

    def chart(self, P):
        s, U = eigh(P)
        return U @ np.diag(self.A * np.log(s)) @ U.T

    def unchart(self, X):
        m, U = eigh(symmetric(X))
        return U @ np.diag(np.exp(m / self.A)) @ U.T


class AffineInvariant:
    """AIM with the group P ⊙ Q = LQLᵀ, P = LLᵀ. A centre is a point."""

    def dist2(self, P, Q):
        """The squared logarithms of the eigenvalues of P⁻¹Q."""
        return np.sum(np.log(eigvalsh(Q, P)) ** 2)

    def norm2(self, P, V):
        return self.inner(P, V, V)

    def inner(self, P, V, W):
        return np.trace(np.linalg.solve(P, V) @ np.linalg.solve(P, W))

    def exp(self, P, V):
        R = root(P)
        S = np.linalg.inv(R)
        return R @ exp(S @ V @ S) @ R

    def log(self, P, Q):
        R = root(P)
        S = np.linalg.inv(R)
        return R @ log(S @ Q @ S) @ R

    def geodesic(self, P, Q, t):
        return self.exp(P, t * self.log(P, Q))

    def karcher_step(self, M, X):
        """Exp_M of the mean of the Log_M X_i."""
        return self.exp(M, sum(self.log(M, P) for P in X) / len(X))

    def mean(self, X):
        """Karcher's iteration from the arithmetic mean, until it no longer moves."""
        M = sum(X) / len(X)
        for _ in range(200):
            following = self.karcher_step(M, X)
            step = np.sqrt(self.dist2(M, following))
            M = following
            if step < 1e-14:
                return M
        # Rounding may keep it trembling in the last digits.
        assert step < 1e-12
        return M

    def one_step_mean(self, X):
        """One Karcher step from the arithmetic mean (Brooks et al. 2019, Algorithm 1)."""
        return self.karcher_step(sum(X) / len(X), X)

    def centre(self, X):
        return self.mean(X)

    def centre_at(self, M):
        return M

    def point(self, centre):
        return centre

    def variance(self, X, centre):
        return sum(self.dist2(centre, P) for P in X) / len(X)

    def normalize(self, P, centre, k, bias):
        """bias ⊙ (k ⊛ (M⁻¹ ⊙ P)), where k ⊛ P = Pᵏ and M⁻¹ ⊙ P = L⁻¹PL⁻ᵀ."""
        inverse = np.linalg.inv(np.linalg.cholesky(centre))
        L = np.linalg.cholesky(bias)
        return L @ power(symmetric(inverse @ P @ inverse.T), k) @ L.T

    def hyperplane(self, S, P, A):
        """⟨Log_P S, P^½AP^½⟩_P."""
        R = root(P)
        return self.inner(P, self.log(P, S), R @ A @ R)


class BuresWasserstein:
    """BWM: the quotient of the matrices M with the Euclidean distance by M ↦ MMᵀ."""

    def inner(self, P, V, W):
        return np.trace(solve_continuous_lyapunov(P, V) @ W) / 2

    def norm2(self, P, V):
        return self.inner(P, V, V)

    def dist2(self, P, Q):
        R = root(P)
        return np.trace(P) + np.trace(Q) - 2 * np.trace(root(R @ Q @ R))

    def transport_map(self, P, Q):
        """The symmetric T with TPT = Q."""
        R = root(P)
        S = np.linalg.inv(R)
        return S @ root(R @ Q @ R) @ S

    def exp(self, P, V):
        T = np.eye(len(P)) + solve_continuous_lyapunov(P, V)
        return T @ P @ T

    def log(self, P, Q):
        T = self.transport_map(P, Q)
        return T @ P + P @ T - 2 * P

    def transport(self, P, Q, V):
        """Parallel transport, from its equation for horizontal lifts.

        The geodesic lifts to the line M(t) = M₀ + tN, N = (T − I)M₀, and V to Y = SM, SP + PS = V,
        for which MᵀY is symmetric. Y is parallel where Ẏ is vertical, Ẏ = MΩ with Ω skew; and MᵀY
        stays symmetric where MᵀM Ω + Ω MᵀM = YᵀN − NᵀY.
        """
        n, start = len(P), root(P)
        N = (self.transport_map(P, Q) - np.eye(n)) @ start

        def velocity(t, y):
            M, Y = start + t * N, y.reshape(n, n)
            G = M.T @ M
            return (M @ solve_sylvester(G, G, Y.T @ N - N.T @ Y)).ravel()

        lifted = (solve_continuous_lyapunov(P, V) @ start).ravel()
        Y = solve_ivp(velocity, (0, 1), lifted, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1].reshape(n, n)
        half = Y @ (start + N).T
        return half + half.T

    def hyperplane(self, S, P, A):
        return self.inner(P, self.log(P, S), self.transport(np.eye(len(P)), P, A))


AIM = AffineInvariant()

# --- batch normalisation -------------------------------------------------------------------------


@dataclasses.dataclass
class LieBN:
    """Chen et al. 2024, Algorithm 1, with max(v, eps) for v + eps; a batch of one leaves the variance."""

    geometry: Flat | AffineInvariant
    bias: np.ndarray
    scale: float
    momentum: float
    eps: float = 1e-5

    def __post_init__(self):
        self.running_mean = np.eye(len(self.bias))
        self.running_var = 1.0

    def train(self, X):
        centre = self.geometry.centre(X)
        variance = self.geometry.variance(X, centre)
        self.running_mean = self.geometry.geodesic(
            self.running_mean, self.geometry.point(centre), self.momentum
        )
        if len(X) > 1:
            self.running_var = (1 - self.momentum) * self.running_var + self.momentum * variance
        return self._normalize(X, centre, variance)

    def evaluate(self, X):
        return self._normalize(X, self.geometry.centre_at(self.running_mean), self.running_var)

    def _normalize(self, X, centre, variance):
        k = self.scale / np.sqrt(max(variance, self.eps))
        return [self.geometry.normalize(P, centre, k, self.bias) for P in X]


@dataclasses.dataclass
class SPDNetBN:
    """Brooks et al. 2019, Algorithm 2."""

    bias: np.ndarray
    momentum: float

    def __post_init__(self):
        self.running_mean = np.eye(len(self.bias))

    def train(self, X):
        mean = AIM.one_step_mean(X)
        self.running_mean = AIM.geodesic(self.running_mean, mean, self.momentum)
        return [self._recentre(P, mean) for P in X]

    def evaluate(self, X):
        return [self._recentre(P, self.running_mean) for P in X]

    def _recentre(self, P, mean):
        return congruence(root(self.bias), congruence(np.linalg.inv(root(mean)), P))


@dataclasses.dataclass
class SPDBN:
    """Kobler et al. 2022, Algorithm 1: one domain's statistics, and parameters all domains share.

    A batch of one leaves the variances, which the algorithm would draw to the distance from a mean that
    has just moved to it.
    """

    bias: np.ndarray
    scale: float
    momentum: float

    def __post_init__(self):
        n = len(self.bias)
        self.train_mean, self.train_var = np.eye(n), 1.0
        self.running_mean, self.running_var = np.eye(n), 1.0

    def train(self, X, gamma):
        mean = AIM.one_step_mean(X)
        self.train_mean, self.train_var = self._follow(self.train_mean, self.train_var, mean, X, gamma)
        self.running_mean, self.running_var = self._follow(
            self.running_mean, self.running_var, mean, X, self.momentum
        )
        return [self._normalize(P, self.train_mean, self.train_var) for P in X]

    def evaluate(self, X):
        return [self._normalize(P, self.running_mean, self.running_var) for P in X]

    @staticmethod
    def _follow(mean, var, batch_mean, X, momentum):
        mean = AIM.geodesic(mean, batch_mean, momentum)
        if len(X) == 1:
            return mean, var
        return mean, (1 - momentum) * var + momentum * sum(AIM.dist2(mean, P) for P in X) / len(X)

    def _normalize(self, P, mean, var):
        whitened = congruence(np.linalg.inv(root(mean)), P)
        return congruence(root(self.bias), power(whitened, self.scale / np.sqrt(var + EPS)))


def training_momentum(k, warmup, final):
    """γ(k) = 1 − ρ^{max(K − k, 0)/(K − 1)} + ρ for k = 1, 2, …: from 1 down to ρ at k = K."""
    return 1 - final ** (max(warmup - k, 0) / (warmup - 1)) + final


def congruence(R, P):
    return symmetric(R @ P @ R.T)


# --- residual blocks -----------------------------------------------------------------------------


def spectrum(S):
    """The eigenvalues in ascending order."""
    return eigvalsh(S)


def field(Q, values):
    """ℓ(S) = Q diag(f(spec S)) Qᵀ, given f(spec S) (Katsman et al. 2023)."""
    return Q @ np.diag(values) @ Q.T


def residual_block(geometry, S, Q, values):
    """Exp_S(ℓ(S))."""
    return geometry.exp(S, field(Q, values))


# --- classifiers ---------------------------------------------------------------------------------


def gyro_logits(geometry, S, P, A):
    """⟨Log_{P_k} S, Γ_{I→P_k} A_k⟩_{P_k} for each class k (Nguyen and Yang 2023)."""
    return np.array([geometry.hyperplane(S, Pk, Ak) for Pk, Ak in zip(P, A, strict=True)])
