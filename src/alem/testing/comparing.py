"""How a check compares, and how it says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd import gradcheck

from alem import geometry
from alem.linalg.errors import worst_index


@contextmanager
def saying(what: str) -> Iterator[None]:
    """Turn any exception into an AssertionError that begins with ``what``."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


def require(condition: bool, sentence: str) -> None:
    """Raise AssertionError with the sentence unless the condition holds."""
    if not condition:
        raise AssertionError(sentence)


def require_finite(X: Tensor, what: str) -> None:
    """Raise AssertionError unless all of X is finite."""
    bad = ~torch.isfinite(X.detach())
    if bool(bad.any()):
        where = worst_index(bad.double())
        raise AssertionError(
            f"{what}: {int(bad.sum())} of {bad.numel()} entries are not finite, as at {where}"
        )


def require_spd(X: Tensor, what: str) -> None:
    """Raise AssertionError unless X `(..., n, n)` is a batch of SPD matrices."""
    with saying(what):
        geometry.check_spd(X)


def require_close(actual: Tensor, expected: Tensor, what: str, tolerance: float) -> None:
    """Raise AssertionError unless all entries agree to ``tolerance`` times the largest, or times 1."""
    actual, expected = actual.detach(), expected.detach()
    require(
        actual.shape == expected.shape,
        f"{what}: shape {tuple(actual.shape)} where {tuple(expected.shape)} was expected",
    )
    if not expected.numel():
        return
    off = (actual - expected).abs()
    allowed = tolerance * max(1.0, float(expected.abs().max()))
    if not bool((off <= allowed).all()):
        where = worst_index(off)
        raise AssertionError(
            f"{what}: {float(actual[where]):.6g} where {float(expected[where]):.6g} was expected, at "
            f"{where} of shape {tuple(off.shape)}; off by {float(off[where]):.3g}, allowed is {allowed:.3g}"
        )


def require_gradients(
    f: Callable[..., Tensor], inputs: Sequence[Tensor], what: str, parameters: Sequence[Tensor] = ()
) -> None:
    """Raise AssertionError unless the derivatives of f, by every entry, are those of finite differences.

    f takes the inputs, and may depend on ``parameters`` without taking them. Of its values random
    functionals are taken, which makes a derivative as cheap as a few passes backward.
    """
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    with saying(what):
        gradcheck(
            lambda *x: functionals(f(*x[: len(leaves)])),
            (*leaves, *(p for p in parameters if p.requires_grad)),
            atol=1e-5,
            rtol=1e-3,
        )


def functionals(Y: Tensor, count: int = 3) -> Tensor:
    """Linear functionals `(count,)` of a tensor, random and always the same ones."""
    generator = torch.Generator().manual_seed(2)
    weights = torch.randn(count, Y.numel(), generator=generator, dtype=torch.float64)
    return weights.to(Y) @ Y.reshape(-1)
