"""How far the divided differences of alem are from the truth, in units of machine epsilon.

The truth is computed with mpmath from the exact values of the floating-point arguments. Beside it
stands the error of the naive quotient (f(x) − f(y))/(x − y) over the same arguments, ties left out.

    python -m benchmarks.divided_differences
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, permutations
from pathlib import Path

import torch
from mpmath import mp, mpf
from torch import Tensor

from alem.linalg import (
    EXP,
    GAP,
    INVERSE_SQRT,
    LOG,
    POWER,
    RANK_INCREMENT,
    SINH_ARCSINH,
    SQRT,
    Chain,
    RankScale,
    SpectralMap,
    divided,
)
from benchmarks._reference import (
    DTYPES,
    LINE,
    POSITIVE,
    Error,
    Exact,
    gaps,
    numbers,
    pairs,
    quotient2,
    representable,
    triples,
    worst,
)

PAGE = Path(__file__).parents[1] / "docs" / "results" / "divided_differences.md"

# --- functions of one number ---------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """One function: its divided difference here, its plain values, and mpmath's version of it."""

    name: str
    bound: int
    ours: Callable[[Tensor, Tensor], Tensor]
    plain: Callable[[Tensor], Tensor]
    exact: Exact
    slope: Exact
    bases: Sequence[float] = POSITIVE
    digits: int = 80

    def measure(self, dtype: torch.dtype) -> tuple[Error, Error]:
        """The error of ours, in both orders of the arguments, and of the naive quotient."""
        x, y = pairs(self.bases, dtype)
        with mp.workdps(self.digits):
            values = [(self.exact(a), self.exact(b)) for a, b in zip(*map(numbers, (x, y)), strict=True)]
            keep = torch.tensor([representable(f, dtype) and representable(g, dtype) for f, g in values])
            keep &= torch.isfinite(self.plain(x)) & torch.isfinite(self.plain(y))
            x, y = x[keep], y[keep]
            true = [self.difference(a, b) for a, b in zip(*map(numbers, (x, y)), strict=True)]
            ours = max(
                (worst(self.ours(*args), true, None, args) for args in ((x, y), (y, x))),
                key=lambda error: error.eps,
            )
            apart = (x != y).nonzero()[:, 0]
            naive = ((self.plain(x) - self.plain(y)) / (x - y))[apart]
            return ours, worst(naive, [true[i] for i in apart], None, (x[apart], y[apart]))

    def difference(self, x: mpf, y: mpf) -> mpf:
        """f[x, y]."""
        return self.slope(x) if x == y else (self.exact(x) - self.exact(y)) / (x - y)


def in_chain(phi: SpectralMap, *parameters: float) -> Callable[[Tensor, Tensor], Tensor]:
    """The divided difference of a scalar map behind the logarithm, as the library computes it."""

    def ours(x: Tensor, y: Tensor) -> Tensor:
        spectrum = torch.stack([torch.minimum(x, y), torch.maximum(x, y)], -1)
        return loewner(Chain(phi, LOG), spectrum, *parameters)[..., 0, 1]

    return ours


def loewner(phi: SpectralMap, x: Tensor, *parameters: float | Sequence[float]) -> Tensor:
    """The divided differences of φ at a spectrum, as a derivative of a matrix function uses them."""
    differences = x[..., :, None] - x[..., None, :]
    return phi.first(x, differences, *(x.new_tensor(p) for p in parameters)).loewner


def _power(p: float) -> Function:
    return Function(
        f"power {p:g}",
        8,
        lambda x, y: divided.power(x, y, x.new_tensor(p)),
        lambda x: x**p,
        lambda x: x ** mpf(p),
        lambda x: p * x ** mpf(p - 1),
    )


def _sinh_arcsinh(c: float, delta: float, s: float) -> Function:
    def angle(x: mpf) -> mpf:
        return delta * mp.asinh(mp.log(x) / s)

    return Function(
        f"sinh-arcsinh∘log c={c:g}, δ={delta:g}, s={s:g}",
        40,
        in_chain(SINH_ARCSINH, c, delta, s),
        lambda x: SINH_ARCSINH.values(x.log(), *(x.new_tensor(p) for p in (c, delta, s))),
        lambda x: c * s * mp.sinh(angle(x)),
        lambda x: c * delta * mp.cosh(angle(x)) / mp.sqrt(1 + (mp.log(x) / s) ** 2) / x,
    )


