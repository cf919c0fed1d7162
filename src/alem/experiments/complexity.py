"""What layers cost: parameters, statistics and the time of a step, on the paper's deepest AFEW network."""

from __future__ import annotations

import statistics
import time
import warnings
from typing import Any

import torch

from alem import linalg, models
from alem.experiments.paper import AFEW, AFEW_TABLE
from alem.geometry.rank_log import NotADiffeomorphismWarning
from alem.training import Recipe, TrainingStep

N, CLASSES, BATCH = 512, 7, 30
METHODS: dict[str, dict[str, Any]] = {
    "SPDNet": {},
    "ALog-MUL": {"log": "mul"},
    "ALog-sinh": {"log": "sinh"},
    "ALog-gap": {"log": "gap"},
    "SPDNetBN": {"norm": "spdnetbn"},
    "LieBN-LEM": {"norm": "liebn"},
    "LieBN-ALEM": {"norm": "liebn", "metric": "alem"},
}
HEAD = ("method", "parameters", "more than SPDNet", "statistics", "step, times SPDNet's")
Line = tuple[str, int, int, int, float]


def measure(dims: tuple[int, ...] | None = None, n: int = N, steps: int = 3) -> list[Line]:
    """Method, parameters, those beyond SPDNet's, entries of buffers, median time of a step as a ratio."""
    dims = dims or AFEW_TABLE.columns[-1].dims or AFEW.dims
    torch.manual_seed(0)
    signals = torch.randn(BATCH, n, 2 * n, dtype=torch.float64)
    X, y = linalg.covariance(signals), torch.arange(BATCH) % CLASSES
    nets = {
        name: models.SPDNet([n, *dims], CLASSES, **options).double() for name, options in METHODS.items()
    }
    calls = {name: TrainingStep(net, Recipe(lr=1e-3).make_optimizer(net)) for name, net in nets.items()}
    seconds: dict[str, list[float]] = {name: [] for name in nets}
    with warnings.catch_warnings():
        # That ALEM with unequal multipliers is no metric is not what is asked here.
        warnings.simplefilter("ignore", NotADiffeomorphismWarning)
        for _ in range(1 + steps):
            # In turn, so that what else the machine does meets all of them; the first round warms up.
            for name, call in calls.items():
                start = time.perf_counter()
                call(X, y)
                seconds[name].append(time.perf_counter() - start)
    median = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    counts = {name: sum(p.numel() for p in net.parameters()) for name, net in nets.items()}
    return [
        (
            name,
            counts[name],
            counts[name] - counts["SPDNet"],
            sum(b.numel() for b in net.buffers()),
            median[name] / median["SPDNet"],
        )
        for name, net in nets.items()
    ]


def cells(lines: list[Line]) -> list[tuple[str, ...]]:
    """The lines as text, the head first."""
    return [
        HEAD,
        *((name, f"{a:,}", f"{b:,}", f"{c:,}", f"{ratio:.2f}") for name, a, b, c, ratio in lines),
    ]


TITLE = "Model complexity on AFEW, {512,400,300,200,100}"


def markdown(lines: list[Line]) -> str:
    """The page of the table."""
    head, *rest = cells(lines)
    rule = ("---", *["---:"] * (len(head) - 1))
    return f"# {TITLE}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rest)) + "\n"


def text(lines: list[Line]) -> str:
    """The table for a terminal."""
    rows = cells(lines)
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    return "\n".join(
        [TITLE, ""] + ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    )
