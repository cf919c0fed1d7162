"""A step of Riemannian SGD, against geoopt on its own manifolds."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from alem import geometry, optim
from alem.bench.alone.inputs import Moved, directions, parameters
from alem.bench.alone.task import Task
from alem.bench.case import Case, Options, Peer, agree

CASES = ("BiMap 30×93", "BiMaps 70×93, 50×70, 30×50", "BiMap 100×512", "SPD 30", "a network of all")
LR = 1e-5
# The directions (x' − x)/lr: the two retractions differ in the second order of lr, and float32 has rounded
# x to 1e-8, which is 1e-3 of a step of this length.
SAME = agree(float32=1e-2, float64=1e-3)


def cases(options: Options) -> Iterator[Case]:
    """Parameters of several kinds."""
    for dtype in options.dtypes:
        for name in CASES[:2] if options.quick else CASES:
            yield case(options, name, dtype)


def case(options: Options, name: str, dtype: str) -> Case:
    """The same step by both."""
    device = options.device

    def ours() -> Task:
        moved = parameters(name, dtype, device)
        optimizer = optim.RiemannianSGD(own(moved), lr=LR)

        def values() -> dict[str, Tensor]:
            points = own(parameters(name, dtype, device))
            optim.RiemannianSGD(points, lr=LR).step()
            return directions(points, moved, LR)

        return Task(lambda: optimizer.step(), values)

    arguments = {"case": name, "dtype": dtype, "lr": LR, "device": device}
    peer = Peer("geoopt", "of_geoopt:sgd", arguments, [{"threads": t} for t in options.threads])
    return Case("sgd", name, dtype, "", ours, peer, SAME, seconds=0.6)


def own(moved: list[Moved]) -> list[Tensor]:
    """The parameters on alem's manifolds, with their gradients."""
    make = {"O": geometry.stiefel_parameter, "P": geometry.spd_parameter, "E": nn.Parameter}
    result: list[Tensor] = []
    for kind, value, gradient in moved:
        p = make[kind](value.clone())
        p.grad = gradient
        result.append(p)
    return result
