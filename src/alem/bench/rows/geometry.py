"""Fréchet means and distances, against pyRiemann and geoopt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from alem import geometry
from alem.bench.alone.inputs import matrices
from alem.bench.alone.task import Task
from alem.bench.case import Case, Options, Peer, agree

METRICS = ("lem", "lcm", "aim", "bwm")
IN_GEOOPT = ("lem", "aim")
SIZES = ((256, 30), (30, 93))
SPECTRUM = "well conditioned"
SAME = agree(float32=1e-3, float64=1e-6)


def cases(options: Options) -> Iterator[Case]:
    """Means and distances of every metric a peer has. pyRiemann computes in float64 on the CPU."""
    sizes = SIZES[:1] if options.quick else SIZES
    if options.on_cpu and "float64" in options.dtypes:
        for metric in METRICS:
            for batch, n in sizes:
                shape = {"spectrum": SPECTRUM, "batch": batch, "n": n, "dtype": "float64"}
                yield _mean(metric, shape)
                yield _distance(
                    metric, shape, Peer("pyriemann", "of_pyriemann:distances", _of(metric, shape))
                )
    for dtype in options.dtypes:
        for metric in IN_GEOOPT:
            for batch, n in sizes:
                shape = {
                    "spectrum": SPECTRUM,
                    "batch": batch,
                    "n": n,
                    "dtype": dtype,
                    "device": options.device,
                }
                threads = [{"threads": t} for t in options.threads]
                peer = Peer("geoopt", "of_geoopt:distances", _of(metric, shape), threads)
                yield _distance(metric, shape, peer)


def _of(metric: str, shape: dict[str, Any]) -> dict[str, Any]:
    return {"metric": metric, **shape}


def _mean(metric: str, shape: dict[str, Any]) -> Case:
    def ours() -> Task:
        X, m = matrices(**shape), geometry.metric(metric, n=shape["n"]).double()
        return Task(lambda: m.mean(X), lambda: {"mean": m.mean(X)})

    peer = Peer("pyriemann", "of_pyriemann:frechet_mean", _of(metric, shape))
    return _case("mean", metric, shape, ours, peer)


def _distance(metric: str, shape: dict[str, Any], peer: Peer) -> Case:
    def ours() -> Task:
        X, Y = (matrices(**shape, seed=seed) for seed in (0, 1))
        m = geometry.metric(metric, n=shape["n"]).to(device=X.device, dtype=X.dtype)
        return Task(lambda: m.dist(X, Y), lambda: {"distances": m.dist(X, Y)})

    return _case("distance", metric, shape, ours, peer)


def _case(what: str, metric: str, shape: dict[str, Any], ours: Any, peer: Peer) -> Case:
    name = f"{what} {metric} {shape['batch']}×{shape['n']}"
    return Case("geometry", name, shape["dtype"], SPECTRUM, ours, peer, SAME, seconds=0.6)
