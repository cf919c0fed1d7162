"""Layers that are functions of the spectrum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from alem import linalg
from alem.geometry import (
    Diffeo,
    GapLog,
    MatrixLog,
    RankIncrementLog,
    RankLog,
    SinhArcsinhLog,
)
from alem.nn.fuse import Chart, Spectral, Stage, Unchart
from alem.nn.inputs import require_count


class ReEig(nn.Module):
    """U diag(max(σ_i, ε)) Uᵀ: raises small eigenvalues, as ReLU cuts off negative numbers.

    Symmetric `(..., n, n)` to SPD `(..., n, n)`. (Huang, Van Gool 2017, "A Riemannian network for SPD
    matrix learning".)
    """

    def __init__(self, eps: float = 1e-4) -> None:
        super().__init__()
        if not eps > 0:
            raise ValueError(f"eps must be positive, got {eps}: eigenvalues would be raised to {eps}")
        self.eps = eps
        self._clamp = linalg.Clamp(eps)

    def extra_repr(self) -> str:
        return f"eps={self.eps}"

    def function(self) -> tuple[linalg.SpectralMap, tuple[Tensor, ...]]:
        """max(σ, ε) as data."""
        return self._clamp, ()

    def forward(self, X: Tensor) -> Tensor:
        return linalg.clamp(X, self.eps)

    def fusable_stages(self) -> list[Stage]:
        return [Spectral((self.function,))]


class LogEig(nn.Module):
    """The matrix logarithm, SPD `(..., n, n)` to symmetric `(..., n, n)`."""

    def __init__(self) -> None:
        super().__init__()
        self.diffeo: Diffeo = MatrixLog()

    def forward(self, X: Tensor) -> Tensor:
        return self.diffeo.chart(X)

    def fusable_stages(self) -> list[Stage]:
        return [Chart(self.diffeo)]


class ExpEig(nn.Module):
    """The matrix exponential, symmetric `(..., n, n)` to SPD `(..., n, n)`."""

    def __init__(self) -> None:
        super().__init__()
        self.diffeo = MatrixLog()

    def forward(self, X: Tensor) -> Tensor:
        return self.diffeo.unchart(X)

    def fusable_stages(self) -> list[Stage]:
        return [Unchart(self.diffeo)]


RULES: dict[str, Callable[..., Diffeo]] = {
    "ln": lambda n: MatrixLog(),
    "log2": lambda n: MatrixLog(2.0),
    "log10": lambda n: MatrixLog(10.0),
    "mul": lambda n, **options: RankLog(n, "mul", **options),
    "div": lambda n, **options: RankLog(n, "div", **options),
    "relu": lambda n, **options: RankLog(n, "relu", **options),
    "exp": lambda n, **options: RankLog(n, "exp", **options),
    "sinh": lambda n: SinhArcsinhLog(),
    "rank": lambda n: RankIncrementLog(n),
    "gap": lambda n, **options: GapLog(**options),
}


# What the rules take beyond n.
OPTIONS: dict[str, str] = {**dict.fromkeys(RankLog.RULES, "ties"), "gap": "widths"}


class ALog(LogEig):
    """A logarithm that can be learned, SPD `(..., n, n)` to symmetric `(..., n, n)`.

    ``rule`` is one of

    - ``"mul"``, ``"div"``, ``"relu"``, ``"exp"``: the paper's U diag(log_{a_i} σ_i) Uᵀ, a base for each
      rank of the spectrum, with n parameters: the factors A_i = 1/ln a_i, their inverses B_i, the bases
      a_i themselves, and ln A_i. **Not continuous where eigenvalues meet** unless the factors are
      equal: a layer that can serve well, not a change of coordinates. See
      :class:`alem.geometry.RankLog`; ``ties=`` goes there;
    - ``"sinh"`` (3 parameters), ``"rank"`` (n), ``"gap"`` (9, or by ``widths=``): true charts;
    - ``"ln"``, ``"log2"``, ``"log10"``: fixed bases.

    Each learned one starts at the natural logarithm. What the paper leaves open:

    - *div near 0.* B_i is used as it is: the factor 1/B_i grows without bound as B_i nears 0 and changes
      sign beyond. B_i = 0 is an error on the CPU.
    - *relu at 1.* The base is max(10⁻⁶, a_i), and 1 + 10⁻⁶ where that is exactly 1; beyond 1 the factor
      changes sign, from ∞ to −∞. A base at 10⁻⁶ gets no gradient and stays there.
    - *Sign changes of A.* Allowed: mlog stays defined, with the order of those eigenvalues reversed.
      A_i = 0, which loses an eigenvalue, is an error on the CPU.

    ``"exp"`` keeps A_i > 0 and has none of these edges; a small ``metric_lr`` in the optimiser keeps the
    others away from theirs.
    """

    def __init__(
        self,
        n: int,
        rule: str = "mul",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        require_count("ALog", "n", n)
        if rule not in RULES:
            raise ValueError(f"no logarithm is called {rule!r}; there are {', '.join(RULES)}")
        for name in options:
            if name != OPTIONS.get(rule):
                takes = f"takes {OPTIONS[rule]}=" if rule in OPTIONS else "takes no options"
                raise TypeError(f"ALog got {name}=, and its rule {rule!r} {takes}")
        self.n, self.rule = n, rule
        self.diffeo = RULES[rule](n, **options).to(device=device, dtype=dtype)

    def extra_repr(self) -> str:
        return f"n={self.n}, rule={self.rule!r}"
