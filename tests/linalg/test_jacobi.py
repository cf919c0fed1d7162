from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alem.linalg.jacobi import jacobi


@given(st.integers(1, 8), st.integers(0, 99), st.floats(-300, 300))
def test_agrees_with_lapack(n: int, seed: int, exponent: float) -> None:
    X = torch.randn(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    X = (X + X.mT) * 10**exponent
    found = jacobi(X)
    assert found is not None
    values, U = found
    torch.testing.assert_close(
        values, torch.linalg.eigvalsh(X), rtol=1e-11, atol=1e-12 * float(X.abs().max())
    )
    torch.testing.assert_close(U.mT @ U, torch.eye(n, dtype=X.dtype), rtol=0, atol=1e-13)
    torch.testing.assert_close(U * values @ U.mT, X, rtol=1e-11, atol=1e-12 * float(X.abs().max()))


def test_repeated_eigenvalues_zero_and_graded_matrices() -> None:
    for X in (
        torch.zeros(4, 4, dtype=torch.float64),
        torch.eye(4, dtype=torch.float64),
        torch.ones(4, 4, dtype=torch.float64),
        torch.diag(torch.tensor([1e-300, 1.0, 1e-10, 1e300], dtype=torch.float64)),
    ):
        found = jacobi(X)
        assert found is not None
        torch.testing.assert_close(found[0], torch.linalg.eigvalsh(X))


def test_reads_the_lower_triangle_alone_and_keeps_the_precision() -> None:
    X = torch.tensor([[2.0, 99.0], [1.0, 2.0]])
    found = jacobi(X)
    assert found is not None
    assert found[0].tolist() == pytest.approx([1.0, 3.0])
    assert found[0].dtype == found[1].dtype == torch.float32


def test_what_does_not_converge_is_none() -> None:
    assert jacobi(torch.full((2, 2), torch.nan)) is None
