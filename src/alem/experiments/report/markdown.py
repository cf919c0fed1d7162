"""A report as Markdown, with its figures as files beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from alem.experiments.report.blocks import Block, Bullets, Heading, Listing, Paragraph, Picture, Table

FIGURES = "figures"
# What Markdown, or HTML within it, would read as more than the character.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")


def to_markdown(blocks: Sequence[Block]) -> str:
    """The page; pictures are expected in :data:`FIGURES`."""
    return "\n\n".join(map(_block, blocks)) + "\n"


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {_plain(block.text)}"
        case Paragraph():
            return _plain(block.text)
        case Bullets():
            return "\n".join(f"- {_plain(item)}" for item in block.items)
        case Listing():
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
            return f"{fence}sh\n{block.text}\n{fence}"
        case Table():
            return _table(block)
        case Picture():
            return f"![{_plain(block.caption)}]({FIGURES}/{block.name}.svg)"


def _table(table: Table) -> str:
    rule = ["---" if i < table.text else "---:" for i in range(len(table.head))]
    lines = [[_plain(cell) for cell in table.head], rule]
    for place, row in enumerate(table.rows):
        mark = "**" if place in table.strong else ""
        lines.append([f"{mark}{_plain(cell)}{mark}" if cell else "" for cell in row])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
