"""What a report is made of, before it is HTML or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Heading:
    """A heading; 1 is the title of the report."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """Plain texts in a list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Listing:
    """Something to type, line by line."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head; columns from ``text`` on are numbers, rows in ``strong`` stand out."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: int = 1
    strong: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Picture:
    """A drawing of :func:`alem.experiments.figures.draw`, its name as a file, and what it shows."""

    drawing: str
    name: str
    caption: str


Block = Heading | Paragraph | Bullets | Listing | Table | Picture
