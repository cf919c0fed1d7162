"""Learning on symmetric positive definite matrices, with metrics that can themselves be learned."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from alem import geometry, linalg, models, nn, optim

if TYPE_CHECKING:
    from alem import data as data
    from alem import estimators as estimators
    from alem import experiments as experiments
    from alem import testing as testing
    from alem import training as training

__all__ = ["geometry", "linalg", "models", "nn", "optim"]
__version__ = "0.1.0"

# Rooms that need more than torch are imported when they are first asked for.
_LATER = ("data", "estimators", "experiments", "testing", "training")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return import_module(f"alem.{name}")
    raise AttributeError(f"module 'alem' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
