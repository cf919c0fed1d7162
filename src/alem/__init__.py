"""Learning on symmetric positive definite matrices, with metrics that can themselves be learned."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from alem import geometry, linalg, models, nn, optim

if TYPE_CHECKING:
    from alem import data, estimators, experiments, testing, training

__all__ = [
    "data",
    "estimators",
    "experiments",
    "geometry",
    "linalg",
    "models",
    "nn",
    "optim",
    "testing",
    "training",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Rooms that need more than torch are imported when they are first asked for."""
    if name in __all__:
        return import_module(f"alem.{name}")
    raise AttributeError(f"module 'alem' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
