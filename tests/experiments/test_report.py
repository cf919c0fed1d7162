from __future__ import annotations

import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from alem.experiments.report import write_report
from alem.experiments.report.blocks import Bullets, Heading, Paragraph, Table
from alem.experiments.report.content import content
from alem.experiments.report.html import to_html
from alem.experiments.report.markdown import to_markdown
from alem.experiments.report.results import best, difference, references, results
from alem.experiments.summary import summarise
from tests.experiments.fakes import baseline, record, stopped

EVIL = "<script>alert('&')</script>"
VOID = {"meta", "br", "hr", "img"}


def evil() -> list[dict[str, Any]]:
    """Two data sets, everything that can be odd, and names that are markup."""
    classes = [EVIL, "a|b", "*c*", '"d"']
    records = [
        baseline(right=5),
        *(record(6 + seed, seed=seed, classes=classes, warnings=[f"Odd: {EVIL}"]) for seed in range(3)),
        *(record(7, seed=seed, model={"log": "mul"}) for seed in range(3)),
        stopped(4, f"epoch 5: {EVIL}", seed=3, model={"log": "mul"}),
    ]
    other = record(command=f"alem run '{EVIL}'", versions={"python": "3.12.0"})
    other["config"]["data"] = {"name": EVIL, "fingerprint": "f"}
    other["samples"] = {"size": 7, "repaired": f"1 of 5 matrices is singular ({EVIL})"}
    return [*records, other | {"key": "other"}, records[0]]  # the last as from a second ledger


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    pytest.importorskip("matplotlib")
    return write_report(evil(), tmp_path_factory.mktemp("report"), f"Title {EVIL}", "alem report 'a & b'")


