"""Every Python block of the README and the documentation runs, from top to bottom of its page."""

from __future__ import annotations

import re
import runpy
import warnings
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).parents[1]
DOCS = [p for p in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in p.parts]
PAGES = [ROOT / "README.md", *DOCS]
# Blocks, and the cells that run when the documentation is built too, after their options.
BLOCK = re.compile(
    r"^```(?:python|\{code-cell\} python)\n(?::[^\n]*\n)*(.*?)^```", re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text("utf-8"))], ids=lambda p: p.name
)
def test_the_examples_of_a_page_run(page: Path) -> None:
    matplotlib.use("Agg")
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        for block in BLOCK.findall(page.read_text("utf-8")):
            exec(compile(block, str(page), "exec"), names)
    assert names


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_the_examples_run(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out


def test_links_between_files_lead_somewhere() -> None:
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
