"""The scalar functions of symmetric matrices: log, exp, powers, clamp, sinh-arcsinh, as data."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from alem.linalg import divided
from alem.linalg.cholesky import exceeds
from alem.linalg.errors import can_inspect, require_square
from alem.linalg.precision import full_precision
from alem.linalg.spectral import spectral
from alem.linalg.spectral_map import ScalarMap, Stage
from alem.linalg.vectorize import symmetrize


class _Elementary(ScalarMap):
    """A scalar function without parameters, given by f, f[·, ·], f[·, ·, ·] and the width of f."""

    def __init__(
        self,
        name: str,
        f: Callable[[Tensor], Tensor],
        first: Callable[[Tensor, Tensor], Tensor],
        second: Callable[[Tensor, Tensor, Tensor], Tensor],
        width: Callable[[Tensor], Tensor],
        positive: bool = False,
        increasing: bool = True,
        grows: bool = False,
        is_native: bool = False,
    ) -> None:
        self.name, self.positive, self.increasing, self.grows = name, positive, increasing, grows
        self._stages = (Stage(name),) if is_native else None
        self._f, self._first, self._second, self._width = f, first, second, width

    def __repr__(self) -> str:
        return self.name

    def stages(self, n: int, *parameters: Tensor) -> tuple[Stage, ...] | None:
        return self._stages

    def values(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return self._f(x)

    def divided(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return self._first(x, y)

    def divided2(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:  # type: ignore[override]
        return self._second(x, y, z)

    def width(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return self._width(x)


def _itself(x: Tensor) -> Tensor:
    return x


def _log_second(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return divided.second(divided.log, lambda a: -(a**-2), _itself, x, y, z)


def _exp_second(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return divided.second(divided.exp, torch.exp, torch.ones_like, x, y, z)


LOG = _Elementary("log", torch.log, divided.log, _log_second, _itself, positive=True, is_native=True)
EXP = _Elementary("exp", torch.exp, divided.exp, _exp_second, torch.ones_like, grows=True, is_native=True)
SQRT = _Elementary("sqrt", torch.sqrt, divided.sqrt, divided.sqrt_second, _itself, positive=True)
INVERSE_SQRT = _Elementary(
    "inverse_sqrt",
    torch.rsqrt,
    divided.inverse_sqrt,
    divided.inverse_sqrt_second,
    _itself,
    positive=True,
    increasing=False,
)


class Power(ScalarMap):
    """σ ↦ σᵖ for σ > 0, with p a parameter of shape `(...)`, one per matrix."""

    n_parameters = 1
    positive = True
    grows = True

    def values(self, x: Tensor, p: Tensor) -> Tensor:  # type: ignore[override]
        return x ** p[..., None]

    def divided(self, x: Tensor, y: Tensor, p: Tensor) -> Tensor:  # type: ignore[override]
        return divided.power(x, y, p[..., None, None])

    def divided2(self, x: Tensor, y: Tensor, z: Tensor, p: Tensor) -> Tensor:  # type: ignore[override]
        q = p[..., None, None, None]
        return divided.second(
            lambda a, b: divided.power(a, b, q),
            lambda a: q * (q - 1) * a ** (q - 2),
            lambda a: a / (1 + q.abs()),
            x,
            y,
            z,
        )

    def width(self, x: Tensor, p: Tensor) -> Tensor:  # type: ignore[override]
        return x / (1 + p[..., None].abs())


class Multiple(ScalarMap):
    """σ ↦ cσ with a fixed c > 0."""

    increasing = True

    def __init__(self, factor: float) -> None:
        if not factor > 0:
            raise ValueError(f"the factor must be positive, got {factor}")
        self.factor = factor

    def stages(self, n: int, *parameters: Tensor) -> tuple[Stage, ...]:
        return (Stage("multiple", (self.factor,)),)

    def values(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.factor * x

    def divided(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return torch.full_like(x + y, self.factor)

    def divided2(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:  # type: ignore[override]
        return torch.zeros_like(x + y + z)

    def width(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return torch.full_like(x, torch.inf)

    def second(self, x: Tensor, gaps: Tensor, left: Tensor, right: Tensor) -> Tensor:  # type: ignore[override]
        return torch.zeros_like(left * right)


class Clamp(ScalarMap):
    """σ ↦ max(σ, m). At σ = m the derivative is 1, that of the identity."""

    increasing = True

    def __init__(self, minimum: float) -> None:
        self.minimum = minimum

    def stages(self, n: int, *parameters: Tensor) -> tuple[Stage, ...]:
        return (Stage("clamp", (self.minimum,)),)

    def values(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.clamp(min=self.minimum)

    def divided(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return divided.clamp(x, y, self.minimum)

    def divided2(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:  # type: ignore[override]
        return divided.second(self.divided, torch.zeros_like, None, x, y, z)

    def width(self, x: Tensor) -> Tensor:  # type: ignore[override]
        # Straight but for its kink: only the digits of the gaps matter, and those are relative.
        return x.abs().amax(-1, keepdim=True).expand(x.shape)


class SinhArcsinh(ScalarMap):
    """t ↦ c·s·sinh(δ·asinh(t/s)), with positive parameters c, δ, s of shape `()`.

    Smooth, odd, increasing, and the identity for c = δ = 1. Its inverse is the same function with
    1/c, 1/δ and c·s.
    """

    n_parameters = 3
    increasing = True

    def stages(self, n: int, *parameters: Tensor) -> tuple[Stage, ...] | None:
        return (Stage("sinh", parameters),) if all(p.ndim == 0 for p in parameters) else None

    def values(self, x: Tensor, c: Tensor, delta: Tensor, s: Tensor) -> Tensor:  # type: ignore[override]
        return c * s * torch.sinh(delta * torch.asinh(x / s))

    def divided(self, x: Tensor, y: Tensor, c: Tensor, delta: Tensor, s: Tensor) -> Tensor:  # type: ignore[override]
        x, y = x / s, y / s
        outer = divided.sinh(delta * torch.asinh(x), delta * torch.asinh(y))
        return c * delta * outer * divided.asinh(x, y)

    def divided2(  # type: ignore[override]
        self, x: Tensor, y: Tensor, z: Tensor, c: Tensor, delta: Tensor, s: Tensor
    ) -> Tensor:
        x, y, z = x / s, y / s, z / s
        u, v, w = (delta * torch.asinh(a) for a in (x, y, z))
        sinh2 = divided.second(divided.sinh, torch.sinh, torch.ones_like, u, v, w)
        asinh2 = divided.second(
            divided.asinh, lambda a: -a * (1 + a * a) ** -1.5, lambda a: 1 + a.abs(), x, y, z
        )
        # (f∘g)[x,y,z] = f[gx,gy,gz] g[x,z] g[y,z] + f[gx,gy] g[x,y,z]
        chained = delta * delta * sinh2 * divided.asinh(x, z) * divided.asinh(y, z)
        return c / s * (chained + delta * divided.sinh(u, v) * asinh2)

    def width(self, x: Tensor, c: Tensor, delta: Tensor, s: Tensor) -> Tensor:  # type: ignore[override]
        return (s + x.abs()) / (1 + delta)

    @staticmethod
    def inverse_parameters(c: Tensor, delta: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The parameters of the inverse function."""
        return 1 / c, 1 / delta, c * s