def _tanhc(x: mpf) -> mpf:
    return mp.tanh(x) / x if x else mpf(1)


def _tanhc_slope(x: mpf) -> mpf:
    return (mp.sech(x) ** 2 - _tanhc(x)) / x if x else mpf(0)


# Every parameter is a short binary fraction, so that it is the same number in both dtypes.
POWERS = (-2.0, -1.0, -0.5, 0.3125, 0.5, 1.0, 2.0, 3.0)
FUNCTIONS = [
    Function("log", 8, divided.log, torch.log, mp.log, lambda x: 1 / x),
    Function("exp", 8, divided.exp, torch.exp, mp.exp, mp.exp, LINE),
    *(_power(p) for p in POWERS),
    Function("sqrt", 8, divided.sqrt, torch.sqrt, mp.sqrt, lambda x: 1 / (2 * mp.sqrt(x))),
    Function(
        "inverse sqrt",
        40,
        divided.inverse_sqrt,
        torch.rsqrt,
        lambda x: 1 / mp.sqrt(x),
        lambda x: -1 / (2 * x * mp.sqrt(x)),
    ),
    Function(
        "clamp at 1",
        40,
        partial(divided.clamp, minimum=1.0),
        lambda x: x.clamp(min=1.0),
        lambda x: max(x, mpf(1)),
        lambda x: mpf(x >= 1),
    ),
    Function("sinh", 40, divided.sinh, torch.sinh, mp.sinh, mp.cosh, LINE),
    Function(
        "asinh",
        40,
        divided.asinh,
        torch.asinh,
        mp.asinh,
        lambda x: 1 / mp.sqrt(1 + x * x),
        (*LINE, -1e30, 1e30),
    ),
    # 1 − tanh x is 2e^{−2x}, and 1 − tanh(x)/x is x²/3: that far behind the point the digits begin.
    Function("tanh", 40, divided.tanh, torch.tanh, mp.tanh, lambda x: mp.sech(x) ** 2, LINE, digits=400),
    Function(
        "tanh(x)/x",
        40,
        divided.tanhc_difference,
        divided.tanhc,
        _tanhc,
        _tanhc_slope,
        LINE,
        digits=200,
    ),
    _sinh_arcsinh(1.0, 0.5, 1.0),
    _sinh_arcsinh(1.25, 1.75, 0.5),
    _sinh_arcsinh(0.5, 1.0, 4.0),
]


# --- maps of the whole spectrum ------------------------------------------------------------------


@dataclass(frozen=True)
class SpectrumMap:
    """A map whose i-th value depends on all the eigenvalues, behind the logarithm.

    ``exact(x, i, j)`` is the true K_ij and what its error is measured by.
    """

    name: str
    bound: int
    phi: SpectralMap
    parameters: Sequence[float | Sequence[float]]
    exact: Callable[[list[mpf], int, int], tuple[mpf, mpf]]
    ties: bool = True

    def measure(self, dtype: torch.dtype) -> tuple[Error, Error]:
        """The error of ours and of the naive quotient over all pairs of eigenvalues."""
        x = spectra(dtype)
        if not self.ties:
            t = x.log()
            x = x[t.diff(dim=-1).amin(-1) > 200 * torch.finfo(dtype).eps * t.abs().amax(-1)]
        chain = Chain(self.phi, LOG)
        K = loewner(chain, x, *self.parameters)
        values = chain.values(x, *(x.new_tensor(p) for p in self.parameters))
        places = list(combinations(range(x.shape[-1]), 2))
        first, last = torch.tensor(places).mT
        with mp.workdps(60):
            exact = [self.exact(numbers(row), i, j) for row in x for i, j in places]
            true, scale = zip(*exact, strict=True)
            where = (x[:, first].flatten(), x[:, last].flatten())
            ours = worst(K[:, first, last].flatten(), true, scale, where)
            apart = (where[0] != where[1]).nonzero()[:, 0]
            quotients = (values[:, last] - values[:, first]) / (x[:, last] - x[:, first])
            naive = worst(
                quotients.flatten()[apart],
                [true[i] for i in apart],
                [scale[i] for i in apart],
                [w[apart] for w in where],
            )
        return ours, naive


