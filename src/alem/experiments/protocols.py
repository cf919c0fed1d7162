"""The data sets of the tables: how each is read, divided and how large its networks are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from alem.data import Dataset
from alem.experiments.run import Source
from alem.experiments.split import Split

Splits = Callable[[Dataset], tuple[Split, ...]]


def given(dataset: Dataset) -> tuple[Split, ...]:
    """The official split."""
    return (Split("given"),)


def halves(dataset: Dataset) -> tuple[Split, ...]:
    """A random half for each seed."""
    return (Split("half"),)


def part(dataset: Dataset) -> tuple[Split, ...]:
    """The official split, or where there is none a fifth of each class for each seed."""
    return (Split("given" if dataset.train is not None else "part"),)


def folds(dataset: Dataset) -> tuple[Split, ...]:
    """Folds of the training samples, which is what a choice may look at: a subject each, or five."""
    if "subject" not in dataset.columns:
        return tuple(Split("fold", fold=k, folds=5) for k in range(5))
    subjects = dataset.columns["subject"]
    if dataset.train is not None:
        subjects = subjects[dataset.train.numpy()]
    count = len(np.unique(subjects))
    return tuple(Split("fold", fold=k, folds=count, column="subject") for k in range(count))


def sessions(dataset: Dataset) -> tuple[Split, ...]:
    """Within each subject, leave one session out; what the data set marks as excluded stays out."""
    columns = dataset.columns
    for name in ("subject", "session", "excluded"):
        if name not in columns:
            raise ValueError(f"{dataset.name} has no column {name!r}, by which its sessions are divided")
    kept = ~columns["excluded"].astype(bool)
    both = np.stack([columns["subject"].astype(str), columns["session"].astype(str)], axis=1)
    of_subject: dict[str, list[str]] = {}
    for subject, session in np.unique(both[kept], axis=0).tolist():
        of_subject.setdefault(subject, []).append(session)
    return tuple(
        Split(
            "group", column="session", value=session, within=(("excluded", "False"), ("subject", subject))
        )
        for subject, of in of_subject.items()
        for session in of
        if len(of) > 1
    )


@dataclass(frozen=True)
class Protocol:
    """A data set as its tables want it; ``about`` says in a line what it is and how it is divided.

    ``size`` and ``classes`` are those of its matrices: other data are not what a table is about.
    With several splits the accuracy of a seed is pooled: right answers in all of them, divided by all.
    ``options`` are for packed sequences, of which they make matrices.
    """

    name: str
    about: str
    size: int
    classes: int
    dims: tuple[int, ...]
    splits: Splits = given
    options: tuple[tuple[str, Any], ...] = ()

    def differs(self, dataset: Dataset) -> str | None:
        """What is not as in the data of the tables; None if nothing is."""
        found = (dataset.n, len(dataset.classes))
        if found == (self.size, self.classes):
            return None
        a, b = (f"{n}×{n} matrices in {k} classes" for n, k in (found, (self.size, self.classes)))
        return f"{dataset.name} has {a}, and {self.name} has {b}"

    def source(self, path: str) -> Source:
        """The data set at a place on this machine."""
        return Source(path, self.name, options=self.options if path.endswith(".npz") else ())


PROTOCOLS = {
    p.name: p
    for p in (
        Protocol("hdm05", "HDM05 skeletons, 93×93, random halves", 93, 117, (30,), halves),
        Protocol("fpha", "FPHA hand actions, 63×63, official split", 63, 45, (33,)),
        Protocol("afew", "AFEW faces, 512×512, official split", 512, 7, (100,)),
        Protocol("ntu60", "NTU RGB+D skeletons, 75×75, cross-view", 75, 60, (30,)),
        Protocol(
            "utdmhad",
            "UTD-MHAD skeletons centred on the hip, 57×57, odd subjects train, even ones test",
            57,
            27,
            (30,),
            options=(("centre_joint", 3),),
        ),
        Protocol("natops", "NATOPS gestures, 24×24, official split", 24, 6, (16,)),
        Protocol("japanesevowels", "JapaneseVowels cepstra, 12×12, official split", 12, 9, (12,)),
        Protocol("articulary", "ArticularyWordRecognition, 9×9, official split", 9, 25, (9,)),
        Protocol(
            "ssvep", "SSVEP EEG, 24×24, within each subject one session left out", 24, 4, (16,), sessions
        ),
    )
}
