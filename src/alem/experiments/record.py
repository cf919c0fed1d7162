"""What a line of results must be before anything is made of it: it may come from anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Kind = Callable[[Any], bool]
# Below it a whole number is one as a double too.
_WHOLE = 2**53
# Of names and options: they are drawn. Of classes and folds: they make squares and sets.
_LONG, _MANY = 1000, 4096
# Classes are counted in a square, of half a gigabyte at most; parameters with names are drawn one by one.
_CLASSES, _NAMED = 8192, 64


class UnfitError(ValueError):
    """A record is not what a run has made; the message says which part."""


def require_record(record: Any) -> None:
    """Raise UnfitError unless tables, figures and reports can be made of ``record``."""
    _require(_RECORD, record, "")
    split = record["config"].get("split", {})
    if split.get("kind") == "fold" and not 0 <= split.get("fold", 0) < split.get("folds", 0):
        raise UnfitError("config.split.fold")
    _require_history(record["history"])
    _require_places(record)


def _require(kinds: Mapping[str, Kind], value: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise UnfitError(where or "no object")
    for key, kind in kinds.items():
        if key not in value and key not in _MAY_BE_ABSENT:
            raise UnfitError(f"{where}{key}, which is missing")
        if key in value and not kind(value[key]):
            raise UnfitError(f"{where}{key}")


def _require_history(history: dict[str, list[float]]) -> None:
    epochs = len(history.get("loss", ()))
    if any(len(values) > epochs for values in history.values()):
        raise UnfitError("history, which is longer than its losses")
    if epochs and any(len(history.get(key, ())) != epochs for key in ("train_accuracy", "test_accuracy")):
        raise UnfitError("history, which lacks accuracies")
    if not all(map(_finite, history.get("seconds", ()))):
        raise UnfitError("history.seconds")


def _require_places(record: Mapping[str, Any]) -> None:
    guesses, targets = record["predictions"], record["targets"]
    if guesses is None:
        return
    classes = range(len(record["classes"]))
    if not len(guesses) == len(targets) == record["tested"]:
        raise UnfitError("predictions, which are not one for each sample")
    if not all(i in classes for i in guesses) or not all(i in classes for i in targets):
        raise UnfitError("predictions or targets, which are no places among the classes")


# What a value can be.


def _whole(value: Any) -> bool:
    return type(value) is int and abs(value) < _WHOLE


def _seed(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _counted(value: Any) -> bool:
    return _whole(value) and value > 0


def _number(value: Any) -> bool:
    return type(value) is float or _whole(value)


def _real(value: Any) -> bool:
    return _number(value) and math.isfinite(value)


def _finite(value: Any) -> bool:
    return _real(value) and value >= 0


def _share(value: Any) -> bool:
    return _finite(value) and value <= 1


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONG


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, bool) or _number(value) or _name(value)


def _option(value: Any) -> bool:
    return _plain(value) or _list(_plain, _LONG)(value)


def _list(kind: Kind, most: float = math.inf) -> Kind:
    return lambda value: isinstance(value, list) and len(value) <= most and all(map(kind, value))


def _dict(kind: Kind) -> Kind:
    return lambda value: (
        isinstance(value, dict) and all(map(_name, value)) and all(map(kind, value.values()))
    )


def _or_none(kind: Kind) -> Kind:
    return lambda value: value is None or kind(value)


def _of(kinds: Mapping[str, Kind]) -> Kind:
    def fits(value: Any) -> bool:
        _require(kinds, value, "")
        return True

    return fits


def _pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_name, value))


def _model(value: Any) -> bool:
    single = ("kind", "log", "norm", "head", "metric", "classifier")
    return (
        _dict(_option)(value)
        and isinstance(value.get("kind"), str)
        and all(_plain(value[key]) for key in single if key in value)
    )


def _recipe(value: Any) -> bool:
    return _dict(_option)(value) and (not value or _counted(value.get("epochs")))


def _chart(value: Any) -> bool:
    _require({"kind": _name, "parameters": _dict(_list(_real, _MANY))}, value, "learned.")
    lengths = {key: len(own) for key, own in value.get("parameters", {}).items()}
    if "multipliers" in value:
        return _list(_real, _MANY)(value["multipliers"]) and len(value["multipliers"]) > 0
    match value["kind"]:
        case "GapLog":
            return lengths.get("theta", 0) == lengths.get("log_width", 0) + 1 > 1
        case "SinhArcsinhLog":
            return lengths.get("theta") == 3
        case "RankIncrementLog" | "AdaptiveCholeskyLog":
            return lengths.get("theta", 0) > 0
    return 0 < sum(lengths.values()) <= _NAMED


def _quantiles(value: Any) -> bool:
    return (
        _list(_list(_real, _MANY), 3)(value) and len({len(row) for row in value}) == 1 and len(value) == 3
    )


_MAY_BE_ABSENT = {
    "train_accuracy",
    "test_accuracy",
    "split",
    "within",
    "column",
    "value",
    "fold",
    "folds",
    "parameters",
    "learned",
    "spectra",
    "recipe",
}
_SPLIT: dict[str, Kind] = {
    "kind": _name,
    "column": _name,
    "value": _name,
    "fold": _whole,
    "folds": lambda value: _whole(value) and 0 <= value <= _MANY,
    "within": _list(_pair, _MANY),
}
_CONFIG: dict[str, Kind] = {
    "data": _of({"name": _name, "fingerprint": _name}),
    "split": lambda value: _dict(_option_or_pairs)(value) and _of(_SPLIT)(value),
    "model": _model,
    "recipe": _recipe,
    "seed": _seed,
}
_HISTORY: dict[str, Kind] = {
    "train_accuracy": _list(_share),
    "test_accuracy": _list(_share),
}
_RECORD: dict[str, Kind] = {
    "key": _name,
    "config": _of(_CONFIG),
    "samples": _of({"size": _counted, "repaired": _text}),
    "classes": _list(_text, _CLASSES),
    "trained": _counted,
    "tested": _counted,
    "stopped": _or_none(_text),
    "accuracy": _share,
    "history": lambda value: _dict(_list(_real))(value) and _of(_HISTORY)(value),
    "predictions": _or_none(_list(_whole)),
    "targets": _list(_whole),
    "parameters": _or_none(_whole),
    "learned": _or_none(_dict(_chart)),
    "spectra": _or_none(_of({"before": _quantiles, "after": _quantiles})),
    "seconds": _finite,
    "warnings": _list(_text),
    "versions": _dict(_name),
    "threads": _counted,
    "device": _name,
    "command": _text,
}


def _option_or_pairs(value: Any) -> bool:
    return _option(value) or _list(_pair, _MANY)(value)