def spectra(dtype: torch.dtype) -> Tensor:
    """Ascending spectra of five, two or three of them as close as the gaps, the others far."""
    gap = gaps(dtype)[:, None]
    one = torch.ones_like(gap)
    double = torch.cat([0.05 * one, 0.8 * one, one, 1 + gap, 9 * one], -1)
    triple = torch.cat([0.3 * one, one, 1 + gap, 1 + 3 * gap, 2e3 * one], -1)
    base = torch.tensor([1e-12, 0.04, 1.0, 30.0, 1e12], dtype=torch.float64)[:, None, None]
    x = (base * torch.cat([double, triple])).to(dtype)
    return x.sort(-1).values.reshape(-1, 5)


def _gap_exact(x: list[mpf], i: int, j: int) -> tuple[mpf, mpf]:
    c, v, s = _GAP
    t = [mp.log(value) for value in x]
    slope = mpf(0)
    for k in range(len(x)):
        a, b = t[i] - t[k], t[j] - t[k]
        for v_k, s_k in zip(v, s, strict=True):
            if a == b:
                slope += v_k * mp.sech(a / s_k) ** 2
            else:
                slope += v_k * s_k * (mp.tanh(a / s_k) - mp.tanh(b / s_k)) / (a - b)
    true = (c + slope / len(x)) * _log_difference(x, i, j)
    return true, abs(true)


def _rank_increment_exact(x: list[mpf], i: int, j: int) -> tuple[mpf, mpf]:
    between = range(i + 1, j + 1)
    if x[i] == x[j]:
        true = sum(mpf(_FACTORS[k]) for k in between) / len(between) / x[i]
    else:
        t = [mp.log(value) for value in x]
        true = sum(_FACTORS[k] * (t[k] - t[k - 1]) for k in between) / (x[j] - x[i])
    return true, abs(true)


def _rank_scale_exact(x: list[mpf], i: int, j: int) -> tuple[mpf, mpf]:
    """K_ij vanishes where a_i t_i = a_j t_j: there the error is measured by the mean factor."""
    a, b = _FACTORS[i], _FACTORS[j]
    true = (a * mp.log(x[i]) - b * mp.log(x[j])) / (x[i] - x[j])
    return true, max(abs(true), (a + b) / 2 * _log_difference(x, i, j))


def _log_difference(x: list[mpf], i: int, j: int) -> mpf:
    return 1 / x[i] if x[i] == x[j] else (mp.log(x[i]) - mp.log(x[j])) / (x[i] - x[j])


_FACTORS = (1.25, 0.5, 2.0, 0.75, 1.5)
_GAP = (1.25, (0.75, -0.5), (0.5, 4.0))
SPECTRUM_MAPS = [
    SpectrumMap("gap∘log", 40, GAP, _GAP, _gap_exact),
    SpectrumMap("rank increments∘log", 40, RANK_INCREMENT, (_FACTORS,), _rank_increment_exact),
    SpectrumMap("rank scale∘log", 40, RankScale("exact"), (_FACTORS,), _rank_scale_exact, ties=False),
]


# --- second differences --------------------------------------------------------------------------


@dataclass(frozen=True)
class SecondDifference:
    """f[x, y, z] of a scalar map; ``bound`` is for float64 and float32.

    The error is relative to the true value, or to ``scale`` at the smallest argument where f″ has a
    zero.
    """

    name: str
    bound: tuple[int, int]
    ours: Callable[[Tensor, Tensor, Tensor], Tensor]
    exact: Exact
    slope: Exact
    bend: Exact
    bases: Sequence[float]
    scale: Exact | None = None

    def measure(self, dtype: torch.dtype) -> Error:
        """The largest error over the six orders of the arguments."""
        arguments = triples(self.bases, dtype)
        with mp.workdps(110):
            rows = list(zip(*map(numbers, arguments), strict=True))
            true = [quotient2(self.exact, self.slope, self.bend, *row) for row in rows]
            scale = None
            if self.scale is not None:
                scale = [max(abs(t), self.scale(min(row))) for t, row in zip(true, rows, strict=True)]
            orders = [[arguments[i] for i in order] for order in permutations(range(3))]
            return max(
                (worst(self.ours(*order), true, scale, order) for order in orders),
                key=lambda error: error.eps,
            )


def _power2(p: float) -> SecondDifference:
    q = mpf(p)
    return SecondDifference(
        f"power {p:g}",
        (700, 160),
        lambda x, y, z: POWER.divided2(*(a[:, None, None, None] for a in (x, y, z)), x.new_tensor(p))[
            :, 0, 0, 0
        ],
        lambda x: x**q,
        lambda x: q * x ** (q - 1),
        lambda x: q * (q - 1) * x ** (q - 2),
        MODERATE,
    )


