"""Matrices of several domains in one batch: sums and choices by domain, without a loop over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from alem.geometry.processes import Group
from alem.linalg.errors import can_inspect
from alem.nn.sync import are_several, total

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Domains:
    """The division of ``N`` matrices into D domains by ``index`` `(N,)`; without it D = 1."""

    N: int
    index: Tensor | None = None
    sizes: Tensor | None = None
    group: Group | None = None

    @classmethod
    def read(
        cls,
        X: Tensor,
        domain: Tensor | ArrayLike | None,
        count: int | None,
        group: Group | None = None,
    ) -> Domains:
        """From what a user passes with X `(..., n, n)` to a layer of ``count`` domains, or of none."""
        batch = X.shape[:-2]
        if count is None:
            if domain is not None:
                raise ValueError("SPDBN was made without domains and got one; make it with domains=D")
            return cls.one(X, group)
        if domain is None:
            raise ValueError(
                f"SPDBN was made for {count} domains and needs that of each matrix: forward(X, domain)"
            )
        if isinstance(domain, int) and not isinstance(domain, bool):
            _require_range(domain, domain, count)
            return cls.of(torch.full((batch.numel(),), domain, device=X.device), count, group)
        index = _integers(domain)
        if index.ndim and index.shape != batch:
            raise ValueError(
                f"domain has shape {tuple(index.shape)} and X {tuple(X.shape)}; there must be one index "
                f"for each matrix, shape {tuple(batch)}, or one int for all"
            )
        if can_inspect(index) and index.numel():
            _require_range(int(index.min()), int(index.max()), count)
        return cls.of(index.to(X.device).expand(batch).reshape(-1), count, group)

    @classmethod
    def one(cls, X: Tensor, group: Group | None = None) -> Domains:
        """All of X `(..., n, n)` in one domain, those of other processes too."""
        N = X.shape[:-2].numel()
        if not are_several(group):
            return cls(N)
        return cls.of(torch.zeros(N, dtype=torch.long, device=X.device), 1, group)

    @classmethod
    def of(cls, index: Tensor, count: int, group: Group | None = None) -> Domains:
        """From an index `(N,)` of numbers below ``count``; sizes are those of all processes together."""
        ones = torch.ones_like(index)
        sizes = total(ones.new_zeros(count).index_add(0, index, ones), group)
        return cls(index.numel(), index, sizes, group)

    def mean(self, values: Tensor) -> Tensor:
        """Means over the members of each domain, `(N, ...)` to `(D, ...)`; 0 where there are none."""
        if self.index is None or self.sizes is None:
            return values.mean(0, keepdim=True)
        shape = (self.sizes.shape[0], *values.shape[1:])
        totals = total(values.new_zeros(shape).index_add(0, self.index, values), self.group)
        return totals / _as_factor(self.sizes.clamp(min=1).to(values.dtype), totals)

    def each(self, values: Tensor) -> Tensor:
        """For each member the value of its domain, `(D, ...)` to `(N, ...)`; without an index as it is."""
        return values if self.index is None else values.index_select(0, self.index)

    def where_present(self, new: Tensor, old: Tensor, members: int = 1) -> Tensor:
        """``new`` `(D, ...)` for the domains that have so many members or more, ``old`` for the others."""
        if self.sizes is None:
            return new if members <= self.N else old
        return torch.where(_as_factor(self.sizes >= members, new), new, old)


def _as_factor(x: Tensor, like: Tensor) -> Tensor:
    """x `(D,)` with as many dimensions as ``like`` `(D, ...)`."""
    return x.reshape(-1, *(1 for _ in like.shape[1:]))


def _integers(domain: Tensor | ArrayLike) -> Tensor:
    """Domain indices as a tensor of torch.long; ValueError for anything but integers."""
    try:
        index = torch.as_tensor(domain)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"domain must be an int, or integers in a tensor, a list or an array, got {domain!r}"
        ) from error
    none_given = not isinstance(domain, Tensor) and index.numel() == 0  # an empty list has no dtype
    if not none_given and (index.is_floating_point() or index.is_complex() or index.dtype == torch.bool):
        raise ValueError(f"domain must hold integers, got {index.dtype}; convert with domain.long()")
    return index.long()


def _require_range(least: int, most: int, count: int) -> None:
    if least < 0 or most >= count:
        raise ValueError(
            f"domain indices run from {least} to {most}, and SPDBN was made for {count}: 0 to {count - 1}"
        )
