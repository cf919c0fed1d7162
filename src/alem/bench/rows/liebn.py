"""LieBN in training, forward and backward, against spd_learn's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from alem import geometry, nn
from alem.bench.alone.inputs import matrices
from alem.bench.alone.task import Task
from alem.bench.case import Case, Options, Peer, agree

METRICS = ("lem", "lcm", "aim")
SIZES = ((30, 30), (256, 30), (30, 70))
# Outputs only: spd_learn's gradient leaves out the mean and the variance. It adds 1e-5 to the variance,
# and stops the mean of AIM after two iterations, which alone is 2e-4 of the output.
SAME = agree(float32=1e-3, float64=1e-3)


def cases(options: Options) -> Iterator[Case]:
    """Three metrics by three sizes."""
    for dtype in options.dtypes:
        for metric in METRICS:
            for batch, n in SIZES[:1] if options.quick else SIZES:
                yield case(options, metric, batch, n, dtype)


def case(options: Options, metric: str, batch: int, n: int, dtype: str) -> Case:
    """The same batch through both layers."""
    spectrum = "well conditioned"
    arguments: dict[str, Any] = {
        "spectrum": spectrum,
        "batch": batch,
        "n": n,
        "dtype": dtype,
        "device": options.device,
    }

    def ours() -> Task:
        X = matrices(**arguments).requires_grad_()
        G = matrices(**arguments, seed=1)
        layer = nn.LieBN(n, geometry.metric(metric, n=n)).to(device=X.device, dtype=X.dtype)
        # backward adds to the gradients, on both sides
        return Task(lambda: torch.autograd.backward(layer(X), G), lambda: {"output": layer(X).detach()})

    threads = [{"threads": t} for t in options.threads]
    peer = Peer("spd_learn", "of_spd_learn:liebn", {"metric": metric, **arguments}, threads)
    return Case("liebn", f"LieBN {metric} {batch}×{n}", dtype, spectrum, ours, peer, SAME, seconds=0.8)
