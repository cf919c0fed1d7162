"""One run: a method on a split of a data set with a seed, to a record of all that came of it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import alem
from alem.data import Dataset, load
from alem.experiments.baselines import fit_baseline
from alem.experiments.ledger import FORMAT, Record
from alem.experiments.look import learned, spectra
from alem.experiments.method import Method
from alem.experiments.split import Split
from alem.linalg import InvalidMatrixError
from alem.training import (
    Batches,
    DamagedCheckpointError,
    Part,
    Watch,
    are_shared,
    fit,
    predict,
    read_header,
)

PACKAGES = ("torch", "numpy", "geoopt", "lightning-fabric", "scikit-learn", "pyriemann")

# Options of readers that are files.
FILES = ("split", "skip")

GIVEN = Split("given")


@dataclass(frozen=True)
class Source:
    """Where a data set is and how it is read; ``name`` is how results call it."""

    path: str
    name: str | None = None
    reader: str | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def load(self) -> Dataset:
        """The data set; the last one stays in memory for the runs that follow."""
        return _load(self)

    def from_anywhere(self) -> Source:
        """The same for a process in another folder: absolute paths, and the name that a path may give."""
        if self.path == "digits" and self.reader is None:
            return self
        options = ((k, os.path.abspath(v) if k in FILES else v) for k, v in self.options)
        return replace(
            self,
            path=os.path.abspath(self.path),
            name=self.name or self.load().name,
            options=tuple(options),
        )


@lru_cache(maxsize=1)
def _load(source: Source) -> Dataset:
    return load(source.path, source.reader, **dict(source.options))


@lru_cache(maxsize=1)
def _fingerprint(source: Source) -> str:
    return source.load().fingerprint()


@dataclass(frozen=True)
class Run:
    """What determines a result, but for the machine."""

    source: Source
    method: Method
    split: Split = GIVEN
    seed: int = 0

    def config(self, whole: bool = False) -> dict[str, Any]:
        """As plain data; ``whole`` with all defaults."""
        data = self.source.load()
        return {
            "data": {"name": self.source.name or data.name, "fingerprint": _fingerprint(self.source)},
            "split": self.split.config() | self._columns(data),
            **self.method.config(whole),
            "seed": self.seed,
        }

    def _columns(self, data: Dataset) -> dict[str, str]:
        """A digest of the samples, where they follow from columns, which the fingerprint lacks."""
        if not self.split.column and not self.split.within:
            return {}
        places = torch.cat(self.split.places(data, self.seed))
        return {"samples": hashlib.blake2b(places.numpy().tobytes(), digest_size=4).hexdigest()}

    def key(self) -> str:
        """Sixteen hexadecimal digits of the configuration; to spell out a default changes nothing."""
        text = json.dumps(self.config(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def execute(
        self,
        device: str = "cpu",
        checkpoint: Path | None = None,
        watch: Watch | None = None,
        command: str = "",
    ) -> Record:
        """Train and test; the record."""
        data = self.source.load()
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            outcome = self._outcome(data, device, checkpoint, watch)
        return {
            "format": FORMAT,
            "key": self.key(),
            "config": self.config(whole=True),
            "samples": {"size": data.n, "repaired": data.repairs.describe(data.names)},
            "classes": list(data.classes),
            **outcome,
            # Of a network those of its epochs, also of the ones before it was resumed.
            "seconds": round(sum(outcome["history"].get("seconds", ())) or time.perf_counter() - start, 3),
            "warnings": sorted(
                {
                    f"{w.category.__name__}: {w.message}"
                    for w in caught
                    if not issubclass(w.category, (DeprecationWarning, FutureWarning))
                }
            ),
            "versions": versions(),
            "threads": torch.get_num_threads(),
            "processes": int(os.environ["WORLD_SIZE"]) if are_shared() else 1,
            "device": device,
            "command": command,
        }

    def _outcome(
        self, data: Dataset, device: str, checkpoint: Path | None, watch: Watch | None
    ) -> dict[str, Any]:
        train, test = self.split.places(data, self.seed)
        targets = data.labels[test]
        extra: dict[str, Any] = {}
        history: dict[str, list[float]] = {}
        if self.method.recipe is None:
            guesses = fit_baseline(self.method, data, train, test, self.seed)
            stopped = None
        else:
            model = self.method.build(data.n, len(data.classes), self.seed)
            if checkpoint is not None and not are_shared():
                _drop_damaged(checkpoint)
            fitted = fit(
                model,
                Part(data.matrices, data.labels, train),
                Part(data.matrices, data.labels, test),
                self.method.recipe,
                self.seed,
                device=device,
                checkpoint=checkpoint,
                watch=watch,
            )
            stopped, history = fitted.stopped, asdict(fitted.history)
            extra = {"parameters": sum(p.numel() for p in model.parameters()), "learned": learned(model)}
            guesses = None
            if stopped is None:
                place = next(model.parameters())
                batches = Batches(data.matrices, data.labels, test, place.dtype, place.device)
                guesses = predict(model, batches, self.method.recipe.torch_products).argmax(-1).cpu()
                with contextlib.suppress(InvalidMatrixError, ArithmeticError):  # a picture, not a result
                    extra["spectra"] = spectra(model, batches)
        accuracy = _accuracy(guesses, targets) if guesses is not None else last(history)
        return {
            "trained": len(train),
            "tested": len(test),
            "stopped": stopped,
            "accuracy": accuracy,
            "history": _rounded(history),
            "predictions": None if guesses is None else guesses.tolist(),
            "targets": targets.tolist(),
            **extra,
        }


def _drop_damaged(checkpoint: Path) -> None:
    """What a damaged checkpoint held is lost already; to train anew gives what it would have led to."""
    if not checkpoint.exists():
        return
    try:
        read_header(checkpoint)
    except DamagedCheckpointError:
        checkpoint.unlink()
        warnings.warn(f"{checkpoint.name} was damaged, and the run was made anew", stacklevel=2)


def last(history: Mapping[str, list[float]]) -> float:
    """The accuracy of the last whole epoch of a training that ended early; 0 if there was none."""
    values = history.get("test_accuracy", [])
    return values[-1] if values else 0.0


def _accuracy(guesses: Tensor, targets: Tensor) -> float:
    return int((guesses == targets).sum()) / len(targets)


def _rounded(history: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """Six digits, more than anybody looks at: a record is kept for good."""
    return {key: [float(f"{v:.6g}") for v in values] for key, values in history.items()}


def versions() -> dict[str, str]:
    """Of what computed the result; those of the packages that are there."""
    found = {"python": platform.python_version(), "alem": alem.__version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
