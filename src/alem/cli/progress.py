"""Progress on the terminal: a bar of epochs where runs follow one another, of runs where they do not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alem.experiments import Run
    from alem.experiments.ledger import Record
    from alem.training import History


class Bar:
    """One bar for a grid; ``watch`` and ``say`` go to :func:`alem.experiments.run_grid`."""

    def __init__(self, bar: object, epochs: bool) -> None:
        self._bar, self._epochs = bar, epochs
        self._warned: set[str] = set()

    def watch(self, history: History) -> None:
        """An epoch is done."""
        if self._epochs:
            self._bar.update()  # type: ignore[attr-defined]
            tested = f", test {100 * history.test_accuracy[-1]:.1f} %" if history.test_accuracy else ""
            self._bar.set_postfix_str(f"loss {history.loss[-1]:.3f}{tested}")  # type: ignore[attr-defined]

    def say(self, record: Record, done: int, of: int) -> None:
        """A run is done."""
        from alem.experiments.naming import label

        if not self._epochs:
            self._bar.update()  # type: ignore[attr-defined]
            self._bar.set_postfix_str(  # type: ignore[attr-defined]
                f"{label(record)}, seed {record['config']['seed']}: {100 * record['accuracy']:.1f} %"
            )
        if record["stopped"]:
            self._bar.write(f"{label(record)}: stopped early, {record['stopped']}")  # type: ignore[attr-defined]
        for warning in sorted({*record["warnings"]} - self._warned):
            self._bar.write(f"{label(record)}: {warning}")  # type: ignore[attr-defined]
            self._warned.add(warning)


@contextmanager
def progress(runs: Sequence[Run], parallel: bool) -> Iterator[Bar]:
    """A bar for runs that are still to be made; none where the output is not a terminal's."""
    from tqdm import tqdm

    epochs = [run.method.recipe.epochs for run in runs if run.method.recipe is not None]
    by_epoch = not parallel and len(epochs) == len(runs)
    total, unit = (sum(epochs), "epoch") if by_epoch else (len(runs), "run")
    with tqdm(total=total, unit=unit, file=sys.stderr, dynamic_ncols=True, disable=not runs) as bar:
        yield Bar(bar, by_epoch)
