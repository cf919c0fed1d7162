"""Neighbouring layers on one decomposition.

A layer says in a method ``fusable_stages()`` what it is made of: a step into a chart, something there,
a step back. In a run of layers a step back and a step into the same chart cancel, and functions of the
spectrum that follow each other become one. What is computed stays the same, to rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from alem import linalg
from alem.geometry import Diffeo, RankLog, SpectralChart
from alem.geometry.diffeo import SpectralFunction, require_size
from alem.linalg import Chain

Stage = Callable[..., Tensor]


@dataclass(frozen=True)
class Chart:
    """The step into a chart."""

    diffeo: Diffeo

    def __call__(self, X: Tensor) -> Tensor:
        return self.diffeo.chart(X)

    def spectral(self) -> Spectral | None:
        """The same as a function of the spectrum, if it is one and nothing else."""
        if not isinstance(self.diffeo, SpectralChart):
            return None
        return Spectral((self.diffeo.function,), self.diffeo.n)


@dataclass(frozen=True)
class Unchart:
    """The step back from a chart."""

    diffeo: Diffeo

    def __call__(self, X: Tensor) -> Tensor:
        return self.diffeo.unchart(X)

    def spectral(self) -> Spectral | None:
        """As for :class:`Chart`; the paper's chart has no inverse, and warnings to give."""
        if not isinstance(self.diffeo, SpectralChart) or isinstance(self.diffeo, RankLog):
            return None
        return Spectral((self.diffeo.inverse,), self.diffeo.n)


@dataclass(frozen=True)
class Spectral:
    """Functions of the spectrum of n×n matrices, innermost first, from one decomposition."""

    functions: tuple[Callable[[], SpectralFunction], ...]
    n: int | None = None

    def __call__(self, X: Tensor) -> Tensor:
        require_size(X, self.n)
        phi, parameters = self.composed()
        return linalg.spectral(X, phi, *(p.to(X.dtype) for p in parameters))

    def composed(self) -> SpectralFunction:
        """The one function they are, with all parameters."""
        phi, parameters = self.functions[0]()
        for function in self.functions[1:]:
            outer, more = function()
            phi, parameters = Chain(outer, phi), (*parameters, *more)
        return phi, parameters

    def spectral(self) -> Spectral | None:
        """Itself."""
        return self

    def then(self, outer: Spectral) -> Spectral | None:
        """Both as one; None where ``outer`` needs a decomposition of its own."""
        if not Chain.possible(outer.composed()[0], self.composed()[0]):
            return None
        return Spectral(self.functions + outer.functions, outer.n if self.n is None else self.n)


def stages(module: nn.Module) -> list[Stage]:
    """What a module is made of; itself where it does not say."""
    if isinstance(module, nn.Sequential | Fused):
        return [stage for child in module for stage in stages(child)]
    own: Callable[[], list[Stage]] = getattr(module, "fusable_stages", lambda: [module])
    return own()


def joined(steps: list[Stage]) -> list[Stage]:
    """The same steps with inverse neighbours dropped and functions of the spectrum composed."""
    result: list[Stage] = []
    for step in steps:
        last = result[-1] if result else None
        if isinstance(last, Unchart) and isinstance(step, Chart) and step.diffeo.is_same(last.diffeo):
            result[-1] = step.diffeo.flat  # all that is left of both: gradients stay in the flat space
        else:
            result.append(step)
    composed: list[Stage] = []
    for step in result:
        composed.append(step)
        if len(composed) > 1 and (both := _compose(composed[-2], step)):
            composed[-2:] = [both]
    return composed


def _compose(inner: Stage, outer: Stage) -> Spectral | None:
    first, second = _spectral(inner), _spectral(outer)
    return None if first is None or second is None else first.then(second)


def _spectral(step: Stage) -> Spectral | None:
    return step.spectral() if isinstance(step, Chart | Unchart | Spectral) else None


class Fused(nn.Module):
    """A run of layers that shares decompositions; made by :func:`fuse`.

    Its children and the names of their parameters are those of the ``nn.Sequential`` it was made of.
    Hooks of children whose work was joined are not called.
    """

    def __init__(self, children: dict[str, nn.Module]) -> None:
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)
        self._steps = joined(stages(self))

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self._modules.values())  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int) -> nn.Module:
        return list(self)[index]

    def forward(self, X: Tensor, domain: Tensor | int | None = None) -> Tensor:
        """``domain`` goes to the layers that take one."""
        for step in self._steps:
            takes_domain = domain is not None and getattr(step, "takes_domain", False)
            X = step(X, domain) if takes_domain else step(X)
        return X

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_steps"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._steps = joined(stages(self))


def fuse(module: nn.Module) -> nn.Module:
    """A module that computes the same with fewer decompositions; the parameters are shared.

    Every ``nn.Sequential`` in it, itself included, becomes a :class:`Fused`: neighbouring functions of
    the spectrum (ReEig and a logarithm, say) share one decomposition, and the step out of a chart at
    the end of one layer cancels with the step into it of the next (LieBN and a logarithm, say) where
    both are the same chart: of one metric object, or without parameters. Values and gradients agree
    with the unfused ones to rounding. ``module`` is left as it is, and ``state_dict`` keeps its keys.
    """
    if isinstance(module, Fused):
        return module
    children = {name: fuse(child) for name, child in module.named_children()}
    if isinstance(module, nn.Sequential):
        return Fused(children)
    if all(child is module._modules[name] for name, child in children.items()):
        return module
    fused = copy.copy(module)
    fused._modules = {**module._modules, **children}
    return fused
