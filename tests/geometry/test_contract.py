"""The contract of every metric in the catalogue, with parameters moved away from their start."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from alem import geometry

from .conftest import FLAT, GROUPS, LEARNED, NAMES, learned_metric, spd, sym, tied

CLOSE = {"rtol": 1e-9, "atol": 1e-10}


def close(a: Tensor, b: Tensor, **tolerance: float) -> None:
    torch.testing.assert_close(a, b, **{**CLOSE, **tolerance})


def tangents(metric: geometry.Metric, P: Tensor, seed: int = 1) -> Tensor:
    """Tangent vectors small enough for every metric's exponential."""
    V = sym(*P.shape[:-2], n=P.shape[-1], seed=seed, dtype=P.dtype)
    return 0.1 * V * torch.linalg.eigvalsh(P)[..., :1, None]


def test_distance_is_a_metric(name: str) -> None:
    m = learned_metric(name, 4)
    P, Q, R = (spd(5, seed=s) for s in (1, 2, 3))
    close(m.dist(P, Q), m.dist(Q, P))
    assert torch.equal(m.dist(P, P), torch.zeros(5, dtype=P.dtype))
    assert (m.dist(P, Q) > 0.1).all()
    assert (m.dist(P, R) <= m.dist(P, Q) + m.dist(Q, R) + 1e-12).all()
    close(m.dist2(P, Q), m.dist(P, Q) ** 2)


# What d becomes when both points are multiplied by c.
HOMOGENEITY = {"lem": 0.0, "lcm": None, "alem": 0.0, "rank": 0.0, "gap": 0.0, "aim": 0.0, "bwm": 0.5}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-26, 1e30])
@pytest.mark.parametrize("name", NAMES)
def test_the_units_of_the_data_do_not_matter(name: str, scale: float, dtype: torch.dtype) -> None:
    m = learned_metric(name, 4)
    P, Q = spd(3, seed=1, dtype=dtype), spd(3, seed=2, dtype=dtype)
    scaled = m.dist(scale * P, scale * Q)
    assert torch.isfinite(scaled).all()
    close(m.exp(scale * P, m.log(scale * P, scale * Q)) / scale, Q, rtol=5e-4, atol=5e-4)
    power = HOMOGENEITY.get(name)
    if power is not None:
        expected = m.dist(P, Q) * scale**power
        close(scaled, expected, rtol=1e-3 if dtype == torch.float32 else 1e-9, atol=0.0)


def test_inner_is_a_positive_symmetric_form(name: str) -> None:
    m = learned_metric(name, 4)
    P, V, W = spd(5), sym(5, seed=1), sym(5, seed=2)
    close(m.inner(P, V, W), m.inner(P, W, V))
    close(m.inner(P, V + 2 * W, W), m.inner(P, V, W) + 2 * m.inner(P, W, W))
    close(m.norm(P, V) ** 2, m.inner(P, V, V))
    assert (m.inner(P, V, V) > 0).all()


def test_exp_and_log_are_inverse(name: str) -> None:
    m = learned_metric(name, 4)
    P, Q = spd(5, seed=1), spd(5, seed=2)
    close(m.exp(P, m.log(P, Q)), Q)
    V = tangents(m, P)
    close(m.log(P, m.exp(P, V)), V, atol=1e-9)
    close(m.exp(P, torch.zeros_like(P)), P)


def test_distance_is_the_length_of_log(name: str) -> None:
    m = learned_metric(name, 4)
    P, Q = spd(5, seed=1), spd(5, seed=2)
    close(m.dist(P, Q), m.norm(P, m.log(P, Q)))


def test_inner_is_the_second_derivative_of_half_the_squared_distance(name: str) -> None:
    m = learned_metric(name, 3)
    P, V = spd(n=3), sym(n=3)

    def f(s: Tensor) -> Tensor:
        return m.dist2(P, P + s * V)

    h = 1e-4
    second = (f(torch.tensor(h)) + f(torch.tensor(-h))) / (2 * h**2)
    close(second.double(), m.inner(P, V, V), rtol=1e-5)


