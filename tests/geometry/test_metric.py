"""What every metric does with bad input, and that it can be stored."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor

from alem import geometry, linalg

from .conftest import learned_metric, spd


@pytest.mark.parametrize("bad", [[0.0, 0.0, 0.0], [1.0, -2.0, 1.0], [1.0, torch.nan, 1.0]])
def test_weights_that_are_none_are_refused(name: str, bad: list[float]) -> None:
    m, X = learned_metric(name, 4), spd(2, 3)
    weights = torch.tensor([[1.0, 1.0, 1.0], bad], dtype=X.dtype)
    for operation in (m.mean, lambda X, w: m.variance(X, weights=w)):
        with pytest.raises(linalg.InvalidMatrixError, match=r"the weights of mean 1 are"):
            operation(X, weights)
    with pytest.raises(linalg.InvalidMatrixError, match=r"matrices \(..., N, n, n\) to average"):
        m.mean(X[0, :0])


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (torch.ones(4), "square"),
        (torch.ones(3, 4), "square"),
        (torch.eye(4).int(), "float32 or float64"),
        (torch.eye(4).half(), "float32 or float64"),
        (torch.eye(4).to(torch.complex128), "float32 or float64"),
        (torch.full((4, 4), torch.nan), "NaN"),
        (-torch.eye(4), "not positive definite"),
    ],
    ids=["vector", "oblong", "integers", "half", "complex", "nan", "negative"],
)
def test_bad_input_is_named(name: str, bad: Tensor, says: str) -> None:
    m = geometry.metric(name, n=4)
    with pytest.raises(linalg.InvalidMatrixError, match=says):
        m.dist(bad, bad)
    with pytest.raises(linalg.InvalidMatrixError, match="square" if bad.ndim == 1 else says):
        m.mean(bad.expand(2, *bad.shape))


@pytest.mark.parametrize("name", ["alem", "alcm", "rank"])
def test_matrices_of_another_size_are_refused(name: str) -> None:
    for n in (1, 3):
        with pytest.raises(linalg.InvalidMatrixError, match=f"made for n = {n}"):
            geometry.metric(name, n=n).dist(spd(), spd())


def test_metrics_can_be_copied_and_pickled(name: str) -> None:
    m, P, Q = learned_metric(name, 4), spd(seed=1), spd(seed=2)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert torch.equal(other.dist(P, Q), m.dist(P, Q))


def test_repr_and_state_dict_round_trip(name: str) -> None:
    m = learned_metric(name, 4)
    other = geometry.metric(name, n=4).double()
    other.load_state_dict(m.state_dict())
    P, Q = spd(seed=1), spd(seed=2)
    assert torch.equal(other.dist(P, Q), m.dist(P, Q))
    assert type(m).__name__ in repr(m)
