"""Whatever stands in a file of results, a page is a page and a table a table."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alem.cli import main
from alem.experiments import figures
from alem.experiments.report import write_report
from alem.experiments.report.blocks import Bullets, Heading, Listing, Paragraph, Table
from alem.experiments.report.html import to_html
from alem.experiments.report.markdown import to_markdown
from alem.linalg.errors import shown, spelled
from tests.experiments import fakes
from tests.experiments.test_report import Page

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a|b",
    "line\nbreak\r\n",
    "\x1b[2J\x1b]0;title\x07",
    "\u202egnp.exe\u2066",
    "\ud800",
    "\x00\x7f\x85\u2028",
    "$\\frac$ and $x$",
    "]]> --> &amp; <!--",
    "```\n# x",
    '</title><style>*{}</style> id="x" url(#a) href="#b" #0072b2',
    "_nolegend_",
    "\uffff",
)
EVERY = " ".join(HOSTILE)
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\uffff]")


def hostile() -> list[dict[str, Any]]:
    """Every text of a record is one of the above."""
    found = []
    for i, text in enumerate(HOSTILE):
        learned = {text: {"kind": text, "parameters": {text: [1.0, 2.0]}}}
        record = fakes.record(
            7,
            seed=i,
            model={"kind": text, "log": text, "metric": text, "option": text},
            recipe={"optimizer": text},
            classes=[text, f"{text}2", *HOSTILE[:2]],
            learned=learned,
            warnings=[text],
            versions={text: text},
            device=text,
            command=text,
            samples={"size": 7, "repaired": text},
        )
        # One section, for the sake of time.
        record["config"]["data"] = {"name": EVERY, "fingerprint": EVERY}
        split = {"kind": "group", "column": EVERY, "value": EVERY, "within": [[EVERY, EVERY]]}
        record["config"]["split"] = split
        found.append(record | {"key": f"{text}{i}"})
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    pytest.importorskip("matplotlib")
    return write_report(hostile(), tmp_path_factory.mktemp("report"), HOSTILE[1], HOSTILE[4])


def test_pages_and_pictures_hold_nothing_but_text(written: list[Path]) -> None:
    for path in written:
        text = path.read_text(encoding="utf-8")
        assert not OBEYED.search(text), path
        assert "\\x1b[2J" in text or path.suffix == ".svg"
        if path.suffix == ".svg":
            tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
            assert not tags & {"script", "img", "foreignObject", "a", "title"}
            assert all(path.parent.name == "figures" for path in written[2:])
    page = Page(written[0].read_text(encoding="utf-8"))
    assert page.open == []
    assert not {"script", "img", "iframe", "a", "link"} & set(page.tags)
    assert page.tags.count("style") == 1 + page.tags.count("svg")
    assert not [name for name, _ in page.attributes if name.startswith("on")]


def test_a_ledger_of_hostile_names_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "available", lambda: False)
    lines = [json.dumps(record) for record in hostile()]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out\x1b[2J")]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_errors_on_the_terminal_are_spelled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("\x1b[2J", "a\nb", "\u202ea"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "runs.jsonl").write_text("x\n", encoding="utf-8")
        train = ["train", "--data", str(folder)]
        for argv in (["report", str(folder)], train, ["report", "a", f"--{name}"]):
            try:
                code = main(argv)
            except SystemExit as error:
                code = int(error.code or 0)
            assert code == 2
            said = capsys.readouterr().err
            assert said.count("\n") == 1
            assert not OBEYED.search(said)


@given(st.text(st.characters(codec=None), max_size=60))
def test_any_text_is_spelled_once_and_for_all(text: str) -> None:
    made = spelled(text)
    assert not OBEYED.search(made)
    assert "\n" not in made
    made.encode("utf-8")
    assert spelled(made) == made
    assert shown("x" * 9000 + text, 100).startswith("x" * 50)
    assert len(shown("x" * 9000 + text, 100)) < 1100


@given(st.lists(st.text(max_size=40), min_size=3, max_size=3))
def test_any_text_in_html_is_text_and_in_markdown_a_cell(texts: list[str]) -> None:
    one, two, three = map(spelled, texts)
    blocks = [
        Heading(one, 1),
        Paragraph(two),
        Bullets([one, three]),
        Table((one, two), [(two, three), (three, one)]),
        Listing(three),
    ]
    page = Page(to_html(blocks, one))
    assert page.open == []
    assert page.tags[:7] == ["html", "head", "meta", "meta", "title", "style", "body"]
    kinds = "main h1 p ul li div table thead tbody tr th td pre code"
    assert set(page.tags[7:]) == set(kinds.split())
    table = to_markdown(blocks[3:4]).rstrip("\n").split("\n")
    assert len(table) == 4
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table} == {3}
