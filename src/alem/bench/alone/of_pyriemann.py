"""Means and distances of pyRiemann, on NumPy arrays."""

from __future__ import annotations

import torch
from pyriemann.geometry import distance, mean

from .inputs import matrices
from .task import Task

NAMES = {"lem": "logeuclid", "lcm": "logchol", "aim": "riemann", "bwm": "wasserstein"}


def frechet_mean(metric: str, spectrum: str, batch: int, n: int, dtype: str) -> Task:
    """``mean_logeuclid`` and the like."""
    X = matrices(spectrum, batch, n, dtype).numpy()
    of = getattr(mean, f"mean_{NAMES[metric]}")
    return Task(lambda: of(X), lambda: {"mean": torch.from_numpy(of(X))})


def distances(metric: str, spectrum: str, batch: int, n: int, dtype: str) -> Task:
    """``distance_logeuclid`` and the like, of pairs."""
    X, Y = (matrices(spectrum, batch, n, dtype, seed=seed).numpy() for seed in (0, 1))
    of = getattr(distance, f"distance_{NAMES[metric]}")
    return Task(lambda: of(X, Y), lambda: {"distances": torch.from_numpy(of(X, Y))})
