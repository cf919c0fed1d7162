"""What configurations are called in tables and figures."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from alem.experiments.baselines import BASELINES
from alem.experiments.ledger import Record
from alem.experiments.method import NETWORKS
from alem.training import Recipe

METRICS = {name: name.upper() for name in ("lem", "lcm", "alem", "alcm", "aim", "bwm")}
# pyRiemann's names of the same metrics.
METRICS |= {"riemann": "AIM", "logeuclid": "LEM", "logchol": "LCM", "wasserstein": "BWM"}
LOGS = {
    **{rule: f"ALog-{rule.upper()}" for rule in ("mul", "div", "relu", "exp")},
    **{rule: f"ALog-{rule}" for rule in ("sinh", "rank", "gap")},
    "log2": "SPDNet-Log2",
    "log10": "SPDNet-Log10",
}
NORMS = {"spdnetbn": "SPDNetBN", "spdbn": "SPDBN"}
CLASSIFIERS = {"svm": "SVM"}
# A part of a split over which the tested samples of one seed are pooled.
POOLED = ("fold", "value", "samples")


def label(of: Mapping[str, Any], settings: Iterable[str] = ()) -> str:
    """The short name of a record or of its config: "SPDNet", "ALog-gap + LieBN-LEM", "MDM".

    ``settings``, names of options of model, recipe, split or data, are spelled out behind it.
    """
    config = of.get("config", of)
    model = config["model"]
    name = NAMES.get(model["kind"], lambda m: str(m["kind"]))(model)
    values = _settings(config)
    told = ", ".join(_setting(key, values.get(key)) for key in settings)
    return f"{name} ({told})" if told else name


def distinguish(records: Iterable[Record]) -> dict[str, str]:
    """The label of each group of records, by :func:`group_of`, no two alike.

    Groups of the same name get, in brackets, the settings in which they differ.
    """
    configs = {group_of(record): record["config"] for record in records}
    alike: dict[str, list[str]] = {}
    for group, config in configs.items():
        alike.setdefault(label(config), []).append(group)
    labels = {}
    for group, config in configs.items():
        others = alike[label(config)]
        # Of the group's form, in which what is pooled is left out; in the order of the config.
        values = [_settings(json.loads(other)) for other in others]
        keys = [*_settings(config), *(key for settings in values for key in settings)]
        apart = [
            key for key in dict.fromkeys(keys) if any(v.get(key) != values[0].get(key) for v in values)
        ]
        labels[group] = label(json.loads(group), apart)
    return labels


def group_of(record: Record) -> str:
    """The config as JSON without the seed and without which fold or group was tested on.

    An option that is younger than the record counts as its default.
    """
    config = {key: value for key, value in record["config"].items() if key != "seed"}
    config["model"] = _defaults(config["model"]["kind"]) | config["model"]
    if config.get("recipe"):
        config["recipe"] = asdict(Recipe()) | config["recipe"]
    split = {key: value for key, value in config.get("split", {}).items() if key not in POOLED}
    if split.get("within"):
        split["within"] = [column for column, _ in split["within"]]
    return json.dumps(config | {"split": split}, sort_keys=True)


def number(value: float) -> str:
    """Short decimals as they are; 0.0333… as 1/30 where it is the reciprocal of an integer."""
    text = f"{value:.12g}"
    if 0 < value < 1 and len(text) > 8:
        whole = round(1 / value)
        if abs(whole * value - 1) < 1e-9:
            return f"1/{whole}"
    return text


def _spdnet(model: Mapping[str, Any]) -> str:
    log, norm, head = model.get("log", "ln"), model.get("norm"), model.get("head", "linear")
    metric = _metric(model.get("metric", "lem"))
    parts = []
    if head == "gyro":
        parts.append(f"GyroMLR-{metric}")
    elif log != "ln":
        parts.append(LOGS.get(log, f"SPDNet-{log}"))
    if norm == "liebn":
        parts.append(f"LieBN-{metric}")
    elif norm is not None:
        parts.append(NORMS.get(norm, str(norm)))
    return " + ".join(parts) or "SPDNet"


def _metric(name: Any) -> str:
    return METRICS.get(name, str(name))


def _classifier(model: Mapping[str, Any], default: str) -> str:
    name = model.get("classifier", default)
    return CLASSIFIERS.get(name, str(name))


def _mean_distance(model: Mapping[str, Any]) -> str:
    metric = model.get("metric", "riemann")
    return "MDM" if metric == "riemann" else f"MDM-{_metric(metric)}"


NAMES = {
    "SPDNet": _spdnet,
    "RResNet": lambda model: f"RResNet-{_metric(model.get('metric'))}",
    "tangent-space": lambda model: (
        f"TangentSpace-{_metric(model.get('metric', 'riemann'))} + {_classifier(model, 'logistic')}"
    ),
    "log-euclidean": lambda model: f"log-Euclidean {_classifier(model, 'ridge')}",
    "mean-distance": _mean_distance,
}


@cache
def _defaults(kind: str) -> dict[str, Any]:
    """The options of a network or baseline that have defaults."""
    makers: dict[str, Callable[..., Any]] = {**NETWORKS, **BASELINES}
    if kind not in makers:
        return {}
    parameters = inspect.signature(makers[kind]).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Model, recipe, split and data in one level."""
    split = {"split" if key == "kind" else key: value for key, value in config.get("split", {}).items()}
    data = {"data" if key == "name" else key: value for key, value in config.get("data", {}).items()}
    return {**config["model"], **config.get("recipe", {}), **split, **data}


def _setting(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return key if value else f"no {key}"
    if isinstance(value, float):
        return f"{key}={number(value)}"
    if isinstance(value, (list, tuple)):
        return f"{key}={'-'.join(map(str, value))}"
    return f"{key}={'none' if value is None else value}"
