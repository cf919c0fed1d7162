"""Second moments of batched signals, and shrinkage towards a multiple of the identity.

Normalisation is 1/T, as in ``sklearn.covariance``. The shrinkage coefficients do not change when
the signal is scaled; they are computed from ``C/μ``, ``μ = tr(C)/p``, so that fourth powers of
volts or teslas neither overflow nor vanish in single precision.
"""

from __future__ import annotations

import torch
from torch import Tensor

from alem.linalg.errors import InvalidMatrixError, can_inspect, matrix_name, require_square, worst_index
from alem.linalg.precision import full_precision
from alem.linalg.scalar import number_like
from alem.linalg.vectorize import symmetrize


@full_precision
def covariance(
    x: Tensor,
    shrinkage: float | str | None = None,
    loading: float = 0.0,
    assume_centered: bool = False,
) -> Tensor:
    """The covariance ``C = (1/T) Σ_t (x_t − x̄)(x_t − x̄)ᵀ`` over the last dimension.

    ``shrinkage`` gives ``(1−s) C + s (tr C/p) I``, with s the number given, or estimated from the
    signal by ``"ledoit-wolf"`` or ``"oas"``. Then ``loading`` gives ``C + loading · tr(C) · I``;
    the trace itself, not the mean eigenvalue. ``assume_centered`` takes x̄ = 0.

    Shapes: ``(..., channels, samples)`` to ``(..., channels, channels)``.
    """
    _require_signal(x, assume_centered)
    require_estimator(shrinkage, loading)
    centred, C = _centred_moment(x, assume_centered)
    if isinstance(shrinkage, str):
        C = shrink(C, _COEFFICIENTS[shrinkage](centred, C))
    elif shrinkage is not None:
        C = shrink(C, shrinkage)
    return C + _scaled_identity(loading * _trace(C), C) if loading else C


def require_estimator(shrinkage: float | str | None, loading: float) -> None:
    """Raise ValueError unless :func:`covariance` knows these."""
    if loading < 0:
        raise ValueError(f"loading must not be negative, got {loading}")
    if isinstance(shrinkage, str):
        if shrinkage not in _COEFFICIENTS:
            raise ValueError(
                f"unknown shrinkage {shrinkage!r}; choose None, a number in [0, 1], "
                + " or ".join(repr(name) for name in _COEFFICIENTS)
            )
    elif shrinkage is not None and not 0 <= shrinkage <= 1:
        raise ValueError(f"shrinkage must lie in [0, 1], got {shrinkage}")


@full_precision
def shrink(C: Tensor, coefficient: float | Tensor) -> Tensor:
    """``(1−s) C + s (tr C/p) I``: towards the multiple of the identity with the same trace.

    Shapes: C ``(..., p, p)``, the coefficient s a number or ``(...)``, to ``(..., p, p)``.
    """
    require_square(C)
    s = number_like(coefficient, C)
    return (1 - s)[..., None, None] * C + _scaled_identity(s * _trace(C) / C.shape[-1], C)


@full_precision
def ledoit_wolf_shrinkage(x: Tensor, assume_centered: bool = False) -> Tensor:
    """The coefficient ``min(β, δ)/δ`` of Ledoit and Wolf (2004), 0 where δ = 0.

    ``δ = ‖C − μI‖²_F`` and ``β = (1/T²) Σ_t ‖x_t x_tᵀ − C‖²_F``, the latter by
    ``(1/T) ((1/T) Σ_t ‖x_t‖⁴ − ‖C‖²_F)``: no matrix per sample. "A well-conditioned estimator for
    large-dimensional covariance matrices", J. Multivariate Analysis 88.

    Shapes: ``(..., channels, samples)`` to ``(...)``.
    """
    _require_signal(x, assume_centered)
    return _ledoit_wolf(*_centred_moment(x, assume_centered))


@full_precision
def oas_shrinkage(x: Tensor, assume_centered: bool = False) -> Tensor:
    """The oracle approximating coefficient ``min(1, (tr C² + tr² C)/((T+1)(tr C² − tr² C/p)))``.

    As in scikit-learn: eq. 23 of Chen, Wiesel, Eldar and Hero (2010, "Shrinkage algorithms for
    MMSE covariance estimation", IEEE Trans. Signal Processing 58) without its terms 2/p; 1 where
    the denominator is 0, but 0 for a single channel, which no shrinkage changes.

    Shapes: ``(..., channels, samples)`` to ``(...)``.
    """
    _require_signal(x, assume_centered)
    return _oas(*_centred_moment(x, assume_centered))