def _sinh_arcsinh2(c: float, delta: float, s: float) -> SecondDifference:
    def angle(t: mpf) -> mpf:
        return delta * mp.asinh(t / s)

    def slope(t: mpf) -> mpf:
        return c * delta * mp.cosh(angle(t)) / mp.sqrt(1 + (t / s) ** 2)

    def bend(t: mpf) -> mpf:
        r = 1 + (t / s) ** 2
        turn = delta * mp.sinh(angle(t)) / r - mp.cosh(angle(t)) * t / s / r ** mpf(1.5)
        return c * delta / s * turn

    return SecondDifference(
        f"sinh-arcsinh c={c:g}, δ={delta:g}, s={s:g}",
        (220, 40),
        lambda x, y, z: SINH_ARCSINH.divided2(x, y, z, *(x.new_tensor(p) for p in (c, delta, s))),
        lambda t: c * s * mp.sinh(angle(t)),
        slope,
        bend,
        (-20.0, -1.0, -0.01, 0.0, 0.3, 2.0, 60.0),
        lambda t: slope(t) / (s + abs(t)),
    )


MODERATE = (1e-6, 0.7, 1.0, 1.3, 5.0, 1e6)
SECOND_DIFFERENCES = [
    SecondDifference(
        "log", (220, 40), LOG.divided2, mp.log, lambda x: 1 / x, lambda x: -1 / x**2, MODERATE
    ),
    SecondDifference(
        "exp", (220, 40), EXP.divided2, mp.exp, mp.exp, mp.exp, (-9.0, -1.0, 0.0, 0.4, 1.0, 6.0)
    ),
    SecondDifference(
        "sqrt",
        (8, 8),
        SQRT.divided2,
        mp.sqrt,
        lambda x: 1 / (2 * mp.sqrt(x)),
        lambda x: -1 / (4 * x * mp.sqrt(x)),
        MODERATE,
    ),
    SecondDifference(
        "inverse sqrt",
        (8, 8),
        INVERSE_SQRT.divided2,
        lambda x: 1 / mp.sqrt(x),
        lambda x: -1 / (2 * x * mp.sqrt(x)),
        lambda x: 3 / (4 * x**2 * mp.sqrt(x)),
        MODERATE,
    ),
    *(_power2(p) for p in POWERS if p != 1),
    _sinh_arcsinh2(1.0, 0.5, 1.0),
    _sinh_arcsinh2(1.25, 1.75, 0.5),
]


# --- the page ------------------------------------------------------------------------------------

HEAD = """# Accuracy of the divided differences

Largest error against mpmath, in units of the machine epsilon of each dtype, and the error of the
naive quotient (f(x) − f(y))/(x − y) at the same arguments. Gaps run from zero and one rounding to
1e8 of the smaller argument; base points from 1e-30 to 1e30, on the whole line from −80 to 300; both
orders of the arguments; wherever f and f[x, y] are normal numbers of the dtype. Made by

    python -m benchmarks.divided_differences

| f[x, y] | bound | float64 | float32 | naive float64 | naive float32 |
|---|---:|---:|---:|---:|---:|
"""

SECOND = """
The maps of a whole spectrum stand for their K_ij. That of the rank scale can vanish; its error is
then relative to the mean factor times log[x, y].

Second divided differences, which only second derivatives use, have a closed form for the two roots.
The others are a quotient of first ones where the arguments are apart and a quadrature where they are
close; the worst lies where one gives way to the other. For sinh-arcsinh, whose second derivative has
a zero, the error is relative to f′/(s + |t|) there.

| f[x, y, z] | bound float64 | bound float32 | float64 | float32 |
|---|---:|---:|---:|---:|
"""


def row(*cells: object) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(f"{c:.2g}" if isinstance(c, float) else str(c) for c in cells) + " |\n"


def page() -> str:
    """The measurements as Markdown."""
    text = HEAD
    for case in (*FUNCTIONS, *SPECTRUM_MAPS):
        (ours64, naive64), (ours32, naive32) = (case.measure(dtype) for dtype in DTYPES)
        text += row(case.name, case.bound, ours64.eps, ours32.eps, naive64.eps, naive32.eps)
    text += SECOND
    for second in SECOND_DIFFERENCES:
        text += row(second.name, *second.bound, *(second.measure(dtype).eps for dtype in DTYPES))
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE.read_text())
