"""The divided differences against mpmath; the measurements are those of the benchmark page."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from torch import Tensor

from alem.linalg import divided
from benchmarks._reference import DTYPES, numbers, worst
from benchmarks.divided_differences import FUNCTIONS, SECOND_DIFFERENCES, SPECTRUM_MAPS

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


# --- accuracy ------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("case", [*FUNCTIONS, *SPECTRUM_MAPS], ids=lambda case: case.name)
def test_first_differences_are_within_their_bound_of_mpmath(case, dtype):
    ours, naive = case.measure(dtype)
    assert ours.points > 300
    assert ours.eps <= case.bound, f"at {ours.where}"
    if case.name not in ("power 1", "clamp at 1", "rank scale∘log"):
        # The arguments are hard: the quotient as it stands loses nearly every digit there.
        assert naive.eps > 1e5


@dtypes
@pytest.mark.parametrize("case", SECOND_DIFFERENCES, ids=lambda case: case.name)
def test_second_differences_are_within_their_bound_of_mpmath(case, dtype):
    error = case.measure(dtype)
    assert error.points > 1000
    assert error.eps <= case.bound[DTYPES.index(dtype)], f"at {error.where}"


def test_log_and_exp_and_power_and_sqrt_promise_eight_eps_and_the_others_forty():
    for case in (*FUNCTIONS, *SPECTRUM_MAPS):
        strict = case.name in ("log", "exp", "sqrt") or case.name.startswith("power")
        assert case.bound == (8 if strict else 40)


def test_inductor_keeps_the_digits():
    """It compiles torch.expm1 to exp(x) − 1, and computes equal arguments twice, not always equally."""
    x = torch.tensor([0.7, 1.3, 2.9], dtype=torch.float64).repeat_interleave(16)
    y = x * (1 + 10.0 ** -torch.arange(1.0, 17.0, dtype=torch.float64).repeat(3))
    scale = number(0.7)
    functions = [divided.log, divided.exp, divided.sinh, divided.asinh, divided.tanh]

    def differences(x: Tensor, y: Tensor, scale: Tensor) -> list[Tensor]:
        found = [f(scale * x, scale * y) for f in functions]
        tied = [f(scale * torch.asinh(x[:, None]), scale * torch.asinh(x)) for f in functions[1:]]
        return [*found, divided.power(x, y, number(1.5)), divided.power(x, y, number(-0.4)), *tied]

    expected = differences(x, y, scale)
    found = torch.compile(differences, fullgraph=True)(x, y, scale)
    eps = torch.finfo(torch.float64).eps
    for ours, compiled in zip(expected, found, strict=True):
        assert float(((ours - compiled) / ours).abs().max()) < 16 * eps


def test_the_tanhc_function():
    x = torch.tensor([0.0, 1e-300, 1e-8, -0.3, 2.0, 40.0], dtype=torch.float64)
    with mp.workdps(60):
        true = [mp.tanh(v) / v if v else mpf(1) for v in numbers(x)]
        assert worst(divided.tanhc(x), true, None, (x,)).eps <= 4


# --- the edges -----------------------------------------------------------------------------------


def test_at_equal_arguments_they_are_the_derivative():
    x = number(0.7)
    for f, slope in [
        (divided.log, 1 / 0.7),
        (divided.exp, math.exp(0.7)),
        (divided.sqrt, 0.5 / math.sqrt(0.7)),
        (divided.inverse_sqrt, -0.5 * 0.7**-1.5),
        (divided.sinh, math.cosh(0.7)),
        (divided.asinh, 1 / math.hypot(1, 0.7)),
        (divided.tanh, 1 / math.cosh(0.7) ** 2),
    ]:
        assert float(f(x, x)) == pytest.approx(slope, rel=1e-15)


def test_the_derivative_of_the_clamp_at_its_kink_is_that_of_the_identity():
    x = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    found = divided.clamp(x[:, None], x, 1.0)
    assert found.tolist() == [[0, 0, 2 / 3], [0, 1, 1], [2 / 3, 1, 1]]


def test_the_power_changes_its_form_without_a_step():
    """Where |p|·log(y/x) passes 1 the two forms agree to a few roundings."""
    for p in (-2.0, 0.5, 3.0):
        edge = math.exp(1 / abs(p))
        x = number(1.0)
        y = edge * (1 + torch.tensor([-1e-15, 1e-15], dtype=torch.float64))
        below, above = divided.power(x, y, number(p))
        assert float(below) == pytest.approx(float(above), rel=3e-15)


def test_second_differences_of_a_map_with_a_kink_only():
    def first(a: Tensor, b: Tensor) -> Tensor:
        return divided.clamp(a, b, 1.0)

    def second(*arguments: float) -> float:
        return float(divided.second(first, torch.zeros_like, None, *map(number, arguments)))

    assert second(2.0, 2.0, 2.0) == 0
    assert second(2.0, 3.0, 5.0) == 0
    assert second(0.0, 1.0, 2.0) == pytest.approx(0.5)


def test_nothing_overflows_before_the_result_does():
    assert torch.isfinite(divided.exp(number(709.0), number(-1e300)))
    assert float(divided.tanh(number(800.0), number(-800.0))) == pytest.approx(1 / 800)
    assert float(divided.tanh(number(800.0), number(900.0))) == 0
    huge = torch.tensor(1e30, dtype=torch.float32)
    assert float(divided.asinh(huge, huge)) == pytest.approx(1e-30)


def test_arguments_broadcast():
    x = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
    for f in (divided.log, divided.exp, divided.sqrt, divided.asinh, divided.tanh):
        assert f(x[:, None], x).shape == (3, 3)
        assert f(x, number(1.0)).shape == (3,)


# --- properties ----------------------------------------------------------------------------------

positive = st.floats(1e-12, 1e12)
line = st.floats(-30, 30)
# f, where it is defined, and its derivative, which is monotone on either side of zero
MEAN_VALUE = {
    "log": (divided.log, positive, lambda x: 1 / x),
    "exp": (divided.exp, line, math.exp),
    "sqrt": (divided.sqrt, positive, lambda x: 0.5 / math.sqrt(x)),
    "inverse_sqrt": (divided.inverse_sqrt, positive, lambda x: -0.5 * x**-1.5),
    "cube": (lambda x, y: divided.power(x, y, number(3.0)), positive, lambda x: 3 * x**2),
    "sinh": (divided.sinh, line, math.cosh),
    "asinh": (divided.asinh, line, lambda x: 1 / math.hypot(1, x)),
    "tanh": (divided.tanh, line, lambda x: 1 / math.cosh(x) ** 2),
}


@pytest.mark.parametrize("name", MEAN_VALUE)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_they_lie_between_the_derivatives_and_are_symmetric(name, data):
    f, domain, slope = MEAN_VALUE[name]
    x, y = data.draw(domain), data.draw(domain)
    found = float(f(number(x), number(y)))
    assert found == float(f(number(y), number(x)))
    assume(x * y >= 0)
    low, high = sorted((slope(x), slope(y)))
    slack = 1e-14 * max(abs(low), abs(high))
    assert low - slack <= found <= high + slack


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=3), st.permutations(range(3)))
def test_second_differences_do_not_depend_on_the_order(arguments, order):
    def at(*xyz: float) -> float:
        curvature = lambda a: -(a**-2)  # noqa: E731
        return float(divided.second(divided.log, curvature, lambda a: a, *map(number, xyz)))

    assert at(*arguments) == at(*(arguments[i] for i in order))
