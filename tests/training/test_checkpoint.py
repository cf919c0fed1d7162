from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from alem import models, optim
from alem.training import (
    CheckpointError,
    DamagedCheckpointError,
    load_checkpoint,
    read_header,
    read_tensors,
    save_checkpoint,
    seeded,
)


def network(seed: int = 0) -> nn.Module:
    return seeded(seed, lambda: models.SPDNet([5, 3], 2, log="gap", norm="liebn"))


def stepped(net: nn.Module) -> optim.RiemannianAMSGrad:
    optimizer = optim.RiemannianAMSGrad(net, lr=1e-2, metric_lr=0.5)
    net(torch.eye(5, dtype=torch.float64).repeat(4, 1, 1)).sum().backward()
    optimizer.step()
    return optimizer


def test_model_optimiser_and_header_come_back(tmp_path: Path) -> None:
    net = network()
    optimizer = stepped(net)
    path = tmp_path / "deep" / "run.safetensors"
    save_checkpoint(path, net, optimizer, {"epoch": 3, "loss": [0.1, 1 / 3]})
    other = network(1)
    into = optim.RiemannianAMSGrad(other, lr=1.0)
    assert load_checkpoint(path, other, into) == {"epoch": 3, "loss": [0.1, 1 / 3]}
    assert read_header(path) == {"epoch": 3, "loss": [0.1, 1 / 3]}
    for (key, a), b in zip(net.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b), key
    a, b = optimizer.state_dict(), into.state_dict()
    assert a["param_groups"] == b["param_groups"] or [
        {**g, "betas": tuple(g["betas"])} for g in b["param_groups"]
    ] == [{**g, "betas": tuple(g["betas"])} for g in a["param_groups"]]
    assert a["state"].keys() == b["state"].keys()
    for i, entries in a["state"].items():
        for key, value in entries.items():
            assert torch.equal(value, b["state"][i][key])


def test_a_failing_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.safetensors"
    save_checkpoint(path, network(), header={"epoch": 1})

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(path, network(1), header={"epoch": 2})
    assert [file.name for file in tmp_path.iterdir()] == ["run.safetensors"]
    assert read_header(path) == {"epoch": 1}


def test_what_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    net = network()
    broken = tmp_path / "broken.safetensors"
    save_checkpoint(broken, net)
    broken.write_bytes(broken.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"broken\.safetensors cannot be read as a checkpoint"):
        load_checkpoint(broken, net)
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_header(tmp_path / "missing.safetensors")
    foreign = tmp_path / "foreign.safetensors"
    save_file({"a": torch.zeros(2)}, foreign)
    with pytest.raises(CheckpointError, match="no checkpoint of alem"):
        read_header(foreign)
    future = tmp_path / "future.safetensors"
    save_file({"a": torch.zeros(2)}, future, metadata={"alem": '{"format": 99}'})
    with pytest.raises(CheckpointError, match="format 99; this version reads format 1"):
        read_header(future)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path, net = tmp_path_factory.mktemp("whole") / "run.safetensors", network()
    save_checkpoint(path, net, stepped(net), {"epoch": 3, "loss": [0.1, 1 / 3], "text": '"checksum":"'})
    return path.read_bytes()


def test_no_byte_can_be_changed_unseen(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "flipped.safetensors"
    for place in range(0, len(whole), 3):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(DamagedCheckpointError, match=r"flipped\.safetensors .*; remove it"):
            read_tensors(path)


def test_a_file_cut_short_anywhere_is_seen(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.safetensors"
    for end in range(0, len(whole), 3):
        path.write_bytes(whole[:end])
        with pytest.raises(DamagedCheckpointError, match=r"cut\.safetensors cannot be read .*; remove it"):
            read_header(path)


def test_a_file_from_before_there_were_checksums_is_read(whole: bytes, tmp_path: Path) -> None:
    from safetensors.torch import load, save_file

    new, old = tmp_path / "new.safetensors", tmp_path / "old.safetensors"
    new.write_bytes(whole)
    header = json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])["__metadata__"]
    save_file(load(whole), old, metadata={"alem": header["alem"]})
    assert read_header(old) == read_header(new)
    net = network(1)
    load_checkpoint(old, net, stepped(net))
    save_file(load(whole), old, metadata={**header, "checksum": "none"})
    with pytest.raises(DamagedCheckpointError, match="a header that is damaged"):
        read_header(old)


