"""One differentiable operation, F(X) = U diag(φ(λ)) Uᵀ, and its derivatives.

What φ is, is data: a :class:`SpectralMap` states its values, its first derivative and, if it wants
to be exact at repeated eigenvalues, its second. This module turns that into autograd:

- :func:`spectral` is F, differentiable twice in X and in the parameters of φ;
- :func:`pushforward` is DF(X)[V], :func:`solve_pushforward` its inverse in V, both differentiable;
- :func:`jet` and :func:`solve_jet` return F(X) together with one of these, and
  :func:`displacement` solves DF(X)[V] = Y − F(X), each from one decomposition.

All of it works under ``torch.func`` (``grad``, ``vjp``, ``jvp``, ``vmap`` and ``vmap`` of ``grad``)
and under ``torch.compile(fullgraph=True)``. Derivatives of order three raise, rather than being
silently wrong.

In the eigenframe of X the derivatives are small formulas. With Ṽ = UᵀVU,

    DF(X)[V] = U (K ⊙ Ṽ + diag(C diag Ṽ)) Uᵀ,

K the divided differences of φ, and C the coupling between eigenvalues of a φ whose i-th value
depends on all of them; C is absent for a function applied to each eigenvalue by itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from alem.linalg import native
from alem.linalg.autograd import Function, apply, last_derivatives, zeros_for_none
from alem.linalg.eigh import decompose
from alem.linalg.errors import can_inspect, require_in_range, require_positive, require_square
from alem.linalg.precision import full_precision
from alem.linalg.spectral_map import SpectralMap, differences
from alem.linalg.vectorize import symmetrize


@full_precision
def spectral(X: Tensor, phi: SpectralMap, *parameters: Tensor) -> Tensor:
    """F(X) = U diag(φ(λ)) Uᵀ for symmetric X `(..., n, n)`; X is symmetrised first."""
    require_square(X)
    return apply(_Spectral, phi, X, *parameters)[0]


def pushforward(X: Tensor, V: Tensor, phi: SpectralMap, *parameters: Tensor) -> Tensor:
    """DF(X)[V], the derivative of F at X along symmetric V `(..., n, n)`."""
    return jet(X, V, phi, *parameters)[1]


def solve_pushforward(X: Tensor, W: Tensor, phi: SpectralMap, *parameters: Tensor) -> Tensor:
    """The V with DF(X)[V] = W."""
    return solve_jet(X, W, phi, *parameters)[1]


def jet(X: Tensor, V: Tensor, phi: SpectralMap, *parameters: Tensor) -> tuple[Tensor, Tensor]:
    """F(X) and DF(X)[V] from one decomposition."""
    return _with_derivative(X, V, phi, parameters, "apply")


def solve_jet(X: Tensor, W: Tensor, phi: SpectralMap, *parameters: Tensor) -> tuple[Tensor, Tensor]:
    """F(X) and the V with DF(X)[V] = W from one decomposition."""
    return _with_derivative(X, W, phi, parameters, "solve")


def displacement(X: Tensor, Y: Tensor, phi: SpectralMap, *parameters: Tensor) -> Tensor:
    """The V with DF(X)[V] = Y − F(X), from one decomposition."""
    return _with_derivative(X, Y, phi, parameters, "solve", relative=True)[1]


@full_precision
def _with_derivative(
    X: Tensor,
    V: Tensor,
    phi: SpectralMap,
    parameters: tuple[Tensor, ...],
    mode: str,
    relative: bool = False,
) -> tuple[Tensor, Tensor]:
    require_square(X)
    require_square(V)
    Y, x, U = apply(_Spectral, phi, X, *parameters)
    if relative:
        V = V - Y
    shape = torch.broadcast_shapes(X.shape, V.shape)
    result = apply(_Derivative, phi, mode, V.expand(shape), X.expand(shape), x, U, *parameters)
    if can_inspect(result):
        require_in_range(result.detach(), V.detach())
    return Y, result


def rotate(U: Tensor, A: Tensor) -> Tensor:
    """U A Uᵀ."""
    return U @ A @ U.mT


def hadamard(U: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """U (K ⊙ (UᵀVU)) Uᵀ for symmetric K and V; constants, not to be differentiated."""
    if _is_for_native(K, U, V):
        return native.hadamard(U, K, V)
    return rotate(U, K * rotate(U.mT, V))


def _recompose(U: Tensor, values: Tensor) -> Tensor:
    return (U * values[..., None, :]) @ U.mT


# Up to here all of it was measured beside torch; the products are made for matrices that fit into a cache.
_LARGEST_NATIVE = 128


def _is_for_native(*tensors: Tensor) -> bool:
    """Whether the native library is there and takes them, the first having n as its last dimension."""
    dtype = tensors[0].dtype
    return (
        dtype in native.DTYPES
        and 0 < tensors[0].shape[-1] <= _LARGEST_NATIVE
        and all(t.dtype == dtype and can_inspect(t) for t in tensors)
        and bool(native.instruction_sets())
    )


def _native_map(phi: SpectralMap, *tensors: Tensor, parameters: tuple[Tensor, ...]) -> native.Map | None:
    """φ for the native library, where that is there, has φ and takes these tensors."""
    if not _is_for_native(*tensors, *parameters):
        return None
    stages = phi.stages(tensors[0].shape[-1], *parameters)
    return None if stages is None else native.Map(stages)


class _Spectral(Function):
    """F(X), with the decomposition as two further outputs for whoever can reuse it."""

    @staticmethod
    def forward(phi: SpectralMap, X: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, U = decompose(symmetrize(X), True)
        if phi.positive and can_inspect(x):
            require_positive(x)
        native_map = _native_map(phi, x, U, parameters=parameters)
        if native_map is not None:
            Y = native.function(x, U, native_map)
        else:
            Y = _recompose(U, phi.values(x, *parameters))
        if phi.grows and can_inspect(Y):
            require_in_range(Y)
        return Y, x, U

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        phi, X, *parameters = inputs
        _, x, U = output
        ctx.phi = phi
        ctx.mark_non_differentiable(x, U)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(X, x, U, *parameters)
        ctx.save_for_forward(X, x, U, *parameters)

    @staticmethod
    def backward(ctx: Any, G: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        X, x, U, *parameters = ctx.saved_tensors
        grads: list[Tensor | None] = [None, None, *(None for _ in parameters)]
        if G is None:
            return tuple(grads)
        if not torch.is_grad_enabled():  # nobody will differentiate these again: both from one rotation
            native_map = _native_map(ctx.phi, x, U, G, parameters=parameters)
            if native_map is not None and (not any(ctx.needs_input_grad[2:]) or native_map.is_trainable):
                return None, *_native_gradients(native_map, ctx.needs_input_grad[1:], x, U, G, parameters)
        if ctx.needs_input_grad[1]:
            grads[1] = apply(_Derivative, ctx.phi, "adjoint", G, X, x, U, *parameters)
        if any(ctx.needs_input_grad[2:]):
            grads[2:] = apply(_ParameterGradient, ctx.phi, G, X, x, U, *parameters)
        return tuple(grads)


def _native_gradients(
    native_map: native.Map,
    needed: tuple[bool, ...],
    x: Tensor,
    U: Tensor,
    G: Tensor,
    parameters: tuple[Tensor, ...],
) -> tuple[Tensor | None, ...]:
    """Of ⟨G, F(X)⟩ in X and in the parameters."""
    sizes = [p.numel() for p in parameters] if any(needed[1:]) else []
    X_grad, joined = native.derivative(x, U, native_map, G, wanted=needed[0], parameters=sum(sizes))
    if joined is None:
        return X_grad, *(None for _ in parameters)
    if len(sizes) == 1:
        return X_grad, joined.reshape(parameters[0].shape)
    return X_grad, *(g.reshape(p.shape) for g, p in zip(joined.split(sizes), parameters, strict=True))


class _SpectralWithForwardMode(_Spectral):
    """The same with forward-mode differentiation, which Dynamo does not accept in a Function."""

    @staticmethod
    def jvp(ctx: Any, _: None, V: Tensor | None, *parameters_dot: Tensor | None) -> tuple[Any, ...]:
        X, x, U, *parameters = ctx.saved_tensors
        Y_dot = torch.zeros_like(X)
        if V is not None:
            Y_dot = apply(_Derivative, ctx.phi, "apply", V, X, x, U, *parameters)
        if any(dot is not None for dot in parameters_dot):
            dots = zeros_for_none(parameters, parameters_dot)
            moved = torch.func.jvp(lambda *p: ctx.phi.values(x, *p), tuple(parameters), dots)[1]
            # x and U are constants here, so nothing may be differentiated further
            (moved_Y,) = last_derivatives((_recompose(U, moved),), (X, *parameters))
            Y_dot = Y_dot + moved_Y
        return Y_dot, None, None


_TRANSPOSE = {
    "apply": "adjoint",
    "adjoint": "apply",
    "solve": "solve_adjoint",
    "solve_adjoint": "solve",
}


class _Derivative(Function):
    """DF(X)[V], DFᵀ(X)[V] or an inverse of one, by ``mode``, a method name of Differential."""

    @staticmethod
    def forward(
        phi: SpectralMap, mode: str, V: Tensor, X: Tensor, x: Tensor, U: Tensor, *parameters: Tensor
    ) -> Tensor:
        if mode in ("apply", "adjoint") and V.shape == U.shape:
            native_map = _native_map(phi, x, U, V, parameters=parameters)
            if native_map is not None:
                return native.derivative(x, U, native_map, V, mode == "adjoint")[0]  # type: ignore[return-value]
        differential = phi.first(x, differences(x), *parameters)
        return rotate(U, getattr(differential, mode)(rotate(U.mT, symmetrize(V))))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.phi, ctx.mode = inputs[:2]
        ctx.save_for_backward(*inputs[2:], output)
        ctx.save_for_forward(*inputs[2:], output)

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        V, _, x, U, *parameters, R = ctx.saved_tensors
        needed = ctx.needs_input_grad[3], any(ctx.needs_input_grad[6:])
        tensors = (G, V, x, U, R, *parameters)
        grads = _gradients_of_derivative(ctx.phi, ctx.mode, needed, *tensors)
        far = _far(x)
        if far is not None:
            wide = _gradients_of_derivative(ctx.phi, ctx.mode, needed, *(t.double() for t in tensors))
            for i, (one, other) in enumerate(zip(grads, wide, strict=True)):
                if one is not None and other is not None:
                    other = other.to(one.dtype)
                    grads[i] = torch.where(far[..., None, None], other, one) if i < 4 else other
        return (None, None, *last_derivatives(tuple(grads), (G, *ctx.saved_tensors)))


def _gradients_of_derivative(
    phi: SpectralMap,
    mode: str,
    needed: tuple[bool, bool],
    G: Tensor,
    V: Tensor,
    x: Tensor,
    U: Tensor,
    R: Tensor,
    *parameters: Tensor,
) -> list[Tensor | None]:
    """Of ⟨G, R⟩ in V, X, x, U and the parameters, R being what ``mode`` makes of V."""
    gaps = differences(x)
    differential = phi.first(x, gaps, *parameters)
    H, V, R = (rotate(U.mT, symmetrize(A)) for A in (G, V, R))
    B = getattr(differential, _TRANSPOSE[mode])(H)
    # ⟨G, R⟩ varies with X and the parameters as sign·⟨left, DF[right]⟩, both held fixed, does
    sign, left, right = {
        "apply": (1.0, H, V),
        "adjoint": (1.0, V, H),
        "solve": (-1.0, B, R),
        "solve_adjoint": (-1.0, R, B),
    }[mode]
    grads: list[Tensor | None] = [rotate(U, B), None, None, None, *(None for _ in parameters)]
    if needed[0]:
        grads[1] = sign * rotate(U, phi.second(x, gaps, left, right, *parameters))
    if needed[1]:
        vjp = torch.func.vjp(lambda *p: phi.first(x, gaps, *p).apply(right), *parameters)[1]
        grads[4:] = [sign * g for g in vjp(left)]
    return grads


def _far(x: Tensor) -> Tensor | None:
    """Which spectra have third powers, as second derivatives do, that float32 does not hold; or None.

    None too where they are not float32, or cannot be looked at.
    """
    if x.dtype != torch.float32 or not can_inspect(x) or not x.numel():
        return None
    size = x.abs()
    far = (size.amax(-1) > 1e12) | (size.amin(-1) < 1e-12)
    return far if bool(far.any()) else None


class _DerivativeWithForwardMode(_Derivative):
    """The same with forward-mode differentiation."""

    @staticmethod
    def jvp(
        ctx: Any, _: None, __: None, V_dot: Tensor | None, X_dot: Tensor | None, *dots: Tensor | None
    ) -> Tensor:
        V, _X, x, U, *parameters, R = ctx.saved_tensors
        phi, mode, gaps = ctx.phi, ctx.mode, differences(x)
        differential = phi.first(x, gaps, *parameters)
        inverse = mode.startswith("solve")
        frame = rotate(U.mT, symmetrize(R if inverse else V))
        # R = M V or M R = V, M the matrix of the mode: R_dot = M_dot V + M V_dot, or the solution of
        # M R_dot = V_dot − M_dot R.
        moved = torch.zeros_like(frame)
        if X_dot is not None:
            Z = rotate(U.mT, symmetrize(X_dot))

            def contraction(G: Tensor) -> Tensor:
                pair = (frame, G) if mode.endswith("adjoint") else (G, frame)
                return (phi.second(x, gaps, *pair, *parameters) * Z).sum()

            moved = moved + symmetrize(torch.func.grad(contraction)(torch.zeros_like(frame)))
        if any(dot is not None for dot in dots[2:]):
            plain = "adjoint" if mode.endswith("adjoint") else "apply"
            moved = (
                moved
                + torch.func.jvp(
                    lambda *p: getattr(phi.first(x, gaps, *p), plain)(frame),
                    tuple(parameters),
                    zeros_for_none(parameters, dots[2:]),
                )[1]
            )
        turned = torch.zeros_like(frame) if V_dot is None else rotate(U.mT, symmetrize(V_dot))
        if inverse:
            frame_dot = getattr(differential, mode)(turned - moved)
        else:
            frame_dot = getattr(differential, mode)(turned) + moved
        return last_derivatives((rotate(U, frame_dot),), (V, _X, *parameters))[0]


class _ParameterGradient(Function):
    """The gradient of ⟨G, F(X)⟩ in the parameters of φ, itself differentiable in G, X and them."""

    @staticmethod
    def forward(
        phi: SpectralMap, G: Tensor, X: Tensor, x: Tensor, U: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        vjp = torch.func.vjp(lambda *p: phi.values(x, *p), *parameters)[1]
        return tuple(vjp(rotate(U.mT, G).diagonal(dim1=-2, dim2=-1)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.phi = inputs[0]
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        G, _, x, U, *parameters = ctx.saved_tensors
        phi, gaps = ctx.phi, differences(x)
        frame_G = rotate(U.mT, symmetrize(G))

        def moved_values(*p: Tensor) -> Tensor:
            return torch.func.jvp(lambda *q: phi.values(x, *q), p, cotangents)[1]

        def transposed(*p: Tensor) -> Tensor:
            return phi.first(x, gaps, *p).adjoint(frame_G)

        values_dot, vjp = torch.func.vjp(moved_values, *parameters)[:2]
        X_grad = torch.func.jvp(transposed, tuple(parameters), cotangents)[1]
        parameter_grads = vjp(frame_G.diagonal(dim1=-2, dim2=-1))
        grads = (_recompose(U, values_dot), rotate(U, X_grad), None, None, *parameter_grads)
        return (None, *last_derivatives(grads, (*cotangents, *ctx.saved_tensors)))


_Spectral.eager = _SpectralWithForwardMode
_Derivative.eager = _DerivativeWithForwardMode
_ParameterGradient.eager = _ParameterGradient
