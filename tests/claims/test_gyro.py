"""Theorem VIII.2 and its proof: gyro operations are the group's, and the classifier is linear."""

import numpy as np
import pytest
import torch

from alem import geometry
from alem.geometry import gyro
from alem.linalg import InvalidMatrixError
from tests.claims import library, paper
from tests.claims.library import N, tensor


def same(a, b, tolerance=1e-9):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def test_gyro_operations_are_those_of_the_group(metric, points):
    P, Q, R = points
    same(gyro.add(metric, P, Q), metric.compose(P, Q))
    same(gyro.negate(metric, P), metric.invert(P))
    same(gyro.scale(metric, P, -0.7), metric.scale(P, -0.7))
    same(gyro.gyration(metric, P, Q, R), R)
    same(gyro.inner(metric, P, Q), metric.hilbert_inner(P, Q))
    same(gyro.dist(metric, P, Q), metric.dist(P, Q))


def test_gyro_norm_needs_the_root(metric, points):
    """Printed without it, the gyro distance would be the squared distance."""
    P, Q, _ = points
    difference = gyro.add(metric, gyro.negate(metric, P), Q)
    same(gyro.norm(metric, difference), metric.dist(P, Q))
    same(gyro.inner(metric, difference, difference), metric.dist2(P, Q))
    assert abs(metric.dist(P, Q) - metric.dist2(P, Q)) > 0.1


def test_gyro_classifier_is_a_linear_softmax(metric, points, rng):
    """sign·‖Ã‖·d̄ = ⟨φ(S) − φ(P), φ_*Ã⟩ = ⟨φ(S), W⟩ + b, W = φ_*Ã and b = −⟨φ(P), W⟩."""
    S, P, _ = points
    normal = tensor(paper.random_symmetric(rng, N))
    sign = torch.sign(gyro.hyperplane(metric, S, P, normal))
    defined = sign * metric.norm(P, normal) * gyro.hyperplane_dist(metric, S, P, normal)
    W = metric.pushforward(P, normal)
    product = metric.inner_product
    same(defined, product(metric.chart(S) - metric.chart(P), W))
    same(defined, product(metric.chart(S), W) - product(metric.chart(P), W))


def test_normals_from_the_identity_make_the_point_a_bias(metric, points, rng):
    """Ã = Γ_{I→P} A gives W = φ_*(A at I), whatever P is: all that P does is shift b."""
    _, P, Q = points
    eye, A = torch.eye(N, dtype=P.dtype), tensor(paper.random_symmetric(rng, N))
    pushed = [metric.pushforward(R, metric.transport(eye, R, A)) for R in (P, Q)]
    same(pushed[0], pushed[1])
    same(pushed[0], metric.pushforward(eye, A))


def test_sign_of_the_logarithm_in_the_proof(metric, points, rng):
    """Log_P S goes with φ(S) − φ(P); the proof has the opposite, the theorem is right."""
    S, P, _ = points
    normal = tensor(paper.random_symmetric(rng, N))
    printed = metric.inner_product(metric.chart(P) - metric.chart(S), metric.pushforward(P, normal))
    true = metric.inner(P, metric.log(P, S), normal)
    assert abs(true) > 0.1
    same(printed, -true)


@pytest.mark.parametrize("name", ["lem", "lcm", "sinh", "gap", "aim"])
def test_pseudo_distance_is_that_of_directions(name, rng):
    """sin ∠SPQ*·d(S, P), with Q* searched over the hyperplane, is |⟨Log_P S, A⟩|/‖A‖, on AIM too."""
    metric = geometry.AffineInvariant() if name == "aim" else library.TRUE_METRICS[name]()
    S, P = tensor(*paper.random_spd(rng, 2, (2,)))
    normal = tensor(paper.random_symmetric(rng, 2))
    basis = []
    for E in tensor(*np.random.default_rng(1).standard_normal((2, 2, 2))):
        V = E + E.mT
        for other in (normal, *basis):
            V = V - metric.inner(P, V, other) / metric.inner(P, other, other) * other
        basis.append(V / metric.norm(P, V))
    angles = torch.linspace(0, 2 * np.pi, 4001, dtype=torch.float64)[:, None, None]
    Q = metric.exp(P, angles.cos() * basis[0] + angles.sin() * basis[1])
    assert gyro.hyperplane(metric, Q, P, normal).abs().max() < 1e-10
    cosines = gyro.cosine(metric, P.expand_as(Q), S.expand_as(Q), Q)
    sine = (1 - cosines.max() ** 2).sqrt()
    searched = sine * gyro.dist(metric, P, S)
    assert gyro.hyperplane_dist(metric, S, P, normal).item() == pytest.approx(searched.item(), rel=1e-5)


def test_norm_in_the_closed_form_is_that_of_the_normal_at_p(metric, points, rng):
    """‖Ã‖_P = ‖φ_*Ã‖; the printed ‖A‖_P, of the vector before transport, is another number."""
    _, P, _ = points
    eye, A = torch.eye(N, dtype=P.dtype), tensor(paper.random_symmetric(rng, N))
    carried = metric.transport(eye, P, A)
    pushed = metric.pushforward(P, carried)
    same(metric.norm(P, carried) ** 2, metric.inner_product(pushed, pushed))
    assert abs(metric.norm(P, A) - metric.norm(P, carried)) > 1e-3


def test_there_is_no_logarithm_at_the_identity_for_unequal_multipliers():
    """All gyro operations start from Log_I and mlog_* at I, a tie, where mlog has no differential."""
    metric = library.alem([1.0, 2.0], ties="exact")
    with pytest.raises(InvalidMatrixError, match="equal eigenvalues"):
        gyro.inner(metric, *tensor(*paper.PAIR))
