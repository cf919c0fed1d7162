from __future__ import annotations

import math

import geoopt
import numpy as np
import pytest
import torch
from geomstats.geometry.stiefel import Stiefel as GeomstatsStiefel
from torch import Tensor

from alem.geometry import AffineInvariant
from alem.geometry.manifolds import SPD, Stiefel
from alem.linalg import InvalidMatrixError, NotPositiveDefiniteError

from .conftest import spd, sym

SHAPES = [(3, 7), (7, 3), (4, 4), (1, 5), (5, 1), (2, 3, 6), (2, 2, 6, 3)]
AIM = AffineInvariant()


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def orthonormal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    A = normal(*shape, seed=seed)
    tall = shape[-2] >= shape[-1]
    Q = torch.linalg.qr(A if tall else A.mT)[0]
    return (Q if tall else Q.mT).to(dtype)


def positive_qr(Y: Tensor) -> Tensor:
    """Q of LQ with a positive diagonal, of QR if Y is tall, by NumPy."""
    wide = Y.shape[-2] <= Y.shape[-1]
    Q, R = np.linalg.qr((Y.mT if wide else Y).numpy())
    Q = torch.from_numpy(Q * np.sign(np.diagonal(R, axis1=-2, axis2=-1))[..., None, :])
    return Q.mT if wide else Q


# Stiefel


@pytest.mark.parametrize("shape", SHAPES)
def test_the_stiefel_gradient_represents_the_differential(shape: tuple[int, ...]) -> None:
    manifold, W, G = Stiefel(), orthonormal(*shape), normal(*shape, seed=1)
    U = manifold.proju(W, normal(*shape, seed=2))
    g = manifold.egrad2rgrad(W, G)
    assert manifold.check_vector_on_tangent(W, g)
    torch.testing.assert_close(g, G - W @ G.mT @ W)
    torch.testing.assert_close(manifold.inner(W, g, U), (G * U).sum((-2, -1)))


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_returns_what_two_methods_do(shape: tuple[int, ...]) -> None:
    manifold, W, G = Stiefel(), orthonormal(*shape), normal(*shape, seed=1)
    g, square = manifold.gradient(W, G)
    torch.testing.assert_close(g, manifold.egrad2rgrad(W, G))
    expected = manifold.component_inner(W, g)
    if len(shape) == 2:  # a number, of one matrix on the CPU
        assert square == pytest.approx(float(expected))
    else:
        torch.testing.assert_close(square, expected)


def test_the_stiefel_gradient_keeps_its_digits_next_to_a_large_normal_part() -> None:
    """⟨G, g⟩ is the same number and would be lost in float32."""
    manifold, W = Stiefel(), orthonormal(3, 8, dtype=torch.float32)
    tangent = manifold.proju(W, normal(3, 8, seed=3).float())
    G = 1e-4 * tangent + 3.0 * W
    _, square = manifold.gradient(W, G)
    expected = manifold.gradient(W.double(), 1e-4 * tangent.double())[1]
    assert square == pytest.approx(expected, rel=1e-2)


def test_stiefel_agrees_with_geomstats() -> None:
    W, G = orthonormal(6, 3), normal(6, 3, seed=1)
    space = GeomstatsStiefel(6, 3)
    manifold = Stiefel()
    V = manifold.proju(W, G)
    np.testing.assert_allclose(V, space.to_tangent(G.numpy(), W.numpy()), atol=1e-12)
    U = manifold.proju(W, normal(6, 3, seed=4))
    expected = space.metric.inner_product(U.numpy(), V.numpy(), W.numpy())
    np.testing.assert_allclose(manifold.inner(W, U, V), expected, atol=1e-12)
    np.testing.assert_allclose(manifold.projx(G), space.projection(G.numpy()), atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("length", [0.0, 1e-3, 1.0, 100.0])
def test_the_stiefel_retraction_is_qr(shape: tuple[int, ...], length: float) -> None:
    manifold, W = Stiefel(), orthonormal(*shape)
    V = manifold.proju(W, normal(*shape, seed=1))
    V = length * V / V.norm()
    torch.testing.assert_close(manifold.retr(W, V), positive_qr(W + V), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(manifold.expmap(W, V), manifold.retr(W, V))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_methods_that_share_work_are_the_plain_ones(shape: tuple[int, ...]) -> None:
    manifold, W, G = Stiefel(), orthonormal(*shape), normal(*shape, seed=1)
    g = manifold.egrad2rgrad(W, G)
    torch.testing.assert_close(manifold.descend(W, G, 0.3), manifold.retr(W, -0.3 * g))
    for rate in (0.3, torch.full((*shape[:-2], 1, 1), 0.3, dtype=W.dtype)):
        for ours, plain in zip(
            manifold.carry(W, g, rate), manifold.retr_transp(W, -0.3 * g, g), strict=True
        ):
            torch.testing.assert_close(ours, plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 5), (8, 40), (40, 8), (30, 30), (60, 93)])
