"""A training in a file: tensors as safetensors, the rest as JSON in its header. Loading runs nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from alem.linalg.errors import shown

FORMAT = 1


class CheckpointError(ValueError):
    """A file is no checkpoint, or not one of this training."""

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


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
    meta = _meta(path)
    return _tensors(path), meta["header"]


def _tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError, RuntimeError, LookupError, AttributeError) as error:
        # Of numbers of four bits, say, which torch has not.
        raise CheckpointError(
            f"{path} holds a tensor that cannot be read ({_line(error)}); remove it"
        ) from None


def _write(path: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    # Copies: safetensors refuses tensors that share memory.
    own = {key: t.detach().cpu().clone(memory_format=torch.contiguous_format) for key, t in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file(own, unfinished, metadata={"alem": json.dumps(meta)})
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except SafetensorError as error:
        raise CheckpointError(f"{path} cannot be written: {_line(error)}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def read_header(path: Path) -> dict[str, Any]:
    """The ``header`` that was saved, without the tensors."""
    return _meta(path)["header"]


def load_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer | None = None) -> dict[str, Any]:
    """Bring model and optimiser to the state in ``path``; the ``header`` that was saved.

    What is loaded has the shapes and kinds of what is there; its numbers may be any.
    """
    meta, tensors = _meta(path), _tensors(path)
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


def _meta(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError, safe_open

    if path.exists() and not path.is_file():  # to open a pipe would wait
        raise CheckpointError(f"{path} is no regular file; give a file")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get("alem")
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} cannot be read as a checkpoint ({_line(error)}); remove it"
        ) from None
    if text is None:
        raise CheckpointError(f"{path} holds tensors, but is no checkpoint of alem")
    try:
        meta = json.loads(text)
        if not isinstance(meta, dict) or not isinstance(meta.setdefault("header", {}), dict):
            raise ValueError
        if not isinstance(meta.get("optimizer", {}), dict):
            raise ValueError
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} has a header that is damaged; remove it") from None
    if meta.get("format") != FORMAT:
        raise CheckpointError(f"{path} has format {meta.get('format')}; this version reads format {FORMAT}")
    return meta


def _line(error: BaseException) -> str:
    return shown(" ".join(str(error).split()), 500)