POWER = Power()
SINH_ARCSINH = SinhArcsinh()


def number_like(x: float | Tensor, X: Tensor) -> Tensor:
    """A number or tensor in the dtype and on the device of X; a number does not wait for the device."""
    return x.to(X) if isinstance(x, Tensor) else X.new_full((), x)


def log(X: Tensor, base: float = math.e) -> Tensor:
    """Logarithm of symmetric positive definite matrices `(..., n, n)`, to any base."""
    if not base > 0 or base == 1:
        raise ValueError(f"the base of a logarithm must be positive and not 1, got {base}")
    Y = spectral(X, LOG)
    return Y if base == math.e else Y / math.log(base)


def exp(X: Tensor) -> Tensor:
    """Exponential of symmetric matrices `(..., n, n)`."""
    return spectral(X, EXP)


def sqrt(X: Tensor) -> Tensor:
    """The positive definite square root."""
    return spectral(X, SQRT)


def inverse_sqrt(X: Tensor) -> Tensor:
    """The inverse of the positive definite square root."""
    return spectral(X, INVERSE_SQRT)


@full_precision
def power(X: Tensor, p: float | Tensor) -> Tensor:
    """Xᵖ for positive definite X `(..., n, n)`; p a number or a tensor that broadcasts against `(...)`."""
    p = number_like(p, X)
    shape = torch.broadcast_shapes(X.shape[:-2], p.shape)
    return spectral(X.expand(*shape, *X.shape[-2:]), POWER, p)


@full_precision
def clamp(X: Tensor, minimum: float) -> Tensor:
    """Raise every eigenvalue below ``minimum`` to it.

    X − minimum·I having a Cholesky factor proves that there is none, and costs a tenth of a decomposition:
    on the CPU only the matrices that have no such factor are decomposed.
    """
    require_square(X)
    phi = Clamp(minimum)
    if not can_inspect(X):
        return spectral(X, phi)
    S = symmetrize(X)
    unchanged = exceeds(S, minimum)
    low = (~unchanged).reshape(-1).nonzero()[:, 0]
    if len(low) == unchanged.numel():
        return spectral(X, phi)
    if not len(low):
        return S
    flat = S.reshape(-1, *S.shape[-2:])
    return flat.index_copy(0, low, spectral(flat[low], phi)).reshape(S.shape)
