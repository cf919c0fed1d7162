"""docs/claims.md names these tests, all of them, and counts its verdicts right."""

import ast
import re
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "claims.md").read_text(encoding="utf-8")
VERDICTS = ("Holds", "Holds under a condition", "False", "Typo")
NAMED = re.compile(r"`tests/claims/(test_\w+\.py::test_\w+)`")


def rows(heading):
    """The cells of the first table under a heading, without its header."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = re.search(r"(?:^\|.*\|\n)+", section, re.MULTILINE).group()
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()][2:]


def test_page_names_every_test_and_only_tests_that_exist():
    existing = {
        f"{path.name}::{node.name}"
        for path in HERE.glob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    assert len(existing) > 50
    assert set(NAMED.findall(PAGE)) == existing
    assert PAGE.count("tests/claims/test_") == len(NAMED.findall(PAGE))  # none is misspelt


def test_verdicts_are_counted():
    found = Counter(row[1] for row in rows("Claims of the paper"))
    stated = {verdict: int(count) for verdict, count in rows("The verdicts")}
    assert list(stated) == list(VERDICTS)
    assert stated == found


def test_every_claim_has_a_verdict_and_a_test():
    for row in rows("Claims of the paper"):
        assert len(row) == 5, row
        claim, verdict, condition, _, tests = row
        assert verdict in VERDICTS, claim
        assert NAMED.search(tests), claim
        assert condition or verdict == "Holds", claim
