"""The learned logarithms against LogEig, as a whole training step of alem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from alem.bench.case import Case, Options, Ourselves, agree
from alem.bench.rows.step import training_step

PAPER = ("mul", "div", "relu")
SOUND = ("sinh", "rank", "gap")
NETWORKS = (((93, 30), 30), ((93, 70, 50, 30), 30))
SAME = agree(float32=1e-3, float64=1e-8)  # every rule starts at the natural logarithm


def cases(options: Options) -> Iterator[Case]:
    """Every rule by two networks."""
    for dtype in options.dtypes:
        for dims, batch in NETWORKS[:1] if options.quick else NETWORKS:
            for rule in PAPER + SOUND:
                yield case(options, rule, dims, batch, dtype)


def case(options: Options, rule: str, dims: tuple[int, ...], batch: int, dtype: str) -> Case:
    """The same network with the two logarithms."""
    arguments: dict[str, Any] = {
        "dims": dims,
        "batch": batch,
        "dtype": dtype,
        "spectrum": "well conditioned",
        "device": options.device,
    }
    name = f"{rule} {{{','.join(map(str, dims))}}} batch {batch}"
    baseline = Ourselves("LogEig", lambda: training_step(**arguments))
    return Case(
        "logs",
        name,
        dtype,
        "well conditioned",
        lambda: training_step(**arguments, log=rule),
        baseline,
        SAME,
        seconds=1.0,
    )
