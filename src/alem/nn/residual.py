"""Riemannian residual blocks."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from alem import linalg
from alem.geometry import Constrained, Metric, stiefel_parameter
from alem.linalg.precision import full_precision, takes_half
from alem.nn.chart_norm import CoordinateNorm
from alem.nn.inputs import require_matrices, require_metric


class SpectrumResponse(nn.Module):
    """f: `(..., n)` to `(..., n)`, three convolutions along the ascending spectrum, 1 → 3 → 3 → 1 channels.

    Kernels of five, with batch norm and LeakyReLU between them. Convolutions before a batch norm have no
    bias, which it would remove.
    """

    CHANNELS, KERNEL = 3, 5

    def __init__(self) -> None:
        super().__init__()
        sizes = ((1, self.CHANNELS), (self.CHANNELS, self.CHANNELS), (self.CHANNELS, 1))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(a, b, self.KERNEL, padding="same", bias=b == 1) for a, b in sizes
        )
        self.norms = nn.ModuleList(CoordinateNorm(self.CHANNELS) for _ in sizes[:-1])

    def forward(self, spectrum: Tensor) -> Tensor:
        x = spectrum.reshape(-1, 1, spectrum.shape[-1])
        *inner, last = cast("list[nn.Conv1d]", list(self.convolutions))
        for convolution, norm in zip(inner, self.norms, strict=True):
            x = nn.functional.leaky_relu(norm(_convolved(x, convolution).mT).mT)
        return _convolved(x, last).reshape(spectrum.shape)


def _convolved(x: Tensor, convolution: nn.Conv1d) -> Tensor:
    """``convolution(x)`` with all digits, being part of a geometric layer."""
    return _conv1d(x, convolution.weight, convolution.bias, padding=convolution.kernel_size[0] // 2)


_conv1d = full_precision(nn.functional.conv1d)


class RResBlock(Constrained):
    """Exp_S(ℓ(S)) with the spectral field ℓ(S) = Q diag(f(spec S)) Qᵀ, SPD `(..., n, n)` to the same.

    Exp is the exponential map of the metric, Q = ``frame`` an orthogonal matrix that is learned,
    f = ``response`` a map of spectra in ascending order, by default :class:`SpectrumResponse`. A
    response of zero makes the block the identity. A metric that is not complete is refused: its
    geodesics may end before they arrive.

    The length of a field in the metric grows without bound as eigenvalues of S shrink, and on real
    covariance matrices its exponential overflows. So the block goes along ℓ/(1 + ‖ℓ‖_S/c), of a length
    below c = ``limit``; ``limit=None`` is the bare formula.

    (Katsman et al. 2023, "Riemannian residual neural networks".)
    """

    def __init__(
        self,
        n: int,
        metric: Metric,
        response: nn.Module | None = None,
        limit: float | None = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        require_metric("RResBlock", metric, n)
        if not metric.is_complete:
            raise ValueError(
                f"RResBlock follows geodesics as far as its field says, and those of "
                f"{type(metric).__name__} end where they meet a singular matrix; take a complete metric"
            )
        if limit is not None and not limit > 0:
            raise ValueError(f"limit must be positive, or None for no limit, got {limit}")
        self.n, self.limit = n, limit
        self.metric = metric
        Q = nn.init.orthogonal_(torch.empty(n, n, device=device, dtype=dtype))
        self.frame = stiefel_parameter(Q)
        self.response = (SpectrumResponse() if response is None else response).to(Q)

    def extra_repr(self) -> str:
        return f"n={self.n}, limit={self.limit}"

    @takes_half
    def field(self, S: Tensor) -> Tensor:
        """ℓ(S), a tangent vector at S."""
        require_matrices("RResBlock", S, self.n, self.frame)
        response = self.response(linalg.eigvalsh(linalg.symmetrize(S)))
        return linalg.unwhiten(self.frame, torch.diag_embed(response))

    @takes_half
    def forward(self, S: Tensor) -> Tensor:
        V = self.field(S)
        return self.metric.exp(S, V) if self.limit is None else self.metric.bounded_exp(S, V, self.limit)
