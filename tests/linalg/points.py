"""The matrices and the maps that the tests of spectral functions share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from alem.linalg import (
    EXP,
    INVERSE_SQRT,
    LOG,
    POWER,
    SINH_ARCSINH,
    SQRT,
    Chain,
    Clamp,
    Multiple,
    SpectralMap,
)


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def random_symmetric(*shape: int, seed: int = 1) -> Tensor:
    V = random(*shape, shape[-1], seed=seed)
    return (V + V.mT) / 2


def rotation(*shape: int, seed: int = 2) -> Tensor:
    return torch.linalg.qr(random(*shape, shape[-1], seed=seed)).Q


def with_spectrum(*eigenvalues: float, seed: int = 2) -> Tensor:
    """A matrix in a random frame with these eigenvalues."""
    U = rotation(len(eigenvalues), seed=seed)
    X = (U * torch.tensor(eigenvalues, dtype=torch.float64)) @ U.mT
    return (X + X.mT) / 2


def random_spd(*shape: int, seed: int = 3, cond: float = 20.0) -> Tensor:
    """Positive definite matrices with eigenvalues between 1/√cond and √cond."""
    n = shape[-1]
    U = rotation(*shape, seed=seed)
    log_cond = float(torch.tensor(cond).log())
    X = (U * torch.linspace(-log_cond / 2, log_cond / 2, n, dtype=torch.float64).exp()) @ U.mT
    return (X + X.mT) / 2


SEPARATED = {"separated": with_spectrum(0.3, 1.5, 4.0)}
POINTS = {
    "identity": torch.eye(3, dtype=torch.float64),
    "diag(2,2,5)": torch.diag(torch.tensor([2.0, 2.0, 5.0], dtype=torch.float64)),
    "triple": with_spectrum(2.0, 2.0, 2.0, 5.0),
    "gap 1e-9": with_spectrum(0.6, 2.0, 2.0 + 1e-9),
    **SEPARATED,
}


@dataclass(frozen=True)
class Case:
    """A map with values for its parameters; a fresh set each time, which a test may differentiate."""

    phi: SpectralMap
    values: tuple[float | tuple[float, ...], ...] = ()

    def parameters(self, requires_grad: bool = True) -> tuple[Tensor, ...]:
        return tuple(torch.tensor(v, dtype=torch.float64, requires_grad=requires_grad) for v in self.values)


_INVERSE = tuple(float(p) for p in SINH_ARCSINH.inverse_parameters(*map(torch.tensor, (1.2, 0.7, 0.9))))
MAPS = {
    "log": Case(LOG),
    "exp": Case(EXP),
    "sqrt": Case(SQRT),
    "inverse sqrt": Case(INVERSE_SQRT),
    "power": Case(POWER, (0.7,)),
    "clamp": Case(Clamp(1.7)),
    "logarithm to base 10": Case(Chain(Multiple(0.4342944819), LOG)),
    "log of clamp": Case(Chain(LOG, Clamp(1.7))),
    "sinh-arcsinh of log": Case(Chain(SINH_ARCSINH, LOG), (1.2, 0.7, 0.9)),
    "exp of inverse sinh-arcsinh": Case(Chain(EXP, SINH_ARCSINH), _INVERSE),
}


def central_difference(f: Callable[[Tensor], Tensor], X: Tensor, V: Tensor) -> Tensor:
    """The derivative of f along V, to about 1e-10."""
    h = 1e-3
    return (8 * (f(X + h * V) - f(X - h * V)) - (f(X + 2 * h * V) - f(X - 2 * h * V))) / (12 * h)


def assert_close(a: Tensor, b: Tensor, rtol: float = 1e-12) -> None:
    """Equal to ``rtol`` of the largest entry."""
    torch.testing.assert_close(a, b, rtol=0, atol=rtol * max(1.0, float(b.detach().abs().max())))
