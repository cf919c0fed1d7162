from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alem import data
from alem.data.repair import LOADING, Repairs, repair
from alem.linalg import InvalidMatrixError

from .conftest import shared, spd

DTYPES = [torch.float32, torch.float64]


def with_spectrum(values: list[float], dtype: torch.dtype, seed: int = 0) -> Tensor:
    """One matrix with these eigenvalues in no special basis."""
    n = len(values)
    x = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    C = torch.from_numpy((x * np.array(values)) @ x.T)
    return ((C + C.T) / 2).to(dtype)[None]


@given(
    st.integers(1, 6),
    st.integers(1, 8),
    st.integers(0, 99),
    st.sampled_from(DTYPES),
    st.floats(1e-6, 1e6),
)
def test_spd_matrices_are_left_alone_bit_for_bit(
    count: int, n: int, seed: int, dtype: torch.dtype, size: float
) -> None:
    X = (torch.from_numpy(spd(count, n, seed)) * size).to(dtype)
    before = X.clone()
    assert not repair(X)
    assert torch.equal(X, before)


@given(st.lists(st.sampled_from(["good", "zero", "rank 1", "rank 2"]), min_size=1, max_size=6))
def test_what_is_degenerate_is_counted_and_a_second_time_there_is_nothing_to_do(kinds: list[str]) -> None:
    rng = np.random.default_rng(len(kinds))
    X = torch.from_numpy(spd(len(kinds), 5))
    for i, kind in enumerate(kinds):
        if kind != "good":
            v = torch.from_numpy(rng.standard_normal((5, {"zero": 0, "rank 1": 1, "rank 2": 2}[kind])))
            X[i] = v @ v.T
    said = repair(X)
    assert said.zero == tuple(i for i, kind in enumerate(kinds) if kind == "zero")
    assert said.deficient == tuple(i for i, kind in enumerate(kinds) if kind.startswith("rank"))
    assert bool((torch.linalg.eigvalsh(X)[:, 0] > 0).all())
    once = X.clone()
    assert not repair(X)
    assert torch.equal(X, once)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_deficient_matrix_becomes_the_stated_one(dtype: torch.dtype) -> None:
    v = torch.tensor([[1.0, 2.0, 2.0]], dtype=dtype)
    X = (v.T @ v)[None].clone()
    assert repair(X).deficient == (0,)
    expected = v.T @ v + LOADING * 9 * torch.eye(3, dtype=dtype)
    torch.testing.assert_close(X[0], expected)
    X = (v.T @ v)[None].clone()
    repair(X, loading=0.5)
    torch.testing.assert_close(X[0], v.T @ v + 4.5 * torch.eye(3, dtype=dtype))


def test_a_zero_matrix_gets_the_median_trace_of_the_others() -> None:
    X = torch.stack([torch.eye(2) * s for s in (1.0, 0.0, 3.0, 50.0)])
    assert repair(X).zero == (1,)
    torch.testing.assert_close(X[1], LOADING * 6.0 * torch.eye(2))


