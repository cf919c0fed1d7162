"""What is trained: a network of :mod:`alem.models`, or a baseline, as data that a file can hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from alem import models
from alem.training import Recipe, seeded

NETWORKS: dict[str, Callable[..., nn.Module]] = {"SPDNet": models.SPDNet, "RResNet": models.RResNet}


def one_bimap(share: float, n: int) -> tuple[int, ...]:
    """The sizes after the input's of a network with one BiMap, to ``share`` of n; of 0 there is none."""
    return (max(1, round(share * n)),) if share else ()


@dataclass(frozen=True)
class Method:
    """A network, its options and its recipe; or, without a recipe, a baseline and its options.

    ``dims`` are the sizes after the input's.
    """

    kind: str
    dims: tuple[int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    recipe: Recipe | None = None

    @property
    def is_network(self) -> bool:
        """Whether it is trained by :func:`alem.training.fit`."""
        return self.recipe is not None

    def build(self, n: int, n_classes: int, seed: int) -> nn.Module:
        """The network at its start, in the dtype of the recipe."""
        assert self.recipe is not None
        make = NETWORKS[self.kind]
        return seeded(
            seed, lambda: make([n, *self.dims], n_classes, **dict(self.options)), self.recipe.torch_dtype
        )

    def config(self, whole: bool = False) -> dict[str, Any]:
        """Model and recipe as plain data: what differs from the defaults, or ``whole``, all of it."""
        model: dict[str, Any] = {"kind": self.kind, "dims": list(self.dims)}
        recipe: dict[str, Any] = {}
        options = dict(self.options)
        if self.recipe is not None:
            parameters = inspect.signature(NETWORKS[self.kind]).parameters.values()
            defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
            options = {k: v for k, v in (defaults | options).items() if whole or defaults.get(k) != v}
            every, usual = vars(self.recipe), vars(Recipe())
            recipe = {k: v for k, v in every.items() if whole or v != usual[k]}
        return {"model": model | options, "recipe": recipe}