def test_transport_is_a_linear_isometry_that_undoes_itself(name: str) -> None:
    m = learned_metric(name, 3)
    P, Q, V, W = spd(3, n=3, seed=1), spd(3, n=3, seed=2), sym(3, n=3, seed=3), sym(3, n=3, seed=4)
    TV, TW = m.transport(P, Q, V), m.transport(P, Q, W)
    close(m.inner(Q, TV, TW), m.inner(P, V, W), rtol=1e-7, atol=1e-7)
    close(m.transport(P, Q, V - 3 * W), TV - 3 * TW, rtol=1e-7, atol=1e-7)
    close(m.transport(Q, P, TV), V, rtol=1e-7, atol=1e-7)
    close(m.transport(P, P, V), V, rtol=1e-7, atol=1e-7)


def test_transport_carries_the_velocity_of_the_geodesic(name: str) -> None:
    m = learned_metric(name, 3)
    P, Q = spd(3, n=3, seed=1), spd(3, n=3, seed=2)
    close(m.transport(P, Q, m.log(P, Q)), -m.log(Q, P), rtol=1e-7, atol=1e-7)


def test_geodesic_has_its_ends_and_constant_speed(name: str) -> None:
    m = learned_metric(name, 4)
    P, Q = spd(seed=1), spd(seed=2)
    t = torch.tensor([0.0, 0.25, 0.5, 1.0], dtype=P.dtype)
    path = m.geodesic(P, Q, t)
    assert path.shape == (4, 4, 4)
    close(path[0], P)
    close(path[3], Q)
    close(m.dist(P, path), t * m.dist(P, Q))
    close(m.dist(path[1], path[2]), 0.25 * m.dist(P, Q))
    close(m.geodesic(P, Q, 0.25), path[1])


def test_bounded_exp_goes_the_same_way_and_less_far(name: str) -> None:
    m = learned_metric(name, 4)
    P = spd(5)
    V = tangents(m, P)
    length = m.norm(P, V)
    close(m.bounded_exp(P, V, 2.0), m.exp(P, V / (1 + length / 2)[:, None, None]))
    if m.is_complete:
        assert (m.dist(P, m.bounded_exp(P, 1e6 * V, 2.0)) < 2).all()
    assert torch.equal(m.bounded_exp(P, 0 * V, 2.0), m.exp(P, 0 * V))


def test_mean_minimises_the_sum_of_squared_distances(name: str) -> None:
    m = learned_metric(name, 3)
    X, w = spd(6, n=3), torch.tensor([1.0, 2.0, 0.5, 0.0, 3.0, 1.0], dtype=torch.float64)
    M = m.mean(X, w).detach().requires_grad_()
    objective = (w * m.dist2(M, X)).sum()
    (slope,) = torch.autograd.grad(objective, M)
    assert float(slope.abs().max()) < 1e-8 * float(objective.detach())
    for seed in range(3):
        away = m.exp(M.detach(), tangents(m, M.detach(), seed))
        assert (w * m.dist2(away, X)).sum() > objective


def test_mean_of_copies_is_the_copy_and_weights_need_no_sum(name: str) -> None:
    m = learned_metric(name, 4)
    P, X = spd(seed=1), spd(5, seed=2)
    close(m.mean(P.expand(3, 4, 4)), P)
    w = torch.rand(5, dtype=P.dtype)
    close(m.mean(X, w), m.mean(X, 7 * w))
    close(m.mean(X), m.mean(X, torch.ones(5, dtype=P.dtype)))


def test_variance_is_the_mean_squared_distance(name: str) -> None:
    m = learned_metric(name, 4)
    X, w = spd(2, 5), torch.rand(2, 5, dtype=torch.float64)
    M = m.mean(X, w)
    expected = (w * m.dist2(M.unsqueeze(-3), X)).sum(-1) / w.sum(-1)
    close(m.variance(X, weights=w), expected)
    close(m.variance(X, M, w), expected)
    assert m.variance(X).shape == (2,)


def test_pairwise_distances(name: str) -> None:
    m = learned_metric(name, 4)
    X, Y = spd(2, 3, seed=1), spd(2, 5, seed=2)
    D = m.pairwise_dist(X, Y)
    assert D.shape == (2, 3, 5)
    close(D[1, 2, 4], m.dist(X[1, 2], Y[1, 4]))
    close(m.pairwise_dist2(X, Y), D**2)
    close(m.pairwise_dist(X, X).diagonal(dim1=-2, dim2=-1), torch.zeros(2, 3, dtype=D.dtype), atol=1e-7)


