from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from pyriemann.geometry.mean import mean_riemann, mean_wasserstein
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from alem import geometry, linalg
from alem.geometry import frechet, frechet_hessian
from alem.linalg.errors import ConvergenceError, InvalidMatrixError, NotPositiveDefiniteError

from .conftest import spd
from .multiprecision import conditioned, exact, function, norm, symmetric

METRICS = {"aim": geometry.AffineInvariant(), "bwm": geometry.BuresWasserstein()}
PYRIEMANN = {"aim": mean_riemann, "bwm": mean_wasserstein}


@pytest.fixture(params=METRICS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def m(name: str) -> geometry.Metric:
    return METRICS[name]


def weights(*size: int, seed: int = 3) -> Tensor:
    return 0.1 + torch.rand(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def distance_to_the_mean(name: str, M: Tensor, X: Tensor, w: Tensor) -> float:
    """Relative distance of M to the mean of X, to first order, in 60 digits.

    AIM: ‖Σ w log(M^{-½}XM^{-½})‖ bounds the affine-invariant distance. BWM: the length of the
    gradient Σ w T − I at M, relative to (tr M)^½; the Hessian is not far below 1 here.
    """
    R = function(mpmath.sqrt, exact(M))
    inverse = R**-1
    share = [mpmath.mpf(v) for v in w.tolist()]
    total = sum(share)
    g = mpmath.zeros(M.shape[-1])
    for v, x in zip(share, X, strict=True):
        if name == "aim":
            g += v / total * function(mpmath.log, inverse * exact(x) * inverse)
        else:
            g += v / total * function(mpmath.sqrt, R * exact(x) * R)
    if name == "aim":
        return float(norm(g))
    return float(norm(inverse * g - R) / norm(R))


def test_agrees_with_pyriemann(name: str, m: geometry.Metric) -> None:
    X, w = spd(10, n=5), weights(10)
    expected = PYRIEMANN[name](X.numpy(), sample_weight=w.numpy(), tol=1e-13, maxiter=200)
    np.testing.assert_allclose(m.mean(X, w).numpy(), expected, rtol=1e-10, atol=1e-11)
    unweighted = PYRIEMANN[name](X.numpy(), tol=1e-13, maxiter=200)
    np.testing.assert_allclose(m.mean(X).numpy(), unweighted, rtol=1e-10, atol=1e-11)


def test_commuting_matrices_have_a_closed_form(name: str, m: geometry.Metric) -> None:
    x, w = 0.1 + 5 * torch.rand(6, 4, dtype=torch.float64), weights(6)
    f, inverse = (torch.log, torch.exp) if name == "aim" else (torch.sqrt, torch.square)
    expected = inverse((w[:, None] * f(x)).sum(0) / w.sum())
    U = torch.linalg.qr(spd(n=4))[0]
    M = m.mean(U @ torch.diag_embed(x) @ U.mT, w)
    torch.testing.assert_close(M, U @ torch.diag(expected) @ U.mT, rtol=1e-12, atol=1e-12)


def test_the_mean_of_two_is_on_their_geodesic(m: geometry.Metric) -> None:
    P, Q = spd(3, n=4, seed=1), spd(3, n=4, seed=2)
    M = m.mean(torch.stack([P, Q], -3), torch.tensor([3.0, 1.0], dtype=P.dtype))
    torch.testing.assert_close(M, m.geodesic(P, Q, 0.25), rtol=1e-11, atol=1e-11)


def test_of_one_matrix_of_one_by_one_matrices_and_of_equal_ones(m: geometry.Metric) -> None:
    P = spd(2, n=4)
    torch.testing.assert_close(m.mean(P.unsqueeze(-3)), P, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(m.mean(P.unsqueeze(-3).expand(2, 7, 4, 4)), P, rtol=1e-13, atol=1e-13)
    x = torch.tensor([0.25, 4.0], dtype=P.dtype).reshape(2, 1, 1)
    expected = 1.0 if isinstance(m, geometry.AffineInvariant) else 1.25**2
    torch.testing.assert_close(m.mean(x), torch.tensor([[expected]], dtype=P.dtype))
    assert m.mean(P.new_empty(0, 3, 4, 4)).shape == (0, 4, 4)


def test_batches_broadcast_and_single_precision_is_only_rounded(m: geometry.Metric) -> None:
    X, w = spd(2, 1, 5, n=3), weights(4, 5)
    M = m.mean(X, w)
    assert M.shape == (2, 4, 3, 3)
    torch.testing.assert_close(M[1, 2], m.mean(X[1, 0], w[2]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(m.mean(X[1, 0], 1000 * w[2]), M[1, 2], rtol=1e-12, atol=1e-12)
    low = m.mean(X.float(), w.float())
    assert low.dtype == torch.float32
    torch.testing.assert_close(low, m.mean(X.float().double(), w.float().double()).float())


@pytest.mark.parametrize(("n", "N"), [(3, 2), (5, 3), (8, 10)])
def test_far_apart_and_ill_conditioned_is_still_right(
    name: str, m: geometry.Metric, n: int, N: int
) -> None:
    X = torch.stack([10.0 ** (i % 3) * conditioned(n, 1e6, seed=i) for i in range(N)])
    w = weights(N)
    assert distance_to_the_mean(name, m.mean(X, w), X, w) < 1e-7  # measured: 2e-8


@pytest.mark.parametrize("condition", [1e4, 1e6, 1e8])
def test_error_by_condition_number(name: str, m: geometry.Metric, condition: float) -> None:
    L = linalg.cholesky(conditioned(4, condition, seed=0))
    X = linalg.unwhiten(L, linalg.exp(0.5 * symmetric(5, 4, seed=1)))
    # measured: 2 eps·cond for AIM, 8 for BWM
    error = distance_to_the_mean(name, m.mean(X), X, torch.ones(5))
    assert error < 100 * torch.finfo(X.dtype).eps * condition


@pytest.mark.parametrize("condition", [1e8, 1e10, 1e12, 1e14])
def test_beyond_double_precision_it_is_right_or_raises(
    name: str, m: geometry.Metric, condition: float
) -> None:
    for seed in range(4):
        X = torch.stack([conditioned(4, condition, seed=10 * seed + i) for i in range(3)])
        try:
            M = m.mean(X)
        except (ConvergenceError, NotPositiveDefiniteError):
            continue
        assert distance_to_the_mean(name, M, X, torch.ones(3)) < 1e-3


def test_steps_that_do_not_descend_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    X = torch.stack([conditioned(10, 1e6, seed=i) for i in range(3)])
    equation, calls = frechet.EQUATIONS["Bures-Wasserstein"], []
    descend = type(equation).descend
    monkeypatch.setattr(
        type(equation), "descend", lambda self, *args: calls.append(1) or descend(self, *args)
    )
    M = METRICS["bwm"].mean(X)
    assert calls
    assert distance_to_the_mean("bwm", M, X, torch.ones(3)) < 1e-8


def test_an_iteration_cut_short_is_an_error(m: geometry.Metric, monkeypatch: pytest.MonkeyPatch) -> None:
    X = spd(2, 4, n=3)
    X[0] = X[0, 0]  # this mean is found at the start
    monkeypatch.setattr(frechet, "MAX_EVALUATIONS", 1)
    with pytest.raises(ConvergenceError, match="mean of set 1 did not converge"):
        m.mean(X)


def test_a_derivative_cut_short_is_an_error(m: geometry.Metric, monkeypatch: pytest.MonkeyPatch) -> None:
    X = spd(4, n=4).requires_grad_()
    M = m.mean(X)
    monkeypatch.setattr(frechet_hessian, "_MAX_CONJUGATE_GRADIENTS", 1)
    with pytest.raises(ConvergenceError, match="derivative of a Fréchet mean"):
        torch.autograd.grad(M.sin().sum(), X)


def test_a_gradient_that_is_nan_stays_nan(m: geometry.Metric) -> None:
    X = spd(4, n=3).requires_grad_()
    (grad,) = torch.autograd.grad(m.mean(X).sum() * torch.nan, X)
    assert grad.isnan().all()


@pytest.mark.parametrize("bad", [[1.0, -0.1, 1.0], [0.0, 0.0, 0.0], [1.0, torch.nan, 1.0]])
def test_weights_that_mean_nothing_are_refused(m: geometry.Metric, bad: list[float]) -> None:
    w = torch.tensor([[1.0, 1.0, 1.0], bad], dtype=torch.float64)
    with pytest.raises(InvalidMatrixError, match="weights of mean 1") as caught:
        m.mean(spd(3, n=3), w)
    assert caught.value.index == (1,)


def test_a_matrix_that_is_not_definite_is_named(m: geometry.Metric) -> None:
    X = spd(2, 3, n=3)
    X[1, 2] = -X[1, 2]
    with pytest.raises(NotPositiveDefiniteError) as caught:
        m.mean(X)
    assert caught.value.index == (1, 2)
    with pytest.raises(InvalidMatrixError, match="to average"):
        m.mean(spd(n=3))


# --- derivatives ---------------------------------------------------------------------------------

CASES = {
    "generic": spd(3, n=3),
    "equal": 2 * torch.eye(3, dtype=torch.float64).expand(3, 3, 3),
    "commuting": torch.diag_embed(torch.tensor([[1.0, 1, 2], [3, 3, 1], [1, 1, 1]], dtype=torch.float64)),
    "batched": spd(2, 2, n=2),
}


@pytest.mark.parametrize("case", CASES)
def test_first_and_second_derivatives(m: geometry.Metric, case: str) -> None:
    X = CASES[case].clone().requires_grad_()
    w = weights(*X.shape[:-2]).requires_grad_()
    assert gradcheck(m.mean, (X, w), check_forward_ad=True)
    assert gradgradcheck(m.mean, (X, w))


def test_transforms_and_compile(m: geometry.Metric) -> None:
    X, w = spd(4, 3, n=3), weights(4, 3)

    def f(X: Tensor, w: Tensor) -> Tensor:
        return m.mean(X, w).sin().sum()

    leaves = (X.clone().requires_grad_(), w.clone().requires_grad_())
    expected = torch.autograd.grad(f(*leaves), leaves)
    torch.testing.assert_close(torch.func.grad(f, (0, 1))(X, w), expected)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(f, (0, 1)))(X, w), expected)
    torch.testing.assert_close(torch.func.vmap(m.mean, (0, None))(X, w[0]), m.mean(X, w[0]))
    tangent = torch.func.jvp(f, (X, w), (X, w))[1]
    torch.testing.assert_close(tangent, (expected[0] * X).sum() + (expected[1] * w).sum())
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(*leaves), leaves), expected)
    torch.testing.assert_close(compiled(X, w), f(X, w))


def test_jacobian_with_vmap_over_the_gradient_alone(m: geometry.Metric) -> None:
    X = spd(3, n=2)
    J = torch.func.jacrev(m.mean)(X)
    torch.testing.assert_close(J, torch.autograd.functional.jacobian(m.mean, X))


@pytest.mark.parametrize("condition", [1e10, 1e12])
@pytest.mark.parametrize("seed", range(3))
def test_one_ill_conditioned_member_is_no_obstacle(m, name, condition, seed):
    """Rounding then sits in that member, and is what the tolerance allows."""
    X = torch.stack(
        [conditioned(4, condition, seed), *(conditioned(4, 10.0, 10 + seed + k) for k in range(5))]
    )
    w = torch.ones(6, dtype=torch.float64)
    error = distance_to_the_mean(name, m.mean(X), X, w)
    assert error < torch.finfo(torch.float64).eps * 10 * condition
