"""The one training loop."""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, distributed, nn

from alem.linalg import InvalidMatrixError, check_decompositions
from alem.nn import convert_sync
from alem.training.batches import WORKERS, Batches
from alem.training.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from alem.training.objective import CLASSIFICATION, Objective, OfOutputs
from alem.training.recipe import Recipe
from alem.training.step import TrainingStep, with_products

if TYPE_CHECKING:
    from lightning_fabric import Fabric

# Between two checkpoints, at ends of epochs: a second, and twenty times what the last one took.
PAUSE, PAUSES = 1.0, 20


@dataclass(frozen=True)
class Part:
    """Some samples of a data set: those at ``places`` of ``matrices`` `(N, n, n)` and ``labels`` `(N,)`.

    For another objective than classification, ``labels`` `(N, ...)` are its targets.
    """

    matrices: Tensor
    labels: Tensor
    places: Tensor


@dataclass
class History:
    """One entry for each epoch.

    ``loss`` and ``train_accuracy`` are of the training samples as they were trained on, so with the weights
    of that moment; ``test_accuracy`` is over the whole test set after the epoch; ``seconds`` are those
    of the epoch.
    """

    loss: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.loss)

    @classmethod
    def of(cls, saved: Any) -> History:
        """From what a file holds; TypeError unless it is numbers for each epoch."""
        history = cls(**saved)
        for key, values in asdict(history).items():
            if not isinstance(values, list) or not all(type(v) in (int, float) for v in values):
                raise TypeError(f"{key} must be numbers")
            if len(values) not in (len(history), 0 if key == "test_accuracy" else len(history)):
                raise TypeError(f"{key} must be one for each epoch")
        return history


@dataclass
class Fitted:
    """What came of a training: its history, and why it ended early if it did."""

    history: History
    stopped: str | None = None


# Called after each epoch; True ends the training.
Watch = Callable[[History], bool | None]


class Diverged(ArithmeticError):
    """Training has left what numbers can hold."""


def fit(
    model: nn.Module,
    train: Part,
    test: Part | None,
    recipe: Recipe,
    seed: int = 0,
    *,
    device: str = "cpu",
    checkpoint: Path | None = None,
    saved_every: float | None = None,
    held: int | None = None,
    workers: int = WORKERS,
    capture: bool | str = "auto",
    watch: Watch | None = None,
    objective: Objective = CLASSIFICATION,
) -> Fitted:
    """Train ``model`` by ``recipe``, evaluating on all of ``test`` after every epoch.

    The model is converted to the dtype of the recipe and moved to ``device``; if it has ``calibrate``, that
    is shown the training matrices in blocks before the first epoch. All that is random in an epoch
    follows from ``seed`` and the number of the epoch. ``watch`` is called after each epoch, and
    the training ends there if it returns True. The loss, and what the history calls accuracy, are those of
    ``objective``.

    With ``checkpoint``, a file, the training is saved there after epochs, every ``saved_every`` seconds, by
    default as often as takes a twentieth of the time, and at the end;
    if it exists, the training goes on from it, on the CPU to the same bits as without the interruption.
    ``held`` is how many bytes of samples are kept on the device, ``workers`` how many threads fetch batches
    of more than that (:mod:`alem.training.batches`), ``capture`` that of :class:`TrainingStep`.

    A loss that is not finite, a gradient that is not, or a matrix that is no longer SPD ends the training;
    the reason is in the result. A matrix or gradient at fault in the very first step is an error of the
    input, and is raised.

    Started by ``torchrun``, processes share each batch, and their norms its statistics
    (:func:`alem.nn.convert_sync`): the training is that of one process. There the first of them saves, and
    what ends a training is raised.
    """
    fabric = make_fabric(device)
    model = model.to(recipe.torch_dtype)
    if fabric.world_size > 1:
        convert_sync(model)
        _require_shares(len(train.places), recipe.batch_size, fabric.world_size)
    optimizer = recipe.make_optimizer(model)
    rates = [group["lr"] for group in optimizer.param_groups]
    wrapped = fabric.setup_module(model)
    assert isinstance(wrapped, nn.Module)
    parts = [
        None
        if part is None
        else Batches(
            part.matrices,
            part.labels,
            part.places,
            recipe.torch_dtype,
            fabric.device,
            held,
            workers,
        )
        for part in (train, test)
    ]
    assert parts[0] is not None
    identity: dict[str, Any] = {"recipe": asdict(recipe), "seed": seed, "of": _digest(model, train)}
    fitted = Fitted(History())
    if checkpoint is not None and checkpoint.exists():
        header = load_checkpoint(checkpoint, model, optimizer)
        if _known_today(header.get("identity")) != identity:
            raise CheckpointError(f"{checkpoint} is of another training; remove it or choose another place")
        fitted = _known(header, checkpoint)
    elif calibrate := getattr(model, "calibrate", None):
        calibrate(parts[0].blocks())
    step = TrainingStep(wrapped, optimizer, objective.loss, capture, recipe.max_norm, recipe.torch_products)
    saved, pause = time.monotonic(), PAUSE if saved_every is None else saved_every

    def save() -> None:
        if checkpoint is not None and fabric.is_global_zero:
            state = {"identity": identity, "history": asdict(fitted.history), "stopped": fitted.stopped}
            save_checkpoint(checkpoint, model, optimizer, state)

    while len(fitted.history) < recipe.epochs and fitted.stopped is None:
        epoch = len(fitted.history)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * recipe.factor(epoch)
        try:
            _run_epoch(step, wrapped, parts[0], parts[1], recipe, seed, fitted.history, objective, fabric)
        except Diverged as error:
            if fabric.world_size > 1:
                raise  # other processes may not know of it, and would wait for this one
            fitted.stopped = f"epoch {epoch + 1}: {error}"
            break
        if watch is not None and watch(fitted.history):
            break
        if checkpoint is not None and time.monotonic() - saved >= pause:
            start = time.monotonic()
            save()
            saved = time.monotonic()
            pause = max(PAUSE, PAUSES * (saved - start)) if saved_every is None else saved_every
    save()
    fabric.barrier()
    return fitted


