"""Fitted estimators in a file: tensors as safetensors, parameters and the rest as JSON in its header."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from torch import Tensor

from alem.data import limits
from alem.training import CheckpointError, read_tensors, save_tensors

if TYPE_CHECKING:
    from alem.estimators.spdnet import _SPDNetEstimator

E = TypeVar("E", bound="_SPDNetEstimator")
PLAIN = (type(None), bool, int, float, str)


def save(estimator: _SPDNetEstimator, path: Path) -> None:
    """Write a fitted estimator, with the parameters it was fitted with, whole or not at all."""
    tensors = {f"last.{key}": t for key, t in estimator.last_weights_.items()}
    tensors |= {f"best.{key}": t for key, t in (estimator.best_weights_ or {}).items()}
    parameters = {key: _plain(key, value) for key, value in estimator.fitted_params_.items()}
    header = {"kind": type(estimator).__name__, "parameters": parameters, "fitted": estimator._facts()}
    save_tensors(path, tensors, {"estimator": header})


def load(cls: type[E], path: Path, device: str) -> E:
    """The estimator in a file."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; check the path")
    tensors, header = read_tensors(path)
    try:
        header = header["estimator"]
        if header["kind"] != cls.__name__:
            raise CheckpointError(f"{path} holds a {header['kind']}; load it with {header['kind']}.load")
        _require_finite(header["parameters"])
        estimator = cls(**{**header["parameters"], "device": device})
        _require_weights(estimator, header["fitted"], tensors)
        estimator._restore(header["fitted"])
        broken = [key for key, t in tensors.items() if not t.isfinite().all()]
        if broken:
            raise ValueError(f"{broken[0]} is not finite")
        own = {which: _starting_with(f"{which}.", tensors) for which in ("last", "best")}
        estimator.last_weights_, estimator.best_weights_ = own["last"], own["best"] or None
        for which, state in own.items():  # the best ones too, now and not when they are asked for
            if state:
                estimator.use_weights(which)
        return estimator.use_weights(header["fitted"]["weights_in_use"])
    except CheckpointError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} is no file of {cls.__name__}.save, or one that was changed: "
            f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
        ) from None


def _require_finite(parameters: dict[str, Any]) -> None:
    """JSON may hold NaN, which no bound of a parameter refuses."""
    for key, value in parameters.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{key} is {value}")


def _require_weights(
    estimator: _SPDNetEstimator, facts: dict[str, Any], tensors: dict[str, Tensor]
) -> None:
    """Raise ValueError if the network would have more weights than the file: before it is built."""
    there = sum(t.numel() for key, t in tensors.items() if key.startswith("last."))
    sizes = [facts["n_features"], *estimator._sizes(facts["n_features"])]
    # Weights of each BiMap, and of a head that takes a triangle of the last matrix at least.
    needed = sum(a * b for a, b in pairwise(sizes)) + facts["n_outputs"] * sizes[-1] * (sizes[-1] + 1) // 2
    whole = all(type(n) is int and n > 0 for n in (*sizes, facts["n_outputs"]))
    if not whole or needed > there or max(sizes) ** 2 > max(there, limits.FREE // 8):
        raise ValueError(f"sizes {sizes} and {facts['n_outputs']} outputs of {there} weights")


def _starting_with(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON holds it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(name, v) for v in value]
    if not isinstance(value, PLAIN):
        raise TypeError(
            f"{name}={value!r} cannot be written as JSON: a file holds names and numbers only; pickle the "
            "estimator, or fit it with such a value"
        )
    return value
