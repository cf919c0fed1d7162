"""Proposition IV.6 and the ways to learn: MUL, DIV, RELU, and GEOM, which is DIV."""

import math

import numpy as np
import pytest
import torch

from alem import geometry, linalg
from tests.claims import library, paper
from tests.claims.library import tensor

B = np.array([1.0, 0.6, -0.8])  # ln a_i, so the bases are e, 1.82 and 0.45


@pytest.fixture
def loss():
    """A loss of the multipliers A: a linear functional of mlog at a fixed matrix, squared."""
    rng = np.random.default_rng(0)
    S, G = tensor(paper.random_spd(rng, 3), paper.random_symmetric(rng, 3))
    s, U = torch.linalg.eigh(S)

    def value(A):
        return ((U * (A * s.log())) @ U.mT * G).sum() ** 2

    return value


# Proposition IV.6


def test_three_ways_to_write_the_same_logarithm():
    S = paper.random_spd(np.random.default_rng(0), 3)
    s, U = np.linalg.eigh(S)
    to_base = np.log(s) / np.log(np.exp(B))
    np.testing.assert_allclose((U * to_base) @ U.T, paper.mlog(S, 1 / B), atol=1e-14)
    parameters = {"mul": 1 / B, "div": B, "relu": np.exp(B)}
    for rule, weight in parameters.items():
        metric = library.alem(weight, rule=rule)
        np.testing.assert_allclose(metric.chart(tensor(S)).detach(), paper.mlog(S, 1 / B), atol=1e-14)


def test_every_rule_starts_at_the_natural_logarithm():
    S = tensor(paper.random_spd(np.random.default_rng(0), 3))
    for rule in ("mul", "div", "relu", "exp"):
        metric = geometry.AdaptiveLogEuclidean(3, rule=rule).double()
        torch.testing.assert_close(metric.chart(S), geometry.LogEuclidean().chart(S), rtol=1e-6, atol=1e-6)


def test_steps_of_the_rules_differ(loss):
    """The same function in other coordinates, so one step of equal size lands elsewhere."""
    ends = []
    for start, multipliers in ((1 / B, lambda w: w), (B, lambda w: 1 / w)):
        w = tensor(start).requires_grad_()
        loss(multipliers(w)).backward()
        ends.append(multipliers(w.detach() - 0.1 * w.grad))
    assert (ends[0] - ends[1]).abs().max() > 1e-3


def test_every_base_must_differ_from_one():
    """Excluding only (1, …, 1) is not enough: A has a pole at each a_i = 1, and changes sign there."""
    assert 1 / math.log(0.999) == pytest.approx(-999.5, abs=0.01)
    assert 1 / math.log(1.001) == pytest.approx(1000.5, abs=0.01)
    P = torch.diag(tensor([1.0, 2.0]))
    for rule, weight in (("mul", [0.0, 1.0]), ("div", [0.0, 1.0])):
        with pytest.raises(linalg.InvalidMatrixError, match="multiplier 0"):
            library.alem(weight, rule=rule).chart(P)
    below, at_one = (
        library.alem([base, 2.0], rule="relu").diffeo.multipliers()[0].item() for base in (0.999, 1.0)
    )
    assert below == pytest.approx(-999.5, abs=0.01)
    assert at_one == pytest.approx(1e6, rel=1e-5)  # the paper's a = 1 + ε


def test_relu_clamps_the_base_and_stops_its_gradient():
    metric = library.alem([-0.3, 2.0], rule="relu")
    A = metric.diffeo.multipliers()
    assert A[0].item() == pytest.approx(1 / math.log(1e-6))
    A.sum().backward()
    gradient = metric.diffeo.weight.grad
    assert gradient[0] == 0
    assert gradient[1] != 0


def test_exp_keeps_its_domain():
    """A = exp θ is positive and finite wherever a step of MUL or DIV would meet zero."""
    A = library.alem([-50.0, 0.0, 3.0], rule="exp").diffeo.multipliers()
    assert bool((A > 0).all())
    assert bool(torch.isfinite(A).all())


# The step of DIV


def test_steps_of_div_are_scaled():
    """1/(b − Δ) − 1/b = Δ/((b − Δ) b): near Δ/b², and past the pole of the other sign."""
    for b, step in ((1.0, 0.1), (0.3, 0.1), (-2.0, 0.5), (0.3, 0.31)):
        before, after = (
            library.alem([w, 1.0], rule="div").diffeo.multipliers()[0].item() for w in (b, b - step)
        )
        assert after - before == pytest.approx(step / ((b - step) * b))
    assert before > 3 > 0 > after


# Supplement B-B: GEOM


def rsgd(a, gradient, rate):
    """The printed update a ← a·exp(−γ a ∇_a L)."""
    return a * math.exp(-rate * a * gradient)


def test_geom_is_riemannian_gradient_descent_on_the_positive_numbers():
    """Exp_a(−γ a²∇) under the affine-invariant metric on 1×1 matrices, by its matrix formulas."""
    for a, gradient, rate in ((0.4, 1.5, 0.1), (2.3, -0.7, 0.5)):
        P, G = np.array([[a]]), np.array([[gradient]])
        root = paper.power(P, 0.5)
        inverse_root = np.linalg.inv(root)
        V = -rate * P @ G @ P
        inner = paper.mgexp(inverse_root @ V @ inverse_root, np.ones(1))
        assert rsgd(a, gradient, rate) == pytest.approx((root @ inner @ root).item())


def descend(loss, rule, steps=30, rate=0.02, momentum=0.0, decay=0.0, transported=True):
    """B after gradient descent on the bases a with GEOM, or on B itself with DIV."""
    b = tensor(B)
    a, velocity = b.exp(), torch.zeros_like(b)
    for _ in range(steps):
        w = (a if rule == "geom" else b).clone().requires_grad_()
        loss(1 / w.log() if rule == "geom" else 1 / w).backward()
        gradient = w.grad + decay * w.detach()
        if rule == "div":
            velocity = momentum * velocity + gradient
            b = b - rate * velocity
        else:
            velocity = momentum * velocity + a * a * gradient
            new = a * torch.exp(-rate * velocity / a)
            velocity = velocity * new / a if transported else velocity
            a = new
    return a.log() if rule == "geom" else b


def test_geom_equals_div_for_plain_descent(loss):
    div = descend(loss, "div")
    assert (div - tensor(B)).abs().max() > 0.01
    torch.testing.assert_close(descend(loss, "geom"), div, rtol=1e-12, atol=1e-12)


def test_geom_equals_div_with_transported_momentum_only(loss):
    div = descend(loss, "div", momentum=0.9)
    same = descend(loss, "geom", momentum=0.9)
    torch.testing.assert_close(same, div, rtol=1e-12, atol=1e-12)
    other = descend(loss, "geom", momentum=0.9, transported=False)
    assert (other - div).abs().max() > 0.01


def test_geom_differs_from_div_with_weight_decay(loss):
    div, geom = (descend(loss, rule, decay=0.5) for rule in ("div", "geom"))
    assert (geom - div).abs().max() > 0.1
