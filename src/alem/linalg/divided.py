"""Accurate divided differences f[x, y] and f[x, y, z] of the functions the library applies to spectra.

``f[x, y] = (f(x) − f(y)) / (x − y)``, and f′(x) where x = y. The quotient as it stands loses every
digit as x approaches y; each function here has a form that loses none. All arguments broadcast and
may be in any order. No form has a threshold: the limit is taken only where x and y are equal.

The general rule for f[x, y, z], :func:`second`, does switch between a quotient and a quadrature. Where
it switches is measured against the width of the function's own features, which the caller states, so
that scaling the data never changes the rule.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def _split(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Smaller and larger argument, their distance made safe to divide by, and where it is zero."""
    x, y = torch.broadcast_tensors(x, y)
    low, high = torch.minimum(x, y), torch.maximum(x, y)
    gap = high - low
    equal = gap == 0
    return low, high, torch.where(equal, 1.0, gap), equal


def _expm1(x: Tensor) -> Tensor:
    """eˣ − 1; as tanh(x/2)(eˣ + 1) in compiled graphs, where inductor makes exp(x) − 1 of torch's own."""
    if torch.compiler.is_compiling():
        return torch.tanh(x / 2) * (torch.exp(x) + 1)
    return torch.expm1(x)


def log(x: Tensor, y: Tensor) -> Tensor:
    """ln[x, y] = log1p((y − x)/x) / (y − x) for 0 < x ≤ y."""
    low, _, gap, equal = _split(x, y)
    return torch.where(equal, 1.0 / low, torch.log1p(gap / low) / gap)


def exp(x: Tensor, y: Tensor) -> Tensor:
    """exp[x, y] = eʸ (1 − e^{x−y}) / (y − x) for x ≤ y; never overflows before eʸ does."""
    _, high, gap, equal = _split(x, y)
    return torch.exp(high) * torch.where(equal, 1.0, -_expm1(-gap) / gap)


def power(x: Tensor, y: Tensor, p: Tensor) -> Tensor:
    """Divided difference of σ ↦ σᵖ, σ > 0.

    xᵖ expm1(p·log1p(d/x))/d while ``|p|·log1p(d/x)`` ≤ 1; beyond, the values differ by more than a
    factor of two and the plain quotient loses nothing, where expm1 of a rounded product would.
    """
    low, high, gap, equal = _split(x, y)
    ratio = p * torch.log1p(torch.where(equal, 0.0, gap) / low)
    near = ratio.abs() <= 1
    close = low**p * _expm1(torch.where(near, ratio, 0.0))
    far = high**p - low**p
    return torch.where(equal, p * low ** (p - 1), torch.where(near, close, far) / gap)


def sqrt(x: Tensor, y: Tensor) -> Tensor:
    """√[x, y] = 1/(√x + √y)."""
    return 1.0 / (x.sqrt() + y.sqrt())


def inverse_sqrt(x: Tensor, y: Tensor) -> Tensor:
    """Divided difference of σ ↦ σ^{−1/2}: −1/(√x √y (√x + √y))."""
    a, b = x.sqrt(), y.sqrt()
    return -1.0 / (a * b * (a + b))


