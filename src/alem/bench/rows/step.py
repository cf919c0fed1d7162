"""A training step of SPDNet (forward, backward, optimiser) against spd_learn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from alem import models, nn, optim
from alem.bench.alone.inputs import labels, matrices, weights
from alem.bench.alone.task import Task
from alem.bench.case import Case, Options, Peer, agree
from alem.training import TrainingStep

CLASSES, EPS, LR = 10, 1e-4, 1e-3
NETWORKS: tuple[tuple[tuple[int, ...], int], ...] = (
    ((93, 30), 30),
    ((93, 70, 30), 30),
    ((93, 70, 50, 30), 30),
    ((75, 30), 30),
    ((75, 30), 256),
    ((75, 30), 2048),
    ((75, 60, 45), 256),
    ((512, 200, 100), 30),
)
MORE_ON_CUDA = (((93, 70, 50, 30), 256),)
QUICK = NETWORKS[:1] + NETWORKS[2:3]
# The rank of the input of a deep network, between the last two sizes: ReEig raises eigenvalues after
# the first BiMap, and the gradient is the same on both sides. Below the last size the floor ε itself
# is an eigenvalue after every BiMap, and whether it is counted as raised is a matter of rounding.
RANKS = {(93, 70, 30): 50, (93, 70, 50, 30): 60, (75, 60, 45): 50, (512, 200, 100): 150}
LOW_RANK = (((93, 70, 50, 30), 30), ((75, 60, 45), 256))
CLUSTERED = (((93, 30), 30), ((75, 30), 256))
# Relative. In float32 a rounding of 1e-7 of an eigenvalue of 1e-4 is 1e-3 of its logarithm and of 1/λ.
SAME = agree(float32=5e-3, float64=1e-6)


def cases(options: Options) -> Iterator[Case]:
    """Every network on friendly and on hostile spectra."""
    networks = QUICK if options.quick else NETWORKS if options.on_cpu else NETWORKS + MORE_ON_CUDA
    for dtype in options.dtypes:
        for dims, batch in networks:
            yield case(options, dims, batch, dtype, "well conditioned")
            yield case(
                options, dims, batch, dtype, "rank-deficient", rank=RANKS.get(dims, 2 * dims[-1] // 3)
            )
            if (dims, batch) in LOW_RANK:
                yield case(options, dims, batch, dtype, "low rank", rank=2 * dims[-1] // 3)
            if (dims, batch) in CLUSTERED:
                yield case(options, dims, batch, dtype, "clustered", rank=dims[-1] // 3)


def case(
    options: Options,
    dims: tuple[int, ...],
    batch: int,
    dtype: str,
    spectrum: str,
    rank: int | None = None,
    row: str = "step",
    eager: bool = False,
    **more: Any,
) -> Case:
    """The same network, weights and batch in alem and in spd_learn.

    ReEig after every BiMap but the last, as in the paper; on rank-deficient input also between the
    BiMap and the logarithm of a network that has only one.
    """
    arguments: dict[str, Any] = {
        "dims": dims,
        "batch": batch,
        "dtype": dtype,
        "spectrum": "rank-deficient" if spectrum == "low rank" else spectrum,
        "rank": rank,
        "last_reeig": len(dims) == 2 and spectrum == "rank-deficient",
        "device": options.device,
    }
    shared = {"classes": CLASSES, "eps": EPS, "lr": LR}
    peer = Peer(
        "spd_learn",
        "of_spd_learn:training_step",
        {**arguments, **shared},
        # torch's third map, matrix_exp, is slower than both at every size here.
        [
            {"threads": threads, "orthogonal_map": name}
            for name in ("cayley", "householder")
            for threads in options.threads
        ],
        alone=more.pop("alone", True),
    )

    def ours() -> Task:
        return training_step(**arguments, eager=eager, only_head=spectrum == "low rank")

    name = f"{{{','.join(map(str, dims))}}} batch {batch}"
    return Case(row, name, dtype, spectrum, ours, peer, SAME, **more)


def training_step(
    dims: Sequence[int],
    batch: int,
    dtype: str,
    spectrum: str,
    rank: int | None = None,
    last_reeig: bool = False,
    device: str = "cpu",
    log: str = "ln",
    eager: bool = False,
    only_head: bool = False,
) -> Task:
    """alem's side, by :class:`alem.training.TrainingStep`, captured on CUDA unless ``eager``."""
    X = matrices(spectrum, batch, dims[0], dtype, device, rank)
    y = labels(batch, CLASSES, device)
    start = weights(dims, CLASSES, dtype, device)
    final = torch.nn.Sequential(nn.ReEig(EPS), nn.LogEig()) if last_reeig else log
    model = models.SPDNet(dims, CLASSES, log=final, eps=EPS).to(device=device, dtype=X.dtype)
    bimaps = [layer for layer in model.modules() if isinstance(layer, nn.BiMap)]
    head = model.layers.head
    assert isinstance(head, torch.nn.Linear)
    with torch.no_grad():
        for layer, W in zip(bimaps, start.bimaps, strict=True):
            layer.weight.copy_(W)
        head.weight.copy_(start.head)
        head.bias.copy_(start.bias)
    optimizer = optim.RiemannianSGD(model, lr=LR)
    step = TrainingStep(model, optimizer, functional.cross_entropy, capture=False if eager else "auto")

    def values() -> dict[str, Tensor]:
        loss = functional.cross_entropy(model(X), y)
        W = [] if only_head else [layer.weight for layer in bimaps]
        *gradients, of_head = torch.autograd.grad(loss, [*W, head.weight])
        named = {f"gradient of BiMap {i}": g for i, g in enumerate(gradients, start=1)}
        return {"loss": loss.detach(), **named, "gradient of the head": of_head}

    # The first steps on CUDA are eager, and then one is captured.
    return Task(lambda: step(X, y), values, warm_up=5 if X.is_cuda else 1)
