"""Cholesky, the log-Cholesky chart and their differentials, against other ways to the same."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyriemann.geometry.tangentspace import exp_map_logchol, log_map_logchol
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from alem import linalg
from alem.linalg.cholesky import (
    cholesky,
    cholesky_exp,
    cholesky_exp_pushforward,
    cholesky_log,
    cholesky_log_pushforward,
    cholesky_pullback,
    cholesky_pushforward,
    is_positive_definite,
    is_well_inside,
    try_cholesky,
    unwhiten,
    whiten,
)
from alem.linalg.errors import InvalidMatrixError, NotPositiveDefiniteError

EPS = torch.finfo(torch.float64).eps


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


def random_spd(*shape: int, seed: int = 0, cond: float = 10.0) -> Tensor:
    """SPD matrices with a random frame and eigenvalues log-spaced from 1/cond to 1."""
    n = shape[-1]
    U = torch.linalg.qr(random(*shape, n, seed=seed)).Q
    eigenvalues = torch.logspace(-float(np.log10(cond)), 0, n, dtype=torch.float64)
    X = (U * eigenvalues) @ U.mT
    return 0.5 * (X + X.mT)


def random_sym(*shape: int, seed: int = 1) -> Tensor:
    V = random(*shape, shape[-1], seed=seed)
    return 0.5 * (V + V.mT)


POINTS = {
    "identity": torch.eye(3, dtype=torch.float64),
    "tie": torch.diag(torch.tensor([2.0, 2.0, 5.0], dtype=torch.float64)),
    "random": random_spd(3),
    "batch": random_spd(2, 3),
    "one": torch.tensor([[4.0]], dtype=torch.float64),
}
points = pytest.mark.parametrize("X", POINTS.values(), ids=POINTS.keys())

# Every function as one of the X of POINTS alone, its second argument fixed.
V3, W3 = random_sym(3), random(3, 3)


def with_fixed(f, second: Tensor, *, of_factor: bool = True):
    def g(X: Tensor) -> Tensor:
        n = X.shape[-1]
        return f(cholesky(X) if of_factor else X, second[:n, :n])

    return g


MAPS = {
    "cholesky": cholesky,
    "log": cholesky_log,
    "exp": cholesky_exp,
    "pushforward": with_fixed(cholesky_pushforward, V3),
    "pullback": with_fixed(cholesky_pullback, W3.tril()),
    "log_pushforward": with_fixed(cholesky_log_pushforward, V3, of_factor=False),
    "exp_pushforward": with_fixed(cholesky_exp_pushforward, W3, of_factor=False),
    "whiten": with_fixed(whiten, V3),
    "unwhiten": with_fixed(unwhiten, V3),
}
maps = pytest.mark.parametrize("f", MAPS.values(), ids=MAPS.keys())


def test_cholesky_is_scipys() -> None:
    X = random_spd(5, 4)
    expected = np.stack([scipy.linalg.cholesky(x, lower=True) for x in X.numpy()])
    np.testing.assert_allclose(cholesky(X).numpy(), expected, rtol=0, atol=4 * EPS)


def test_cholesky_takes_the_symmetric_part() -> None:
    X, skew = random_spd(4), random(4, 4, seed=2)
    torch.testing.assert_close(cholesky(X + skew - skew.mT), cholesky(X))


def test_log_and_exp_at_known_points() -> None:
    e = float(np.e)
    X = torch.tensor([[e**2, 3 * e], [3 * e, 10.0]], dtype=torch.float64)
    Z = torch.tensor([[1.0, 0.0], [3.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(cholesky_log(X), Z)
    torch.testing.assert_close(cholesky_exp(Z), X)


def test_exp_does_not_read_the_upper_part() -> None:
    Z = random(3, 3)
    assert torch.equal(cholesky_exp(Z), cholesky_exp(Z.tril()))
    W = random(3, 3, seed=4)
    assert torch.equal(cholesky_exp_pushforward(Z, W), cholesky_exp_pushforward(Z.tril(), W.tril()))


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 12), log_cond=st.floats(0, 12), seed=st.integers(0, 10_000))
def test_round_trips(n: int, log_cond: float, seed: int) -> None:
    X = random_spd(n, seed=seed, cond=10**log_cond)
    Z = cholesky_log(X)
    # X comes back to rounding whatever its condition: the factorisation is backward stable, and
    # exp(ln L_ii) costs |ln L_ii| <= 14 roundings of L_ii.
    assert (cholesky_exp(Z) - X).norm() <= 20 * EPS * X.norm()
    # Z comes back as well as X determines it.
    error = (cholesky_log(cholesky_exp(Z)) - Z).norm() / max(1.0, float(Z.norm()))
    assert error <= 2 * n * EPS * 10**log_cond


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 8), log_cond=st.floats(0, 6), seed=st.integers(0, 10_000))
def test_differentials_undo_each_other(n: int, log_cond: float, seed: int) -> None:
    X, V = random_spd(n, seed=seed, cond=10**log_cond), random_sym(n, seed=seed + 1)
    L = cholesky(X)
    bound = 5 * n * EPS * 10**log_cond
    assert (cholesky_pullback(L, cholesky_pushforward(L, V)) - V).norm() <= bound * V.norm()
    assert (unwhiten(L, whiten(L, V)) - V).norm() <= bound * V.norm()
    back = cholesky_exp_pushforward(cholesky_log(X), cholesky_log_pushforward(X, V))
    assert (back - V).norm() <= bound * V.norm()


@points
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch.func.jvp's own
def test_pushforwards_are_the_differentials(X: Tensor) -> None:
    V = random_sym(*X.shape[:-1])
    L = cholesky(X)
    close = torch.testing.assert_close
    close(cholesky_pushforward(L, V), torch.func.jvp(cholesky, (X,), (V,))[1])
    close(cholesky_log_pushforward(X, V), torch.func.jvp(cholesky_log, (X,), (V,))[1])
    Z, W = cholesky_log(X), random(*X.shape, seed=3).tril()
    close(cholesky_exp_pushforward(Z, W), torch.func.jvp(cholesky_exp, (Z,), (W,))[1])
    close(cholesky_pullback(L, W), torch.func.jvp(lambda L: L @ L.mT, (L,), (W,))[1])


@points
def test_pushforwards_are_finite_differences(X: Tensor) -> None:
    V, W = random_sym(*X.shape[:-1]), random(*X.shape, seed=3).tril()
    h = 1e-5
    step = (cholesky_log(X + h * V) - cholesky_log(X - h * V)) / (2 * h)
    torch.testing.assert_close(cholesky_log_pushforward(X, V), step, rtol=0, atol=1e-6)
    Z = cholesky_log(X)
    step = (cholesky_exp(Z + h * W) - cholesky_exp(Z - h * W)) / (2 * h)
    torch.testing.assert_close(cholesky_exp_pushforward(Z, W), step, rtol=0, atol=1e-6)


def test_log_cholesky_maps_are_pyriemanns() -> None:
    P, Q, V = random_spd(4), random_spd(4, seed=5), random_sym(4)
    Z = cholesky_log(P)
    log = cholesky_exp_pushforward(Z, cholesky_log(Q) - Z)
    np.testing.assert_allclose(log, log_map_logchol(Q.numpy(), P.numpy()), atol=1e-13)
    exp = cholesky_exp(Z + cholesky_log_pushforward(P, V))
    expected = exp_map_logchol(V.numpy(), P.numpy())
    np.testing.assert_allclose(exp, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(5, 5), (1, 5, 5), (2, 1, 5, 5)], ids=str)
def test_one_factor_for_many_matrices(shape: tuple[int, ...]) -> None:
    L = cholesky(random_spd(*shape[:-1]))
    Q = random_spd(2, 4, 5, seed=1)
    each = whiten(L.expand(2, 4, 5, 5).clone(), Q)
    torch.testing.assert_close(whiten(L, Q), each, rtol=1e-13, atol=1e-13)

    def f(L: torch.Tensor, Q: torch.Tensor) -> torch.Tensor:
        return whiten(L.tril(), (Q + Q.mT) / 2)

    assert gradcheck(f, (L.clone().requires_grad_(), Q[:, :2].clone().requires_grad_()))


def test_whiten_of_itself_is_the_identity() -> None:
    X = random_spd(3, 5)
    torch.testing.assert_close(whiten(cholesky(X), X), torch.eye(5).double().expand(3, 5, 5))


def test_symmetric_results_are_symmetric_to_the_last_bit() -> None:
    L, Y = cholesky(random_spd(20, 30)), random(20, 30, 30)
    for X in (whiten(L, Y), unwhiten(L, Y), cholesky_exp(L), cholesky_exp_pushforward(L, Y)):
        assert torch.equal(X, X.mT)


@maps
@points
def test_first_and_second_derivatives(f, X: Tensor) -> None:
    # gradcheck moves one entry at a time, so X leaves the symmetric matrices.
    X = X.clone().requires_grad_()
    assert gradcheck(f, X)
    assert gradgradcheck(f, X)


def test_second_arguments_have_derivatives() -> None:
    L, V = cholesky(random_spd(3)).requires_grad_(), random(3, 3).requires_grad_()
    for f in (cholesky_pushforward, cholesky_pullback, whiten, unwhiten):
        assert gradcheck(f, (L, V))
        assert gradgradcheck(f, (L, V))


def test_gradient_is_symmetric() -> None:
    X = random_spd(2, 4).requires_grad_()
    (G,) = torch.autograd.grad((cholesky_log(X) * random(4, 4)).sum(), X)
    torch.testing.assert_close(G, G.mT, rtol=0, atol=0)


@maps
def test_vmap(f) -> None:
    X = random_spd(4, 3)
    expected = torch.stack([f(x) for x in X])
    torch.testing.assert_close(torch.func.vmap(f)(X), expected)
    weight = random(3, 3, seed=9)

    def loss(x: Tensor) -> Tensor:
        return (f(x) * weight).sum()

    each = torch.func.vmap(torch.func.grad(loss))(X)
    Y = X.clone().requires_grad_()
    torch.testing.assert_close(each, torch.autograd.grad((f(Y) * weight).sum(), Y)[0])


@pytest.mark.parametrize("f", [cholesky_log, cholesky_exp, MAPS["log_pushforward"]])
def test_compile(f) -> None:
    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    for X in (random_spd(4, 3), random_spd(5, 2)):  # the second makes the shapes dynamic
        X.requires_grad_()
        torch.testing.assert_close(compiled(X), f(X))
        expected = torch.autograd.grad(f(X).square().sum(), X)
        torch.testing.assert_close(torch.autograd.grad(compiled(X).square().sum(), X), expected)


@maps
def test_float32_and_empty_batches(f) -> None:
    X = random_spd(3, 3)
    if f in (cholesky, cholesky_log, cholesky_exp):  # the others fix a float64 argument
        single = f(X.float())
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), f(X), rtol=1e-5, atol=1e-5)
    assert f(X[:0]).shape == (0, 3, 3)


@pytest.mark.parametrize(
    "f", [cholesky_pushforward, cholesky_pullback, cholesky_exp_pushforward, whiten, unwhiten]
)
def test_two_arguments_broadcast_and_keep_float32(f) -> None:
    L, V = cholesky(random_spd(4, 1, 3)), random_sym(2, 3)
    expected = torch.stack([torch.stack([f(a[0], b) for b in V]) for a in L])
    torch.testing.assert_close(f(L, V), expected)
    torch.testing.assert_close(f(L[0, 0], V), expected[0])
    torch.testing.assert_close(f(L[:, 0], V[0]), expected[:, 0])
    assert f(L.float(), V.float()).dtype == torch.float32
    assert f(L[:0], V).shape == (0, 2, 3, 3)


def test_failure_names_the_worst_matrix() -> None:
    X = random_spd(2, 3, 4)
    X[0, 1] -= 0.2 * torch.eye(4)
    X[1, 2] -= 0.5 * torch.eye(4)
    with pytest.raises(NotPositiveDefiniteError) as failure:
        cholesky(X.requires_grad_())
    assert failure.value.index == (1, 2)
    for part in ("matrix (1, 2)", "2 of 6 fail", "-4.000e-01", "5.000e-01", "eps·I", "loading"):
        assert part in str(failure.value)
    with pytest.raises(NotPositiveDefiniteError) as failure:
        cholesky_log(torch.zeros(3, 3))
    assert failure.value.index == ()


def test_failure_by_rounding_is_not_blamed_on_a_smaller_matrix() -> None:
    X = random_spd(500, 6, cond=1e8).float()
    smallest = torch.linalg.eigvalsh(X.double())[:, 0]
    (rounded,) = torch.where(~is_positive_definite(X) & (smallest > 0))
    tiny = 1e-30 * torch.eye(6)
    assert is_positive_definite(tiny)
    with pytest.raises(NotPositiveDefiniteError, match=r"matrix 1 .*1 of 2 fail") as failure:
        cholesky(torch.stack([tiny, X[rounded[0]]]))
    assert failure.value.index == (1,)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("place", [(0, 0), (2, 1), (1, 2), (3, 3), (3, 0)])
def test_non_finite_input_is_named(value: float, place: tuple[int, int]) -> None:
    X = random_spd(3, 4)
    X[(1, *place)] = value
    with pytest.raises(InvalidMatrixError, match=r"matrix 1 .* NaN or infinite") as failure:
        cholesky(X)
    assert failure.value.index == (1,)
    assert not isinstance(failure.value, NotPositiveDefiniteError)
    assert is_positive_definite(X).tolist() == [True, False, True]


@pytest.mark.parametrize("bad", [torch.zeros(3), torch.zeros(2, 3), torch.eye(2).long()])
def test_shape_and_dtype_are_checked(bad: Tensor) -> None:
    with pytest.raises(InvalidMatrixError):
        cholesky(bad)
    with pytest.raises(InvalidMatrixError):
        cholesky_exp(bad)


def test_half_precision_is_refused() -> None:
    with pytest.raises(InvalidMatrixError, match="float16"):
        cholesky(torch.eye(2).half())


def test_failure_is_loud_where_values_cannot_be_inspected() -> None:
    X = random_spd(3, 4)
    X[1] -= 0.5 * torch.eye(4)
    good = cholesky(X[[0, 2]])
    compiled = torch.compile(cholesky, backend="aot_eager", fullgraph=True)
    for L in (compiled(X), torch.func.vmap(cholesky)(X)):
        assert L[1].isnan().all()
        torch.testing.assert_close(L[[0, 2]], good)
    # The gradient is NaN as well, even through a loss that skips the failed factor.
    G = torch.func.grad(lambda X: cholesky(X).nan_to_num().sum())(X)
    assert not G[1].isfinite().any()
    assert G[[0, 2]].isfinite().all()


def test_is_positive_definite_at_the_edge() -> None:
    edge = torch.tensor([[1.0, 1e-300], [1.0, 0.0], [1.0, -1e-300]], dtype=torch.float64)
    X = torch.diag_embed(edge)
    assert is_positive_definite(X).tolist() == [True, False, False]
    assert is_positive_definite(X[0]).shape == ()


def test_a_trial_says_where_there_is_no_factor() -> None:
    X = random_spd(3, 4)
    X[1] -= 0.5 * torch.eye(4)
    L, failed = try_cholesky(X)
    assert (failed != 0).tolist() == [False, True, False]
    assert torch.equal(L[[0, 2]], cholesky(X[[0, 2]]))
    # only the lower triangle is read
    assert torch.equal(try_cholesky(X[0].tril())[0], L[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 5, 40])
def test_well_inside_is_proved_only_where_it_is_true(n: int, dtype: torch.dtype) -> None:
    eps = torch.finfo(dtype).eps
    U = torch.linalg.qr(torch.randn(n, n, generator=torch.Generator().manual_seed(0), dtype=dtype))[0]
    for least, expected in ((-1.0, False), (0.0, False), (n * eps / 4, False), (40 * n * n * eps, True)):
        x = torch.ones(n, dtype=dtype)
        x[0] = least
        X = linalg.symmetrize(U @ torch.diag(x) @ U.mT)
        if n == 1 and least > 0:
            expected = True  # one eigenvalue is the largest, however small
        assert bool(is_well_inside(X)) is expected
    assert not is_well_inside(torch.zeros(n, n, dtype=dtype))
    assert not is_well_inside(torch.full((n, n), torch.nan, dtype=dtype))
    assert is_well_inside(torch.eye(n, dtype=dtype).expand(2, 3, n, n)).shape == (2, 3)
