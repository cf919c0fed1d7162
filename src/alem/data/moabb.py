"""Data sets of MOABB, the Mother of All BCI Benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from alem.data.dataset import Dataset
from alem.data.errors import DataError
from alem.data.signals import from_signals


def from_moabb(
    source: Any, paradigm: Any, subjects: Sequence[int] | None = None, **options: Any
) -> Dataset:
    """The trials of a MOABB data set, as its ``paradigm`` cuts and filters them, as covariances.

    ``source`` is a data set of ``moabb.datasets``, ``paradigm`` one of ``moabb.paradigms``; ``subjects``
    are those to read, by default all. ``options`` are those of :func:`alem.data.covariances`:
    ``shrinkage="oas"`` keeps trials with many channels positive definite. Columns are ``subject``,
    ``session`` and ``run``.
    """
    name = getattr(source, "code", type(source).__name__)
    if not hasattr(paradigm, "get_data"):
        raise TypeError(f"{name}: paradigm must be one of moabb.paradigms, got {type(paradigm).__name__}")
    signals, labels, table = paradigm.get_data(
        dataset=source, subjects=None if subjects is None else list(subjects)
    )
    if not len(signals):
        raise DataError(f"{name}: the paradigm has found no trials; check its events and the subjects")
    columns = {
        str(key): np.asarray(table[key].tolist()) for key in ("subject", "session", "run") if key in table
    }
    return from_signals(
        name, np.asarray(signals), np.asarray(labels).astype(str), columns=columns, **options
    )
