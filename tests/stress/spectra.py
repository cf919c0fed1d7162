"""Matrices that are hard to compute with, and what may come of computing with them."""

from __future__ import annotations

import itertools
import math
import os
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from alem.linalg import ConvergenceError, InvalidMatrixError

# All of it takes hours; by default a sample that takes seconds. ``make stress`` sets the variable.
FULL = os.environ.get("ALEM_STRESS") == "full"
SAMPLE = 16
SIZES = (1, 2, 3, 5, 8, 16, 33, 64, 128, 256) if FULL else (1, 2, 5, 16)
CONDITIONS = tuple(10.0**k for k in range(0, 15, 2))
SCALES = (1.0, 1e-30, 1e30)
DTYPES = (torch.float64, torch.float32)
NAMED = (InvalidMatrixError, ConvergenceError)


def spectra(n: int, condition: float) -> dict[str, Tensor]:
    """Eigenvalues `(n,)` with that condition number, or 1 for n = 1."""
    small = torch.ones(n, dtype=torch.float64)
    small[: n // 2] = 1 / condition
    one_small, one_large = torch.ones(n, dtype=torch.float64), torch.ones(n, dtype=torch.float64)
    one_small[0], one_large[-1] = (1 / condition, condition) if n > 1 else (1.0, 1.0)
    return {
        "spread": torch.logspace(0, math.log10(condition) if n > 1 else 0, n, dtype=torch.float64),
        "clusters": small * (1 + 1e-9 * torch.arange(n)),
        "repeated": small,
        "one small": one_small,
        "one large": one_large,
    }


def matrix(x: Tensor, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """A symmetric matrix with eigenvalues x in a random frame."""
    G = torch.Generator().manual_seed(seed)
    U = torch.linalg.qr(torch.randn(len(x), len(x), generator=G, dtype=torch.float64))[0]
    A = (U * x) @ U.mT
    return (0.5 * (A + A.mT)).to(dtype)


@dataclass(frozen=True)
class Hard:
    """A kind of spectrum at a size, a condition, a scale and a precision."""

    n: int
    condition: float
    scale: float
    dtype: torch.dtype
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}, n {self.n}, cond {self.condition:.0e}, scale {self.scale:.0e}, {self.dtype}"

    def is_easy(self, power: int) -> bool:
        """Whether rounding times that power of the condition leaves some digits: there must be a result."""
        return self.condition**power * self.n * torch.finfo(self.dtype).eps < 1e-3

    def matrices(self, count: int, dtype: torch.dtype | None = None) -> Tensor:
        """Of that kind `(count, n, n)`, in that precision or another."""
        x = self.scale * spectra(self.n, self.condition)[self.kind]
        return torch.stack([matrix(x, seed, dtype or self.dtype) for seed in range(count)])

    def wide(self) -> Hard:
        """The same in double precision."""
        return Hard(self.n, self.condition, self.scale, torch.float64, self.kind)


def hard(name: str, sizes: tuple[int, ...] = SIZES) -> list[Hard]:
    """All of them, or a sample that depends on the name of the test."""
    kinds = spectra(1, 1.0)
    every = [Hard(*of) for of in itertools.product(sizes, CONDITIONS, SCALES, DTYPES, kinds)]
    return every if FULL else random.Random(name).sample(every, SAMPLE)


def outcome(
    compute: Callable[[Hard], list[Tensor]], case: Hard, power: int = 1, largest: float = 1e30
) -> str:
    """What came of it: finite numbers, an error by name, or what is wrong.

    A float32 result may overflow where the same in double precision is larger than ``largest``.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = compute(case)
    except NAMED as error:
        if case.is_easy(power) and "too large" not in str(error):
            return f"an error where there is a result: {error}"
        return "an error"
    if all(bool(t.isfinite().all()) for t in found):
        return "finite"
    if case.dtype == torch.float32:
        try:
            wide = compute(case.wide())
        except NAMED:
            return "an error"
        if any(float(t.abs().nan_to_num().max()) > largest for t in wide if t.numel()):
            return "beyond the range"
    return "not finite, and not an error"