def _run_epoch(
    step: TrainingStep,
    model: nn.Module,
    train: Batches,
    test: Batches | None,
    recipe: Recipe,
    seed: int,
    history: History,
    objective: Objective,
    fabric: Fabric,
) -> None:
    """One pass over the training samples in an order of its own, and an evaluation."""
    start = time.perf_counter()
    _seed_all(epoch_seed(seed, len(history)))
    model.train()
    losses: list[Tensor] = []
    outputs: Tensor | None = None
    sizes: list[float] = []
    order = torch.randperm(len(train))
    rank, ranks = fabric.global_rank, fabric.world_size
    if rank:
        _seed_all(epoch_seed(seed, len(history)) + rank)  # what layers draw differs, the order does not
    for i, (part, X, y) in enumerate(train.run(recipe.batch_size, order, (rank, ranks))):
        whole = min(recipe.batch_size, len(train) - i * recipe.batch_size)
        # Of uneven shares the mean of the means is not that of the batch.
        share = len(y) * ranks / whole
        step.loss = objective.loss if share == 1.0 else _Scaled(objective.loss, share)
        try:
            loss, output = step(X, y)
        except (ArithmeticError, InvalidMatrixError) as error:
            if not losses and not history.loss:
                raise  # nothing has been trained: the input is at fault
            raise Diverged(str(error)) from error
        if outputs is None:
            outputs = output.new_zeros(len(train), output.shape[-1])
        # The next step overwrites them; nothing here waits for an accelerator.
        outputs[part].copy_(output)
        losses.append(loss.clone())
        sizes.append(whole / ranks)
        if loss.device.type == "cpu" and ranks == 1 and not loss.isfinite():
            raise Diverged(f"the loss of step {len(losses)} is {float(loss)}; lower lr or metric_lr")
    assert outputs is not None
    step.loss = objective.loss
    total = torch.stack(losses).double() @ torch.tensor(sizes, dtype=torch.float64, device=outputs.device)
    if ranks > 1:
        distributed.all_reduce(total)
        distributed.all_reduce(outputs)
    if not total.isfinite():
        raise Diverged("a loss is not finite; lower lr or metric_lr")
    if outputs.device.type != "cpu":
        check_decompositions(outputs.device)
    accuracy = objective.score(outputs, train.labels[order.to(outputs.device)])
    test_accuracy = None if test is None else _evaluate(model, test, objective.score, step.products)
    history.loss.append(float(total) / len(train))
    history.train_accuracy.append(float(accuracy))
    if test_accuracy is not None:
        history.test_accuracy.append(test_accuracy)
    history.seconds.append(time.perf_counter() - start)


