"""Small matrices and folders in the layouts that the readers read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from alem import data

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


def shared(name: str) -> Path:
    """A file of real data, or a skipped test."""
    if not (SHARED / name).exists():
        pytest.skip(f"{name} is not in ../shared/data")
    return SHARED / name


def spd(count: int, n: int = 4, seed: int = 0) -> NDArray[np.float64]:
    """Well conditioned SPD matrices, exactly symmetric."""
    x = np.random.default_rng(seed).standard_normal((count, n, 3 * n))
    C = x @ x.transpose(0, 2, 1) / (3 * n) + 0.1 * np.eye(n)
    return (C + C.transpose(0, 2, 1)) / 2


def triu(matrices: NDArray[Any]) -> NDArray[Any]:
    """Their upper triangles row by row, entry by entry."""
    n = matrices.shape[-1]
    return np.stack([[m[i, j] for i in range(n) for j in range(i, n)] for m in matrices])


def assert_same(a: data.Dataset, b: data.Dataset) -> None:
    """The same data set but for its name and what had been repaired."""
    assert torch.equal(a.matrices, b.matrices)
    assert a.matrices.dtype == b.matrices.dtype
    assert torch.equal(a.labels, b.labels)
    assert (a.classes, a.names) == (b.classes, b.names)
    assert (a.train is None) == (b.train is None)
    if a.train is not None and b.train is not None:
        assert torch.equal(a.train, b.train)
    assert a.columns.keys() == b.columns.keys()
    for key, column in a.columns.items():
        assert column.dtype == b.columns[key].dtype
        np.testing.assert_array_equal(column, b.columns[key])


def one_line(error: pytest.ExceptionInfo[ValueError], *said: str) -> None:
    """The message is one line and says all of this."""
    message = str(error.value)
    assert "\n" not in message
    for text in said:
        assert text in message, message
