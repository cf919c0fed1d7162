"""All that a ledger has to say, on one page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from alem.experiments.figures import to_file
from alem.experiments.ledger import Record
from alem.experiments.report.blocks import Picture
from alem.experiments.report.content import content
from alem.experiments.report.html import to_html
from alem.experiments.report.markdown import FIGURES, to_markdown
from alem.files import whole
from alem.linalg.errors import spelled

__all__ = ["pages", "write_report", "write_whole"]


def pages(out: Path) -> list[Path]:
    """What :func:`write_report` writes into ``out``, of figures a name that any might have."""
    return [out / "report.html", out / "report.md", out / FIGURES / "1.svg"]


def write_report(
    records: Iterable[Record], out: Path, title: str, command: str | None = None
) -> list[Path]:
    """Write ``report.html``, ``report.md`` and ``figures/`` into the folder ``out``; the files.

    One section for each data set and kind of split. ``report.html`` holds its figures itself. ``command``
    is how to repeat it, before the commands in the records. The same records give the same bytes. Without
    matplotlib the report has no figures, and says so.
    """
    records = [_spelled(record) for record in records]
    title, command = spelled(title), None if command is None else spelled(command)
    blocks = content(records, title, command)
    files = {
        out / FIGURES / f"{block.name}.svg": to_file(block.drawing)
        for block in blocks
        if isinstance(block, Picture)
    }
    files |= {out / "report.md": to_markdown(blocks), out / "report.html": to_html(blocks, title)}
    for path, text in files.items():
        write_whole(path, text)
    return list(reversed(files))


def _spelled(value: Any) -> Any:
    """A record in whose texts nothing is left that a page or a terminal obeys."""
    if isinstance(value, str):
        return spelled(value)
    if isinstance(value, dict):
        return {spelled(key): _spelled(own) for key, own in value.items()}
    # Numbers, of which there may be many, stand in lists without texts.
    if isinstance(value, list) and not all(type(own) in (int, float) for own in value):
        return [_spelled(own) for own in value]
    return value


def write_whole(path: Path, text: str) -> None:
    """The whole file, or the old one stays."""
    with whole(path) as file:
        file.write(text.encode())
