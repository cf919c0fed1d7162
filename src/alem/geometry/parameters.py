"""Parameters that live on a manifold: orthonormal matrices and SPD matrices.

They are geoopt's, so that geoopt's optimisers accept them as well as :mod:`alem.optim`. geoopt takes
half a second to import and is imported when the first such parameter is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from alem import linalg
from alem.geometry.validation import check_spd
from alem.linalg.errors import InvalidMatrixError, matrix_name, require_finite, worst_index

if TYPE_CHECKING:
    from typing import Self

    from alem.geometry.manifolds import Stiefel


class Constrained(nn.Module):
    """A module whose own parameters stay on their manifolds wherever torch makes new ones of them.

    torch puts plain parameters in their place when a module leaves the meta device (``to_empty``) and in
    ``load_state_dict(..., assign=True)``. A state that is not on the manifold is refused by
    ``load_state_dict``, with or without ``assign``, and the parameter stays as it was.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        manifolds = self._manifolds()
        super()._apply(fn, recurse)
        self._restore(manifolds)
        return self

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        manifolds = self._manifolds()
        for name, manifold in manifolds.items():
            key, own = prefix + name, self._parameters[name]
            value = state_dict.get(key)
            if not isinstance(value, Tensor) or own is None or value.shape != own.shape:
                continue  # for torch to report
            if reason := _why_not_on(manifold, value):
                error_msgs.append(f'the parameter "{key}" is not on the manifold {manifold.name}: {reason}')
                state_dict[key] = own.detach()
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        self._restore(manifolds)

    def _manifolds(self) -> dict[str, Any]:
        own = {name: getattr(p, "manifold", None) for name, p in self._parameters.items()}
        return {name: manifold for name, manifold in own.items() if manifold is not None}

    def _restore(self, manifolds: dict[str, Any]) -> None:
        """Wrap what has become a plain parameter."""
        for name, manifold in manifolds.items():
            p = self._parameters[name]
            if p is None or getattr(p, "manifold", None) is not None:
                continue
            from alem.geometry.manifolds import ManifoldParameter

            wrapped = ManifoldParameter(p.detach(), manifold=manifold, requires_grad=p.requires_grad)
            wrapped.grad = p.grad
            if torch.__future__.get_swap_module_params_on_conversion():
                torch.utils.swap_tensors(p, wrapped)  # the object is to stay the same, for optimisers
            else:
                self._parameters[name] = wrapped


def _why_not_on(manifold: Any, x: Tensor) -> str | None:
    """Why x is not on the manifold beyond √eps, or None.

    eps is that of float32 at least: a state may have been made in single precision, whatever it is now.
    """
    if x.is_meta:
        return None
    x = x.detach()
    if not bool(x.isfinite().all()):
        return "it has entries that are NaN or infinite"
    tolerance = max(torch.finfo(dtype).eps for dtype in (x.dtype, torch.float32)) ** 0.5
    _, reason = manifold.check_point_on_manifold(x.double(), atol=tolerance, rtol=tolerance, explain=True)
    return reason


def stiefel_parameter(W: Tensor) -> nn.Parameter:
    """A parameter whose rows, or columns if these are fewer, are orthonormal `(..., p, n)`.

    ‖WWᵀ − I‖ must not exceed √eps, far more than rounding leaves; steps then keep it at rounding.
    """
    from alem.geometry.manifolds import ManifoldParameter, Stiefel

    manifold = Stiefel()
    _require_orthonormal(W, manifold)
    return ManifoldParameter(W.detach(), manifold=manifold)


def spd_parameter(P: Tensor) -> nn.Parameter:
    """A parameter that is a symmetric positive definite matrix `(..., n, n)`, a copy of sym P.

    Its geometry is the affine-invariant one. P must pass :func:`alem.geometry.check_spd`.
    """
    from alem.geometry.manifolds import SPD, ManifoldParameter

    if not P.is_meta:
        check_spd(P)
    return ManifoldParameter(linalg.symmetrize(P.detach()), manifold=SPD())


def _require_orthonormal(W: Tensor, manifold: Stiefel) -> None:
    """Raise InvalidMatrixError, naming the worst matrix, unless W is on the manifold."""
    if W.ndim < 2 or 0 in W.shape:
        raise InvalidMatrixError(f"expected matrices (..., p, n), got shape {tuple(W.shape)}")
    if W.dtype not in (torch.float32, torch.float64):
        raise InvalidMatrixError(f"expected float32 or float64, got {W.dtype}; convert with W.float()")
    if W.is_meta:
        return
    require_finite(W)
    defect = manifold.defect(W.detach())
    if bool((defect > torch.finfo(W.dtype).eps ** 0.5).any()):
        index = worst_index(defect)
        rows, gram = ("rows", "WWᵀ") if W.shape[-2] <= W.shape[-1] else ("columns", "WᵀW")
        raise InvalidMatrixError(
            f"{matrix_name(index)} of shape {tuple(W.shape)} has no orthonormal {rows}: ‖{gram} − I‖ is "
            f"{float(defect[index]):.3g}; pass torch.nn.init.orthogonal_(W), or an orthonormal factor of W",
            index,
        )
