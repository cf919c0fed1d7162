"""What a training step keeps in memory, against spd_learn."""

from __future__ import annotations

from collections.abc import Iterator

from alem.bench.case import Case, Options
from alem.bench.rows import step

NETWORKS = (((93, 70, 50, 30), 30), ((75, 30), 256))


def cases(options: Options) -> Iterator[Case]:
    """Bytes kept from the forward to the backward pass; on CUDA the allocator's peak."""
    for dtype in options.dtypes:
        for dims, batch in NETWORKS:
            yield step.case(
                options, dims, batch, dtype, "well conditioned", row="memory", unit="B", eager=True
            )
