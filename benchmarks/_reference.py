"""Floating-point arguments that are hard for divided differences, and errors against mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from mpmath import mp, mpf
from torch import Tensor

DTYPES = (torch.float64, torch.float32)
Exact = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Error:
    """The largest error over many points, in eps, and where it is."""

    eps: float
    where: tuple[float, ...]
    points: int


# --- arguments -----------------------------------------------------------------------------------

POSITIVE = (1e-30, 3e-7, 0.02, 0.7, 1.0, 1.3, 5.0, 4e6, 1e30)
LINE = (-80.0, -3.0, -0.9, -1e-3, -1e-30, 0.0, 1e-30, 1e-8, 0.3, 0.5, 1.0, 2.5, 9.0, 40.0, 300.0)


def gaps(dtype: torch.dtype) -> Tensor:
    """Relative distances: nothing, a few roundings, every decade to 1e8, and what lies between."""
    eps = torch.finfo(dtype).eps
    roundings = torch.tensor([0.0, 1.0, 2.0, 3.0, 10.0], dtype=torch.float64) * eps
    decades = 10.0 ** torch.arange(math.ceil(math.log10(eps)), 9, dtype=torch.float64)
    between = torch.rand(40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    lowest = math.log10(eps)
    return torch.cat([roundings, decades, 10 ** (lowest + (8 - lowest) * between)])


def pairs(bases: Sequence[float], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Every base beside base·(1 + gap), and on the line also base − |base|·gap and base + gap."""
    base = torch.tensor(bases, dtype=torch.float64).to(dtype).double()[:, None]
    gap = gaps(dtype)
    others = [base * (1 + gap)]
    if min(bases) <= 0:
        others += [base * (1 - gap), base + gap, base - gap, -base * (1 + gap)]
    y = torch.stack(others).to(dtype)
    x = base.to(dtype).expand_as(y)
    keep = torch.isfinite(y)
    return x[keep], y[keep]


def triples(bases: Sequence[float], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Every base with two others, most of them where a quotient gives way to a quadrature."""
    few = torch.tensor([0.0, 4 * torch.finfo(dtype).eps, 1e-6, 1.0, 9.0], dtype=torch.float64)
    gap = torch.cat([few, torch.logspace(-2.6, -0.4, 12, dtype=torch.float64)])
    base = torch.tensor(bases, dtype=torch.float64).to(dtype).double()[:, None, None]
    scale = torch.where(base == 0, 1.0, base.abs())
    y, z = torch.broadcast_tensors(base + scale * gap[:, None], base + scale * gap)
    return base.expand_as(y).to(dtype).flatten(), y.to(dtype).flatten(), z.to(dtype).flatten()


# --- the truth -----------------------------------------------------------------------------------


def numbers(x: Tensor) -> list[mpf]:
    """The exact values of a tensor."""
    return [mpf(v) for v in x.double().tolist()]


def representable(value: mpf, dtype: torch.dtype) -> bool:
    """Whether a number is zero or in the normal range of a dtype."""
    limits = torch.finfo(dtype)
    return value == 0 or limits.tiny <= abs(value) <= limits.max


def quotient2(f: Exact, slope: Exact, bend: Exact, x: mpf, y: mpf, z: mpf) -> mpf:
    """f[x, y, z] with its limits."""
    a, b, c = sorted((x, y, z))
    if a == c:
        return bend(a) / 2

    def first(u: mpf, v: mpf) -> mpf:
        return slope(u) if u == v else (f(u) - f(v)) / (u - v)

    return (first(b, c) - first(a, b)) / (c - a)


def worst(
    found: Tensor, true: Sequence[mpf], scale: Sequence[mpf] | None, arguments: Sequence[Tensor]
) -> Error:
    """The largest |found − true|/scale in eps, where the truth is a normal number of the dtype."""
    limits = torch.finfo(found.dtype)
    columns = [a.double().tolist() for a in arguments]
    largest, place, count = mpf(0), 0, 0
    for i, (value, exact) in enumerate(zip(found.double().tolist(), true, strict=True)):
        if not representable(exact, found.dtype):
            continue
        count += 1
        size = abs(exact) if scale is None else scale[i]
        off = abs(value - exact) if math.isfinite(value) else mp.inf
        error = off if off == 0 else off / size if size else mp.inf
        if error > largest:
            largest, place = error, i
    where = tuple(column[place] for column in columns)
    return Error(float(largest / limits.eps), where, count)
