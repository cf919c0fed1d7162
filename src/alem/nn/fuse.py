"""Neighbouring layers on one decomposition.

A layer says in a method ``fusable_stages()`` what it is made of: a step into a chart, something there,
a step back. In a run of layers a step back and a step into the same chart cancel, and functions of the
spectrum that follow each other become one. What is computed stays the same, to rounding.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from alem import linalg
from alem.geometry import Diffeo, RankLog, SpectralChart
from alem.geometry.diffeo import SpectralFunction, require_size
from alem.linalg import Chain
from alem.linalg.precision import full_precision

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
        """As for :class:`Chart`; the paper's chart has no inverse, and a warning to give."""
        if not isinstance(self.diffeo, SpectralChart):
            return None
        warn = self.diffeo.warn_unless_exact if isinstance(self.diffeo, RankLog) else None
        return Spectral((self.diffeo.inverse,), self.diffeo.n, warn)


@dataclass(frozen=True)
class Spectral:
    """Functions of the spectrum of n×n matrices, innermost first, from one decomposition.

    ``look``, if there is one, is shown what comes in.
    """

    functions: tuple[Callable[[], SpectralFunction], ...]
    n: int | None = None
    look: Callable[[Tensor], None] | None = None

    @full_precision
    def __call__(self, X: Tensor) -> Tensor:
        require_size(X, self.n)
        if self.look is not None:
            self.look(X)
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
        if outer.look is not None or not Chain.possible(outer.composed()[0], self.composed()[0]):
            return None
        return Spectral(self.functions + outer.functions, outer.n if self.n is None else self.n, self.look)


class Part(NamedTuple):
    """A layer of a run, and the stages it is made of."""

    module: nn.Module
    stages: list[Stage]


def parts(module: nn.Module) -> list[Part]:
    """The layers of a run. One that does not say what it is made of, or has hooks, is a stage itself."""
    if _is_plain_run(module):
        return [part for child in _children(module).values() for part in parts(child)]
    if _has_hooks(module) or not _says_what_forward_does(module):
        return [Part(module, [module])]
    return [Part(module, module.fusable_stages())]  # type: ignore[operator]


def _children(module: nn.Module) -> dict[str, nn.Module]:
    """By name, a child that is there twice also twice."""
    return {name: child for name, child in module._modules.items() if child is not None}


def _is_plain_run(module: nn.Module) -> bool:
    return type(module).forward in (nn.Sequential.forward, Fused.forward) and not _has_hooks(module)


def _says_what_forward_does(module: nn.Module) -> bool:
    """Whether it has stages, and they were written with the forward that is in use."""

    def writer(name: str) -> type | None:
        return next((cls for cls in type(module).__mro__ if name in vars(cls)), None)

    stages = writer("fusable_stages")
    return stages is not None and stages is writer("forward") and "forward" not in vars(module)


def _hooks(module: nn.Module) -> tuple[Any, ...]:
    return (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )


def _has_hooks(module: nn.Module) -> bool:
    return any(_hooks(module))


def joined(run: list[Part]) -> list[Stage]:
    """The stages with inverse neighbours dropped and functions of the spectrum composed.

    A layer all of whose stages are left as they were stands for them itself.
    """
    steps: list[tuple[Stage, int | None]] = [
        (stage, place) for place, part in enumerate(run) for stage in part.stages
    ]
    for join in (_cancel, _compose):
        kept: list[tuple[Stage, int | None]] = []
        for stage, place in steps:
            both = join(kept[-1][0], stage) if kept else None
            if both is None:
                kept.append((stage, place))
            else:
                kept[-1] = (both, None)
        steps = kept
    result: list[Stage] = []
    for place, group in itertools.groupby(steps, key=lambda step: step[1]):
        stages = [stage for stage, _ in group]
        intact = place is not None and len(stages) == len(run[place].stages)
        result += [run[place].module] if intact and place is not None else stages
    return result


def _cancel(first: Stage, second: Stage) -> Stage | None:
    """What is left of a step out of a chart and one into it: gradients stay in the flat space."""
    if not (isinstance(first, Unchart) and isinstance(second, Chart)):
        return None
    return second.diffeo.flat if second.diffeo.is_same(first.diffeo) else None


def _compose(inner: Stage, outer: Stage) -> Spectral | None:
    first, second = _spectral(inner), _spectral(outer)
    return None if first is None or second is None else first.then(second)


def _spectral(stage: Stage) -> Spectral | None:
    return stage.spectral() if isinstance(stage, Chart | Unchart | Spectral) else None


class Fused(nn.Module):
    """A run of layers that shares decompositions; made by :func:`fuse`.

    Its children and the names of their parameters are those of the ``nn.Sequential`` it was made of; they
    may be replaced, and may have hooks: a layer with a hook is not joined with its neighbours.
    """

    def __init__(self, children: dict[str, nn.Module]) -> None:
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)
        self._plan()

    def _plan(self) -> None:
        inside = [*self.modules()][1:]
        self._children = tuple(self._modules.values())
        self._seen = [(module, tuple(module._modules.values())) for module in inside]
        self._hooks = [hooks for module in inside for hooks in _hooks(module)]
        self._hooked = [bool(hooks) for hooks in self._hooks]
        self._stages = joined(parts(self))

    def _is_planned(self) -> bool:
        """Whether the plan was made for the modules there are, and for the hooks they have."""
        return (
            tuple(self._modules.values()) == self._children
            and all(tuple(module._modules.values()) == children for module, children in self._seen)
            and [bool(hooks) for hooks in self._hooks] == self._hooked
        )

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(_children(self).values())

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int | slice) -> nn.Module:
        if isinstance(index, slice):
            return Fused(dict(list(_children(self).items())[index]))
        return list(self)[index]

    def forward(self, X: Tensor, domain: Tensor | int | None = None) -> Tensor:
        """``domain`` goes to the layers that take one."""
        if not torch.compiler.is_compiling() and not self._is_planned():
            self._plan()
        if domain is not None and not any(getattr(m, "takes_domain", False) for m in self._stages):
            raise ValueError("domain was given, and none of the layers takes one; SPDBN(n, domains=D) does")
        for stage in self._stages:
            takes_domain = domain is not None and getattr(stage, "takes_domain", False)
            X = stage(X, domain) if takes_domain else stage(X)
        return X

    def __getstate__(self) -> dict[str, Any]:
        planned = ("_children", "_seen", "_hooks", "_hooked", "_stages")
        return {name: value for name, value in self.__dict__.items() if name not in planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._plan()


def fuse(module: nn.Module) -> nn.Module:
    """A module that computes the same with fewer decompositions; the parameters are shared.

    Every ``nn.Sequential`` in it, itself included, becomes a :class:`Fused`: neighbouring functions of
    the spectrum (ReEig and a logarithm, say) share one decomposition, and the step out of a chart at
    the end of one layer cancels with the step into it of the next (LieBN and a logarithm, say) where
    both are the same chart: of one metric object, or without parameters. Values and gradients agree
    with the unfused ones to rounding. ``module`` is left as it is, and ``state_dict`` keeps its keys.
    """
    return _fuse(module, {})


def _fuse(module: nn.Module, made: dict[nn.Module, nn.Module]) -> nn.Module:
    if module in made:
        return made[module]
    children = {name: _fuse(child, made) for name, child in _children(module).items()}
    fused = module
    if _is_plain_run(module) and not isinstance(module, Fused):
        fused = Fused(children)
        fused.training = module.training
    elif any(child is not module._modules[name] for name, child in children.items()):
        fused = copy.copy(module)
        fused._modules = {**module._modules, **children}
    made[module] = fused
    return fused