def sqrt_second(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """√[x, y, z] = −1/((a+b)(b+c)(c+a)), a, b, c the roots."""
    a, b, c = x.sqrt(), y.sqrt(), z.sqrt()
    return -1.0 / ((a + b) * (b + c) * (c + a))


def inverse_sqrt_second(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """The same for σ ↦ σ^{−1/2}: (a+b+c)/(abc(a+b)(b+c)(c+a))."""
    a, b, c = x.sqrt(), y.sqrt(), z.sqrt()
    return (a + b + c) / ((a * b * c) * ((a + b) * (b + c) * (c + a)))


def clamp(x: Tensor, y: Tensor, minimum: float) -> Tensor:
    """Divided difference of σ ↦ max(σ, m): the part of [x, y] that lies above m; 1 at x = y = m."""
    low, high, gap, equal = _split(x, y)
    above = ((high - low.clamp(min=minimum)).clamp(min=0.0)) / gap
    return torch.where(equal, (low >= minimum).to(low.dtype), above)


def sinh(x: Tensor, y: Tensor) -> Tensor:
    """sinh[x, y] = (exp[x, y] + exp[−x, −y])/2, a sum of positive terms."""
    return (exp(x, y) + exp(-x, -y)) / 2


def asinh(x: Tensor, y: Tensor) -> Tensor:
    """asinh[x, y] = asinh(z)/d with z = v√(1+u²) − u√(1+v²), u ≤ v the absolute values, d = v − u.

    The difference z cancels; it equals d/m, m the mean of √(1+u²) and √(1+v²) with weights v and u.
    For opposite signs the plain quotient, which does not cancel.
    """
    x, y = torch.broadcast_tensors(x, y)
    low, high, gap, equal = _split(x.abs(), y.abs())
    one = torch.ones_like(low)
    a, b = torch.hypot(one, low), torch.hypot(one, high)
    weight = low / torch.where(high == 0, 1.0, low + high)
    mean = a + weight * (b - a)
    same = torch.where(equal, 1.0 / a, torch.asinh(gap / mean) / gap)
    opposite = x * y < 0
    across = (torch.asinh(low) + torch.asinh(high)) / torch.where(opposite, low + high, 1.0)
    return torch.where(opposite, across, same)


def tanhc(x: Tensor) -> Tensor:
    """tanh(x)/x, 1 at 0."""
    zero = x == 0
    safe = torch.where(zero, 1.0, x)
    return torch.where(zero, 1.0 - x * x / 3, torch.tanh(safe) / safe)


def tanh(x: Tensor, y: Tensor) -> Tensor:
    """tanh[x, y] = sinhc(d)/(cosh x cosh y), d = x − y, written so that nothing overflows.

    For equal signs, u ≤ v the absolute values and g = v − u, it is
    2 e^{−2u} (1 − e^{−2g}) / (g (1 + e^{−2u}) (1 + e^{−2v})); for opposite signs the plain quotient,
    which does not cancel.
    """
    x, y = torch.broadcast_tensors(x, y)
    u, v = x.abs(), y.abs()
    _, _, gap, equal = _split(u, v)
    least = torch.minimum(u, v)
    drop = torch.where(equal, 2.0, -_expm1(-2 * gap) / gap)
    same = 2 * torch.exp(-2 * least) * drop / ((1 + torch.exp(-2 * u)) * (1 + torch.exp(-2 * v)))
    opposite = x * y < 0
    across = (torch.tanh(u) + torch.tanh(v)) / torch.where(opposite, u + v, 1.0)
    return torch.where(opposite, across, same)


# a_k with tanh(x)/x = Σ a_k x^{2k}: (2k+1) a_k = −Σ_{i+j=k−1} a_i a_j, which is tanh′ = 1 − tanh².
# Below 1/2, where they are used, the terms fall by ten each time: these reach 1e-17.
_TANHC = [1.0]
for _k in range(1, 18):
    _TANHC.append(-sum(_TANHC[_i] * _TANHC[_k - 1 - _i] for _i in range(_k)) / (2 * _k + 1))


def tanhc_difference(x: Tensor, y: Tensor) -> Tensor:
    """Divided difference of τ(x) = tanh(x)/x, which is tanh[0, x, y].

    τ is even, so with u ≤ v the absolute values it is (x+y)/(u+v)·τ[u, v]. There
    τ[u, v] = (tanh[u, v] − τ(u))/v, and below v = 1/2, where that would cancel, (u+v) times the
    divided difference in u² and v² of the power series.
    """
    x, y = torch.broadcast_tensors(x, y)
    low, high = torch.minimum(x.abs(), y.abs()), torch.maximum(x.abs(), y.abs())
    small = high < 0.5
    a, b = torch.where(small, low, 0.0) ** 2, torch.where(small, high, 0.0) ** 2
    value, difference = torch.zeros_like(a), torch.zeros_like(a)
    for coefficient in reversed(_TANHC):
        difference = difference * a + value
        value = value * b + coefficient
    safe = torch.where(small, 1.0, high)
    closed = (tanh(torch.where(small, 0.0, low), safe) - tanhc(torch.where(small, 0.0, low))) / safe
    total = torch.where(small, 1.0, low + high)
    return (x + y) * torch.where(small, difference, closed / total)


# Radon's seven points on a triangle, exact for degree 5: (weight, barycentric coordinates),
# the weights summing to 1/2, the area.
_R = 15.0**0.5
_RADON: list[tuple[float, tuple[float, float, float]]] = [(9 / 80, (1 / 3, 1 / 3, 1 / 3))]
for _sign in (-1.0, 1.0):
    _b = (6 + _sign * _R) / 21
    _w = (155 + _sign * _R) / 2400
    _RADON += [(_w, (1 - 2 * _b, _b, _b)), (_w, (_b, 1 - 2 * _b, _b)), (_w, (_b, _b, 1 - 2 * _b))]


def closeness(dtype: torch.dtype) -> float:
    """The gap, in widths of a function's features, below which its second differences are quadratures."""
    return 0.015 if dtype == torch.float64 else 0.1


def second(
    first: Callable[[Tensor, Tensor], Tensor],
    curvature: Callable[[Tensor], Tensor],
    width: Callable[[Tensor], Tensor] | None,
    x: Tensor,
    y: Tensor,
    z: Tensor,
) -> Tensor:
    """Second divided difference f[x, y, z] from f[·, ·] and f″.

    (f[b, c] − f[a, b])/(c − a) over the widest gap of a ≤ b ≤ c; where that gap is below
    :func:`closeness` times ``width(a)``, the mean of f″ over the simplex by Radon's rule.
    ``width`` is the scale on which f bends at a; None where f is linear between its kinks, and then
    f[x, x, x] = 0.
    """
    x, y, z = torch.broadcast_tensors(x, y, z)
    low, high = torch.minimum(torch.minimum(x, y), z), torch.maximum(torch.maximum(x, y), z)
    # x + y + z − low − high would round; the middle one must be one of the three.
    middle = torch.maximum(torch.minimum(x, y), torch.minimum(torch.maximum(x, y), z))
    gap = high - low
    tied = gap == 0
    if width is None:
        return torch.where(
            tied, 0.0, (first(middle, high) - first(low, middle)) / torch.where(tied, 1.0, gap)
        )
    near = (gap < closeness(gap.dtype) * width(low)) | tied
    near_gap, near_middle = torch.where(near, gap, 0.0), torch.where(near, middle - low, 0.0)
    mean = sum(w * curvature(low + b * near_middle + c * near_gap) for w, (_, b, c) in _RADON)
    apart = (first(middle, high) - first(low, middle)) / torch.where(near, 1.0, gap)
    return torch.where(near, mean, apart)
