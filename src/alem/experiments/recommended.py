"""The recipe that serves a user best, and the candidates among which it was chosen.

The choice is by five-fold cross-validation inside FPHA's training set (``alem table choice``), one change
at a time from a common base, then around the best of them. No test sample took part in it; the base itself
is that of early experiments, whose settings had been looked at on FPHA's test set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from alem.experiments.table import Row, Settings


@dataclass(frozen=True)
class Recommended:
    """Options of :class:`alem.models.SPDNet`, a recipe, and the size of its matrix as a share of n."""

    options: Settings
    recipe: Settings
    share: float

    def row(self, label: str, share: float | None = None, **changes: Any) -> Row:
        """A row with some options or settings of the recipe changed."""
        options = {k: v for k, v in changes.items() if k not in _RECIPE}
        recipe = {k: v for k, v in changes.items() if k in _RECIPE}
        return Row(label, {**self.options, **options}, {**self.recipe, **recipe}, share=share or self.share)


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
    recipe={"optimizer": "amsgrad", "lr": 5e-3, "weight_decay": 1e-3, "schedule": "cosine", "epochs": 100},
    share=0.7,
)

CANDIDATES = (
    BASE.row("base: gap, 0.7 n, AMSGrad 5e-3 cosine, decay 1e-3, dropout 0.5, 100 epochs"),
    BASE.row("ln", log="ln"),
    BASE.row("mul", log="mul"),
    BASE.row("without whitening", whiten=False),
    BASE.row("without chart norm", chart_norm=False),
    BASE.row("matrix n", share=1.0),
    BASE.row("dropout 0.8", dropout=0.8),
    BASE.row("decay 1e-2", weight_decay=1e-2),
    BASE.row("lr 2e-3", lr=2e-3),
    BASE.row("matrix n, ln", share=1.0, log="ln"),
    BASE.row("matrix n, mul", share=1.0, log="mul"),
    BASE.row("matrix n, without whitening", share=1.0, whiten=False),
    BASE.row("matrix n, decay 1e-2", share=1.0, weight_decay=1e-2),
    BASE.row("matrix n, decay 3e-2", share=1.0, weight_decay=3e-2),
    BASE.row("matrix n, decay 1e-1", share=1.0, weight_decay=1e-1),
    BASE.row("matrix n, decay 3e-2, ln", share=1.0, weight_decay=3e-2, log="ln"),
)

# The best of them.
RECOMMENDED = replace(BASE, share=1.0, recipe={**BASE.recipe, "weight_decay": 1e-2})
