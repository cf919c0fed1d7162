"""How time grows with the batch and with n."""

from __future__ import annotations

from collections.abc import Iterator

from alem.bench.case import Case, Options
from alem.bench.rows import eigh, step

BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
SIZES = (8, 16, 32, 64, 128)
STEP_BATCHES = (8, 32, 128, 512, 2048)
STEP_SIZES = (16, 32, 64, 128, 256)
SPECTRUM = "well conditioned"


def cases(options: Options) -> Iterator[Case]:
    """Four curves; the exponent of each is fitted in the report."""
    few = 4 if options.quick else None
    for dtype in options.dtypes[:1] if options.quick else options.dtypes:
        for batch in BATCHES[:few]:
            yield _eigh(options, "eigh, batch, n = 30", batch, 30, dtype, batch)
        for n in SIZES[:few]:
            yield _eigh(options, "eigh, n, batch 64", 64, n, dtype, n)
        for batch in STEP_BATCHES[:few]:
            yield _step(options, "step {75,30}, batch", (75, 30), batch, dtype, batch)
        for n in STEP_SIZES[:few]:
            yield _step(options, "step {n,n/2}, n, batch 30", (n, n // 2), 30, dtype, n)


def _eigh(options: Options, series: str, batch: int, n: int, dtype: str, x: int) -> Case:
    return eigh.case(
        options, SPECTRUM, batch, n, dtype, row="growth", alone=False, seconds=0.25, series=series, x=x
    )


def _step(options: Options, series: str, dims: tuple[int, ...], batch: int, dtype: str, x: int) -> Case:
    return step.case(
        options, dims, batch, dtype, SPECTRUM, row="growth", alone=False, seconds=0.25, series=series, x=x
    )
