"""A model of the time of a training step on 1 to 256 devices, with constants that are measured.

    python -m benchmarks.devices [--processes 1,2,4,8,16]   writes docs/results/devices.md and devices.json

    T(p) = t₀ + s·b + Σ_c (α(p) + w + 2 (p−1)/p · V_c/β),    b matrices on each of p devices

t₀ and s, the time of a step without a matrix and that of a matrix, are fitted to steps of one process with
three sizes of batch; what is sent is counted while two processes train, call by call; α and β, the latency
and the bandwidth of an all-reduce, are fitted to those of small and large tensors between so many
processes of this machine, one thread each, over gloo, when all have arrived. In a step they have not: w,
the time that a call waits, is the median of what whole steps take longer, over the norms and over those
numbers of processes that leave half of the processors free. For that the time without communication is
the one of as many processes which compute at once and send nothing, since cores of one machine share its
memory. Where there is CUDA, t₀ and s are measured there too; latency and bandwidth between GPUs are then
assumptions, which the page states.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import alem.nn as an
from alem import geometry, models, optim
from alem.bench.machine import processor
from alem.training import TrainingStep, seeded

PAGE = Path(__file__).parents[1] / "docs" / "results" / "devices.md"
DIMS, CLASSES, BATCH, EACH = (75, 30), 60, 256, 32
GPU_BATCH, GPU_EACH = 8192, 1024  # less is time of launches alone
ALL = tuple(2**k for k in range(9))
ENOUGH = 1.1  # more devices that gain less are not worth it
# Between GPUs, not measured: eight on a board, then boards over a network. Seconds and bytes a second.
BOARD, NETWORK = (15e-6, 300e9), (30e-6, 40e9)
NORMS: dict[str, dict[str, Any]] = {
    "no norm": {},
    "ChartNorm": {"chart_norm": True, "log": "gap"},
    "SPDNetBN": {"norm": "spdnetbn"},
    "SPDBN": {"norm": "spdbn"},
    "LieBN, log-Euclidean": {"norm": "liebn"},
    "LieBN, affine-invariant": {"norm": "liebn", "metric": "aim"},
}


def network(norm: str, device: str = "cpu") -> nn.Module:
    """{75, 30} with that norm."""
    return seeded(0, lambda: models.SPDNet(DIMS, CLASSES, **NORMS[norm])).to(device)


def batch(size: int, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """Matrices and labels."""
    G = torch.Generator().manual_seed(0)
    X = geometry.sample_wishart(size, n=DIMS[0], generator=G, dtype=torch.float64)
    return X.to(device), (torch.arange(size) % CLASSES).to(device)


def step_time(model: nn.Module, size: int, device: str, seconds: float = 1.0) -> float:
    """The median of steps for about so long, those after three."""
    step = TrainingStep(model, optim.RiemannianSGD(model, lr=1e-3), capture=False)
    X, y = batch(size, device)
    several = distributed.is_initialized()
    times: list[float] = []
    # Several processes have to make the same number.
    while len(times) < 12 or (not several and sum(times) < seconds and len(times) < 200):
        if several:
            distributed.barrier()
        start = time.perf_counter()
        step(X, y)
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[3:])


def compute(norm: str, device: str) -> dict[str, float]:
    """t₀ and s of one process, by least relative squares."""
    sizes = (4, 32, 128) if device == "cpu" else (32, 512, 4096)
    times = [step_time(network(norm, device), size, device) for size in sizes]
    A = np.array([[1 / t, b / t] for b, t in zip(sizes, times, strict=True)])
    t0, s = np.linalg.lstsq(A, np.ones(len(sizes)), rcond=None)[0]
    if s < 0 or t0 < 0:  # by noise, where one of the two hardly counts
        t0, s = (statistics.fmean(times), 0.0) if s < 0 else (0.0, float(1 / A[:, 1].mean()))
    return {"t0": float(t0), "s": float(s)}


def worker(rank: int, size: int, folder: str) -> None:
    """One of several processes; the first writes what it measured."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting-{size}", rank=rank, world_size=size
    )
    found: dict[str, Any] = {"steps": {}, "silent": {}, "sent": {}}
    found["all-reduce"] = {str(n): _all_reduce(n) for n in (1, 1024, 2**17, 2**20)} if size > 1 else {}
    for norm in NORMS:
        model: nn.Module = network(norm)
        found["silent"][norm] = step_time(model, BATCH // size, "cpu")
        if size > 1:
            model = DistributedDataParallel(an.convert_sync(model))
            if size == 2:
                found["sent"][norm] = _sent(model)
        found["steps"][norm] = step_time(model, BATCH // size, "cpu")
    if rank == 0:
        Path(folder, f"{size}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


def _all_reduce(numbers: int) -> float:
    x = torch.zeros(numbers, dtype=torch.float64)
    times = []
    for _ in range(30):
        distributed.barrier()
        start = time.perf_counter()
        distributed.all_reduce(x)
        times.append(time.perf_counter() - start)
    return statistics.median(times[5:])


def _sent(model: DistributedDataParallel) -> list[int]:
    """Bytes of each collective call of a step of norms, of the gradients, and of the buffers."""
    calls: list[int] = []
    original = distributed.all_reduce

    def counted(x: torch.Tensor, *more: Any, **options: Any) -> Any:
        calls.append(x.nbytes)
        return original(x, *more, **options)

    distributed.all_reduce = counted
    try:
        step = TrainingStep(model, optim.RiemannianSGD(model, lr=1e-3))
        step(*batch(BATCH // 2))
    finally:
        distributed.all_reduce = original
    buffers = sum(t.nbytes for t in model.module.buffers())
    return [*calls, sum(p.nbytes for p in model.parameters()), *([buffers] if buffers else [])]


def latency(measured: dict[int, dict[str, float]]) -> tuple[Callable[[int], float], str]:
    """α(p) of all-reduces of one number: the better of two laws, through what was measured."""
    p = np.array(sorted(measured), float)
    t = np.array([measured[int(k)]["1"] for k in p])
    best = None
    for law, text in ((np.log2, "log₂ p"), (lambda q: q - 1, "(p − 1)")):
        c = float((law(p) / t).sum() / (law(p) ** 2 / t**2).sum())
        error = float(((c * law(p) / t - 1) ** 2).sum())
        if best is None or error < best[0]:
            best = error, c, law, text
    assert best is not None
    _, c, law, text = best
    return (lambda q: c * float(law(q))), f"{1e6 * c:.0f} µs · {text}"


def bandwidth(measured: dict[int, dict[str, float]]) -> float:
    """β, from the largest tensor: the median over the numbers of processes."""
    size = 2**20 * 8
    return statistics.median(
        2 * (p - 1) / p * size / max(of[str(2**20)] - of["1"], 1e-9) for p, of in measured.items()
    )


def waiting(found: dict[str, Any], call: Callable[[int, float], float]) -> float:
    """w, in seconds."""
    excess = []
    for p in (int(p) for p in found["steps"]):
        if 1 < p <= found["processors"] / 2:
            for norm, sent in found["sent"].items():
                more = found["steps"][str(p)][norm] - found["silent"][str(p)][norm]
                excess.append((more - sum(call(p, v) for v in sent)) / len(sent))
    return max(0.0, statistics.median(excess)) if excess else 0.0


def predicted(
    of: dict[str, float],
    sent: Sequence[int],
    p: int,
    each: float,
    call: Callable[[int, float], float],
) -> float:
    """T(p)."""
    return of["t0"] + of["s"] * each + (sum(call(p, v) for v in sent) if p > 1 else 0.0)


def of_gpus(p: int, volume: float) -> float:
    """An all-reduce between p GPUs, with the constants assumed."""
    alpha, beta = BOARD if p <= 8 else NETWORK
    return alpha * math.log2(p) + 2 * (p - 1) / p * volume / beta


def curve(
    found: dict[str, Any], norm: str, kind: str, call: Callable[[int, float], float], weak: bool
) -> list[float]:
    """T(p) for all p; ``weak`` with a batch that grows with p."""
    of, sent = found[kind][norm], found["sent"][norm]
    batch, each = (BATCH, EACH) if kind == "cpu" else (GPU_BATCH, GPU_EACH)
    return [predicted(of, sent, p, each if weak else batch / p, call) for p in ALL]


def stop(times: Sequence[float]) -> str:
    """The number of devices beyond which no number of them gains a tenth."""
    return str(next(p for i, p in enumerate(ALL) if times[i] < ENOUGH * min(times[i:])))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown."""
    lines = [list(head), ["---", *["---:"] * (len(head) - 1)], *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def page(found: dict[str, Any]) -> str:
    """The page."""
    reduced = {int(p): of for p, of in found["all-reduce"].items()}
    alpha, law = latency(reduced)
    beta = bandwidth(reduced)
    sizes = sorted(int(p) for p in found["steps"])

    def arrived(p: int, volume: float) -> float:
        return alpha(p) + 2 * (p - 1) / p * volume / beta

    wait = waiting(found, arrived)

    def call(p: int, volume: float) -> float:
        return wait + arrived(p, volume)

    def by_model(norm: str, p: int) -> float:
        return predicted({"t0": found["silent"][str(p)][norm], "s": 0.0}, found["sent"][norm], p, 0.0, call)

    parts = [
        "# A step on many devices\n",
        f"SPDNet {{{', '.join(map(str, DIMS))}}} with {CLASSES} classes in float64, a step of "
        "RiemannianSGD. The model is\n\n"
        "    T(p) = t₀ + s·b + Σ_c (α(p) + w + 2 (p−1)/p · V_c/β)\n\n"
        "with b matrices on each of p devices and a collective call c of V_c bytes for each sum over the "
        "processes: those of the norms, forwards and backwards, that of the gradients, and that of the "
        f"buffers. Measured on {found['processor']}, a process with one thread for a device: α(p) = {law}, "
        f"β = {beta / 1e9:.1f} GB/s (gloo), and w = {1e6 * wait:.0f} µs, for which a call waits until the "
        "last process has arrived.\n",
        table(
            [
                "norm",
                "calls",
                "kB a step",
                "t₀, ms",
                "s, µs",
                *(["t₀ GPU, ms", "s GPU, µs"] if found["cuda"] else []),
            ],
            [
                [
                    norm,
                    str(len(found["sent"][norm])),
                    f"{sum(found['sent'][norm]) / 1e3:.0f}",
                    *(
                        text
                        for kind in ("cpu", "cuda")
                        if found[kind]
                        for text in (
                            f"{1e3 * found[kind][norm]['t0']:.1f}",
                            f"{1e6 * found[kind][norm]['s']:.1f}",
                        )
                    ),
                ]
                for norm in NORMS
            ],
        ),
        f"## How well it holds\n\nMilliseconds of a step with {BATCH} matrices over p processes of this "
        "machine: measured / by the model, from the time of as many processes that compute at once and "
        f"send nothing. The machine has {found['processors']} processors, two to a core where they are "
        "threads of it; gloo needs some of them itself.\n",
        table(
            ["norm", *map(str, sizes)],
            [
                [
                    norm,
                    *(
                        f"{1e3 * found['steps'][str(p)][norm]:.1f} / {1e3 * by_model(norm, p):.1f}"
                        for p in sizes
                    ),
                ]
                for norm in NORMS
            ],
        ),
        f"## One batch of {BATCH}, shared by 1 to {ALL[-1]} processes\n\nMilliseconds of a step by the "
        "model, and the number of processes beyond which more gain less than a tenth.\n",
        _curves(found, "cpu", call, weak=False),
        f"## {EACH} matrices on each\n\nThe same with a batch that grows: perfect would be a step that "
        f"takes as long as on one device. Last, that step's time over the one of {ALL[-1]} devices.\n",
        _curves(found, "cpu", call, weak=True),
    ]
    if found["cuda"]:
        board, net = (f"{1e6 * a:.0f} µs · log₂ p and {b / 1e9:.0f} GB/s" for a, b in (BOARD, NETWORK))
        parts += [
            f"## On GPUs\n\nt₀ and s measured on one {found['gpu']}. What is between GPUs is **assumed**, "
            f"not measured: {board} among up to eight, {net} beyond. A batch of {GPU_BATCH}:\n",
            _curves(found, "cuda", of_gpus, weak=False),
            f"{GPU_EACH} matrices on each:\n",
            _curves(found, "cuda", of_gpus, weak=True),
        ]
    parts.append("By `python -m benchmarks.devices`.")
    return "\n".join(parts) + "\n"


def _curves(found: dict[str, Any], kind: str, call: Callable[[int, float], float], weak: bool) -> str:
    rows = []
    for norm in NORMS:
        times = curve(found, norm, kind, call, weak)
        last = f"{100 * times[0] / times[-1]:.0f} %" if weak else stop(times)
        rows.append([norm, *(f"{1e3 * t:.1f}" for t in times), last])
    return table(["norm", *map(str, ALL), f"kept at {ALL[-1]}" if weak else "stops at"], rows)


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--processes", default="1,2,4,8,16")
    parser.add_argument("--out", type=Path, default=PAGE)
    arguments = parser.parse_args()
    sizes = [int(p) for p in arguments.processes.split(",") if int(p) <= max(2, os.cpu_count() or 1)]
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        "processor": processor(),
        "processors": os.cpu_count(),
        "steps": {},
        "silent": {},
        "all-reduce": {},
    }
    found["cuda"] = {}
    found["cpu"] = {norm: compute(norm, "cpu") for norm in NORMS}
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
        found["cuda"] = {norm: compute(norm, "cuda") for norm in NORMS}
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            torch.multiprocessing.spawn(worker, (size, folder), nprocs=size)
            of = json.loads(Path(folder, f"{size}.json").read_text())
            found["steps"][str(size)], found["silent"][str(size)] = of["steps"], of["silent"]
            found["sent"] = of["sent"] or found.get("sent", {})
            if size > 1:
                found["all-reduce"][str(size)] = of["all-reduce"]
            print(size, of["steps"], flush=True)
    arguments.out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    arguments.out.write_text(page(found), "utf-8")


if __name__ == "__main__":
    main()
