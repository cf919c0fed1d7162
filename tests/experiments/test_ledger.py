from __future__ import annotations

import json
import multiprocessing
import os
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
    (tmp_path / "runs.jsonl").write_text(f"{json.dumps(made('a'))}\n\n{line}\n", encoding="utf-8")
    with pytest.raises(LedgerError, match=r"runs\.jsonl: line 3 is no result of a run"):
        Ledger(tmp_path).records()


def test_the_line_that_is_named_is_that_of_the_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for key in ("a", "b"):
        ledger.add(made(key))
    assert len(ledger.records()) == 2
    with ledger.path.open("ab") as file:
        file.write(b'{"caf\xe9\r": 1}\n')  # not UTF-8, and no new line
    with pytest.raises(LedgerError, match=r"runs\.jsonl: line 3 is no result .*; remove the line"):
        ledger.records()
    assert ledger.add(made("c")), "what is finished is kept all the same"
    text = ledger.path.read_bytes().split(b"\n")
    ledger.path.write_bytes(b"\n".join(text[:2] + text[3:]))
    assert list(Ledger(tmp_path).records()) == ["a", "b", "c"]


def test_no_byte_of_a_line_can_be_changed_unseen(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for key in ("a", "b"):
        ledger.add(made(key, text="ü", loss=[0.25]))
    whole, records = ledger.path.read_bytes(), ledger.records()
    for place in range(len(whole)):
        for bit in (place % 8, 7 - place % 8):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            ledger.path.write_bytes(flipped)
            try:
                found = Ledger(tmp_path).records()
            except LedgerError:
                continue
            for key, record in records.items():  # the name of the checksum may have changed
                assert found[key].items() >= record.items()
            assert len(found) == 2


def test_a_line_changed_by_hand_counts_without_its_checksum(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.add(made("a"))
    line = ledger.path.read_text("utf-8")
    for spoiled in (line.replace("0.8", "0.5"), json.dumps(json.loads(line)) + "\n"):
        ledger.path.write_text(spoiled, "utf-8")
        with pytest.raises(LedgerError, match=r"line 1 was changed after it was written: .*without"):
            Ledger(tmp_path).records()
    record = json.loads(line) | {"accuracy": 0.5}
    del record["checksum"]
    ledger.path.write_text(json.dumps(record) + "\n", "utf-8")
    assert Ledger(tmp_path).records()["a"]["accuracy"] == 0.5


@pytest.mark.parametrize("end", [b"", b"\x0b"])
def test_a_whole_line_whose_end_is_missing_is_kept(tmp_path: Path, end: bytes) -> None:
    ledger = Ledger(tmp_path)
    ledger.add(made("a"))
    ledger.path.write_bytes(ledger.path.read_bytes()[:-1] + end)
    seen = Ledger(tmp_path)
    assert list(seen.records()) == ["a"]
    seen.add(made("b"))
    for each in (seen, Ledger(tmp_path)):
        assert list(each.records()) == ["a", "b"]
    assert len(ledger.path.read_bytes().splitlines()) == 2


def test_what_is_there_is_not_added_again(tmp_path: Path) -> None:
    ours, theirs = Ledger(tmp_path), Ledger(tmp_path)
    assert ours.add(made("a"))
    assert not theirs.add(made("a", accuracy=0.5))
    assert Ledger(tmp_path).records()["a"]["accuracy"] == made("a")["accuracy"]


@pytest.mark.parametrize("fails", ["write", "fsync"])
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    ledger = Ledger(tmp_path)
    ledger.add(made("a"))
    before, write = ledger.path.read_bytes(), os.write

    def full(handle: int, *data: bytes) -> int:
        if data and len(data[0]) > 20:
            return write(handle, data[0][:20])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, fails, full)
    with pytest.raises(OSError, match=r"No space left on device: .*runs\.jsonl"):
        ledger.add(made("b"))
    monkeypatch.undo()
    assert ledger.path.read_bytes() == before
    ledger.add(made("b"))
    assert list(Ledger(tmp_path).records()) == ["a", "b"]


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