def _ledoit_wolf(x: Tensor, C: Tensor) -> Tensor:
    mu, relative, delta = _relative(C)
    power = x.square().sum(-2) / mu[..., None]
    beta = (power.square().mean(-1) - relative.square().sum((-2, -1))) / x.shape[-1]
    return _ratio(beta, delta, otherwise=0.0)


def _oas(x: Tensor, C: Tensor) -> Tensor:
    p = C.shape[-1]
    _, relative, delta = _relative(C)
    # Over μ² all along; tr C² − tr² C/p is ‖C − μI‖², which does not cancel.
    numerator = relative.square().sum((-2, -1)) + p * p
    return _ratio(numerator, (x.shape[-1] + 1) * delta, otherwise=0.0 if p == 1 else 1.0)


_COEFFICIENTS = {"ledoit-wolf": _ledoit_wolf, "oas": _oas}


def _relative(C: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``μ``, ``C/μ`` and ``‖C/μ − I‖²_F``; 1, 0 and 0 for C = 0."""
    mu = _trace(C) / C.shape[-1]
    zero = mu == 0
    mu = mu.masked_fill(zero, 1.0)
    relative = C / mu[..., None, None]
    deviation = relative - torch.eye(C.shape[-1], dtype=C.dtype, device=C.device)
    return mu, relative, deviation.square().sum((-2, -1)).masked_fill(zero, 0.0)


def _ratio(numerator: Tensor, denominator: Tensor, otherwise: float) -> Tensor:
    """Their quotient cut to [0, 1], and ``otherwise`` where the denominator is 0; NaN stays."""
    zero = denominator == 0
    quotient = numerator / denominator.masked_fill(zero, 1.0)
    return quotient.clamp(0.0, 1.0).masked_fill(zero, otherwise)


def _trace(C: Tensor) -> Tensor:
    return C.diagonal(dim1=-2, dim2=-1).sum(-1)


def _scaled_identity(scale: Tensor, C: Tensor) -> Tensor:
    return scale[..., None, None] * torch.eye(C.shape[-1], dtype=C.dtype, device=C.device)


def _centred_moment(x: Tensor, assume_centered: bool) -> tuple[Tensor, Tensor]:
    """``x − x̄`` and its second moment."""
    centred = x if assume_centered else x - x.mean(-1, keepdim=True)
    C = symmetrize(centred @ centred.mT / x.shape[-1])
    if can_inspect(C):
        _require_finite(x.detach(), C.detach())
    return centred, C


def _require_signal(x: Tensor, assume_centered: bool) -> None:
    if not isinstance(x, Tensor):
        raise InvalidMatrixError(f"expected a torch tensor, got {type(x).__name__}; use torch.as_tensor")
    if x.dtype not in (torch.float32, torch.float64):
        raise InvalidMatrixError(
            f"a covariance needs float32 or float64, got {x.dtype}; convert with x.float() or x.double()"
        )
    if x.ndim < 2:
        raise InvalidMatrixError(
            f"expected signals (..., channels, samples), got shape {tuple(x.shape)}; a single "
            "channel is x[None, :]"
        )
    channels, samples = x.shape[-2:]
    if channels == 0 or samples < (1 if assume_centered else 2):
        raise InvalidMatrixError(
            f"{channels} channels and {samples} samples (shape {tuple(x.shape)}, read as "
            "(..., channels, samples)) have no covariance: at least one channel and two samples "
            "are needed, or one sample with assume_centered=True"
        )


def _require_finite(x: Tensor, C: Tensor) -> None:
    """Raise, naming the place in x, unless C is finite; its diagonal tells, at p looks, not pT."""
    finite = C.diagonal(dim1=-2, dim2=-1).isfinite()
    if finite.all():
        return
    *index, channel = worst_index((~finite).to(C.dtype))
    good = x[(*index, channel)].isfinite()
    if good.all():
        fault = f"is too large to square in {x.dtype}; scale it down or use double precision"
    else:
        sample = int((~good).to(C.dtype).argmax())
        value = x[(*index, channel, sample)].item()
        fault = f"is {value} at sample {sample}; repair, interpolate or drop it"
    raise InvalidMatrixError(
        f"{matrix_name(tuple(index))} of signals of shape {tuple(x.shape)}: channel {channel} "
        f"{fault} before taking covariances",
        tuple(index),
    )
