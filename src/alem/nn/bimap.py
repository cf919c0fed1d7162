"""The linear layer of SPD networks."""

from __future__ import annotations

import torch
from torch import Tensor

from alem import linalg
from alem.geometry import Constrained, stiefel_parameter
from alem.linalg.precision import product, takes_half
from alem.nn.inputs import require_matrices


class BiMap(Constrained):
    """W S Wᵀ with W `(n_out, n_in)` on the Stiefel manifold.

    SPD `(..., n_in, n_in)` to SPD `(..., n_out, n_out)`. For n_out ≤ n_in the rows of W are orthonormal.
    For n_out > n_in its columns are, and the directions that W does not reach get the identity:
    W S Wᵀ + (I − WWᵀ), whose logarithm is W log(S) Wᵀ. So it is SPD, the identity goes to the identity,
    and distances, means and products under the Log-Euclidean metric are kept.

    W starts at eigenvectors of VVᵀ for its largest eigenvalues, V uniform in [0, 1), as in the code of
    Brooks et al. 2019. Within autocast the products, and they alone, are made in its dtype; the output is
    in float32 and its small eigenvalues, below 2⁻⁸ of the largest in bfloat16, are noise, which may be
    negative: follow with ReEig. (Huang, Van Gool 2017, "A Riemannian network for SPD matrix learning".)
    """

    def __init__(
        self,
        n_in: int,
        n_out: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if n_in < 1 or n_out < 1:
            raise ValueError(f"BiMap needs matrices of size 1 at least, got n_in={n_in}, n_out={n_out}")
        self.n_in, self.n_out = n_in, n_out
        small, large = sorted((n_in, n_out))
        V = torch.rand(large, large, device=device, dtype=dtype)
        W = linalg.eigh(product(V, V.mT))[1][:, -small:].flip(-1)
        self.weight = stiefel_parameter((W.mT if n_out <= n_in else W).contiguous())

    def extra_repr(self) -> str:
        return f"n_in={self.n_in}, n_out={self.n_out}"

    @takes_half
    def forward(self, X: Tensor) -> Tensor:
        require_matrices("BiMap", X, self.n_in, self.weight)
        Y = linalg.congruence(self.weight, X)
        if self.n_out <= self.n_in:
            return Y
        rest = torch.eye(self.n_out, dtype=Y.dtype, device=X.device) - product(self.weight, self.weight.mT)
        return Y + linalg.symmetrize(rest)
