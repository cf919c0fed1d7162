"""What goes wrong with a matrix, and how it is said."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

# Control characters, what turns the direction of writing around, and what no file of text may hold.
_OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
# Characters of a message; what a file holds may be any number of them.
_LONGEST = 2000


def shown(text: str, longest: int = _LONGEST) -> str:
    """Text of a message, which may come from a file, on one line and not too long."""
    if len(text) > longest:
        text = f"{text[: longest // 2]} … {text[-longest // 2 :]}"
    return spelled(text)


def spelled(text: str) -> str:
    """Text in which what a terminal or a page would obey is spelled out: line breaks are ``\\n``."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class InvalidMatrixError(ValueError):
    """A matrix is not what the operation needs; the message says which, how badly, and what to do.

    ``index`` is the place of the worst offender in the batch, a tuple that is empty for a single
    matrix and None where the whole input is at fault (its shape or dtype, say).
    """

    def __init__(self, message: str, index: tuple[int, ...] | None = None) -> None:
        super().__init__(shown(message))
        self.index = index


class NotPositiveDefiniteError(InvalidMatrixError):
    """A matrix has an eigenvalue that is zero or negative where only positive ones are allowed."""


class ConvergenceError(ArithmeticError):
    """An iteration ended before it reached its stated tolerance."""


def can_inspect(x: Tensor) -> bool:
    """Whether looking at the values of ``x`` costs nothing and breaks nothing.

    True in eager mode on the CPU. False on an accelerator, where asking would synchronise; in a
    compiled or traced graph, which asking would break; and inside ``torch.func`` transforms, which have no
    single value to show.
    """
    return (
        not torch.compiler.is_compiling()
        and torch._C._get_tracing_state() is None
        and x.device.type == "cpu"
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
    )


def matrix_name(index: tuple[int, ...]) -> str:
    """How a message names a matrix of a batch: ``matrix``, ``matrix 3``, ``matrix (0, 2)``."""
    if not index:
        return "matrix"
    return f"matrix {index[0] if len(index) == 1 else index}"


@contextlib.contextmanager
def places_are(places: Sequence[int]) -> Iterator[None]:
    """What is said within of matrix i of a block is said of matrix ``places[i]``."""
    try:
        yield
    except InvalidMatrixError as error:
        if not error.index or places[error.index[0]] == error.index[0]:
            raise
        i, *rest = error.index
        index = (places[i], *rest)
        message = str(error).replace(matrix_name(error.index), matrix_name(index), 1)
        raise type(error)(message, index) from None


def worst_index(badness: Tensor) -> tuple[int, ...]:
    """The batch index at which ``badness`` (a value per matrix, NaN the worst) is largest."""
    flat = torch.nan_to_num(badness, nan=torch.inf).reshape(-1).argmax()
    return tuple(int(i) for i in torch.unravel_index(flat, badness.shape)) if badness.ndim else ()


def require_finite(X: Tensor) -> None:
    """Raise InvalidMatrixError, naming the worst matrix, unless all of X `(..., n, n)` is finite."""
    bad = (~torch.isfinite(X.detach())).sum((-2, -1))
    if bool((bad > 0).any()):
        index = worst_index(bad.to(torch.float32))
        raise InvalidMatrixError(
            f"{matrix_name(index)} of shape {tuple(X.shape)} has {int(bad[index])} entries that are NaN or "
            "infinite; find where they were made, or drop the matrix",
            index,
        )


def require_symmetric(X: Tensor) -> None:
    """Raise InvalidMatrixError, naming the worst matrix, unless X is symmetric to √eps of its entries."""
    skew = (X - X.mT).abs().amax((-2, -1))
    size = X.abs().amax((-2, -1))
    relative = torch.where(skew == 0, 0.0, skew / size)
    if bool((relative > torch.finfo(X.dtype).eps ** 0.5).any()):
        index = worst_index(relative)
        raise InvalidMatrixError(
            f"{matrix_name(index)} of shape {tuple(X.shape)} is not symmetric: entries differ from "
            f"their mirror images by up to {float(skew[index]):.3g}; if that is rounding, pass "
            "alem.linalg.symmetrize(X)",
            index,
        )


def require_square(X: Tensor) -> None:
    """Raise InvalidMatrixError unless X is a float32 or float64 tensor of square matrices."""
    if not isinstance(X, Tensor):
        raise InvalidMatrixError(f"expected a torch tensor, got {type(X).__name__}; use torch.as_tensor")
    if X.ndim < 2 or X.shape[-1] != X.shape[-2]:
        raise InvalidMatrixError(
            f"expected square matrices (..., n, n), got shape {tuple(X.shape)}; signals "
            "(..., channels, samples) become matrices through covariance()"
        )
    if X.dtype not in (torch.float32, torch.float64):
        raise InvalidMatrixError(f"expected float32 or float64, got {X.dtype}; convert with X.double()")


def require_in_range(Y: Tensor, *causes: Tensor) -> None:
    """Raise InvalidMatrixError, naming the worst matrix, where Y `(..., n, n)` is not finite.

    If one of the ``causes`` of Y `(..., n, n)` is not finite either, it is that which is said.
    """
    if math.isfinite(Y.sum().item()) or bool(Y.isfinite().all()):  # the sum may be too large by itself
        return
    for cause in causes:
        require_finite(cause)
    index = worst_index((~Y.isfinite()).sum((-2, -1)).double())
    raise InvalidMatrixError(
        f"{matrix_name(index)} of the result, of shape {tuple(Y.shape)}, is too large for {Y.dtype}: scale "
        "the matrices, with TraceNorm say, shorten tangent vectors, or use double precision",
        index,
    )


def require_positive(x: Tensor) -> None:
    """Raise NotPositiveDefiniteError unless all eigenvalues x `(..., n)`, ascending, are positive."""
    smallest = x[..., 0] if x.shape[-1] else x.new_ones(())
    if smallest.numel() and not bool((smallest > 0).all()):
        index = worst_index(-smallest)
        least, most = float(smallest[index]), float(x[index][-1])
        raise NotPositiveDefiniteError(
            f"{matrix_name(index)} of a batch of shape {tuple(x.shape[:-1])} is not positive definite: its "
            f"smallest eigenvalue is {least:.3g} and its largest {most:.3g}; add a multiple of the "
            "identity, or clamp the eigenvalues",
            index,
        )
