"""Mixed precision: what ``torch.autocast`` and TF32 may lower, and what they never do.

Only BiMap and layers on vectors follow them. Everything else passes a door, :func:`full_precision`, on
its way in. Nothing is asked there but whether something is lowered; if so, it is one of two ways to keep
all digits, of the derivatives too:

- In eager mode the door switches autocast off, and has each node of the graph that was recorded behind it
  do the same when it is its turn in the backward pass, which may run inside of the region.
- A compiled graph traces its backward pass under the autocast of its forward; a transform of ``torch.func``
  differentiates at once; and TF32 is a setting of the whole process, which one thread cannot change for
  itself. There the door takes float32 up to float64, which none of them lowers, and back.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")
Class = TypeVar("Class", bound=type)

# As a name of this module: a look at each door is most of what one costs where nothing is lowered.
is_any_autocast = torch._C._is_any_autocast_enabled

DEVICES = ("cpu", "cuda")
HALVES = (torch.bfloat16, torch.float16)
HAS_CUDA = torch.backends.cuda.is_built()


def _with_code_of_its_own(wrapper: Callable[P, R]) -> Callable[P, R]:
    """For ``torch.compile``, which keeps what it compiled, up to a limit, by code object."""
    wrapper.__code__ = wrapper.__code__.replace(co_name=wrapper.__name__)
    return wrapper


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` of tensors, computed in float32 or float64 also where products are lowered.

    Within ``torch.autocast`` tensors in half precision are taken up to float32.
    """

    @functools.wraps(function)
    def door(*args: P.args, **kwargs: P.kwargs) -> R:
        if is_any_autocast() or (HAS_CUDA and _are_tf32()):
            return _passed(function, args, kwargs)
        return function(*args, **kwargs)

    return _with_code_of_its_own(door)


def full_precision_methods(cls: Class) -> Class:
    """``cls`` with every public method of arguments that it defines itself :func:`full_precision`."""
    for name, value in list(vars(cls).items()):
        if inspect.isfunction(value) and value.__code__.co_argcount > 1 and not name.startswith("_"):
            setattr(cls, name, full_precision(value))
    return cls


@full_precision
def product(A: Tensor, B: Tensor) -> Tensor:
    """A B, with all digits."""
    return A @ B


def takes_half(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, given float32 where within autocast it is called with half precision.

    For functions without products of their own, and layers that leave these to functions behind doors.
    """

    @functools.wraps(function)
    def taking(*args: P.args, **kwargs: P.kwargs) -> R:
        if is_any_autocast():
            return function(*_taken_up(args), **{name: _taken_up(value) for name, value in kwargs.items()})
        return function(*args, **kwargs)

    return _with_code_of_its_own(taking)


def product_dtype(X: Tensor) -> torch.dtype:
    """The dtype in which autocast has products of X made; that of X where it is off, and for float64."""
    kind = X.device.type
    if X.dtype == torch.float64 or not is_any_autocast():
        return X.dtype
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else X.dtype


def outside_autocast(function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """``function(*args, **kwargs)`` with autocast switched off meanwhile."""
    for kind in DEVICES:
        if torch.is_autocast_enabled(kind):
            with torch.autocast(kind, enabled=False):
                return outside_autocast(function, *args, **kwargs)
    return function(*args, **kwargs)


def _passed(function: Callable[..., R], args: Any, kwargs: Any) -> R:
    """``function(*args, **kwargs)`` in full precision, one way or the other."""
    tensors = [t for t in _tensors((args, tuple(kwargs.values()))) if t.is_floating_point()]
    autocast = is_any_autocast()
    if not autocast and not any(t.is_cuda and t.dtype == torch.float32 for t in tensors):
        return function(*args, **kwargs)  # TF32 is a matter of CUDA alone
    if not autocast or _differentiates_elsewhere() or (HAS_CUDA and _are_tf32()):
        return _in_double(function, args, kwargs, tensors)
    args, kwargs = _taken_up(args), {name: _taken_up(value) for name, value in kwargs.items()}
    start = torch._C._autograd._get_sequence_nr()
    result = outside_autocast(function, *args, **kwargs)
    if torch.is_grad_enabled():
        _keep_backward_outside(result, start)
    return result


def _are_tf32() -> bool:
    """Whether CUDA multiplies float32 in TF32, by either setting of torch, which guards graphs by it."""
    return bool(torch._C._get_fp32_precision_getter("cuda", "matmul") == "tf32")


# What torch.compiler.assume_constant_result does; but that imports the compiler, which takes a second.
_are_tf32._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _differentiates_elsewhere() -> bool:
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def _in_double(function: Callable[..., R], args: Any, kwargs: Any, tensors: list[Tensor]) -> R:
    """``function(*args, **kwargs)`` in float64; the result in float32, unless float64 was given."""
    lower = (torch.float32, *HALVES) if is_any_autocast() else (torch.float32,)
    args = _converted(args, lower, torch.float64)
    kwargs = {name: _converted(value, lower, torch.float64) for name, value in kwargs.items()}
    result = outside_autocast(function, *args, **kwargs)
    if not tensors or any(t.dtype == torch.float64 for t in tensors):
        return result
    return _converted(result, (torch.float64,), torch.float32)


def _keep_backward_outside(result: Any, start: int) -> None:
    """Have the nodes behind ``result`` that were made since ``start`` switch autocast off when they run."""
    nodes = [t.grad_fn for t in _tensors(result)]
    end, seen = torch._C._autograd._get_sequence_nr(), set()
    while nodes:
        node = nodes.pop()
        # The nodes of parameters have the largest number there is.
        if node is None or node in seen or not start <= node._sequence_nr() < end:
            continue
        seen.add(node)
        node.register_prehook(_switch_off)
        nodes += [following for following, _ in node.next_functions]


def _switch_off(_: Any) -> None:
    """For the rest of one node: autograd restores the state before each."""
    for kind in DEVICES:
        if torch.is_autocast_enabled(kind):
            torch.set_autocast_enabled(kind, False)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)


def _taken_up(value: Any) -> Any:
    return _converted(value, HALVES, torch.float32)


def _converted(value: Any, lower: tuple[torch.dtype, ...], dtype: torch.dtype) -> Any:
    """``value`` with the tensors in it that are in one of ``lower`` in ``dtype``."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.dtype in lower else value
    if type(value) in (tuple, list):
        return type(value)(_converted(one, lower, dtype) for one in value)
    return value
