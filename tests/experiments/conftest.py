"""A small data set in a file, as the command line gets it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from alem import data, geometry
from alem.data import Dataset

N, CLASSES = 6, 3


def small(samples: int = 30, n: int = N, classes: int = CLASSES, name: str = "small") -> Dataset:
    """Classes that a network can tell apart, most for training, four subjects of two sessions."""
    generator = torch.Generator().manual_seed(0)
    X = geometry.sample_wishart(samples, n=n, generator=generator).double()
    y = torch.arange(samples) % classes
    for k in range(classes):
        X[y == k, k, k] += 5.0
    subject = np.arange(samples) // 3 % 4
    return data.dataset(
        name,
        X,
        y,
        train=torch.arange(samples) % 9 < 6,
        columns={
            "subject": subject,
            "session": np.array([f"{s}-{i % 2}" for i, s in enumerate(subject)]),
            "excluded": subject == 3,
        },
    )


@pytest.fixture
def small_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.npz"
    data.save(small(), path)
    return path
