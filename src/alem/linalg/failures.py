"""Failure codes of decompositions on an accelerator, kept there until somebody asks.

To look at a code is to wait for the device. :func:`record` marks the matrices that failed in memory of
the device, by one kernel that a CUDA graph can capture; :func:`check_decompositions` looks, at the end of
an epoch say.
"""

from __future__ import annotations

import torch
from torch import Tensor

from alem.linalg.errors import ConvergenceError

# By device, a mark for each place in a batch. A batch that is too large for the last one gets a larger
# one; captured graphs still write into those before.
_marks: dict[torch.device, list[Tensor]] = {}


def record(info: Tensor) -> None:
    """Mark the matrices of a batch whose code in ``info`` `(...)`, integers, is not 0; without waiting."""
    N = info.numel()
    if N == 0:
        return
    marks = _marks.setdefault(info.device, [])
    if not marks or marks[-1].numel() < N:
        if info.is_cuda and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                f"no batch of {N} matrices has been decomposed before this capture; run it once outside, "
                "as the warm-up of CUDA graphs prescribes"
            )
        with torch.inference_mode(False):
            marks.append(
                torch.zeros(1 << max(10, (N - 1).bit_length()), dtype=info.dtype, device=info.device)
            )
    marks[-1][:N].bitwise_or_(info.reshape(-1))


def check_decompositions(device: torch.device | str | None = None) -> None:
    """Raise ConvergenceError if an eigendecomposition failed since the last call, on any or one device.

    Waits for the device. On the CPU a decomposition that fails raises at once.
    """
    chosen = list(_marks) if device is None else [_with_index(torch.device(device))]
    failed: list[tuple[torch.device, int, int]] = []
    for place in chosen:
        marks = _marks.get(place, [])
        if not marks:
            continue
        if place.type == "cuda":
            torch.cuda.synchronize(place)  # for marks made on other streams
        bad = [mark != 0 for mark in marks]
        found = torch.stack([torch.stack([b.sum(), b.int().argmax()]) for b in bad]).tolist()
        for mark in marks:
            mark.zero_()
        failed += [(place, count, index) for count, index in found if count]
    if failed:
        count = sum(one[1] for one in failed)
        place, _, index = failed[0]
        raise ConvergenceError(
            f"the eigendecomposition did not converge for {count} place{'s'[: count > 1]} of a batch since "
            f"the last check, matrix {index} of a batch on {place} among them; look there for entries that "
            "are NaN, infinite or near the largest float"
        )


def _with_index(device: torch.device) -> torch.device:
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device
