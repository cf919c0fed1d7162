"""What each process of the tests of synchronised norms does."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn

import alem.nn as an
from alem import geometry, models, optim
from alem.nn.sync import Synchronised

N, SIZE, STEPS = 4, 12, 2


def norms() -> dict[str, Callable[[], nn.Module]]:
    """Every norm of the library, on 4×4 matrices."""
    flat = ("lem", "lcm", "alem", "alcm", "sinh", "rank", "gap")
    return {
        **{f"LieBN {name}": lambda name=name: an.LieBN(N, _metric(name)) for name in (*flat, "aim")},
        **{f"ChartNorm {name}": lambda name=name: an.ChartNorm(N, _metric(name)) for name in flat},
        "ChartNorm": lambda: an.ChartNorm(N),
        "SPDNetBN": lambda: an.SPDNetBN(N, karcher_steps=2),
        "SPDBN": lambda: an.SPDBN(N),
        "SPDBN domains": lambda: an.SPDBN(N, domains=3),
        "shared mean bwm": lambda: SharedMean(geometry.BuresWasserstein()),
        "gathered mean": lambda: SharedMean(Gathered()),
        "RResBlock": lambda: an.RResBlock(N, _metric("lem")),
        "SPDNet": lambda: models.SPDNet([N, 3], 5, norm="liebn", metric="sinh", chart_norm=True),
    }


class SharedMean(Synchronised):
    """The mean of all matrices added to each; of metrics that no norm of the library averages by."""

    def __init__(self, metric: geometry.Metric) -> None:
        super().__init__()
        self.metric = metric

    def forward(self, X: Tensor) -> Tensor:
        return X + self.metric.shared_mean(X, self.group)


class Gathered(geometry.AffineInvariant):
    """A metric that knows nothing of processes."""

    shared_mean = geometry.Metric.shared_mean


def _metric(name: str) -> geometry.Metric:
    metric = geometry.metric(name, n=N)
    with torch.no_grad():
        for p in metric.parameters():
            p.add_(0.2 * torch.cos(torch.arange(p.numel())).reshape(p.shape))
    return metric


def batch(step: int) -> Tensor:
    """The matrices of a step, the same in every process."""
    G = torch.Generator().manual_seed(step)
    return geometry.sample_wishart(SIZE, n=N, generator=G, dtype=torch.float64)


def shares(size: int, uneven: bool) -> list[slice]:
    """The part of each process; they differ in length if ``uneven``."""
    ends = torch.linspace(0, SIZE, size + 1).long().tolist()
    if uneven and size > 1:
        ends[1] -= 2
    return [slice(a, b) for a, b in itertools.pairwise(ends)]


def run(make: Callable[[], nn.Module], name: str, part: slice, group: Any = None) -> dict[str, Tensor]:
    """Train a layer on its part for some steps; outputs, gradients of the sum of all losses, statistics."""
    torch.manual_seed(0)
    layer = make().double()
    if group is not None:
        an.convert_sync(layer, group)
    found: dict[str, Tensor] = {}
    for step in range(STEPS):
        X = batch(step)[part].clone().requires_grad_()
        args = (X, (torch.arange(SIZE) % 3)[part]) if name == "SPDBN domains" else (X,)
        Y = layer(*args)
        G = torch.Generator().manual_seed(100 + step)
        weights = torch.randn(SIZE, *Y.shape[1:], generator=G, dtype=torch.float64)[part]
        layer.zero_grad()
        (weights * Y).sum().backward()
        found[f"output {step}"], found[f"gradient {step}"] = Y.detach(), X.grad
        for key, p in layer.named_parameters():
            grad = torch.zeros_like(p) if p.grad is None else p.grad.clone()
            if group is not None:
                distributed.all_reduce(grad, group=group)
            found[f"parameter {step} {key}"] = grad
    found |= {f"state {key}": t.clone() for key, t in layer.state_dict().items()}
    return found


def train(ddp: bool, part: slice) -> dict[str, Tensor]:
    """Three steps of a network with norms; losses, parameters and statistics."""
    torch.manual_seed(0)
    net: nn.Module = models.SPDNet(
        [N, 4, 3], 3, norm="liebn", metric="gap", log="sinh", chart_norm=True
    ).double()
    own = net
    if ddp:
        net = nn.parallel.DistributedDataParallel(an.convert_sync(net))
    optimizer = optim.RiemannianSGD(own, lr=0.05)
    losses = []
    for step in range(3):
        loss = nn.functional.cross_entropy(net(batch(step)[part]), (torch.arange(SIZE) % 3)[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    total = torch.stack(losses)
    if ddp:
        distributed.all_reduce(total)
        total /= distributed.get_world_size()
    return {"losses": total, **{key: t.clone() for key, t in own.state_dict().items()}}


def work(rank: int, size: int, folder: str) -> None:
    """A process: all layers, even and uneven batches, and the network; what it found goes to a file."""
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    try:
        world = distributed.group.WORLD
        found: dict[str, Any] = {
            f"{name}{', uneven' if uneven else ''}": run(make, name, shares(size, uneven)[rank], world)
            for name, make in norms().items()
            for uneven in (False, True)
        }
        found["network"] = train(True, shares(size, False)[rank])
        before = an.LieBN(N, geometry.LogEuclidean())
        after = copy.deepcopy(an.convert_sync(copy.deepcopy(before)))
        assert after.state_dict().keys() == before.state_dict().keys()
        assert after.group is world
        assert before.group is None
        found["layer"] = pickle.dumps(after)
        pair = distributed.new_group([0, 1])
        if rank < 2:
            assert an.convert_sync(before, pair).group is pair
        torch.save(found, Path(folder, f"{rank}.pt"))
    finally:
        distributed.destroy_process_group()
