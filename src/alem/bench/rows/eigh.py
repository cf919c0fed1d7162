"""The eigendecomposition alone, against torch at its best thread count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from alem import linalg
from alem.bench.alone.inputs import SPECTRA, matrices
from alem.bench.alone.of_torch import errors
from alem.bench.alone.task import Task
from alem.bench.case import Case, Check, Disagreement, Options, Peer, Values

SIZES = (8, 16, 30, 32, 45, 64, 75, 93, 128, 256, 512)
BATCHES = (1, 8, 30, 256, 2048, 8192)
# batch·n³ above which a call of torch on two cores, or on CUDA, takes seconds; on CUDA it takes a
# millisecond for each matrix larger than 32.
LARGEST_CPU, LARGEST_CUDA = 3e8, 1e9
# The sizes of the targets, with every spectrum.
WATCHED_CPU = ((256, 30), (30, 30), (256, 64), (256, 93))
WATCHED_CUDA = ((2048, 75), (256, 75), (30, 93))
QUICK = ((256, 30), (30, 30), (256, 64))


def cases(options: Options) -> Iterator[Case]:
    """Sizes by batches for well conditioned matrices, the watched sizes for the others."""
    watched = WATCHED_CPU if options.on_cpu else WATCHED_CUDA
    for dtype in options.dtypes:
        grid = QUICK if options.quick else _grid(options)
        for batch, n in grid:
            yield case(options, SPECTRA[0], batch, n, dtype)
        for spectrum in SPECTRA[1:]:
            for batch, n in watched[:1] if options.quick else watched:
                yield case(options, spectrum, batch, n, dtype)


def _grid(options: Options) -> list[tuple[int, int]]:
    largest = LARGEST_CPU if options.on_cpu else LARGEST_CUDA
    return [(batch, n) for n in SIZES for batch in BATCHES if batch * n**3 <= largest]


def case(
    options: Options,
    spectrum: str,
    batch: int,
    n: int,
    dtype: str,
    row: str = "eigh",
    alone: bool = True,
    seconds: float = 0.6,
    series: str = "",
    x: float | None = None,
) -> Case:
    """A batch of matrices, decomposed by alem and by torch."""
    arguments: dict[str, Any] = {
        "spectrum": spectrum,
        "batch": batch,
        "n": n,
        "dtype": dtype,
        "device": options.device,
    }

    def ours() -> Task:
        X = matrices(**arguments)
        return Task(lambda: linalg.eigh(X), lambda: errors(X, *linalg.eigh(X)))

    peer = Peer("torch", "of_torch:eigh", arguments, [{"threads": t} for t in options.threads], alone)
    return Case(
        row,
        f"{batch}×{n}",
        dtype,
        spectrum,
        ours,
        peer,
        as_exact(dtype),
        seconds=seconds,
        series=series,
        x=x,
    )


def as_exact(dtype: str) -> Check:
    """The errors of both and the ratio of those of the reconstruction; refuses ten times torch's.

    Whether they are no worse than torch's is a target, and reported as one.
    """
    eps = torch.finfo(getattr(torch, dtype)).eps

    def check(ours: Values, theirs: Values) -> dict[str, float]:
        numbers: dict[str, float] = {}
        for name in ours:
            mine, other = float(ours[name]), float(theirs[name])
            if not mine <= 10 * max(other, eps):
                raise Disagreement(f"the error of {name} is {mine:.1e}, and torch's {other:.1e}")
            numbers |= {f"{name}, alem": mine, f"{name}, torch": other}
        # Where both are less than a rounding, which is smaller is chance.
        mine, other = (max(float(side["reconstruction"]), eps) for side in (ours, theirs))
        return {**numbers, "error ratio": mine / other}

    return check
