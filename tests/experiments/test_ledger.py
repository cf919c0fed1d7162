from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from alem.experiments import Ledger, LedgerError
from tests.experiments import fakes


def made(key: str, **more: object) -> dict[str, object]:
    """A whole record."""
    return fakes.record(**{"key": key, **more})


def test_records_come_back_in_order(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "new")
    assert ledger.records() == {}
    for key in ("b", "a", "c"):
        ledger.add(made(key, text="ü\n"))
    assert list(ledger.records()) == ["b", "a", "c"]
    assert Ledger(tmp_path / "new").records() == ledger.records()
    assert len(ledger.path.read_text("utf-8").splitlines()) == 3, "a line each"


def test_a_path_that_is_no_text_comes_back(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.add(made("a", command="alem train --data \udcff\\udcff"))
    assert Ledger(tmp_path).records()["a"]["command"] == "alem train --data \udcff\\udcff"


def test_what_another_process_adds_is_seen(tmp_path: Path) -> None:
    ours, theirs = Ledger(tmp_path), Ledger(tmp_path)
    ours.add(made("a"))
    assert list(theirs.records()) == ["a"]
    ours.add(made("b"))
    assert list(theirs.records()) == ["a", "b"]


def test_a_line_cut_off_by_a_crash_is_not_read_and_makes_room(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.add(made("a"))
    with ledger.path.open("ab") as file:
        file.write(b'{"key": "half", "loss": [0.1, ' + b"0.2, " * 40_000)  # more than one block
    assert list(Ledger(tmp_path).records()) == ["a"]
    ledger.add(made("b"))
    assert list(Ledger(tmp_path).records()) == ["a", "b"]


def test_a_file_with_nothing_but_half_a_line(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_bytes(b'{"key"')
    ledger = Ledger(tmp_path)
    ledger.add(made("a"))
    assert list(Ledger(tmp_path).records()) == ["a"]


@pytest.mark.parametrize(
    "line", ["no json", "[1]", '{"accuracy": 1}', '{"key": "a"}', json.dumps(made("b") | {"format": 2})]
)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "runs.jsonl").write_text(f"{json.dumps(made('a'))}\n{line}\n", encoding="utf-8")
    with pytest.raises(LedgerError, match=r"runs\.jsonl: record 2 .* is no result of a run"):
        Ledger(tmp_path).records()


def _add(folder: Path, start: int) -> None:
    ledger = Ledger(folder)
    for i in range(start, start + 50):
        ledger.add(made(str(i), filling="x" * 5000))


def test_two_processes_may_add_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add, args=(tmp_path, start)) for start in (0, 50)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert sorted(map(int, Ledger(tmp_path).records())) == list(range(100))
