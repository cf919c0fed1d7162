"""A training as a script: alone, or in each of the processes that torchrun starts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from alem import data, models
from alem.training import History, Part, Recipe, fit, seeded


def train(folder: Path, dies_after: int) -> None:
    """Train on some digits, in a last batch that is smaller, and write what came of it."""
    torch.set_num_threads(1)
    digits = data.digits()
    places = torch.arange(len(digits))
    train, test = (Part(digits.matrices, digits.labels, p) for p in (places[:205], places[205:300]))
    net = seeded(
        0, lambda: models.SPDNet([7, 6, 5], 10, norm="liebn", metric="sinh", whiten=True, chart_norm=True)
    )

    def watch(history: History) -> None:
        if len(history) == dies_after:
            os._exit(1)

    fitted = fit(
        net,
        train,
        test,
        Recipe(lr=0.05, epochs=3, batch_size=32),
        checkpoint=folder / "checkpoint.safetensors",
        saved_every=0.0,
        watch=watch,
    )
    rank = os.environ.get("RANK", "alone")
    history = {k: v for k, v in vars(fitted.history).items() if k != "seconds"}
    (folder / f"{rank}.json").write_text(json.dumps(history))
    torch.save(net.state_dict(), folder / f"{rank}.pt")


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]))
