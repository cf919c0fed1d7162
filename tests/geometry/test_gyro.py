"""Gyro operations: defined once, the group's where the metric is flat, and AIM's known ones."""

from __future__ import annotations

import pytest
import torch

from alem import geometry, linalg
from alem.geometry import gyro

from .conftest import FLAT, learned_metric, spd, sym

P, Q, R, S = (spd(3, seed=s) for s in (1, 2, 3, 4))
A = sym(3, seed=5)
TOLERANCE = {"rtol": 1e-8, "atol": 1e-8}


def near(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, **TOLERANCE)


@pytest.mark.parametrize("name", FLAT)
def test_on_flat_metrics_they_are_the_group(name: str) -> None:
    m = learned_metric(name, 4)
    near(gyro.add(m, P, Q), m.compose(P, Q))
    near(gyro.negate(m, P), m.invert(P))
    near(gyro.scale(m, P, 0.3), m.scale(P, 0.3))
    near(gyro.gyration(m, P, Q, R), R)
    near(gyro.inner(m, P, Q), m.hilbert_inner(P, Q))
    near(gyro.norm(m, P), m.hilbert_norm(P))
    near(gyro.dist(m, P, Q), m.dist(P, Q))


def test_on_aim_they_have_their_known_form() -> None:
    m = geometry.AffineInvariant()
    root = linalg.sqrt(P)
    near(gyro.add(m, P, Q), root @ Q @ root)
    near(gyro.negate(m, P), torch.linalg.inv(P))
    near(gyro.scale(m, P, 0.3), linalg.power(P, 0.3))
    near(gyro.dist(m, P, Q), m.dist(P, Q))
    # gyr[P, Q] R = G R Gᵀ with the orthogonal G = (P½QP½)^{−½} P½ Q½
    G = linalg.inverse_sqrt(root @ Q @ root) @ root @ linalg.sqrt(Q)
    near(G @ G.mT, torch.eye(4).double().expand(3, 4, 4))
    near(gyro.gyration(m, P, Q, R), G @ R @ G.mT)
    assert (gyro.gyration(m, P, Q, R) - R).abs().max() > 0.01


@pytest.mark.parametrize("name", [*FLAT, "aim"])
def test_left_cancellation_and_left_gyroassociativity(name: str) -> None:
    m = learned_metric(name, 4)
    near(gyro.add(m, gyro.negate(m, P), gyro.add(m, P, Q)), Q)
    left = gyro.add(m, P, gyro.add(m, Q, R))
    near(left, gyro.add(m, gyro.add(m, P, Q), gyro.gyration(m, P, Q, R)))


@pytest.mark.parametrize("name", [*FLAT, "aim"])
def test_cosine_is_the_angle_at_the_vertex(name: str) -> None:
    m = learned_metric(name, 4)
    V, W = m.log(P, Q), m.log(P, S)
    near(gyro.cosine(m, P, Q, S), m.inner(P, V, W) / (m.norm(P, V) * m.norm(P, W)))


@pytest.mark.parametrize("name", [*FLAT, "aim"])
def test_the_pseudo_distance_is_its_definition(name: str) -> None:
    """sin of the smallest angle to a point of the hyperplane, times the distance; by search."""
    m = learned_metric(name, 3).requires_grad_(False)
    P, S, A = spd(n=3, seed=1), spd(n=3, seed=2), sym(n=3, seed=3)
    generator = torch.Generator().manual_seed(0)
    B = torch.randn(4000, 3, 3, generator=generator, dtype=torch.float64)
    B = B + B.mT
    onto = m.inner(P, B, A) / m.inner(P, A, A)
    directions = B - onto[:, None, None] * A
    aim = m.log(P, S)
    best = aim - m.inner(P, aim, A) / m.inner(P, A, A) * A
    directions = torch.cat([directions, best[None]])
    points = m.exp(P, 0.3 * directions / m.norm(P, directions)[:, None, None])
    near(gyro.hyperplane(m, points, P, A), torch.zeros(4001, dtype=torch.float64))
    cosines = gyro.cosine(m, P, points, S)
    assert cosines.argmax() == 4000  # nothing found comes nearer than the projection
    definition = torch.sqrt(1 - cosines.max() ** 2) * m.dist(S, P)
    near(gyro.hyperplane_dist(m, S, P, A), definition)


def test_bures_wasserstein_is_refused() -> None:
    m = geometry.BuresWasserstein()
    for operation in (
        lambda: gyro.add(m, P, Q),
        lambda: gyro.norm(m, P),
        lambda: gyro.hyperplane(m, S, P, A),
    ):
        with pytest.raises(NotImplementedError, match="does not reach every matrix"):
            operation()