@pytest.mark.parametrize("rank_one", [True, False])
def test_a_retraction_of_any_length_is_orthonormal(
    shape: tuple[int, int], rank_one: bool, dtype: torch.dtype
) -> None:
    """At the length where vectors begin to be shortened, next to it, and far beyond."""
    manifold, W = Stiefel(), orthonormal(*shape, dtype=dtype)
    A = normal(shape[0], 1, seed=1) @ normal(1, shape[1], seed=2) if rank_one else normal(*shape, seed=1)
    V = manifold.proju(W, A.to(dtype))
    eps, p = torch.finfo(dtype).eps, min(shape)
    longest = math.sqrt(p) * eps**-0.25 / 20
    huge = math.sqrt(torch.finfo(dtype).max)
    for length in (1e-3, 1.0, 0.99 * longest, longest, 1.01 * longest, 1e3 * longest, 10 * huge):
        Q = manifold.retr(W, V / V.norm() * length)
        assert float(manifold.defect(Q)) < 4 * p * eps
    # shortened, not dropped
    ends = [manifold.retr(W, V / V.norm() * length) for length in (longest, 100 * longest)]
    torch.testing.assert_close(ends[0], ends[1], rtol=0.0, atol=100 * p * eps * longest)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_vector_that_is_not_tangent_counts_as_its_tangent_part(shape: tuple[int, ...]) -> None:
    manifold, W, U = Stiefel(), orthonormal(*shape), normal(*shape, seed=1)
    torch.testing.assert_close(manifold.retr(W, U), manifold.retr(W, manifold.proju(W, U)))
    # W − W would have no factor at all
    torch.testing.assert_close(manifold.retr(W, -W), W)


def test_stiefel_transport_is_a_projection() -> None:
    manifold, W = Stiefel(), orthonormal(3, 7)
    V = manifold.proju(W, normal(3, 7, seed=1))
    Q = manifold.retr(W, V)
    carried = manifold.transp(W, Q, V)
    assert manifold.check_vector_on_tangent(Q, carried)
    torch.testing.assert_close(manifold.proju(Q, carried), carried)


def test_the_stiefel_checks_explain() -> None:
    manifold, W = Stiefel(), orthonormal(3, 7)
    manifold.assert_check_point_on_manifold(W)
    manifold.assert_check_point_on_manifold(W.float())
    with pytest.raises(ValueError, match=r"WWᵀ − I.* over"):
        manifold.assert_check_point_on_manifold(1.001 * W)
    with pytest.raises(ValueError, match="normal part"):
        manifold.assert_check_vector_on_tangent(W, W)


# SPD


def test_the_spd_gradient_represents_the_differential() -> None:
    manifold, P, G, V = SPD(), spd(5, n=4), normal(5, 4, 4), sym(5, n=4)
    g, square = manifold.gradient(P, G)
    torch.testing.assert_close(g, manifold.egrad2rgrad(P, G))
    torch.testing.assert_close(manifold.inner(P, g, V), (G * V).sum((-2, -1)))
    torch.testing.assert_close(square, manifold.component_inner(P, g))
    assert torch.equal(g, g.mT)


def test_spd_follows_the_affine_invariant_metric() -> None:
    manifold, P, Q, V, W = SPD(), spd(5), spd(5, seed=1), 0.03 * sym(5), sym(5, seed=2)
    end = AIM.exp(P, V)
    torch.testing.assert_close(manifold.retr(P, V), end)
    torch.testing.assert_close(manifold.expmap(P, V), end)
    torch.testing.assert_close(manifold.logmap(P, Q), AIM.log(P, Q))
    torch.testing.assert_close(manifold.dist(P, Q), AIM.dist(P, Q))
    assert manifold.dist(P, Q, keepdim=True).shape == (5, 1, 1)
    torch.testing.assert_close(manifold.transp(P, Q, W), AIM.transport(P, Q, W))
    y, carried = manifold.retr_transp(P, V, W)
    torch.testing.assert_close(y, end)
    torch.testing.assert_close(carried, AIM.transport(P, end, W))


def test_spd_agrees_with_geoopt() -> None:
    ours, theirs = SPD(), geoopt.SymmetricPositiveDefinite()
    P, G, V = spd(5), normal(5, 4, 4), sym(5)
    torch.testing.assert_close(ours.egrad2rgrad(P, G), theirs.egrad2rgrad(P, G))
    torch.testing.assert_close(ours.inner(P, V), theirs.inner(P, V))
    torch.testing.assert_close(ours.retr(P, 0.03 * V), theirs.expmap(P, 0.03 * V))


