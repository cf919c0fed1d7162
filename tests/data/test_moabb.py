from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from alem import data
from alem.data import DataError


class Paradigm:
    """What MOABB's paradigms answer: trials, their labels, and a table with a row for each."""

    def __init__(self, trials: int = 12) -> None:
        self.trials = trials

    def get_data(self, dataset: Any, subjects: list[int] | None = None) -> tuple[Any, Any, Any]:
        pandas = pytest.importorskip("pandas", reason="a table of MOABB is one of pandas")
        rng = np.random.default_rng(0)
        of = np.arange(self.trials) % 3 + 1
        assert subjects is None or isinstance(subjects, list)  # as theirs asks
        keep = np.isin(of, subjects) if subjects else of > 0
        table = pandas.DataFrame(
            {"subject": of, "session": ["0train"] * self.trials, "run": ["0"] * self.trials}
        )
        labels = np.where(np.arange(self.trials) % 2, "left_hand", "right_hand")
        signals = 1e-6 * rng.standard_normal((self.trials, 4, 50))
        return signals[keep], labels[keep], table[keep]


class Source:
    code = "Made-up"


def test_trials_become_covariances_with_their_columns() -> None:
    d = data.from_moabb(Source(), Paradigm(), shrinkage="oas")
    assert (d.name, len(d), d.n, d.classes) == ("Made-up", 12, 4, ("left_hand", "right_hand"))
    assert d.columns["subject"].tolist() == [1, 2, 3] * 4
    assert set(d.columns) == {"subject", "session", "run"}
    assert len(data.from_moabb(Source(), Paradigm(), subjects=(2,))) == 4
    assert len(data.from_moabb(Source(), Paradigm(), window=25)) == 24


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(DataError, match="Made-up: the paradigm has found no trials"):
        data.from_moabb(Source(), Paradigm(0))
    with pytest.raises(TypeError, match=r"one of moabb\.paradigms, got str"):
        data.from_moabb(Source(), "imagery")


@pytest.mark.filterwarnings("ignore")
def test_its_own_made_up_data_set() -> None:
    fake = pytest.importorskip("moabb.datasets.fake", reason="moabb is not installed")
    from moabb.paradigms import LeftRightImagery

    source = fake.FakeDataset(event_list=("left_hand", "right_hand"), n_sessions=2, n_subjects=2)
    d = data.from_moabb(source, LeftRightImagery(), shrinkage="oas")
    assert d.classes == ("left_hand", "right_hand")
    assert set(d.columns["subject"].tolist()) == {1, 2}
    assert len(set(d.columns["session"].tolist())) == 2