def test_a_full_disk_is_said_with_the_name_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.safetensors"
    save_checkpoint(path, network(), header={"epoch": 1})

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match=r"No space left on device: .*/run\.safetensors'"):
        save_checkpoint(path, network(1), header={"epoch": 2})
    assert read_header(path) == {"epoch": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["run.safetensors"]


def test_another_model_and_a_missing_optimiser(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    net = network()
    save_checkpoint(path, net)
    with pytest.raises(CheckpointError, match="of another model"):
        load_checkpoint(path, models.SPDNet([5, 4], 2).double())
    with pytest.raises(CheckpointError, match="no optimiser; it cannot be continued"):
        load_checkpoint(path, net, optim.RiemannianSGD(net, lr=1.0))


def test_what_is_of_another_kind_is_named(tmp_path: Path) -> None:
    net = network()
    optimizer = stepped(net)
    path = tmp_path / "run.safetensors"
    save_checkpoint(path, net, optimizer)
    with safe_open(path, framework="pt") as file:
        tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118 (no mapping)
        meta = json.loads(file.metadata()["alem"])
    weight = next(key for key in tensors if key.startswith("model."))
    moment = next(key for key in tensors if key.endswith("exp_avg"))
    group = meta["optimizer"]["groups"][0]

    def written(more: dict[str, torch.Tensor], **changes: object) -> None:
        save_file({**tensors, **more}, path, metadata={"alem": json.dumps(meta | changes)})

    for more, changes, said in (
        ({weight: torch.zeros(tensors[weight].shape, dtype=torch.int64)}, {}, "of another model"),
        ({moment: torch.zeros(7, 7)}, {}, "another optimiser"),
        ({moment: tensors[moment].to(torch.int64)}, {}, "another optimiser"),
        ({"optimizer.99.exp_avg": torch.zeros(1)}, {}, "another optimiser"),
        ({"optimizer.x": torch.zeros(1)}, {}, "another optimiser"),
        ({f"{moment}.more": torch.zeros(1)}, {}, "another optimiser"),
        ({}, {"optimizer": {"groups": [], "state": {}}}, "another optimiser"),
        ({}, {"optimizer": {"groups": meta["optimizer"]["groups"]}}, "another optimiser"),
        ({}, {"optimizer": {"groups": [group | {"lr": "1"}], "state": {}}}, "another optimiser"),
        ({}, {"optimizer": {"groups": [group | {"lr": 10**400}], "state": {}}}, "another optimiser"),
        ({}, {"optimizer": {"groups": [group | {"betas": [0.9]}], "state": {}}}, "another optimiser"),
        ({}, {"optimizer": [1]}, "a header that is damaged"),
        ({}, {"header": "x"}, "a header that is damaged"),
        ({}, {"format": "\x1b[2J\n"}, r"has format \\x1b\[2J\\n"),
    ):
        written(more, **changes)
        with pytest.raises(CheckpointError, match=said) as error:
            load_checkpoint(path, net, optimizer)
        assert str(error.value).isprintable()
    written({})
    load_checkpoint(path, net, optimizer)


def test_headers_of_safetensors_that_lie(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    for size, header in (
        (2**63, b"{}"),
        (10**8, b"{}"),
        (10**9, b"{}"),
        (None, b'{"a":{"dtype":"F64","shape":[1000000000000],"data_offsets":[0,8000000000000]}}'),
        (None, b'{"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'),
        (None, b'{"__metadata__":{"alem":"' + b"[" * 50_000 + b'"}}'),
        (None, b'{"__metadata__":{"alem":"{\\"format\\": 1, \\"header\\": NaN}"}}'),
    ):
        path.write_bytes((len(header) if size is None else size).to_bytes(8, "little") + header)
        with pytest.raises(CheckpointError) as error:
            load_checkpoint(path, network())
        assert str(path) in str(error.value)
        assert len(str(error.value).splitlines()) == 1


@pytest.mark.skipif(os.name != "posix", reason="there are no pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.safetensors")
    for read in (read_header, read_tensors):
        with pytest.raises(CheckpointError, match="no regular file"):
            read(tmp_path / "run.safetensors")
