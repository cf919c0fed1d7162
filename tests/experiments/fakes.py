"""Records as :meth:`alem.experiments.run.Run.execute` gives them, made up."""

from __future__ import annotations

import json
from typing import Any

MODEL = {
    "kind": "SPDNet",
    "dims": [5],
    "log": "ln",
    "norm": None,
    "head": "linear",
    "chart_norm": False,
    "dropout": 0.0,
    "trace_norm": False,
    "metric": "lem",
    "vec": "full",
    "eps": 1e-4,
}
RECIPE = {
    "optimizer": "rsgd",
    "lr": 1e-2,
    "metric_lr": 1.0,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "schedule": "constant",
    "epochs": 8,
    "batch_size": 30,
    "dtype": "float64",
    "max_norm": None,
}
CLASSES = ["wave", "clap", "drink", "sit"]
LEARNED = {
    "mul": {"kind": "RankLog", "rule": "mul", "parameters": {"weight": [1.0, 0.9, 1.1, 1.2, 0.5]}},
    "sinh": {"kind": "SinhArcsinhLog", "parameters": {"theta": [0.1, 0.3, -0.1]}},
    "rank": {"kind": "RankIncrementLog", "parameters": {"theta": [0.0, 0.1, 0.2, -0.1, 0.3]}},
    "gap": {
        "kind": "GapLog",
        "parameters": {"theta": [0.1, 0.0, 0.1, 0.2, 0.4], "log_width": [0.0, 0.7, 1.3, 2.0]},
    },
}
LEARNED["mul"]["multipliers"] = LEARNED["mul"]["parameters"]["weight"]  # type: ignore[index]


def record(
    right: int = 8,
    tested: int = 10,
    seed: int = 0,
    model: dict[str, Any] | None = None,
    recipe: dict[str, Any] | None = None,
    split: dict[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A network that gets ``right`` of ``tested`` right, and was better in the epoch before."""
    options = MODEL | (model or {})
    config = {
        "data": {"name": "fakes", "fingerprint": "0123456789abcdef"},
        "split": {"kind": "given"} | (split or {}),
        "model": options,
        "recipe": RECIPE | (recipe or {}),
        "seed": seed,
    }
    targets = [i % len(CLASSES) for i in range(tested)]
    guesses = [target if i < right else (target + 1) % len(CLASSES) for i, target in enumerate(targets)]
    test = [0.1 * i + 0.01 * seed for i in range(6)] + [0.99, right / tested]
    rising = [-5.0, -3.0, -2.0, -1.0, 0.0]
    quantiles = [[value + shift for value in rising] for shift in (-1.0, 0.0, 1.0)]
    chart = LEARNED.get(str(options["log"]))
    given: dict[str, Any] = {
        "format": 1,
        "config": config,
        "samples": {"size": 7, "repaired": ""},
        "classes": CLASSES,
        "trained": 20,
        "tested": tested,
        "stopped": None,
        "accuracy": right / tested,
        "history": {
            "loss": [2.0 / (i + 1 + seed) for i in range(8)],
            "train_accuracy": [0.1 * (i + 1) for i in range(8)],
            "test_accuracy": test,
            "seconds": [0.1 + 0.01 * (i % 3) for i in range(8)],
        },
        "predictions": guesses,
        "targets": targets,
        "parameters": 1234,
        "learned": {"layers.log.diffeo": chart} if chart else {},
        "spectra": {"quantiles": [0.05, 0.5, 0.95], "before": quantiles, "after": quantiles},
        "seconds": 1.5 + seed,
        "warnings": [],
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "threads": 1,
        "device": "cpu",
        "command": "alem table fakes --seeds 3",
    }
    given |= changes
    return given | {"key": given.get("key", json.dumps(given["config"], sort_keys=True))}


def stopped(after: int, why: str, **changes: Any) -> dict[str, Any]:
    """A training that ended after so many whole epochs."""
    made = record(**changes)
    history = {key: values[:after] for key, values in made["history"].items()}
    accuracy = history["test_accuracy"][-1] if after else 0.0
    del made["spectra"]
    return made | {"stopped": why, "history": history, "accuracy": accuracy, "predictions": None}


def baseline(
    kind: str = "tangent-space", right: int = 7, seed: int = 0, tested: int = 10, **options: Any
) -> dict[str, Any]:
    """A classifier without a recipe."""
    made = record(right, tested, seed)
    config = made["config"] | {"model": {"kind": kind, "dims": [], **options}, "recipe": {}}
    for name in ("parameters", "learned", "spectra"):
        del made[name]
    return made | {"config": config, "history": {}, "key": json.dumps(config, sort_keys=True)}