def test_the_spd_methods_that_share_work_are_the_plain_ones() -> None:
    manifold, P, G, V = SPD(), spd(5), normal(5, 4, 4), sym(5)
    g = manifold.egrad2rgrad(P, G)
    second_order = geoopt.SymmetricPositiveDefinite().retr
    torch.testing.assert_close(manifold.descend(P, G, 0.1), second_order(P, -0.1 * g))
    third_order = manifold.descend(P, G, 1e-3) - manifold.expmap(P, -1e-3 * g)
    assert third_order.abs().max() < 1e-5 * (1e-3 * g).abs().max()
    for rate in (0.1, torch.full((5, 1, 1), 0.1, dtype=P.dtype)):
        for ours, plain in zip(
            manifold.carry(P, V, rate), manifold.retr_transp(P, -0.1 * V, V), strict=True
        ):
            torch.testing.assert_close(ours, plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("length", [1e-8, 1.0, 10.0, 1e4, 1e30])
def test_a_step_of_any_length_ends_at_an_spd_matrix(dtype: torch.dtype, length: float) -> None:
    manifold, P, V = SPD(), spd(20, n=6, dtype=dtype), sym(20, n=6, dtype=dtype)
    for U in (length * V, -length * P, manifold.egrad2rgrad(P, length * V)):
        for Q in (manifold.retr(P, U), *manifold.carry(P, U, 1.0)[:1]):
            assert torch.equal(Q, Q.mT)
            assert bool(torch.isfinite(Q).all())
            # what the rest of the library needs of it
            assert bool((torch.linalg.eigvalsh(Q) > 0).all())
            torch.linalg.cholesky(Q)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_exponential_is_exact_up_to_its_bound(dtype: torch.dtype) -> None:
    """At ln(1/eps)/10 for each eigenvalue in the whitened frame, and V is carried as far as it counts."""
    most = -math.log(torch.finfo(dtype).eps) / 10
    manifold, P = SPD(), 2.0 * torch.eye(2, dtype=dtype)
    for factor, counts in ((0.99, 0.99), (1.01, 1.0), (100.0, 1.0)):
        V = P @ torch.diag(torch.tensor([most * factor, -0.1], dtype=dtype))
        end = 2.0 * torch.diag(torch.tensor([most * counts, -0.1], dtype=dtype).exp())
        for Q in (manifold.retr(P, V), manifold.carry(P, -V, 1.0)[0], manifold.retr_transp(P, V, V)[0]):
            torch.testing.assert_close(Q, end)
        for rate in (0.5, torch.full((1, 1), 0.5, dtype=dtype)):
            carried = manifold.carry(P, -2 * V, rate)[1]
            torch.testing.assert_close(carried[0, 0], -2 * most * counts * end[0, 0])
    torch.testing.assert_close(manifold.carry(P, V, 0.0), (P, V))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_matrix_is_lifted_only_where_it_is_singular_to_rounding(dtype: torch.dtype) -> None:
    """At 10·eps of the trace."""
    for multiple, lifted in (
        (1.0 / torch.finfo(dtype).eps, False),
        (11.0, False),
        (9.0, True),
        (1.0, True),
    ):
        least = multiple * torch.finfo(dtype).eps
        P = torch.diag(torch.tensor([1.0, least], dtype=dtype))
        Q = SPD().retr(P, torch.zeros_like(P))
        assert (float(Q[1, 1]) > 1.5 * least) is lifted


def test_no_step_moves_nothing() -> None:
    P = spd(3)
    torch.testing.assert_close(SPD().retr(P, torch.zeros_like(P)), P, rtol=1e-15, atol=1e-15)


def test_the_spd_projection_is_the_identity_on_spd_matrices() -> None:
    manifold, P = SPD(), spd(5)
    torch.testing.assert_close(manifold.projx(P), P)
    Q = manifold.projx(P - 2 * torch.eye(4, dtype=P.dtype) * torch.linalg.eigvalsh(P).amax())
    assert manifold.check_point_on_manifold(Q)


def test_the_spd_checks_explain() -> None:
    manifold, P = SPD(), spd()
    manifold.assert_check_point_on_manifold(P)
    with pytest.raises(ValueError, match="not positive definite"):
        manifold.assert_check_point_on_manifold(-P)
    with pytest.raises(ValueError, match="skew part"):
        manifold.assert_check_vector_on_tangent(P, P.tril())
    with pytest.raises(ValueError, match=r"\(\.\.\., n, n\)"):
        manifold.assert_check_point(P[:2])
    with pytest.raises(NotPositiveDefiniteError):
        manifold.retr(-P, P)
    with pytest.raises(InvalidMatrixError):
        manifold.retr(P, P * torch.nan)
