"""Fitted estimators in a file: tensors as safetensors, parameters and the rest as JSON in its header."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from alem.training import CheckpointError, read_tensors, save_tensors

if TYPE_CHECKING:
    from alem.estimators.spdnet import _SPDNetEstimator

E = TypeVar("E", bound="_SPDNetEstimator")
PLAIN = (type(None), bool, int, float, str)


def save(estimator: _SPDNetEstimator, path: Path) -> None:
    """Write a fitted estimator, whole or not at all."""
    tensors = {f"last.{key}": t for key, t in estimator.last_weights_.items()}
    tensors |= {f"best.{key}": t for key, t in (estimator.best_weights_ or {}).items()}
    parameters = {key: _plain(key, value) for key, value in estimator.get_params(deep=False).items()}
    header = {"kind": type(estimator).__name__, "parameters": parameters, "fitted": estimator._facts()}
    save_tensors(path, tensors, {"estimator": header})


def load(cls: type[E], path: Path, device: str) -> E:
    """The estimator in a file."""
    tensors, header = read_tensors(path)
    try:
        header = header["estimator"]
        if header["kind"] != cls.__name__:
            raise CheckpointError(f"{path} holds a {header['kind']}; load it with {header['kind']}.load")
        estimator = cls(**{**header["parameters"], "device": device})
        estimator._restore(header["fitted"])
        own = {
            which: {
                key.removeprefix(f"{which}."): t
                for key, t in tensors.items()
                if key.startswith(f"{which}.")
            }
            for which in ("last", "best")
        }
        estimator.last_weights_, estimator.best_weights_ = own["last"], own["best"] or None
        return estimator.use_weights(header["fitted"]["weights_in_use"])
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} is no file of {cls.__name__}.save, or one that was changed: "
            f"{type(error).__name__}: {' '.join(str(error).split())}"
        ) from None


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON holds it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(name, v) for v in value]
    if not isinstance(value, PLAIN):
        raise TypeError(
            f"{name}={value!r} cannot be written as JSON: a file holds names and numbers only; pickle the "
            "estimator, or set_params to such a value before saving"
        )
    return value
