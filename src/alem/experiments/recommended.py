"""The recipe that serves a user best, and the candidates among which it was chosen.

The choice is by cross-validation inside the training sets of four data sets (``alem table choice``), one
change at a time from a common base. No test sample took part in it; the base itself is that of early
experiments, whose settings had been looked at on FPHA's test set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from alem.experiments.table import Row, Settings


@dataclass(frozen=True)
class Recommended:
    """Options of :class:`alem.models.SPDNet`, a recipe, and ``share`` as in :class:`Row`."""

    options: Settings
    recipe: Settings
    share: float

    def row(self, label: str, share: float | None = None, **changes: Any) -> Row:
        """A row with some options or settings of the recipe changed."""
        options = {k: v for k, v in changes.items() if k not in _RECIPE}
        recipe = {k: v for k, v in changes.items() if k in _RECIPE}
        share = self.share if share is None else share
        return Row(label, {**self.options, **options}, {**self.recipe, **recipe}, share=share)


_RECIPE = ("optimizer", "lr", "metric_lr", "weight_decay", "schedule", "epochs", "batch_size")

BASE = Recommended(
    options={
        "log": "gap",
        "trace_norm": True,
        "whiten": True,
        "chart_norm": True,
        "dropout": 0.5,
        "vec": "vech",
    },
    recipe={"optimizer": "amsgrad", "lr": 5e-3, "weight_decay": 1e-2, "schedule": "cosine", "epochs": 100},
    share=0.0,
)

# The best of them on average has a square BiMap, which begins at a rotation. The coordinates of a matrix
# that was rotated at random have about the same variance: to normalise each of them is to scale them all.
SQUARE = replace(BASE, share=1.0)

CANDIDATES = (
    BASE.row("base: gap, no BiMap, AMSGrad 5e-3 cosine, decay 1e-2, dropout 0.5, 100 epochs"),
    *(BASE.row(log, log=log) for log in ("ln", "mul", "div", "sinh", "rank")),
    SQUARE.row("BiMap to n"),
    BASE.row("BiMap to 0.7 n", share=0.7),
    BASE.row("without whitening", whiten=False),
    BASE.row("without trace norm", trace_norm=False),
    BASE.row("without chart norm", chart_norm=False),
    BASE.row("without dropout", dropout=0.0),
    BASE.row("dropout 0.2", dropout=0.2),
    BASE.row("dropout 0.8", dropout=0.8),
    BASE.row("decay 1e-3", weight_decay=1e-3),
    BASE.row("decay 3e-2", weight_decay=3e-2),
    BASE.row("decay 1e-1", weight_decay=1e-1),
    BASE.row("lr 2e-3", lr=2e-3),
    BASE.row("lr 1e-2", lr=1e-2),
    BASE.row("lr 2e-2", lr=2e-2),
    BASE.row("metric_lr 1/10", metric_lr=1 / 10),
    BASE.row("constant rate", schedule="constant"),
    BASE.row("50 epochs", epochs=50),
    # A second round, around the best of the first.
    *(SQUARE.row(f"BiMap to n, {log}", log=log) for log in ("ln", "mul", "sinh")),
    SQUARE.row("BiMap to n, without chart norm", chart_norm=False),
    SQUARE.row("BiMap to n, without dropout", dropout=0.0),
    SQUARE.row("BiMap to n, dropout 0.2", dropout=0.2),
)

RECOMMENDED = SQUARE
