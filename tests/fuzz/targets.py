"""What is fuzzed: each reader, where its file lies, and which errors it documents."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from alem import models, optim
from alem.cli import main
from alem.data import (
    DataError,
    Dataset,
    read_afew,
    read_folder,
    read_fpha,
    read_hdm05,
    read_npz,
    read_ntu60,
)
from alem.data.ntu60 import read_skipped
from alem.estimators import SPDNetClassifier, SPDNetRegressor
from alem.experiments import Ledger, LedgerError, figures
from alem.experiments.ledger import FILE
from alem.linalg import InvalidMatrixError
from alem.linalg.errors import shown
from alem.training import CheckpointError, load_checkpoint, read_header, save_checkpoint
from tests.fuzz import corpus, mutate

Case = tuple[bytes, ...]
DATA: tuple[type[Exception], ...] = (DataError, InvalidMatrixError)
SKELETON = "S001C001P001R001A001.skeleton"
POSES = "Hand_pose_annotation_v1"


@dataclass(frozen=True)
class Target:
    """Files at ``places`` of a folder, and what reads them; ``free`` is a folder below, to write into."""

    name: str
    places: tuple[str, ...]
    seeds: Callable[[], list[Case]]
    change: mutate.Mutator
    read: Callable[[Path], object]
    errors: tuple[type[Exception], ...] = DATA
    free: str | None = None
    seconds: float = 5.0  # longer is a hang

    def write(self, folder: Path, case: Case) -> None:
        """Put the case in place."""
        for place, content in zip(self.places, case, strict=True):
            file = folder / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


class Unfit(AssertionError):
    """What was read is not what is promised."""


def _alone(seeds: Callable[[], list[bytes]]) -> Callable[[], list[Case]]:
    return lambda: [(seed,) for seed in seeds()]


def _checked(data: Dataset) -> None:
    N = len(data)
    lengths = {len(data.names), len(data.matrices), *map(len, data.columns.values())}
    if (
        lengths != {N}
        or not data.matrices.isfinite().all()
        or not torch.equal(data.matrices, data.matrices.mT)
    ):
        raise Unfit(f"{data} is not what a data set is")
    if N and not 0 <= int(data.labels.min()) <= int(data.labels.max()) < len(data.classes):
        raise Unfit("labels that are no places among the classes")


def _network() -> tuple[torch.nn.Module, optim.RiemannianAMSGrad]:
    torch.manual_seed(0)
    net = models.SPDNet([4, 3], 2, log="gap", norm="liebn").double()
    optimizer = optim.RiemannianAMSGrad(net, lr=1e-2, metric_lr=0.5)
    net(torch.eye(4, dtype=torch.float64).repeat(4, 1, 1)).sum().backward()
    optimizer.step()
    return net, optimizer


def _checkpoints() -> list[Case]:
    net, optimizer = _network()
    header = {"identity": {"recipe": {}}, "history": {"loss": [0.5]}, "stopped": None}
    return [
        (corpus.checkpoint_of(lambda path: save_checkpoint(path, net, optimizer, header)),),
        (corpus.checkpoint_of(lambda path: save_checkpoint(path, net)),),
    ]


def _checkpoint(folder: Path) -> None:
    path = folder / "a.safetensors"
    net, optimizer = _network()
    with contextlib.suppress(CheckpointError):  # the door that reads nothing but the header
        read_header(path)
    load_checkpoint(path, net, optimizer)
    net(torch.eye(4, dtype=torch.float64).repeat(4, 1, 1)).sum().backward()
    with contextlib.suppress(ArithmeticError, InvalidMatrixError):  # numbers from a file may be any
        optimizer.step()


def _estimator(folder: Path) -> None:
    path = folder / "a.safetensors"
    kind = b"SPDNetRegressor" in path.read_bytes()[:100_000]
    loaded = (SPDNetRegressor if kind else SPDNetClassifier).load(path)
    with contextlib.suppress(ArithmeticError, InvalidMatrixError):
        loaded.predict(corpus.X)


class Ended(Exception):
    """In place of a training."""


def _command(*argv: str) -> None:
    """Exit code 0, or 2 with one line of what is wrong."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            code: Any = main(argv)
        except SystemExit as exit_:
            code = exit_.code
        except Ended:
            code = 0
    said = error.getvalue()
    if code not in (0, 2) or (code == 2 and not (said.startswith("alem") and said.count("\n") == 1)):
        raise Unfit(f"exit code {code} and {said!r}")
    for text in (out.getvalue(), said):
        if shown(text.replace("\n", " "), len(text)) != text.replace("\n", " "):
            raise Unfit(f"what a terminal obeys: {text!r:.200}")


