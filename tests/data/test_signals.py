from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alem.data import DataError, covariances, from_signals
from alem.linalg import InvalidMatrixError, covariance

from .conftest import one_line

RNG = np.random.default_rng(0)
SIGNALS = RNG.standard_normal((3, 4, 20))


def test_an_array_a_list_and_frames_are_the_same_signals() -> None:
    stacked = covariances(SIGNALS)
    listed = covariances([torch.from_numpy(x) for x in SIGNALS])
    frames = covariances(SIGNALS.transpose(0, 2, 1).reshape(60, 4), np.array([0, 20, 40, 60]))
    for got in (stacked, listed, frames):
        assert got.names == ("0", "1", "2")
        assert got.source.tolist() == [0, 1, 2]
        for C, x in zip(got.matrices, SIGNALS, strict=True):
            np.testing.assert_allclose(C, np.cov(x, bias=True), atol=1e-14)


def test_lengths_may_differ_and_single_precision_is_widened_first() -> None:
    long = 1e3 + RNG.standard_normal((4, 50)).astype(np.float32)
    got = covariances([SIGNALS[0], long])
    assert got.matrices.dtype == torch.float64
    np.testing.assert_allclose(got.matrices[1], np.cov(long.astype(np.float64), bias=True), atol=1e-10)


def test_options_are_those_of_covariance() -> None:
    x = torch.from_numpy(SIGNALS)
    for options in (
        {"shrinkage": "ledoit-wolf"},
        {"shrinkage": "oas"},
        {"shrinkage": 0.3},
        {"loading": 0.1},
        {"assume_centered": True},
    ):
        torch.testing.assert_close(covariances(SIGNALS, **options).matrices, covariance(x, **options))  # type: ignore[arg-type]
    assert not torch.equal(
        covariances(SIGNALS, assume_centered=True).matrices, covariances(SIGNALS).matrices
    )


@given(st.integers(2, 9), st.integers(1, 9), st.lists(st.integers(9, 30), min_size=1, max_size=3))
def test_windows_lie_where_their_names_say(window: int, stride: int, lengths: list[int]) -> None:
    signals = [np.random.default_rng(T).standard_normal((2, T)) for T in lengths]
    names = [f"s{i}" for i in range(len(signals))]
    got = covariances(signals, names=names, window=window, stride=stride)
    expected = [
        (i, start) for i, T in enumerate(lengths) for start in range(0, T, stride) if start + window <= T
    ]
    assert got.source.tolist() == [i for i, _ in expected]
    for C, name, (i, start) in zip(got.matrices, got.names, expected, strict=True):
        assert name == f"s{i}[{start}:{start + window}]"
        part = signals[i][:, start : start + window]
        np.testing.assert_allclose(C, np.cov(part, bias=True), atol=1e-12)


def test_windows_follow_each_other_without_a_stride() -> None:
    assert covariances(SIGNALS[:1], window=8).names == ("0[0:8]", "0[8:16]")


def test_a_data_set_of_windows() -> None:
    d = from_signals(
        "eeg",
        SIGNALS,
        ["left", "right", "left"],
        train=torch.tensor([True, False, True]),
        columns={"subject": np.array([7, 8, 9])},
        names=["a", "b", "c"],
        window=10,
    )
    assert d.name == "eeg"
    assert d.names[:3] == ("a[0:10]", "a[10:20]", "b[0:10]")
    assert d.labels.tolist() == [0, 0, 1, 1, 0, 0]
    assert d.train is not None
    assert d.train.tolist() == [True, True, False, False, True, True]
    assert d.columns["subject"].tolist() == [7, 7, 8, 8, 9, 9]


def test_windows_too_short_for_full_rank_are_repaired_and_a_constant_signal_too() -> None:
    flat = np.ones((4, 6))
    d = from_signals("x", [SIGNALS[0], SIGNALS[0][:, :3], flat], [0, 1, 0])
    assert (d.repairs.zero, d.repairs.deficient) == ((2,), (1,))


def test_a_sequence_that_is_too_short_is_named() -> None:
    signals = [SIGNALS[0], SIGNALS[1][:, :5]]
    with pytest.raises(DataError) as error:
        covariances(signals, names=["ok", "stub"], window=6)
    one_line(error, "stub", "5 samples", "at least 6", "shorter window")
    assert len(covariances(signals, window=5).names) == 5
    with pytest.raises(DataError) as error:
        covariances([SIGNALS[0], SIGNALS[0][:, :1]])
    one_line(error, "sequence 1", "1 samples", "at least 2")
    assert len(covariances([SIGNALS[0][:, :1]], assume_centered=True).matrices) == 1


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (([],), {}, "no sequences"),
        (([SIGNALS[0], SIGNALS[0][:2]],), {}, "sequence 1 has 2 channels"),
        (([SIGNALS[0], SIGNALS[0][0]],), {}, "sequence 1 must be"),
        (([np.array([["a", "b"]])],), {}, "sequence 0 must be"),
        ((SIGNALS,), {"names": ["a"]}, "3 sequences and 1 names"),
        ((np.ones((5, 2)), [0, 2, 5]), {"centre_joint": 0}, "centre_joint=0"),
        ((np.ones((5, 2)), [1, 5]), {}, "from 1 to 5"),
        ((np.ones((5, 2)), [0]), {}, "N + 1 integers"),
    ],
)
def test_what_is_no_signal_is_refused(arguments: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as error:
        covariances(*arguments, **options)
    one_line(error, said)


@pytest.mark.parametrize(
    "options",
    [
        {"stride": 2},
        {"window": 0},
        {"window": 2, "stride": 0},
        {"centre_joint": 0},
        {"shrinkage": "lw"},
        {"loading": -1.0},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"window|centre_joint|shrinkage|loading"):
        covariances(SIGNALS, **options)


def test_a_sample_that_is_not_finite_is_named() -> None:
    x = SIGNALS.copy()
    x[1, 2, 3] = np.nan
    with pytest.raises(InvalidMatrixError) as error:
        from_signals("eeg", x, [0, 1, 0], names=["a", "b", "c"])
    one_line(error, "eeg", "sequence b", "channel 2", "sample 3")
    assert error.value.index == (1,)


def test_entries_are_one_for_each_sequence_not_for_each_window() -> None:
    for changes in ({"labels": range(6)}, {"train": np.ones(6, bool)}, {"columns": {"s": np.ones(6)}}):
        given: dict[str, Any] = {"labels": [0, 1, 0], **changes}
        with pytest.raises(DataError, match="eeg: 3 sequences and 6 entries"):
            from_signals("eeg", SIGNALS, given.pop("labels"), window=10, **given)


def test_the_signals_are_not_changed() -> None:
    before = SIGNALS.copy()
    covariances(SIGNALS, window=4, shrinkage="oas", loading=1.0)
    np.testing.assert_array_equal(SIGNALS, before)
