"""A training in a file: tensors as safetensors, the rest as JSON in its header. Loading runs nothing.

The header holds a checksum of the file, which every byte of it goes into; files from before there was one
are read without.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from alem.files import whole
from alem.linalg.errors import shown

FORMAT = 1
# A file is digested with noughts in the place of its checksum.
_BLANK = "0" * 32
_CHECKSUM = re.compile(rb'"checksum":"([0-9a-f]{32})"')


class CheckpointError(ValueError):
    """A file is no checkpoint, or not one of this training."""

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


class DamagedCheckpointError(CheckpointError):
    """A checkpoint was cut short, or changed after it was written."""


def save_checkpoint(
    path: Path, model: nn.Module, optimizer: Optimizer | None = None, header: dict[str, Any] | None = None
) -> None:
    """Write model, optimiser and ``header`` (anything JSON holds) to ``path``, whole or not at all."""
    tensors = {f"model.{key}": t for key, t in model.state_dict().items()}
    plain: dict[str, Any] = {}
    if optimizer is not None:
        state = optimizer.state_dict()
        plain["groups"] = state["param_groups"]
        plain["state"] = {}
        for i, entries in state["state"].items():
            for key, value in entries.items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{i}.{key}"] = value
                else:
                    plain["state"].setdefault(str(i), {})[key] = value
    _write(path, tensors, {"format": FORMAT, "header": header or {}, "optimizer": plain})


def save_tensors(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Write tensors and ``header`` (anything JSON holds) to ``path``, whole or not at all."""
    _write(path, tensors, {"format": FORMAT, "header": header})


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and ``header`` that were saved."""
    tensors, meta = _read(path)
    return tensors, meta["header"]


def read_header(path: Path) -> dict[str, Any]:
    """The ``header`` that was saved."""
    return _read(path)[1]["header"]


def load_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer | None = None) -> dict[str, Any]:
    """Bring model and optimiser to the state in ``path``; the ``header`` that was saved.

    What is loaded has the shapes and kinds of what is there; its numbers may be any.
    """
    tensors, meta = _read(path)
    own = {key.removeprefix("model."): t for key, t in tensors.items() if key.startswith("model.")}
    try:
        model.load_state_dict(own)
    except (RuntimeError, TypeError) as error:  # TypeError of tensors of whole numbers
        raise CheckpointError(f"{path} is of another model: {_line(error)}") from None
    if optimizer is not None:
        if not meta.get("optimizer"):
            raise CheckpointError(f"{path} holds a model and no optimiser; it cannot be continued")
        try:
            optimizer.load_state_dict(_state(meta["optimizer"], tensors, optimizer))
        except (ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
            raise CheckpointError(
                f"{path} holds the state of another optimiser ({_line(error)}); remove it"
            ) from None
    return meta["header"]


def _write(path: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    from safetensors.torch import save

    # Copies: safetensors refuses tensors that share memory.
    own = {key: t.detach().cpu().clone(memory_format=torch.contiguous_format) for key, t in tensors.items()}
    data = bytearray(save(own, metadata={"alem": json.dumps(meta), "checksum": _BLANK}))
    found = _place(data)
    assert found is not None
    data[slice(*found)] = _digest(data)
    with whole(path) as file:
        file.write(data)


def _state(plain: dict[str, Any], tensors: dict[str, Tensor], optimizer: Optimizer) -> dict[str, Any]:
    """A state as ``optimizer`` takes it; ValueError where something is not of its kind."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state = {int(i): dict(entries) for i, entries in plain["state"].items()}
    if any(isinstance(value, (str, list, dict)) for own in state.values() for value in own.values()):
        raise ValueError("a state that is no number")
    for key, t in tensors.items():
        if key.startswith("optimizer."):
            _, i, name = key.split(".", 2)
            like = parameters[int(i)]
            fits = t.ndim <= like.ndim and torch.broadcast_shapes(t.shape, like.shape) == like.shape
            if not fits or not t.is_floating_point():
                raise ValueError(f"{key} is of another shape or kind than its parameter")
            state.setdefault(int(i), {})[name] = t
    names = [own.keys() for own in state.values()]
    if any(each != names[0] for each in names) or not state.keys() <= set(range(len(parameters))):
        raise ValueError("what is known of the parameters differs from one to the other")
    for own, saved in zip(optimizer.state_dict()["param_groups"], plain["groups"], strict=True):
        for key in own.keys() & saved.keys():
            if not _alike(saved[key], own[key]):
                raise ValueError(f"{key} is not of its kind")
    return {"state": state, "param_groups": plain["groups"]}


def _alike(a: Any, b: Any) -> bool:
    """Whether plain data is of the same kind: numbers, truth values, or sequences of such."""
    if isinstance(b, (list, tuple)):
        return isinstance(a, list) and len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(b, (int, float)) and not isinstance(b, bool):
        return isinstance(a, (int, float)) and not isinstance(a, bool) and abs(a) < 2**63
    return type(a) is type(b)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All that is in a file, once it is known to be as it was written."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    if path.exists() and not path.is_file():  # to open a pipe would wait
        raise CheckpointError(f"{path} is no regular file; give a file")
    try:
        data = bytearray(path.read_bytes())
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read as a checkpoint ({error.strerror}); remove it"
        ) from None
    if found := _place(data):
        told = bytes(data[slice(*found)])
        data[slice(*found)] = _BLANK.encode()
        if _digest(data) != told:
            raise DamagedCheckpointError(
                f"{path} cannot be read as a checkpoint (its checksum is that of other bytes: it was "
                "changed after it was written); remove it"
            )
    try:
        tensors = load(bytes(data))
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except (SafetensorError, ValueError, LookupError, TypeError, RuntimeError, AttributeError) as error:
        raise DamagedCheckpointError(
            f"{path} cannot be read as a checkpoint ({_line(error)}); remove it"
        ) from None
    return tensors, _meta(path, header.get("__metadata__") or {}, found is not None)


def _meta(path: Path, metadata: dict[str, str], checked: bool) -> dict[str, Any]:
    if "alem" not in metadata:
        raise CheckpointError(f"{path} holds tensors, but is no checkpoint of alem")
    try:
        meta = json.loads(metadata["alem"])
        if not isinstance(meta, dict) or not isinstance(meta.setdefault("header", {}), dict):
            raise ValueError
        if not isinstance(meta.get("optimizer", {}), dict):
            raise ValueError
        if metadata.keys() != ({"alem", "checksum"} if checked else {"alem"}):
            raise ValueError
    except (ValueError, RecursionError):
        raise DamagedCheckpointError(f"{path} has a header that is damaged; remove it") from None
    if meta.get("format") != FORMAT:
        raise CheckpointError(f"{path} has format {meta.get('format')}; this version reads format {FORMAT}")
    return meta


def _place(data: bytearray) -> tuple[int, int] | None:
    """Where the checksum is, from and to; within JSON the quotes of anything else would be escaped."""
    end = min(len(data), 8 + int.from_bytes(data[:8], "little"))
    found = _CHECKSUM.search(data, 8, end)
    return None if found is None else found.span(1)


def _digest(data: bytearray) -> bytes:
    return hashlib.blake2b(data, digest_size=16).hexdigest().encode()


def _line(error: BaseException) -> str:
    return shown(" ".join(str(error).split()), 500)