def _report(folder: Path) -> None:
    with mock.patch.object(figures, "available", return_value=False):
        _page(folder)


def _page(folder: Path) -> None:
    _command("report", str(folder), "--out", str(folder / "out"))
    page = folder / "out" / "report.html"
    if page.exists():
        text = page.read_text("utf-8")
        page.unlink()
        if "<script" in text or "<img" in text or "\x1b" in text or "\u202e" in text:
            raise Unfit("markup or escapes of a file in the page")


@cache
def _archive() -> bytes:
    return corpus.archives()[0]


def _train(folder: Path) -> None:
    words = (folder / "arguments.txt").read_bytes().decode("utf-8", "replace").split("\n")
    (folder / "out").mkdir(exist_ok=True)
    (folder / "out" / "data.npz").write_bytes(_archive())
    argv = [word.replace("FILE", str(folder / "out" / "data.npz")) for word in words]
    # The user's own numbers may ask for anything; what is looked for is what is said.
    if any(word.isdigit() and len(word) > 3 for word in argv) or "\x00" in "".join(argv):
        return

    def ended(*_: object) -> Any:
        raise Ended

    with mock.patch("alem.cli.train.execute", ended), mock.patch("alem.cli.train.start_processes", ended):
        _command("train", *argv, "--out", str(folder / "out"))


def _targets() -> Iterator[Target]:
    yield Target(
        "npz", ("a.npz",), _alone(corpus.archives), mutate.npz, lambda f: _checked(read_npz(f / "a.npz"))
    )
    yield Target(
        "stack",
        tuple(f"{name}.npy" for name in ("matrices", "labels", "classes", "names", "train")),
        lambda: [corpus.arrays(corpus.X, corpus.Y, ["a", "b"], list("wxyz"), corpus.Y > 0)],
        mutate.npy,
        lambda f: _checked(read_folder(f)),
    )
    yield Target(
        "tree",
        ("a/1.npy", "b/1.npy"),
        lambda: [
            corpus.arrays(corpus.X[0], corpus.X[1]),
            corpus.arrays(corpus.X[0][None], corpus.X[1] + 0j),
        ],
        mutate.npy,
        lambda f: _checked(read_folder(f)),
    )
    yield Target(
        "hdm05",
        ("a_1.npy", "b_2.npy"),
        lambda: [corpus.arrays(corpus.X[0], corpus.X[1].astype("f4"))],
        mutate.npy,
        lambda f: _checked(read_hdm05(f)),
    )
    yield Target(
        "mat",
        ("train/a/1.mat", "val/a/1.mat"),
        lambda: [(one, corpus.matlab()[0]) for one in corpus.matlab()],
        mutate.mat,
        lambda f: _checked(read_afew(f)),
    )
    yield Target(
        "skeleton", (SKELETON,), _alone(corpus.skeletons), mutate.text, lambda f: _checked(read_ntu60(f))
    )
    yield Target(
        "skipped",
        ("skip.txt",),
        _alone(corpus.skipped),
        mutate.text,
        lambda f: read_skipped(f / "skip.txt"),
    )
    yield Target(
        "fpha",
        ("data_split_action_recognition.txt", f"{POSES}/Subject_1/a/1/skeleton.txt",
         f"{POSES}/Subject_1/b/1/skeleton.txt"),
        lambda: [(split, one, one) for split, one in corpus.fpha()],
        mutate.text,
        lambda f: _checked(read_fpha(f)),
    )  # fmt: skip
    yield Target(
        "checkpoint", ("a.safetensors",), _checkpoints, mutate.safetensors, _checkpoint, (CheckpointError,)
    )
    yield Target(
        "estimator", ("a.safetensors",), _alone(corpus.estimators), mutate.safetensors, _estimator,
        (CheckpointError,),
    )  # fmt: skip
    yield Target(
        "ledger",
        (FILE,),
        _alone(corpus.ledgers),
        mutate.lines,
        lambda f: Ledger(f).records(),
        (LedgerError,),
    )
    yield Target("report", (FILE,), _alone(corpus.ledgers), mutate.lines, _report, (), "out")
    yield Target("figures", (FILE,), _alone(corpus.ledgers), mutate.lines, _page, (), "out", 30.0)
    yield Target("arguments", ("arguments.txt",), _alone(corpus.commands), mutate.text, _train, (), "out")


TARGETS = {target.name: target for target in _targets()}