class Page(HTMLParser):
    """What is in a page; it must be closed in the order in which it was opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def tables(records: list[dict[str, Any]]) -> Table:
    found = next(block for block in results(summarise(records)) if isinstance(block, Table))
    assert all(len(row) == len(found.head) for row in found.rows)
    return found


def cells(records: list[dict[str, Any]], label: str) -> dict[str, str]:
    table = tables(records)
    row = next(row for row in table.rows if row[0] == label)
    return dict(zip(table.head, row, strict=True))


def test_the_page_is_well_formed_and_escaped(written: list[Path]) -> None:
    page = Page(written[0].read_text(encoding="utf-8"))
    assert page.open == []
    assert "script" not in page.tags
    assert page.text.count(EVIL) >= 6  # title, heading, class, reason, warning, repair, command
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_the_page_needs_nothing_else(written: list[Path]) -> None:
    text = written[0].read_text(encoding="utf-8")
    assert not re.search(r"https?://|@import|<link|<script|<iframe", text)
    for name, value in Page(text).attributes:
        if name in ("src", "href", "xlink:href", "data", "action"):
            assert value.startswith(("#", "data:image/png;base64,")), (name, value[:80])
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert text.count("<figure>") == text.count("<svg ") == 8 + 7  # nothing learned in the second


def test_tables_and_figures_scroll_in_a_box_of_their_own(written: list[Path]) -> None:
    text = written[0].read_text(encoding="utf-8")
    assert text.count("<table>") == len(re.findall(r'<div class="wide"[^>]*>\s*<table>', text)) > 3
    assert text.count("<svg ") == len(re.findall(r'<div class="wide"[^>]*>\s*<svg ', text))


def test_markdown_has_its_figures_beside_it(written: list[Path]) -> None:
    assert [path.name for path in written[:2]] == ["report.html", "report.md"]
    text = written[1].read_text(encoding="utf-8")
    shown = re.findall(r"\]\((figures/[^)]*)\)", text)
    assert sorted(shown) == sorted(str(path.relative_to(written[1].parent)) for path in written[2:])
    assert "1-fakes-learned.svg" in text
    outside = re.sub(r"```sh\n.*?\n```", "", text, flags=re.DOTALL)
    assert "\\<script" in outside
    assert "<script" not in outside.replace("\\<script", "")
    assert "a\\|b" in text
    widths = [
        len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("| method")
    ]
    assert all(
        len(re.findall(r"(?<!\\)\|", line)) in {*widths, 3, 5}
        for line in text.splitlines()
        if line[:1] == "|"
    )


def test_the_same_records_give_the_same_bytes(written: list[Path], tmp_path: Path) -> None:
    again = write_report(iter(evil()), tmp_path, f"Title {EVIL}", "alem report 'a & b'")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]
    assert sorted(tmp_path.rglob("*.*")) == sorted(again)


def test_each_data_set_has_a_section_with_what_was_run(written: list[Path]) -> None:
    text = Page(written[0].read_text(encoding="utf-8")).text
    headings = re.findall(r"<h2>(.*?)</h2>", written[0].read_text(encoding="utf-8"))
    assert headings[0] == "fakes"
    assert len(headings) == 5
    assert "7×7 matrices in 4 classes, 20 to train on and 10 to test on; the official split." in text
    assert "No matrix was repaired." in text
    assert "Repaired: 1 of 5 matrices is singular" in text
    assert "3 methods in 8 runs, seeds 0–3. Networks were trained for 8 epochs." in text
    assert "3.11.7, 3.12.0" in text
    assert "alem report 'a & b'\nalem table fakes --seeds 3\nalem run" in text
    assert f"Odd: {EVIL} (3 runs)" in text


def test_an_interrupted_write_leaves_the_old_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write_report([record()], tmp_path, "first")
    before = (tmp_path / "report.md").read_bytes()

    def fail(*_: object) -> None:
        raise OSError("the power went off")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="power"):
        write_report([record()], tmp_path, "second")
    assert (tmp_path / "report.md").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.md"]


def test_without_matplotlib_there_are_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    files = write_report([record(), baseline()], tmp_path, "bare")
    assert [path.name for path in files] == ["report.html", "report.md"]
    text = files[0].read_text(encoding="utf-8")
    assert "pip install matplotlib" in text
    assert "Most often confused" in text
    assert "<svg" not in text


def test_nothing_to_report_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to report"):
        write_report([], tmp_path / "out", "empty")
    assert not (tmp_path / "out").exists()


def test_the_table_shows_the_last_epoch_and_not_the_best_one() -> None:
    row = cells([record(6), record(9, seed=1), record(9, seed=2)], "SPDNet")
    assert row["accuracy,\u00a0%"] == "80.00 ± 17.32"
    assert row["seeds"] == "3"
    assert row["parameters"] == "1,234"
    assert row["seconds per run"] == "2.5"
    assert row["stopped early"] == "–"


def test_stopped_runs_are_counted_and_their_reasons_shown() -> None:
    records = [record(), stopped(3, "epoch 4: the loss is nan", seed=7)]
    assert cells(records, "SPDNet")["stopped early"] == "1"
    (bullets,) = (block for block in results(summarise(records)) if isinstance(block, Bullets))
    assert bullets.items == ["SPDNet, seed 7: stopped early, epoch 4: the loss is nan"]


def test_seeds_without_all_their_folds_are_named() -> None:
    fold = {"kind": "fold", "folds": 2}
    records = [record(split=fold | {"fold": k}, seed=s) for k, s in ((0, 0), (1, 0), (1, 4))]
    (bullets,) = (block for block in results(summarise(records)) if isinstance(block, Bullets))
    assert bullets.items == ["SPDNet: left out seed 4, for which folds or groups are missing"]
    other = record(split=fold | {"fold": 0}, model={"log": "mul"})
    blocks = content([records[1], other], "t")
    (table,) = (block for block in blocks if isinstance(block, Table) and block.head[0] == "method")
    assert [row[1] for row in table.rows] == ["unfinished", "unfinished"]
    assert table.strong == frozenset()


def test_the_best_mean_stands_out() -> None:
    assert tables([record(6), record(8, model={"log": "mul"}), baseline(right=8)]).strong == {1, 2}
    assert best(summarise([record(6), record(8, seed=1), record(9, model={"log": "gap"})])) is not None


def test_differences_are_to_the_first_network_and_the_best_baseline() -> None:
    records = [
        baseline("mean-distance", right=2),
        baseline(right=7),
        *(record(right, seed=seed) for seed, right in enumerate([5, 6, 8])),
        *(record(right, seed=seed, model={"log": "mul"}) for seed, right in enumerate([7, 7, 9])),
    ]
    rows = summarise(records)
    assert [row.label for row in references(rows)] == ["SPDNet", "TangentSpace-AIM + logistic"]
    row = cells(records, "ALog-MUL")
    # Differences 2, 1, 1: mean 4/3, t = 4 with two degrees of freedom.
    assert row["against SPDNet"] == "+13.33 (p = 0.057)"
    # 0, 0, 2 against 7 on a split in which nothing is random: t = 1.
    assert row["against TangentSpace-AIM + logistic"] == "+6.67 (p = 0.423)"
    assert cells(records, "SPDNet")["against SPDNet"] == ""
    assert cells(records, "MDM")["against TangentSpace-AIM + logistic"] == "−50.00"


def test_spdnet_is_what_networks_are_compared_with_wherever_it_stands() -> None:
    records = [record(model={"log": "mul"}), record(model={"log": "gap"}), record()]
    assert [row.label for row in references(summarise(records))] == ["SPDNet"]
    assert [row.label for row in references(summarise(records[:2]))] == ["ALog-MUL"]


def test_two_shared_seeds_are_too_few_for_a_test() -> None:
    two = [record(5 + seed, seed=seed) for seed in range(2)]
    other = [record(9, seed=seed, model={"log": "mul"}) for seed in range(3)]
    assert cells([*two, *other], "ALog-MUL")["against SPDNet"] == "+35.00"


@pytest.mark.parametrize(("kind", "expected"), [("given", " (p = 0.423)"), ("half", "")])
def test_a_baseline_stands_for_other_seeds_only_where_the_split_is_fixed(kind: str, expected: str) -> None:
    alone = baseline(right=7)
    alone["config"]["split"] = {"kind": kind}
    records = [alone, *(record(r, seed=s, split={"kind": kind}) for s, r in enumerate([7, 7, 9]))]
    low, high = summarise(records)
    assert difference(high, low) == "+6.67" + expected


def test_shared_seeds_are_counted_where_they_are_not_all() -> None:
    records = [record(r, seed=s) for s, r in enumerate([5, 6, 8])]
    records += [record(r, seed=s, model={"log": "mul"}) for s, r in enumerate([7, 7, 9, 2])]
    assert cells(records, "ALog-MUL")["against SPDNet"] == "+13.33 (p = 0.057, n = 3)"


def test_without_scipy_differences_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    records = [record(5 + s, seed=s, model={"log": log}) for s in range(3) for log in ("ln", "mul")]
    records[1] = record(9, model={"log": "mul"})
    assert cells(records, "ALog-MUL")["against SPDNet"] == "+13.33"


def test_splits_within_columns_are_said() -> None:
    split = {"kind": "group", "column": "session", "value": "1"}
    records = [
        record(split=split | {"within": [["excluded", "False"], ["subject", subject]]}) for subject in "12"
    ]
    heading = next(b for b in content(records, "t") if isinstance(b, Heading) and b.level == 2)
    assert heading.text == "fakes, one session left out, within excluded False and each subject"


def test_blocks_in_html() -> None:
    blocks = [
        Heading("<h>", 2),
        Paragraph("<p>"),
        Table(("a", "b"), [("<c>", "1"), ("d", "2")], strong=frozenset({1})),
    ]
    text = to_html(blocks, "<t>")
    assert "<title>&lt;t&gt;</title>" in text
    assert "<h2>&lt;h&gt;</h2>\n<p>&lt;p&gt;</p>" in text
    assert '<tr><th scope="row">&lt;c&gt;</th><td>1</td></tr>' in text
    assert '<tr class="strong"><th scope="row">d</th>' in text


def test_blocks_in_markdown() -> None:
    table = Table(("a", "b"), [("x|y", ""), ("*d*", "2")], strong=frozenset({1}))
    assert to_markdown([Heading("<h>", 2), table]) == (
        "## \\<h\\>\n\n| a | b |\n| --- | ---: |\n| x\\|y |  |\n| **\\*d\\*** | **2** |\n"
    )
    assert to_markdown([Paragraph("a\n# b")]) == "a \\# b\n"
