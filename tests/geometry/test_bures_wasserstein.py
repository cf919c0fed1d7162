from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from geomstats.geometry.spd_matrices import SPDBuresWassersteinMetric, SPDMatrices
from pyriemann.geometry.distance import distance_wasserstein
from pyriemann.geometry.geodesic import geodesic_wasserstein
from scipy.integrate import solve_ivp
from scipy.linalg import solve_continuous_lyapunov, sqrtm
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from alem.geometry import BuresWasserstein
from alem.geometry import bures_wasserstein_transport as collocation
from alem.linalg.errors import ConvergenceError, InvalidMatrixError

from .conftest import spd, sym, tied
from .multiprecision import (
    ACCURACY_CASES,
    check_accuracy,
    conditioned,
    exact,
    function,
    relative_error,
    symmetric,
    trace,
)

M = BuresWasserstein()


def close(a: Tensor, b: object, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(a.numpy(), np.asarray(b), rtol=tolerance, atol=tolerance)


def test_agrees_with_geomstats() -> None:
    P, Q, V, W = spd(3, n=4, seed=1), spd(3, n=4, seed=2), sym(3, n=4, seed=3), sym(3, n=4, seed=4)
    V = 0.05 * V
    space = SPDMatrices(4, equip=False)
    space.equip_with_metric(SPDBuresWassersteinMetric)
    p, q, v, w = (A.numpy() for A in (P, Q, V, W))
    close(M.inner(P, V, W), space.metric.inner_product(v, w, p))
    close(M.exp(P, V), space.metric.exp(v, p))
    close(M.log(P, Q), space.metric.log(q, p))
    close(M.dist2(P, Q), space.metric.squared_dist(p, q))
    there = space.metric.parallel_transport(v, p, end_point=q, n_steps=1000)
    close(M.transport(P, Q, V), there, 1e-6)


def test_agrees_with_pyriemann() -> None:
    P, Q = spd(3, n=4, seed=1), spd(3, n=4, seed=2)
    close(M.dist(P, Q), distance_wasserstein(P.numpy(), Q.numpy()))
    close(M.geodesic(P, Q, 0.3), geodesic_wasserstein(P.numpy(), Q.numpy(), 0.3))


def test_inner_by_scipy_and_no_group() -> None:
    P, V, W = spd(n=5), sym(n=5, seed=1), sym(n=5, seed=2)
    S = solve_continuous_lyapunov(P.numpy(), V.numpy())
    close(M.inner(P, V, W), 0.5 * np.trace(S @ W.numpy()))
    for operation in (lambda: M.compose(P, P), lambda: M.invert(P), lambda: M.scale(P, 2.0)):
        with pytest.raises(NotImplementedError, match="no group"):
            operation()


def test_the_exponential_has_a_domain() -> None:
    P = spd(3, n=3)
    S = torch.diag(torch.tensor([0.5, 0.0, -1.0], dtype=P.dtype))
    V = S @ P + P @ S
    inside = torch.tensor([0.5, 0.99, 1.01], dtype=P.dtype)[:, None, None] * V
    assert M.in_domain(P, inside).tolist() == [True, True, False]
    close(M.log(P[:2], M.exp(P[:2], inside[:2])), inside[:2], 1e-9)
    with pytest.raises(InvalidMatrixError, match=r"of matrix 2 meets a singular .* is -0\.01") as caught:
        M.exp(P, inside)
    assert caught.value.index == (2,)
    # no question is asked in a compiled graph
    compiled = torch.compile(M.exp, fullgraph=True, backend="eager")
    A = torch.eye(3, dtype=P.dtype) + 1.01 * S
    close(compiled(P, inside)[2], A @ P[2] @ A)


# --- transport -----------------------------------------------------------------------------------


def by_scipy(P: np.ndarray, Q: np.ndarray, V: np.ndarray) -> np.ndarray:
    """ṠP + PṠ = −(SKP + PKS) for S with SP + PS = V, K = K₀(I + tK₀)⁻¹ and K₀ = T − I."""
    n = P.shape[0]
    root = np.real(sqrtm(P))
    inverse = np.linalg.inv(root)
    K0 = inverse @ np.real(sqrtm(root @ Q @ root)) @ inverse - np.eye(n)

    def slope(t: float, s: np.ndarray) -> np.ndarray:
        A, S = np.eye(n) + t * K0, s.reshape(n, n)
        R = S @ K0 @ np.linalg.inv(A) @ A @ P @ A
        return -solve_continuous_lyapunov(A @ P @ A, R + R.T).ravel()

    start = solve_continuous_lyapunov(P, V).ravel()
    S = solve_ivp(slope, (0, 1), start, "DOP853", rtol=1e-12, atol=1e-13).y[:, -1].reshape(n, n)
    return S @ Q + Q @ S


@pytest.mark.parametrize("condition", [10.0, 1e3, 1e4])
def test_transport_agrees_with_scipy(condition: float) -> None:
    P, Q = conditioned(4, condition, 1), conditioned(4, condition, 2)
    V = symmetric(4, seed=3)
    close(M.transport(P, Q, V), by_scipy(P.numpy(), Q.numpy(), V.numpy()), 1e-9)


@pytest.mark.parametrize("spread", [1.0, 1e3, 1e6])
def test_transport_between_commuting_ends_has_a_closed_form(spread: float) -> None:
    p = torch.tensor([1.0, 2.0, 3.0, 0.5], dtype=torch.float64)
    q = torch.tensor([1.0, 1.0 / spread, 0.3, 2.0 * spread], dtype=torch.float64)
    U = torch.linalg.qr(sym(n=4))[0]
    V = sym(n=4, seed=5)
    expected = V * ((q[:, None] + q) / (p[:, None] + p)).sqrt()
    turned = M.transport(U @ torch.diag(p) @ U.mT, U @ torch.diag(q) @ U.mT, U @ V @ U.mT)
    error = (U.mT @ turned @ U - expected).norm() / expected.norm()
    assert float(error) < 1e-11


@pytest.mark.parametrize("condition", [10.0, 1e3, 1e6])
def test_transport_is_an_isometry_and_undoes_itself(condition: float) -> None:
    P = torch.stack([conditioned(4, condition, s) for s in range(6)])
    Q = torch.stack([conditioned(4, condition, 50 + s) for s in range(6)])
    V = symmetric(6, 4, seed=0)
    there = M.transport(P, Q, V)
    # the tolerance, and the rounding of P and Q
    tolerance = 1e-9 + 20 * torch.finfo(P.dtype).eps * condition**1.5
    assert float((M.norm(Q, there) / M.norm(P, V) - 1).abs().max()) < tolerance
    back = M.transport(Q, P, there) - V
    assert float((back.norm(dim=(-2, -1)) / V.norm(dim=(-2, -1))).max()) < tolerance


def test_transport_of_zero_to_itself_and_in_single_precision() -> None:
    P, Q, V = spd(2, n=3, seed=1), spd(2, n=3, seed=2), sym(2, n=3)
    assert torch.equal(M.transport(P, Q, 0 * V), 0 * V)
    close(M.transport(P, P, V), V, 1e-12)
    single = M.transport(P.float(), Q.float(), V.float())
    assert single.dtype == torch.float32
    close(single, M.transport(P.float().double(), Q.float().double(), V.float().double()), 1e-6)


def test_transport_of_as_many_matrices_as_there_are_nodes() -> None:
    P, Q, V = (f(collocation.NODES, n=2, seed=s) for s, f in enumerate((spd, spd, sym)))
    close(M.transport(P, Q, V)[3], M.transport(P[3], Q[3], V[3]), 1e-12)


def test_too_few_sweeps_are_an_error_and_nan_where_none_can_be_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    P, Q, V = spd(3, n=3, seed=1), spd(3, n=3, seed=2), sym(3, n=3)
    Q[:2] = P[:2]
    monkeypatch.setattr(collocation, "SWEEPS", 4)
    with pytest.raises(ConvergenceError, match="transport of matrix 2 has a relative error"):
        M.transport(P, Q, V)
    mapped = torch.func.vmap(M.transport)(P, Q, V)
    close(mapped[:2], V[:2], 1e-12)
    assert mapped[2].isnan().all()


def test_too_few_nodes_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, integral = collocation._gauss_collocation(4)
    monkeypatch.setattr(collocation, "_U", nodes)
    monkeypatch.setattr(collocation, "_INTEGRAL", integral)
    with pytest.raises(ConvergenceError, match="relative error"):
        M.transport(conditioned(4, 1e3, 1), conditioned(4, 1e3, 2), symmetric(4, seed=3))


# --- accuracy ------------------------------------------------------------------------------------


def exact_log(P: Tensor, Q: Tensor) -> tuple[mpmath.mpf, mpmath.matrix]:
    p = exact(P)
    root = function(mpmath.sqrt, p)
    K = root**-1 * function(mpmath.sqrt, root * exact(Q) * root) * root**-1 - mpmath.eye(p.rows)
    return mpmath.sqrt(trace(K * p * K)), K * p + p * K


def exact_exp(P: Tensor, V: Tensor) -> mpmath.matrix:
    p, U = mpmath.eigsy(exact(P))
    W = U.T * exact(V) * U
    n = W.rows
    S = mpmath.matrix(n, n)
    for i in range(n):
        for j in range(n):
            S[i, j] = W[i, j] / (p[i] + p[j])
    A = mpmath.eye(n) + U * S * U.T
    return A * exact(P) * A


@pytest.mark.parametrize(("dtype", "conditions"), ACCURACY_CASES)
def test_error_is_bounded_by_the_condition_numbers(
    dtype: torch.dtype, conditions: tuple[float, float]
) -> None:
    check_accuracy(M, dtype, conditions, exact_log, exact_exp, tangent=lambda P, S: 0.5 * (S @ P + P @ S))


@pytest.mark.parametrize("gap", [1e-2, 1e-6, 1e-10])
def test_close_points_lose_no_digits(gap: float) -> None:
    P = conditioned(4, 10.0, seed=0)
    Q = P + gap * 0.1 * symmetric(4, seed=1)
    distance, log = exact_log(P, Q)
    assert relative_error(M.dist(P, Q), distance) < 1e-14
    assert relative_error(M.log(P, Q), log) < 1e-14


# --- derivatives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["identity", "double", "triple", "near"])
def test_derivatives_at_equal_points(at: str) -> None:
    P = tied()[at].requires_grad_()
    Q = tied()[at].requires_grad_()
    V = (0.1 * sym(n=3)).requires_grad_()
    assert gradcheck(M.dist2, (P, Q), check_forward_ad=True)
    assert gradgradcheck(M.dist2, (P, Q))
    assert gradcheck(M.log, (P, Q))
    assert gradcheck(M.exp, (P, V), check_forward_ad=True)
    assert gradgradcheck(M.inner, (P, V, V.detach().clone().requires_grad_()))
    for grad in torch.autograd.grad(M.dist(P, Q), (P, Q)):
        assert torch.equal(grad, torch.zeros_like(grad))


@pytest.mark.parametrize("at", ["identity", "double", "apart"])
def test_derivatives_of_transport(at: str) -> None:
    P = spd(n=3, seed=1) if at == "apart" else tied()[at]
    Q = spd(n=3, seed=2) if at == "apart" else tied()[at]
    leaves = (P.requires_grad_(), Q.requires_grad_(), sym(n=3).requires_grad_())
    assert gradcheck(M.transport, leaves, check_forward_ad=True)
    assert gradgradcheck(M.transport, leaves, fast_mode=True)