def test_if_all_are_zero_the_trace_counts_as_one() -> None:
    X = torch.zeros(2, 3, 3)
    assert repair(X).zero == (0, 1)
    torch.testing.assert_close(X, (LOADING * torch.eye(3)).expand(2, 3, 3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_edge_of_deficiency_is_n_eps(dtype: torch.dtype) -> None:
    edge = 4 * torch.finfo(dtype).eps
    # Diagonal, so that the eigenvalues are exact; 8 makes the trace differ from the largest.
    for factor, expected in ((0.5, (0,)), (1.0, (0,)), (2.0, ()), (8.0, ())):
        X = torch.diag(torch.tensor([1.0, 1.0, 1.0, factor * edge], dtype=dtype))[None]
        assert repair(X).deficient == expected, factor


def test_the_edge_of_what_is_no_rounding_is_1e_8_of_the_largest() -> None:
    assert repair(with_spectrum([3.0, 1.0, -0.9e-8 * 3], torch.float64)).deficient == (0,)
    with pytest.raises(InvalidMatrixError, match=r"^matrix 0 \(bad\) has the eigenvalue -3\.3e-08"):
        repair(with_spectrum([3.0, 1.0, -1.1e-8 * 3], torch.float64), ["bad"])


def test_in_single_precision_it_is_n_eps() -> None:
    eps = torch.finfo(torch.float32).eps
    assert repair(torch.diag(torch.tensor([1.0, 1.0, -2 * eps]))[None]).deficient == (0,)
    with pytest.raises(InvalidMatrixError, match="no covariance"):
        repair(torch.diag(torch.tensor([1.0, 1.0, -4 * eps]))[None])


def test_negative_definite_and_traceless_matrices_are_errors() -> None:
    for C in (-torch.eye(2), torch.tensor([[0.0, 1.0], [1.0, 0.0]])):
        X = torch.stack([torch.eye(2), C])
        with pytest.raises(InvalidMatrixError) as error:
            repair(X)
        assert error.value.index == (1,)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("both", [False, True])
def test_what_is_not_finite_is_named(value: float, both: bool) -> None:
    X = torch.from_numpy(spd(3))
    X[2, 1, 0] = value
    if both:
        X[2, 0, 1] = value
    with pytest.raises(InvalidMatrixError, match=r"^matrix 2 \(c\)") as error:
        repair(X, list("abc"))
    assert error.value.index == (2,)


def test_matrices_whose_sum_overflows_are_left_alone() -> None:
    X = 1e308 * torch.eye(3, dtype=torch.float64).repeat(2, 1, 1)
    before = X.clone()
    assert not repair(X)
    assert torch.equal(X, before)


def test_rounding_above_and_below_the_diagonal_is_evened_out_and_more_is_an_error() -> None:
    X = torch.from_numpy(spd(2))
    clean = X[0].clone()
    X[1, 0, 1] += 1e-12
    repair(X)
    assert torch.equal(X[1], X[1].mT)
    assert torch.equal(X[0], clean)
    X[1, 0, 1] += 1e-3
    with pytest.raises(InvalidMatrixError, match=r"^matrix 1 .*not symmetric"):
        repair(X)


def test_places_are_right_beyond_the_first_block(monkeypatch: pytest.MonkeyPatch) -> None:
    # The module, which in the package is hidden by its function.
    monkeypatch.setattr(sys.modules["alem.data.repair"], "BLOCK", 2 * 4 * 4 * 8)
    X = torch.from_numpy(spd(7))
    X[3], X[4] = 0, torch.ones(4, 4)
    assert repair(X) == Repairs((3,), (4,))
    X[5] = -torch.eye(4)
    with pytest.raises(InvalidMatrixError, match=r"^matrix 5 \(f\)") as error:
        repair(X, list("abcdefg"))
    assert error.value.index == (5,)
    X[5], X[6, 0, 0] = torch.eye(4), float("nan")
    with pytest.raises(InvalidMatrixError, match=r"^matrix 6 \(g\)"):
        repair(X, list("abcdefg"))


def test_shapes_that_are_no_stack_are_refused() -> None:
    for X in (torch.eye(2), torch.ones(2, 2, 3), torch.ones(1, 1, 2, 2)):
        with pytest.raises(InvalidMatrixError):
            repair(X)
    assert not repair(torch.empty(0, 2, 2))


def test_the_description_counts_and_names() -> None:
    names = list("abcdefg")
    assert Repairs().describe(names) == ""
    said = Repairs((1,), (0, 2, 3, 4)).describe(names)
    assert "1 of 7 matrices are all zero (b)" in said
    assert "4 of 7 matrices are singular to working precision (a, c, d, …)" in said
    assert "C + 0.001·tr(C)·I" in said


def test_the_zero_matrix_of_fpha() -> None:
    d = data.read_npz(shared("fpha_cov.npz"))
    assert [d.names[i] for i in d.repairs.zero] == ["val/31/907.mat"]
    assert d.repairs.deficient == ()
    (i,) = d.repairs.zero
    others = torch.cat([d.matrices[:i], d.matrices[i + 1 :]]).diagonal(dim1=1, dim2=2).sum(1)
    torch.testing.assert_close(
        d.matrices[i], LOADING * others.median() * torch.eye(63, dtype=torch.float64), rtol=1e-12, atol=0
    )


def test_the_short_sequences_of_japanese_vowels_are_deficient_without_loading() -> None:
    path = shared("japanesevowels_seq.npz")
    offsets = np.load(path)["offsets"]
    d = data.read_npz(path, loading=0.0)
    # T frames have rank T − 1 at most.
    short = set(np.flatnonzero(np.diff(offsets) <= 12))
    assert short
    assert short <= set(d.repairs.deficient)
    assert bool((torch.linalg.eigvalsh(d.matrices)[:, 0] > 0).all())
    assert not data.read_npz(path).repairs