OPERATIONS = {
    "inner": lambda m, P, Q, V: m.inner(P, V, V),
    "norm": lambda m, P, Q, V: m.norm(P, V),
    "dist": lambda m, P, Q, V: m.dist(P, Q),
    "dist2": lambda m, P, Q, V: m.dist2(P, Q),
    "exp": lambda m, P, Q, V: m.exp(P, V),
    "bounded_exp": lambda m, P, Q, V: m.bounded_exp(P, V, 0.5),
    "log": lambda m, P, Q, V: m.log(P, Q),
    "transport": lambda m, P, Q, V: m.transport(P, Q, V),
    "geodesic": lambda m, P, Q, V: m.geodesic(P, Q, 0.3),
}
GROUP_OPERATIONS = {
    "compose": lambda m, P, Q, V: m.compose(P, Q),
    "invert": lambda m, P, Q, V: m.invert(P),
    "scale": lambda m, P, Q, V: m.scale(P, 0.7),
    "relative": lambda m, P, Q, V: m.relative(P, Q),
    "place": lambda m, P, Q, V: m.place(P, m.relative(P, Q)),
}
CHART_OPERATIONS = {
    "chart": lambda m, P, Q, V: m.chart(P),
    "unchart": lambda m, P, Q, V: m.unchart(m.chart(P)),
    "pushforward": lambda m, P, Q, V: m.pushforward(P, V),
    "pullback": lambda m, P, Q, V: m.pullback(m.chart(Q), m.chart(P)),
    "coordinates": lambda m, P, Q, V: m.coordinates(P),
    "point": lambda m, P, Q, V: m.point(m.coordinates(P)),
    "hilbert_inner": lambda m, P, Q, V: m.hilbert_inner(P, Q),
    "hilbert_norm": lambda m, P, Q, V: m.hilbert_norm(P),
}
BATCH_OPERATIONS = {
    "mean": lambda m, X, w: m.mean(X, w),
    "variance": lambda m, X, w: m.variance(X, weights=w),
}
CASES = (
    [(name, op) for name in NAMES for op in OPERATIONS]
    + [(name, op) for name in GROUPS for op in GROUP_OPERATIONS]
    + [(name, op) for name in FLAT for op in CHART_OPERATIONS]
)
ALL = OPERATIONS | GROUP_OPERATIONS | CHART_OPERATIONS


@pytest.mark.parametrize(("name", "operation"), CASES)
def test_dtype_is_kept_and_shapes_broadcast(name: str, operation: str) -> None:
    f = ALL[operation]
    for dtype in (torch.float32, torch.float64):
        m = learned_metric(name, 3)  # a float64 metric on float32 matrices, too
        P, Q = spd(2, 1, n=3, seed=1, dtype=dtype), spd(5, n=3, seed=2, dtype=dtype)
        V = tangents(m, spd(5, n=3, seed=2, dtype=dtype))
        whole = f(m, P, Q, V)
        assert whole.dtype == dtype
        alone = f(m, P[1, 0], Q[3], V[3])
        part = whole[1, 3] if whole.shape[:2] == (2, 5) else whole[1, 0]
        torch.testing.assert_close(part, alone, rtol=2e-4 if dtype == torch.float32 else 1e-10, atol=1e-5)


@pytest.mark.parametrize(("name", "operation"), CASES)
@pytest.mark.parametrize("at", ["identity", "double", "triple", "near"])
def test_gradients_are_finite_at_ties(name: str, operation: str, at: str) -> None:
    m = learned_metric(name, 3)
    P = tied()[at].requires_grad_()
    Q = tied()["double"].requires_grad_()
    V = (0.1 * sym(n=3)).requires_grad_()
    value = ALL[operation](m, P, Q, V).sum()
    grads = torch.autograd.grad(value, [P, Q, V, *m.parameters()], allow_unused=True)
    assert all(g is None or torch.isfinite(g).all() for g in grads)


# What is smooth at ties; rank increments are continuous there but have a kink.
SMOOTH = [(n, o) for n, o in CASES if n != "rank"]


