"""Learning on symmetric positive definite matrices, with metrics that can themselves be learned."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alem import data as data
    from alem import estimators as estimators
    from alem import experiments as experiments
    from alem import geometry as geometry
    from alem import linalg as linalg
    from alem import models as models
    from alem import nn as nn
    from alem import optim as optim
    from alem import testing as testing
    from alem import training as training

__all__ = ["geometry", "linalg", "models", "nn", "optim"]
__version__ = "0.1.0"

# Rooms are imported when they are first asked for: some need more than torch, and the command line has to
# see to signals before a second goes by.
_ROOMS = (*__all__, "data", "estimators", "experiments", "testing", "training")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"alem.{name}")
    raise AttributeError(f"module 'alem' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})
