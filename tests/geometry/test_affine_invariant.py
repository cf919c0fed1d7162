from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from geomstats.geometry.spd_matrices import SPDAffineMetric, SPDMatrices
from geoopt import SymmetricPositiveDefinite
from pyriemann.geometry.distance import distance_riemann
from pyriemann.geometry.geodesic import geodesic_riemann
from pyriemann.geometry.tangentspace import tangent_space, untangent_space
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from alem import linalg
from alem.geometry import AffineInvariant
from alem.linalg.errors import NotPositiveDefiniteError

from .conftest import spd, sym, tied
from .multiprecision import (
    ACCURACY_CASES,
    check_accuracy,
    conditioned,
    exact,
    function,
    norm,
    relative_error,
    symmetric,
)

M = AffineInvariant()


def close(a: Tensor, b: object, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(a.numpy(), np.asarray(b), rtol=tolerance, atol=tolerance)


@pytest.fixture
def points() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return spd(5, n=4, seed=1), spd(5, n=4, seed=2), sym(5, n=4, seed=3), sym(5, n=4, seed=4)


def test_agrees_with_geomstats(points: tuple[Tensor, ...]) -> None:
    P, Q, V, W = points
    space = SPDMatrices(4, equip=False)
    space.equip_with_metric(SPDAffineMetric)
    p, q, v, w = (A.numpy() for A in points)
    close(M.inner(P, V, W), space.metric.inner_product(v, w, p))
    close(M.exp(P, 0.1 * V), space.metric.exp(0.1 * v, p), 1e-9)
    close(M.log(P, Q), space.metric.log(q, p))
    close(M.dist(P, Q), space.metric.dist(p, q))
    close(M.transport(P, Q, V), space.metric.parallel_transport(v, p, end_point=q))


def test_agrees_with_pyriemann_and_geoopt(points: tuple[Tensor, ...]) -> None:
    P, Q, V, _ = points
    close(M.dist(P, Q), distance_riemann(P.numpy(), Q.numpy()))
    close(M.geodesic(P, Q, 0.3), geodesic_riemann(P.numpy(), Q.numpy(), 0.3))
    manifold = SymmetricPositiveDefinite("AIM")
    close(M.dist(P, Q), manifold.dist(P, Q))
    close(M.exp(P, 0.1 * V), manifold.expmap(P, 0.1 * V), 1e-9)
    close(M.log(P, Q), manifold.logmap(P, Q))
    # geoopt's transport from P to Q, E V Eᵀ with E = (QP⁻¹)^½
    close(M.transport(P, Q, V), manifold.transp(P, Q, V), 1e-9)


def test_tangent_coordinates_are_those_of_pyriemann(points: tuple[Tensor, ...]) -> None:
    X, M0 = points[0], points[1][0]
    v = M.tangent_coordinates(M0, M.log(M0, X))
    # pyRiemann reads the upper triangle row by row.
    i, j = np.triu_indices(4)
    place = [int(b * (b + 1) // 2 + a) for a, b in zip(i, j, strict=True)]
    theirs = tangent_space(X.numpy(), M0.numpy(), metric="riemann")
    close(v[:, place], theirs)
    close(M.exp(M0, M.tangent_vector(M0, v)), untangent_space(theirs, M0.numpy(), metric="riemann"))


def test_distance_does_not_see_a_change_of_basis() -> None:
    P, Q = spd(5, n=4, seed=1), spd(5, n=4, seed=2)
    A = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=P.dtype)
    close(M.dist(A @ P @ A.mT, A @ Q @ A.mT), M.dist(P, Q))
    close(M.dist(torch.linalg.inv(P), torch.linalg.inv(Q)), M.dist(P, Q))


def test_the_group_and_its_left_invariance() -> None:
    P, Q, R = (spd(5, n=4, seed=s) for s in (1, 2, 3))
    E = torch.eye(4, dtype=P.dtype)
    close(M.compose(P, M.compose(Q, R)), M.compose(M.compose(P, Q), R))
    close(M.compose(E, P), P)
    close(M.compose(P, E), P)
    close(M.compose(P, M.invert(P)), E.expand(5, 4, 4))
    close(M.compose(M.invert(P), P), E.expand(5, 4, 4))
    close(M.dist(M.compose(R, P), M.compose(R, Q)), M.dist(P, Q))
    close(M.compose(P, Q)[0], torch.linalg.cholesky(P[0]) @ Q[0] @ torch.linalg.cholesky(P[0]).T)


def test_scale_moves_along_the_geodesic_from_the_identity() -> None:
    P, E = spd(3, n=4), torch.eye(4, dtype=torch.float64)
    k = torch.tensor([-1.0, 0.5, 2.0], dtype=P.dtype)
    close(M.scale(P, k), M.geodesic(E, P, k))
    close(M.dist(E, M.scale(P, k)), k.abs() * M.dist(E, P))
    close(M.scale(P, 2), P @ P, 1e-9)


# --- accuracy ------------------------------------------------------------------------------------


def exact_log(P: Tensor, Q: Tensor) -> tuple[mpmath.mpf, mpmath.matrix]:
    root = function(mpmath.sqrt, exact(P))
    log = function(mpmath.log, root**-1 * exact(Q) * root**-1)
    return norm(log), root * log * root


def exact_exp(P: Tensor, V: Tensor) -> mpmath.matrix:
    root = function(mpmath.sqrt, exact(P))
    return root * function(mpmath.exp, root**-1 * exact(V) * root**-1) * root


@pytest.mark.parametrize(("dtype", "conditions"), ACCURACY_CASES)
def test_error_is_bounded_by_the_condition_numbers(
    dtype: torch.dtype, conditions: tuple[float, float]
) -> None:
    check_accuracy(
        M,
        dtype,
        conditions,
        exact_log,
        exact_exp,
        tangent=lambda P, S: linalg.unwhiten(linalg.cholesky(P), S),
    )


@pytest.mark.parametrize("gap", [1e-2, 1e-6, 1e-10])
def test_close_points_lose_no_digits(gap: float) -> None:
    P = conditioned(4, 10.0, seed=0)
    Q = P + gap * 0.1 * symmetric(4, seed=1)
    distance, log = exact_log(P, Q)
    assert relative_error(M.dist(P, Q), distance) < 1e-14
    assert relative_error(M.log(P, Q), log) < 1e-14


@pytest.mark.parametrize("size", [0.5 - 1e-9, 0.5 + 1e-9])
def test_both_sides_of_the_change_of_formula(size: float) -> None:
    # On ‖Δ‖ = ½ the logarithm changes from ln(1 + δ) to ln y.
    P = conditioned(3, 10.0, seed=0)
    S = symmetric(3, seed=1)
    Q = linalg.unwhiten(linalg.cholesky(P), torch.eye(3, dtype=P.dtype) + size * S / S.norm())
    distance, log = exact_log(P, Q)
    assert relative_error(M.dist(P, Q), distance) < 1e-14
    assert relative_error(M.log(P, Q), log) < 1e-14
    leaves = (P.requires_grad_(), Q.requires_grad_())
    assert gradcheck(M.dist2, leaves)
    assert gradgradcheck(M.dist2, leaves)


# --- derivatives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["identity", "double", "triple", "near"])
def test_derivatives_at_equal_points(at: str) -> None:
    P = tied()[at].requires_grad_()
    Q = tied()[at].requires_grad_()
    assert gradcheck(M.dist2, (P, Q), check_forward_ad=True)
    assert gradgradcheck(M.dist2, (P, Q))
    assert gradcheck(M.log, (P, Q))
    for grad in torch.autograd.grad(M.dist(P, Q), (P, Q)):
        assert torch.equal(grad, torch.zeros_like(grad))


def test_a_matrix_that_is_not_definite_is_named() -> None:
    P, Q = spd(3, n=3, seed=1), spd(3, n=3, seed=2)
    Q[1] -= 2 * Q[1].trace() * torch.eye(3, dtype=Q.dtype)
    for operation in (M.dist, M.log):
        with pytest.raises(NotPositiveDefiniteError) as caught:
            operation(P, Q)
        assert caught.value.index == (1,)