@pytest.mark.parametrize(("name", "operation"), SMOOTH)
def test_gradcheck_at_ties(name: str, operation: str) -> None:
    m = learned_metric(name, 3)
    parameters = [] if name == "alem" else list(m.parameters())  # unequal multipliers jump at ties
    P = tied()["double"].requires_grad_()
    Q = tied()["near"].requires_grad_()
    V = (0.1 * sym(n=3)).requires_grad_()
    slow = name == "bwm" and operation == "transport"

    def f(P: Tensor, Q: Tensor, V: Tensor, *_: Tensor) -> Tensor:
        return ALL[operation](m, P, Q, V)

    assert gradcheck(f, (P, Q, V, *parameters), fast_mode=slow, atol=1e-5, rtol=1e-3)


CONTAIN_A_DERIVATIVE = (
    "inner",
    "norm",
    "exp",
    "bounded_exp",
    "log",
    "transport",
    "pushforward",
    "pullback",
)


@pytest.mark.parametrize(("name", "operation"), CASES)
def test_second_derivatives_are_right_or_refused(name: str, operation: str) -> None:
    m = learned_metric(name, 3).requires_grad_(False)
    P, Q = spd(n=3, seed=1).requires_grad_(), spd(n=3, seed=2).requires_grad_()
    V = 0.1 * sym(n=3)

    def f(P: Tensor, Q: Tensor) -> Tensor:
        return ALL[operation](m, P, Q, V)

    spectral = m.is_flat and isinstance(m.diffeo, geometry.SpectralChart)
    if spectral and operation in CONTAIN_A_DERIVATIVE:
        with pytest.raises(NotImplementedError, match="order one and two only"):
            gradgradcheck(f, (P, Q), fast_mode=True)
    else:
        assert gradgradcheck(f, (P, Q), fast_mode=True, atol=1e-4)


@pytest.mark.parametrize("operation", BATCH_OPERATIONS)
@pytest.mark.parametrize("name", [n for n in NAMES if n != "rank"])
def test_gradcheck_through_mean_and_variance(name: str, operation: str) -> None:
    m = learned_metric(name, 3)
    X = torch.stack([*tied().values()]).requires_grad_()
    w = torch.tensor([1.0, 0.5, 2.0, 1.0], dtype=torch.float64, requires_grad=True)
    parameters = [] if name == "alem" else list(m.parameters())
    f = BATCH_OPERATIONS[operation]
    assert gradcheck(lambda X, w, *_: f(m, X, w), (X, w, *parameters), atol=1e-5, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
@pytest.mark.parametrize("name", ["rank", "alem"])
@pytest.mark.parametrize("operation", [*ALL])
def test_gradcheck_on_separated_spectra(name: str, operation: str) -> None:
    m = learned_metric(name, 3)
    P = torch.diag(torch.tensor([0.3, 1.5, 4.0], dtype=torch.float64)).requires_grad_()
    Q, V = spd(n=3).requires_grad_(), (0.1 * sym(n=3)).requires_grad_()

    def f(P: Tensor, Q: Tensor, V: Tensor, *_: Tensor) -> Tensor:
        return ALL[operation](m, P, Q, V)

    assert gradcheck(f, (P, Q, V, *m.parameters()))


def test_gradient_of_distance_at_equal_points_is_zero(name: str) -> None:
    m = learned_metric(name, 4)
    P = spd(3).requires_grad_()
    (grad,) = torch.autograd.grad(m.dist(P, P.detach()).sum(), P)
    assert torch.equal(grad, torch.zeros_like(grad))
    D = m.pairwise_dist(P, P)
    (grad,) = torch.autograd.grad(D.sum(), P)
    assert torch.isfinite(grad).all()


@pytest.mark.parametrize(("name", "operation"), CASES)
def test_vmap_and_vmap_of_grad(name: str, operation: str) -> None:
    m = learned_metric(name, 3).requires_grad_(False)
    P, Q = spd(2, n=3, seed=1), spd(2, n=3, seed=2)
    V = tangents(m, P)
    f = ALL[operation]
    close(torch.func.vmap(lambda *a: f(m, *a))(P, Q, V), f(m, P, Q, V), rtol=1e-7, atol=1e-9)
    grads = torch.func.vmap(torch.func.grad(lambda *a: f(m, *a).sum()))(P, Q, V)
    Pr = P.clone().requires_grad_()
    (expected,) = torch.autograd.grad(f(m, Pr, Q, V).sum(), Pr)
    close(grads, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", LEARNED)
def test_every_parameter_receives_a_gradient(name: str) -> None:
    m = learned_metric(name, 4)
    loss = m.dist(spd(3, seed=1), spd(3, seed=2)).sum()
    for grad in torch.autograd.grad(loss, list(m.parameters())):
        assert (grad != 0).all()


@pytest.mark.parametrize("name", LEARNED)
def test_adaptive_metrics_start_at_their_fixed_one(name: str) -> None:
    start, fixed = geometry.metric(name, n=4).double(), geometry.metric("lcm" if name == "alcm" else "lem")
    P, Q = spd(3, seed=1), spd(3, seed=2)
    close(start.chart(P), fixed.chart(P), rtol=1e-14, atol=1e-14)
    close(start.dist(P, Q), fixed.dist(P, Q), rtol=1e-14, atol=0)
    assert start.is_diffeo


@pytest.mark.parametrize("name", FLAT)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 6), k=st.floats(-2, 2))
def test_flat_metrics_form_a_vector_space_with_bi_invariant_distance(
    name: str, seed: int, n: int, k: float
) -> None:
    m = learned_metric(name, n)
    P, Q, R = (spd(n=n, seed=seed + i) for i in range(3))
    E = torch.eye(n, dtype=P.dtype)
    tolerance = {"rtol": 1e-7, "atol": 1e-7 * float(P.abs().max() + Q.abs().max() + R.abs().max()) ** 2}
    close(m.compose(P, E), P, **tolerance)
    close(m.chart(m.compose(P, m.invert(P))), torch.zeros_like(P), atol=1e-8)
    left, right = m.compose(m.compose(P, Q), R), m.compose(P, m.compose(Q, R))
    close(m.chart(left), m.chart(right), atol=1e-7)
    close(m.chart(m.scale(P, k)), k * m.chart(P), atol=1e-7)
    close(m.dist(m.compose(P, R), m.compose(Q, R)), m.dist(P, Q), rtol=1e-6, atol=1e-7)
    close(m.hilbert_inner(P, Q), (m.coordinates(P) * m.coordinates(Q)).sum(), atol=1e-9)
    close(m.hilbert_norm(P), m.dist(P, E), atol=1e-9)


