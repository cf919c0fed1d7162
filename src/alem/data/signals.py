"""Signals to covariances: windows, centring, shrinkage, loading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alem import linalg
from alem.data.dataset import Dataset, dataset
from alem.data.errors import DataError
from alem.linalg import InvalidMatrixError

Array = NDArray[Any] | Tensor


class Windows(NamedTuple):
    """``matrices`` `(M, n, n)`, the sequence ``source`` `(M,)` of each, and their ``names``."""

    matrices: Tensor
    source: NDArray[np.int64]
    names: tuple[str, ...]


def covariances(
    signals: Array | Sequence[Array],
    offsets: Array | None = None,
    *,
    names: Sequence[str] | None = None,
    window: int | None = None,
    stride: int | None = None,
    centre_joint: int | None = None,
    assume_centered: bool = False,
    shrinkage: float | str | None = None,
    loading: float = 0.0,
) -> Windows:
    """The covariance :func:`alem.linalg.covariance` of each sequence or of its windows, in float64.

    - Without ``offsets`` the signals are `(N, channels, samples)`, or a list of `(channels, samples)` whose
      lengths may differ.
    - With ``offsets`` `(N+1,)` they are frames `(T, channels)` or `(T, joints, d)`, and sequence i is
      ``signals[offsets[i]:offsets[i+1]]``. Then ``centre_joint`` is subtracted from the other joints
      in every frame, and dropped.
    - ``window`` samples make one matrix, every ``stride`` samples (``window`` if not given); what is left
      at the end is not used. A window is named after its sequence: ``12[0:128]``.
    """
    if window is None and stride is not None:
        raise ValueError("stride is the step between windows; give window as well")
    if (window is not None and window < 1) or (stride is not None and stride < 1):
        raise ValueError(f"window and stride must be positive, got {window} and {stride}")
    sequences = list(signals) if offsets is None else _split(signals, offsets, centre_joint)
    if offsets is None and centre_joint is not None:
        raise ValueError("centre_joint is for frames (T, joints, d) with offsets")
    names = [str(i) for i in range(len(sequences))] if names is None else names
    if len(names) != len(sequences):
        raise DataError(f"{len(sequences)} sequences and {len(names)} names; there must be one for each")
    matrices: list[Tensor] = []
    source: list[int] = []
    labels: list[str] = []
    for i, (name, sequence) in enumerate(zip(names, sequences, strict=True)):
        x = _signal(sequence, name)
        if matrices and len(x) != matrices[0].shape[-1]:
            raise DataError(
                f"sequence {name} has {len(x)} channels and those before it {matrices[0].shape[-1]}; all "
                "must have the same"
            )
        _require_length(x.shape[1], window, assume_centered, name)
        # (channels, samples) to (windows, channels, window).
        parts = x[None] if window is None else x.unfold(1, window, stride or window).transpose(0, 1)
        try:
            matrices.append(linalg.covariance(parts, shrinkage, loading, assume_centered))
        except InvalidMatrixError as error:
            raise InvalidMatrixError(f"sequence {name}: {error}", (i,)) from None
        source += [i] * len(parts)
        step = stride or window or 0
        labels += (
            [name]
            if window is None
            else [f"{name}[{k * step}:{k * step + window}]" for k in range(len(parts))]
        )
    if not matrices:
        raise DataError("there are no sequences to take covariances of")
    return Windows(torch.cat(matrices), np.array(source, np.int64), tuple(labels))


def from_signals(
    name: str,
    signals: Array | Sequence[Array],
    labels: Sequence[int] | Sequence[str] | Array,
    *,
    offsets: Array | None = None,
    classes: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    train: Array | None = None,
    columns: Mapping[str, NDArray[Any]] | None = None,
    **options: Any,
) -> Dataset:
    """A data set of the :func:`covariances` of ``signals``; a window has the label of its sequence.

    ``options`` are those of :func:`covariances`; labels, split and columns have an entry for each sequence.
    """
    try:
        windows = covariances(signals, offsets, names=names, **options)
    except InvalidMatrixError as error:
        raise InvalidMatrixError(f"{name}: {error}", error.index) from None
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    N = int(windows.source[-1]) + 1
    split = None if train is None else np.asarray(train)
    per_sequence = {"labels": np.asarray(labels), **(columns or {})}
    if split is not None:
        per_sequence["train"] = split
    for key, column in per_sequence.items():
        if np.ndim(column) == 0:
            raise DataError(f"{name}: {key} must be one for each sequence, got a single value")
        if len(column) != N:
            raise DataError(
                f"{name}: {N} sequences and {len(column)} entries of {key}; there must be one for each"
            )
    return dataset(
        name,
        windows.matrices,
        per_sequence["labels"][windows.source],
        classes=classes,
        names=windows.names,
        train=None if split is None else split[windows.source],
        columns={key: np.asarray(column)[windows.source] for key, column in (columns or {}).items()},
    )


def centre(frames: NDArray[Any], joint: int) -> NDArray[Any]:
    """Positions relative to a joint, which is dropped: `(T, joints, d)` to `(T, joints − 1, d)`."""
    if frames.ndim != 3 or not 0 <= joint < frames.shape[1]:
        raise DataError(
            f"centre_joint={joint} needs frames (T, joints, d) with that joint, got shape {frames.shape}"
        )
    return np.delete(frames - frames[:, joint : joint + 1], joint, axis=1)


def _split(frames: Any, offsets: Array, joint: int | None) -> list[NDArray[Any]]:
    """The sequences `(channels, samples)`, views of the frames where nothing is to be centred."""
    x, ends = np.asarray(frames), np.asarray(offsets)
    if x.ndim < 2 or x.dtype.kind not in "fiu":
        raise DataError(f"frames must be numbers (T, channels) or (T, joints, d), got {x.dtype} {x.shape}")
    if ends.ndim != 1 or ends.dtype.kind not in "iu" or len(ends) < 2:
        raise DataError(f"offsets must be N + 1 integers, got {ends.dtype} {ends.shape}")
    ends = ends.astype(np.int64)
    if ends[0] != 0 or ends[-1] != len(x) or bool((np.diff(ends) < 0).any()):
        raise DataError(
            f"offsets must rise from 0 to the number of frames, {len(x)}; they go from {ends[0]} to "
            f"{ends[-1]}"
        )
    if joint is not None:
        x = centre(x.astype(np.float64), joint)
    flat = x.reshape(len(x), -1)
    return [flat[a:b].T for a, b in pairwise(ends)]


def _signal(sequence: Any, name: str) -> Tensor:
    x = np.asarray(sequence)
    if x.ndim != 2 or x.dtype.kind not in "fiu":
        raise DataError(f"sequence {name} must be numbers (channels, samples), got {x.dtype} {x.shape}")
    return torch.from_numpy(np.array(x, np.float64))


def _require_length(samples: int, window: int | None, assume_centered: bool, name: str) -> None:
    # One sample is its own mean.
    least = window or (1 if assume_centered else 2)
    if samples < least:
        raise DataError(
            f"sequence {name} has {samples} samples and at least {least} are needed; drop it"
            + ("" if window is None else " or take a shorter window")
        )
