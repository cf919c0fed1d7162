"""SPD matrices where a map that is no chart shows it: by the place of their eigenvalues and by ties."""

from __future__ import annotations

import torch
from torch import Tensor

from alem import linalg

GAPS = (1.0, 1e-3, 1e-6)  # of two neighbouring logarithms of eigenvalues: apart, and nearly tied


def log_spectra(n: int, gap: float) -> Tensor:
    """Ascending logarithms of eigenvalues, `(n − 1, 3, n)`.

    In row i the neighbours i and i + 1 are ``gap`` apart; of the three, one has all eigenvalues above 1,
    one all below, and one on both sides.
    """
    steps = torch.full((n - 1, n - 1), 1 / (n - 1), dtype=torch.float64).fill_diagonal_(gap)
    t = torch.cat([torch.zeros(n - 1, 1, dtype=torch.float64), steps.cumsum(-1)], -1)
    return torch.stack([1 + t, t - 1 - t[:, -1:], t - t[:, -1:] / 2], 1)


def quarter_turn(t: Tensor) -> Tensor:
    """The log-spectra `(n − 1, 3, n)` with the neighbours of each row exchanged: one plane is rotated."""
    t = t.clone()
    for i, row in enumerate(t):
        row[:, [i, i + 1]] = row[:, [i + 1, i]]
    return t


def with_spectra(t: Tensor, generator: torch.Generator) -> Tensor:
    """U exp(t) Uᵀ `(..., n, n)` for log-spectra `(..., n)`, with frames U drawn from the generator."""
    U = torch.linalg.qr(torch.randn(*t.shape, t.shape[-1], generator=generator, dtype=t.dtype))[0]
    return linalg.symmetrize(U * t.exp().unsqueeze(-2) @ U.mT)


def tied_spectra(X: Tensor) -> Tensor:
    """Symmetric matrices `(N, n, n)` with eigenvalues that repeat, of the size of those of X.

    In turn multiples of the identity, diagonal ones with two equal entries, and rotated ones in which two
    eigenvalues are equal to rounding.
    """
    values, U = linalg.eigh(linalg.symmetrize(X))
    values[0::3] = values[0::3].mean(-1, keepdim=True)
    values[..., :2] = values[..., :2].mean(-1, keepdim=True)
    tied = linalg.symmetrize(U * values.unsqueeze(-2) @ U.mT)
    diagonal = torch.diag_embed(values)
    tied[0::3], tied[1::3] = diagonal[0::3], diagonal[1::3]
    return tied