@pytest.mark.parametrize("name", GROUPS)
def test_relative_and_place_are_the_group_in_coordinates(name: str) -> None:
    m = learned_metric(name, 4)
    P, Q, T = spd(3, seed=1), spd(3, seed=2), 0.3 * sym(3)
    T = T.tril() if name in ("lcm", "alcm") else T
    E = torch.eye(4, dtype=P.dtype)
    close(torch.linalg.matrix_norm(m.relative(P, Q)), m.dist(P, Q))
    close(m.relative(P, m.place(P, T)), T)
    close(m.place(P, m.relative(P, Q)), Q)
    close(m.relative(P, Q), m.relative(E, m.compose(m.invert(P), Q)))
    close(m.place(P, T), m.compose(P, m.place(E, T)))
    close(m.place(E, 0.7 * m.relative(E, P)), m.scale(P, 0.7))


def test_a_metric_without_a_group_says_so() -> None:
    m, P = geometry.BuresWasserstein(), spd()
    for operation in GROUP_OPERATIONS.values():
        with pytest.raises(NotImplementedError, match="BuresWasserstein has no group"):
            operation(m, P, P, P)


@pytest.mark.parametrize("name", LEARNED)
def test_single_precision_parameters_cost_double_precision_data_no_digits(name: str) -> None:
    m = learned_metric(name, 4, dtype=torch.float32)
    P, Q = spd(5, seed=1), spd(5, seed=2)
    close(m.unchart(m.chart(P)), P, rtol=1e-12, atol=1e-12)
    close(m.exp(P, m.log(P, Q)), Q, rtol=1e-12, atol=1e-11)
    for grad in torch.autograd.grad(m.dist(P, Q).sum(), list(m.parameters())):
        assert grad.dtype == torch.float32


@pytest.mark.parametrize("name", ["lem", "alem", "sinh", "rank", "gap"])
def test_the_two_parameters_of_the_inner_product_reach_every_metric_that_has_them(name: str) -> None:
    plain, m = (geometry.metric(name, n=4, **ab).double() for ab in ({}, {"a": 2.0, "b": 0.5}))
    P, Q = spd(seed=1), spd(seed=2)
    D = plain.chart(P) - plain.chart(Q)
    close(m.dist2(P, Q), 2 * (D * D).sum() + 0.5 * D.trace() ** 2)
