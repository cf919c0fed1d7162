"""Digits kept on ill-conditioned matrices, by the measurement that makes docs/results/accuracy.md."""

from __future__ import annotations

import pytest
import torch

from benchmarks.accuracy import CONDITIONS, METRICS, measure

BOUND = 5.0  # in units of eps · cond · max(1, ‖φ‖)


@pytest.mark.parametrize(
    ("dtype", "condition"), [(dtype, c) for dtype, conditions in CONDITIONS.items() for c in conditions]
)
@pytest.mark.parametrize("name", METRICS)
def test_flat_metrics_lose_no_more_than_the_condition_number(
    name: str, dtype: torch.dtype, condition: float
) -> None:
    errors = measure(name, condition, dtype, seeds=2)
    assert max(errors.values()) <= BOUND, errors