@dataclass(frozen=True)
class _Scaled:
    """A loss times a number."""

    loss: OfOutputs
    factor: float

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        return self.factor * self.loss(output, target)


def are_shared() -> bool:
    """Whether this is one of the processes of ``torchrun``, which share each batch."""
    return distributed.is_available() and distributed.is_torchelastic_launched()


def make_fabric(device: str) -> Fabric:
    """Fabric on ``device``; over all processes where ``torchrun`` has started several."""
    from lightning_fabric import Fabric  # half a second, and not needed for a single step

    kind, _, index = device.partition(":")
    # Without a precision of Fabric's: "64-true" would hand on the outputs in single precision.
    if not are_shared():
        return Fabric(accelerator=kind, devices=[int(index)] if index else 1)
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    nodes = int(os.environ["WORLD_SIZE"]) // here
    fabric = Fabric(accelerator=kind, devices=here, num_nodes=nodes, strategy="ddp")
    fabric.launch()
    return fabric


def _require_shares(samples: int, batch_size: int, processes: int) -> None:
    least = min(batch_size, samples, samples % batch_size or batch_size)
    if least < processes:
        raise ValueError(
            f"{samples} samples in batches of {batch_size} leave one of {least}, which {processes} "
            "processes cannot share; choose another batch_size"
        )


def predict(model: nn.Module, samples: Batches, products: torch.dtype | None = None) -> Tensor:
    """The outputs for all samples, in evaluation; the mode of the model stays.

    ``products`` is that of :class:`TrainingStep`.
    """
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return torch.cat([with_products(products, model, X) for X in samples.blocks()])
    finally:
        model.train(was_training)


def _evaluate(model: nn.Module, test: Batches, score: OfOutputs, products: torch.dtype | None) -> float:
    """The score of the outputs for all samples."""
    try:
        outputs = predict(model, test, products)
    except (ArithmeticError, InvalidMatrixError) as error:
        raise Diverged(f"in evaluation, {error}") from error
    if not outputs.isfinite().all():
        raise Diverged("in evaluation, an output is not finite; lower lr or metric_lr")
    return float(score(outputs, test.labels))


def _known(header: dict[str, Any], checkpoint: Path) -> Fitted:
    """What had come of a training when it was saved."""
    try:
        history = History.of(header["history"])
        if not isinstance(header["stopped"], (str, type(None))):
            raise TypeError("stopped must be a reason")
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{checkpoint} has a header that is damaged ({error}); remove it") from None
    return Fitted(history, header["stopped"])


def _known_today(identity: Any) -> Any:
    """A saved identity in which settings that are younger than the checkpoint have their defaults."""
    if not isinstance(identity, dict) or not isinstance(identity.get("recipe"), dict):
        return identity
    return identity | {"recipe": asdict(Recipe()) | identity["recipe"]}


def _digest(model: nn.Module, train: Part) -> str:
    """Eight bytes for the architecture and the training samples: whose training a checkpoint is."""
    digest = hashlib.blake2b(str(model).encode(), digest_size=8)
    digest.update(train.places.numpy().tobytes())
    digest.update(train.labels[train.places].numpy().tobytes())
    for place in (train.places[0], train.places[-1]):  # all of them may be more than memory holds
        digest.update(train.matrices[place].numpy().tobytes())
    return digest.hexdigest()


def epoch_seed(seed: int, epoch: int) -> int:
    """One number of 32 bits for each pair, by the mixing of Steele et al. 2014 (SplitMix64)."""
    z = (seed * 0x9E3779B97F4A7C15 + epoch + 1) * 0xBF58476D1CE4E5B9 & _64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _64
    return (z ^ z >> 31) >> 32


_64 = 2**64 - 1


def _seed_all(seed: int) -> None:
    """The generators of torch on all devices, of NumPy and of Python; users' layers may draw from each."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (the global one is what is to be set)
    random.seed(seed)


def seeded(seed: int, make: Callable[[], nn.Module], dtype: torch.dtype = torch.float64) -> nn.Module:
    """The network ``make()`` when the generators stand at ``seed`` and new tensors are of ``dtype``.

    One that is made in single precision and converted has weights orthonormal in single precision.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        _seed_all(seed)
        return make()
    finally:
        torch.set_default_dtype(before)
