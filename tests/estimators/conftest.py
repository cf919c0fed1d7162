"""Small matrices with labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from alem import data

Array = NDArray[Any]


def classes_of_spd(count: int = 60, n: int = 4, kinds: int = 3, seed: int = 0) -> tuple[Array, Array]:
    """Wishart matrices around a different matrix for each class, and the names of their classes."""
    rng = np.random.default_rng(seed)
    roots = np.eye(n) + 0.6 * rng.standard_normal((kinds, n, n))
    places = np.arange(count) % kinds
    x = roots[places] @ rng.standard_normal((count, n, 5 * n))
    C = x @ x.transpose(0, 2, 1) / (5 * n)
    return (C + C.transpose(0, 2, 1)) / 2, np.array(["up", "down", "left", "right"])[places]


@pytest.fixture
def samples() -> tuple[Array, Array]:
    return classes_of_spd()


@pytest.fixture(scope="session")
def digits() -> tuple[Array, Array]:
    """The first 300 of the embedded digits."""
    d = data.load("digits")
    return d.matrices[:300].numpy(), d.labels[:300].numpy()
