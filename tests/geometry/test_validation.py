"""Errors that say which matrix, how badly, and what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alem.geometry import check_spd
from alem.linalg import InvalidMatrixError, NotPositiveDefiniteError
from alem.linalg.errors import require_symmetric

from .conftest import spd


def test_spd_matrices_pass_and_are_returned() -> None:
    for X in (spd(2, 3), spd(), spd(5, dtype=torch.float32), torch.eye(1)):
        assert check_spd(X) is X
    assert check_spd(torch.empty(0, 3, 3)).shape == (0, 3, 3)


def test_shape_type_and_dtype() -> None:
    with pytest.raises(InvalidMatrixError, match=r"square.*\(3, 4\)"):
        check_spd(torch.zeros(3, 4))
    with pytest.raises(InvalidMatrixError, match=r"ndarray; use torch\.as_tensor"):
        check_spd(np.eye(3))
    for bad in (torch.eye(3).int(), torch.eye(3).half(), torch.eye(3).to(torch.complex64)):
        with pytest.raises(InvalidMatrixError, match="expected float32 or float64"):
            check_spd(bad)


def test_a_nan_is_located() -> None:
    X = spd(2, 3)
    X[1, 2, 0, 1] = torch.nan
    with pytest.raises(InvalidMatrixError, match=r"matrix \(1, 2\) .* 1 entries that are NaN") as caught:
        check_spd(X)
    assert caught.value.index == (1, 2)


def test_asymmetry_is_located_and_measured() -> None:
    X = spd(5)
    X[3, 0, 1] += 0.5
    with pytest.raises(InvalidMatrixError, match=r"matrix 3 .* not symmetric.*0\.5.*symmetrize") as caught:
        check_spd(X)
    assert caught.value.index == (3,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_edge_of_symmetry(dtype: torch.dtype) -> None:
    tolerance = torch.finfo(dtype).eps ** 0.5
    X = torch.eye(2, dtype=dtype)
    X[0, 1] = 0.5 * tolerance
    check_spd(X)
    X[0, 1] = 2 * tolerance
    with pytest.raises(InvalidMatrixError, match="not symmetric"):
        check_spd(X)


def test_indefinite_and_singular_are_told_apart() -> None:
    X = torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, -0.5, 2.0]))]).double()
    with pytest.raises(NotPositiveDefiniteError, match=r"matrix 1 .* -0\.5, its largest 2; regularise"):
        check_spd(X)
    with pytest.raises(NotPositiveDefiniteError, match=r"^matrix of shape .* singular to working"):
        check_spd(torch.diag(torch.tensor([1.0, 1e-17], dtype=torch.float64)))
    with pytest.raises(NotPositiveDefiniteError):
        check_spd(torch.zeros(2, 3, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_edge_of_definiteness(dtype: torch.dtype) -> None:
    margin = 2 * torch.finfo(dtype).eps
    check_spd(torch.diag(torch.tensor([1.0, 3 * margin], dtype=dtype)))
    with pytest.raises(NotPositiveDefiniteError, match="singular"):
        check_spd(torch.diag(torch.tensor([1.0, margin / 2], dtype=dtype)))


def test_the_scale_of_the_data_does_not_matter() -> None:
    check_spd(1e-30 * spd(3))
    check_spd(1e30 * spd(3))


def test_symmetric_to_the_root_of_eps() -> None:
    X = torch.ones(2, 2, 2, dtype=torch.float64)
    X[1, 0, 1] += 1e-8  # √eps is 1.5e-8
    require_symmetric(X)
    X[1, 0, 1] += 1e-8
    with pytest.raises(InvalidMatrixError, match=r"matrix 1 .* up to 2e-08") as error:
        require_symmetric(X)
    assert error.value.index == (1,)
