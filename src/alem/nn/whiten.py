"""The input in units of its own mean."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from alem import linalg
from alem.geometry import check_spd
from alem.linalg.precision import takes_half
from alem.nn.inputs import require_count, require_matrices


class Whiten(nn.Module):
    """R X R with R = M^-½, M the arithmetic mean of the training matrices: their mean becomes I.

    SPD `(..., n, n)` to the same. ``root`` is R, I until :meth:`calibrate` has seen the matrices; it is not
    learned. A congruence is an isometry of the affine-invariant metric, so nothing is lost; a log-Euclidean
    chart, which follows that metric near the identity only, then meets the data where it bends them least.
    (Barachant et al. 2013, "Classification of covariance matrices using a Riemannian-based kernel for BCI
    applications", for tangent spaces at the mean.)
    """

    root: Tensor

    def __init__(
        self, n: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        require_count("Whiten", "n", n)
        self.n = n
        self.register_buffer("root", torch.eye(n, device=device, dtype=dtype))

    def extra_repr(self) -> str:
        return f"n={self.n}"

    @torch.no_grad()
    def calibrate(self, blocks: Iterable[Tensor]) -> None:
        """Take R from the mean of the matrices in ``blocks``, each `(k, n, n)`; one pass over them."""
        total, count = torch.zeros_like(self.root), 0
        for X in blocks:
            require_matrices("Whiten", X, self.n, self.root)
            total += X.reshape(-1, self.n, self.n).sum(0)
            count += X.shape[:-2].numel()
        if count == 0:
            raise ValueError("Whiten needs a matrix at least to take the mean of, got none")
        self.root.copy_(linalg.inverse_sqrt(check_spd(linalg.symmetrize(total / count))))

    @takes_half
    def forward(self, X: Tensor) -> Tensor:
        require_matrices("Whiten", X, self.n, self.root)
        return linalg.unwhiten(self.root, X)
