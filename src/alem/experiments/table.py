"""A table: rows are methods, columns are settings, a cell is the runs of one method over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from alem.experiments.method import Method, one_bimap
from alem.experiments.protocols import Protocol
from alem.experiments.run import Run
from alem.training import Recipe

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Published:
    """What the paper reports: a mean and, where it gives one, a deviation, in percent."""

    mean: float
    deviation: float | None = None

    @classmethod
    def parse(cls, text: str) -> Published | None:
        """From ``62.92±0.81``, ``48.53``, or ``-`` for nothing."""
        if text == "-":
            return None
        mean, _, deviation = text.partition("±")
        return cls(float(mean), float(deviation) if deviation else None)


@dataclass(frozen=True)
class Column:
    """A setting: a data set, the sizes of the network, and what it changes of the recipe.

    ``seeds`` is how many are taken where that differs from the rest of the table.
    """

    label: str
    protocol: Protocol
    dims: tuple[int, ...] | None = None
    recipe: Settings = field(default_factory=dict)
    seeds: int | None = None


@dataclass(frozen=True)
class Row:
    """A method: a kind of network with options, or a baseline (``recipe=None``).

    ``published`` has the paper's number for each column, in order, where there is one; ``by_column`` what
    the row changes of the recipe in one column. With ``share`` the network has one BiMap, to matrices of
    that share of the input's size, in place of the sizes of the column; with a share of 0 it has none.
    """

    label: str
    options: Settings = field(default_factory=dict)
    recipe: Settings | None = field(default_factory=dict)
    kind: str = "SPDNet"
    published: tuple[Published | None, ...] = ()
    by_column: Mapping[str, Settings] = field(default_factory=dict)
    share: float | None = None

    @property
    def is_baseline(self) -> bool:
        """Whether nothing is trained by gradients."""
        return self.recipe is None


@dataclass(frozen=True)
class Table:
    """Rows × columns with a recipe that holds for all; ``seeds`` is how many the paper, or we, take.

    ``average`` adds the mean over the columns, each counted once. ``tail`` > 1 makes the number of a run
    the median of its last ``tail`` epochs, as the paper does for AFEW; the last epoch stands beside it.
    ``against`` names the rows with which others are compared by a paired test.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    recipe: Settings = field(default_factory=dict)
    seeds: int = 10
    tail: int = 1
    against: tuple[str, ...] = ()
    average: bool = False

    def method(self, row: Row, column: Column, n: int, changes: Settings | None = None) -> Method:
        """What a cell runs on n×n matrices; ``changes`` of the recipe come from the command line."""
        if row.recipe is None:
            return Method(row.kind, options=row.options)
        dims = column.dims or column.protocol.dims
        if row.share is not None:
            dims = one_bimap(row.share, n)
        own = row.by_column.get(column.label, {})
        recipe = {**self.recipe, **column.recipe, **row.recipe, **own, **(changes or {})}
        return Method(row.kind, dims, row.options, Recipe(**recipe))

    def cells(
        self,
        paths: Mapping[str, str],
        seeds: int | None = None,
        rows: Sequence[str] = (),
        changes: Settings | None = None,
    ) -> dict[tuple[str, str], list[Run]]:
        """The runs of each cell, by the labels of row and column, seed after seed.

        Columns whose data set has no entry in ``paths`` are left out, and rows but those named.
        """
        found: dict[tuple[str, str], list[Run]] = {}
        for column in self.columns:
            if column.protocol.name not in paths:
                continue
            source = column.protocol.source(paths[column.protocol.name])
            dataset = source.load()
            splits = column.protocol.splits(dataset)
            count = seeds or column.seeds or self.seeds
            for row in self.rows:
                if rows and row.label not in rows:
                    continue
                method = self.method(row, column, dataset.n, changes)
                # A baseline on a fixed split gives the same answer for every seed.
                fixed = row.is_baseline and all(split.kind not in ("half", "part") for split in splits)
                found[row.label, column.label] = [
                    Run(source, method, split, seed)
                    for seed in range(1 if fixed else count)
                    for split in splits
                ]
        return found

    @property
    def data(self) -> tuple[str, ...]:
        """The names of the data sets, each once."""
        return tuple(dict.fromkeys(column.protocol.name for column in self.columns))

    def row(self, label: str) -> Row:
        """The row of that label."""
        return next(row for row in self.rows if row.label == label)


def published(text: str) -> tuple[Published | None, ...]:
    """The paper's numbers of a row, separated by blanks."""
    return tuple(Published.parse(word) for word in text.split())
