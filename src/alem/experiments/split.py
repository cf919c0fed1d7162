"""Which samples are trained on and which are tested on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alem.data import Dataset

KINDS = ("given", "half", "part", "fold", "group")


@dataclass(frozen=True)
class Split:
    """A rule that divides a data set; everything random in it follows from the seed of the run.

    - ``"given"``: the official split of the data set;
    - ``"half"``: a random half of all samples to train on, the other to test (the paper's HDM05);
    - ``"part"``: a fifth of each class to test, at random, for data without a split of their own; of a
      class of 5k + r samples k, or with probability r/5 one more, but never all; one of the largest class
      if that is none at all;
    - ``"fold"``: fold ``fold`` of ``folds`` of the official *training* samples is tested on, each class
      divided evenly, or with ``column`` its values dealt whole, in their order, so that nobody is on both
      sides; the same folds for every seed: what choices are made by;
    - ``"group"``: the samples whose ``column`` is ``value`` are tested on, all others trained on.

    ``within``, columns and their values, keeps only the samples that have them, before anything else.
    """

    kind: str = "given"
    fold: int = 0
    folds: int = 0
    column: str = ""
    value: str = ""
    within: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a split must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if self.kind == "fold" and not 0 <= self.fold < self.folds:
            raise ValueError(f"fold {self.fold} of {self.folds} does not exist; they count from 0")

    def places(self, dataset: Dataset, seed: int) -> tuple[Tensor, Tensor]:
        """Places of the samples for training and for testing, ascending."""
        kept = torch.ones(len(dataset), dtype=torch.bool)
        for column, value in self.within:
            kept &= _equal(dataset, column, value)
        generator = torch.Generator().manual_seed(seed)
        if self.kind == "given":
            train, test = _given(dataset)
        elif self.kind == "half":
            train = torch.zeros(len(dataset), dtype=torch.bool)
            members = kept.nonzero().flatten()
            train[members[torch.randperm(len(members), generator=generator)[: len(members) // 2]]] = True
            test = ~train
        elif self.kind == "part":
            test = _fifth(dataset.labels, kept, generator)
            train = ~test
        elif self.kind == "fold":
            inside = _given(dataset)[0] & kept
            if self.column:
                dealt = _whole(dataset, self.column, inside, self.folds)
            else:
                dealt = _dealt(dataset.labels, inside, self.folds, torch.Generator().manual_seed(0))
            test = dealt == self.fold
            train = inside & ~test
        else:
            test = _equal(dataset, self.column, self.value)
            train = ~test
        train, test = train & kept, test & kept
        for part, what in ((train, "to train on"), (test, "to test on")):
            if not bool(part.any()):
                raise ValueError(f"{dataset.name}: the split {self.describe()} leaves nothing {what}")
        return train.nonzero().flatten(), test.nonzero().flatten()

    def describe(self) -> str:
        """In a few words, for messages."""
        words = {k: v for k, v in self.config().items() if k not in ("kind", "within")}
        told = [f"{k} {v}" for k, v in words.items()] + [f"within {k} {v}" for k, v in self.within]
        return f"{self.kind!r}" + (f" ({', '.join(told)})" if told else "")

    def config(self) -> dict[str, Any]:
        """What differs from the defaults, for the record of a run."""
        default = asdict(Split())
        return {key: value for key, value in asdict(self).items() if value != default[key]} | {
            "kind": self.kind
        }


def _given(dataset: Dataset) -> tuple[Tensor, Tensor]:
    if dataset.train is None:
        raise ValueError(
            f"{dataset.name} has no official split; store one as 'train' with the data, or take another"
        )
    return dataset.train, ~dataset.train


def _column(dataset: Dataset, column: str) -> NDArray[np.str_]:
    if column not in dataset.columns:
        raise ValueError(f"{dataset.name} has no column {column!r}; it has {', '.join(dataset.columns)}")
    return dataset.columns[column].astype(str)


def _equal(dataset: Dataset, column: str, value: str) -> Tensor:
    return torch.from_numpy(_column(dataset, column) == str(value))


def _fifth(labels: Tensor, kept: Tensor, generator: torch.Generator) -> Tensor:
    """A fifth of each class, rounded up or down at random so that it is one in the mean."""
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels[kept].unique():
        members = (kept & (labels == label)).nonzero().flatten()
        members = members[torch.randperm(len(members), generator=generator)]
        count = int(len(members) / 5 + torch.rand((), generator=generator).item())
        chosen[members[: min(count, len(members) - 1)]] = True
    largest = int(labels[kept].bincount().argmax())
    members = (kept & (labels == largest)).nonzero().flatten()
    if not bool(chosen.any()) and len(members) > 1:
        chosen[members[torch.randint(len(members), (), generator=generator)]] = True
    return chosen


def _whole(dataset: Dataset, column: str, kept: Tensor, hands: int) -> Tensor:
    """A hand for each sample kept, −1 for the others; those of one value of the column have the same."""
    values = _column(dataset, column)
    _, places = np.unique(values[kept.numpy()], return_inverse=True)
    hand = torch.full((len(values),), -1)
    hand[kept] = torch.from_numpy(places) % hands
    return hand


def _dealt(labels: Tensor, kept: Tensor, hands: int, generator: torch.Generator) -> Tensor:
    """A hand 0 … hands−1 for each sample, −1 for those not kept; each class is dealt out evenly."""
    hand = torch.full((len(labels),), -1)
    next_hand = 0
    for label in labels[kept].unique():
        members = (kept & (labels == label)).nonzero().flatten()
        members = members[torch.randperm(len(members), generator=generator)]
        # Each class goes on where the last one ended, so that the hands are of equal size.
        hand[members] = (torch.arange(len(members)) + next_hand) % hands
        next_hand = (next_hand + len(members)) % hands
    return hand
