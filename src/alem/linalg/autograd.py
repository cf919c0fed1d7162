"""What the library's autograd Functions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class Function(torch.autograd.Function):
    """An autograd Function; ``eager`` is the variant of it to use outside compiled graphs."""

    generate_vmap_rule = True
    eager: type[Function]


class _ThirdDerivative(Function):
    """The identity, tied to the inputs of a second derivative so that a third one raises."""

    @staticmethod
    def forward(value: Tensor, *inputs: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        raise NotImplementedError(_NO_THIRD)

    @staticmethod
    def jvp(ctx: Any, *_: Tensor | None) -> Tensor:
        raise NotImplementedError(_NO_THIRD)


_NO_THIRD = (
    "spectral functions have derivatives of order one and two only (the second in their parameters by "
    "reverse mode); exp, log, inner and transport of a metric contain the first already"
)


def last_derivatives(grads: tuple[Any, ...], inputs: tuple[Tensor, ...]) -> tuple[Any, ...]:
    """``grads`` as they are where nobody can differentiate them; else such that doing so raises."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return grads
    return tuple(None if g is None else _ThirdDerivative.apply(g, *inputs) for g in grads)


def apply(function: type[Function], *args: Any) -> Any:
    """``function.apply`` in the form that suits the moment.

    In eager mode the variant with forward-mode differentiation, which Dynamo does not accept. In a
    compiled graph where nothing needs a gradient the bare forward, because there Dynamo takes a
    Function with a variable number of arguments to expect a context.
    """
    if not torch.compiler.is_compiling():
        if torch._C._are_functorch_transforms_active():
            return function.eager.apply(*args)
        # What that comes to here, without its looking up the signature of forward, which takes longer than
        # many a kernel.
        args = torch._functorch.utils.unwrap_dead_wrappers(args)
        return super(torch.autograd.Function, function.eager).apply(*args)  # type: ignore[misc]
    if torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in args):
        return function.apply(*args)
    return function.forward(*args)


def zeros_for_none(values: Sequence[Tensor], dots: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    """The tangents ``dots``, with zeros for those that are absent."""
    pairs = zip(values, dots, strict=True)
    return tuple(torch.zeros_like(value) if dot is None else dot for value, dot in pairs)


class Opaque:
    """A function whose control flow depends on values, made acceptable to compiled graphs and ``vmap``.

    Called plainly in eager mode; as the operator ``name`` of ``torch.library``, for which
    ``register_fake`` and ``register_vmap`` are needed, in compiled graphs and inside transforms. (The
    first call of any such operator imports the compiler, which takes a second.) It has no derivative:
    call it on detached tensors.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._function = function
        self._operator = torch.library.custom_op(name, function, mutates_args=())
        self.register_fake = self._operator.register_fake
        self.register_vmap = self._operator.register_vmap

    def __call__(self, *args: Any) -> Any:
        # Inside a transform also where the tensors are not wrapped, as in the rules of vmap.
        if (
            torch.compiler.is_compiling()
            or torch._C._functorch.peek_interpreter_stack() is not None
            or torch._C._get_tracing_state() is not None
        ):
            return self._operator(*args)
        if not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return self._function(*args)  # to switch gradients off and on takes longer than a small call
        with torch.no_grad():
            return self._function(*args)


def opaque(name: str) -> Callable[[Callable[..., Any]], Opaque]:
    """Decorate a function as :class:`Opaque`."""
    return lambda function: Opaque(name, function)
