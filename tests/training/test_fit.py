from __future__ import annotations

import importlib
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from alem import geometry, models
from alem.linalg import InvalidMatrixError
from alem.training import (
    Batches,
    CheckpointError,
    Fitted,
    History,
    Part,
    Recipe,
    fit,
    predict,
    read_header,
    seeded,
)
from alem.training.batches import ahead
from alem.training.checkpoint import save_checkpoint
from alem.training.fit import epoch_seed

fitting = importlib.import_module("alem.training.fit")  # the package has a function of that name
N, CLASSES = 6, 3


def parts(train: int = 23, test: int = 17) -> tuple[Part, Part]:
    """Three classes that differ in scale and direction."""
    generator = torch.Generator().manual_seed(0)
    X = geometry.sample_wishart(train + test, n=N, generator=generator).double()
    y = torch.arange(train + test) % CLASSES
    for k in range(CLASSES):
        X[y == k, k, k] += 4.0
    order = torch.randperm(train + test, generator=generator)
    return Part(X, y, order[:train]), Part(X, y, order[train:])


def network(seed: int = 0, **options: object) -> nn.Module:
    return seeded(seed, lambda: models.SPDNet([N, 4], CLASSES, **options))


def train(epochs: int = 3, seed: int = 0, model: nn.Module | None = None, **options: object) -> Fitted:
    recipe = Recipe(epochs=epochs, batch_size=5, lr=5e-2)
    return fit(network() if model is None else model, *parts(), recipe, seed, **options)  # type: ignore[arg-type]


def test_it_learns_and_counts_over_the_whole_sets() -> None:
    train_part, test_part = parts()
    net = network()
    history = fit(net, train_part, test_part, Recipe(epochs=60, batch_size=5, lr=5e-2)).history
    assert len(history) == 60
    assert history.loss[-1] < 0.5 * history.loss[0]
    assert history.test_accuracy[-1] > 0.9
    assert all(seconds > 0 for seconds in history.seconds)
    with torch.no_grad():
        guesses = net.eval()(test_part.matrices[test_part.places]).argmax(-1)
    right = (guesses == test_part.labels[test_part.places]).double().mean()
    assert history.test_accuracy[-1] == float(right), "all of the test set, after the last epoch"


def test_loss_and_training_accuracy_are_means_over_samples_not_over_batches() -> None:
    """At a rate of nearly nothing the network stands still, and every sample counts once."""
    train_part, _ = parts()
    net = network()
    fitted = fit(net, train_part, None, Recipe(epochs=1, batch_size=5, lr=1e-12))
    X, y = train_part.matrices[train_part.places], train_part.labels[train_part.places]
    with torch.no_grad():
        output = net(X)
    assert len(X) % 5, "the last batch is smaller"
    assert fitted.history.loss[0] == pytest.approx(float(nn.functional.cross_entropy(output, y)), abs=1e-9)
    assert fitted.history.train_accuracy[0] == float((output.argmax(-1) == y).double().mean())
    assert fitted.history.test_accuracy == []


def test_a_seed_gives_the_same_bits_and_another_seed_others() -> None:
    options = {"chart_norm": True, "dropout": 0.5}
    runs = [train(seed=seed, model=network(**options)).history.loss for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_epochs_have_seeds_of_their_own() -> None:
    seeds = {epoch_seed(seed, epoch) for seed in range(40) for epoch in range(500)}
    assert len(seeds) >= 20_000 - 3, "by chance, a pair or so of 20,000 in 2³²"
    assert all(0 <= seed < 2**32 for seed in seeds)


@pytest.mark.parametrize("optimizer", ["rsgd", "amsgrad"])
def test_an_interrupted_training_goes_on_to_the_same_bits(tmp_path: Path, optimizer: str) -> None:
    recipe = Recipe(optimizer, lr=1e-2, momentum=0.9 * (optimizer == "rsgd"), epochs=6, schedule="cosine")
    options = {"log": "gap", "chart_norm": True, "dropout": 0.3, "whiten": True, "norm": "liebn"}

    class Interrupted(Exception):
        pass

    def interrupt(history: History) -> None:
        if len(history) == 3:
            raise Interrupted

    whole_model, model = network(**options), network(**options)
    whole = fit(whole_model, *parts(), recipe, 7)
    path = tmp_path / "run.safetensors"
    with pytest.raises(Interrupted):
        fit(model, *parts(), recipe, 7, checkpoint=path, saved_every=0.0, watch=interrupt)
    # The third epoch was not saved: the interruption came first.
    resumed_model = network(5, **options)
    resumed = fit(resumed_model, *parts(), recipe, 7, checkpoint=path, saved_every=0.0)
    for name in ("loss", "train_accuracy", "test_accuracy"):
        assert getattr(resumed.history, name) == getattr(whole.history, name)
    for (key, a), b in zip(
        whole_model.state_dict().items(), resumed_model.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), key


def test_a_finished_training_is_not_trained_further(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    first = train(checkpoint=path)
    net = network(9)
    again = train(model=net, checkpoint=path)
    assert again.history == first.history


def test_it_is_saved_often_enough_without_being_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "PAUSE", 0.0)
    monkeypatch.setattr(fitting, "PAUSES", 0)
    path, saved = tmp_path / "run.safetensors", []

    def look(history: History) -> None:
        saved.append(len(read_header(path)["history"]["loss"]) if path.exists() else 0)

    train(checkpoint=path, watch=look)
    assert saved == [0, 1, 2]
    monkeypatch.setattr(fitting, "PAUSES", 1e9)  # what the first one took is too much to have a second
    path.unlink()
    saved.clear()
    train(checkpoint=path, watch=look)
    assert saved == [0, 1, 1]


@pytest.mark.parametrize("change", ["seed", "recipe", "samples", "network", "matrices"])
def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path, change: str) -> None:
    path = tmp_path / "run.safetensors"
    train(checkpoint=path)
    recipe = Recipe(epochs=4 if change == "recipe" else 3, batch_size=5, lr=5e-2)
    given = parts(22 if change == "samples" else 23)
    if change == "matrices":
        given = [replace(part, matrices=2 * part.matrices) for part in given]
    net = network(log="log10" if change == "network" else "ln")
    with pytest.raises(CheckpointError, match="of another training"):
        fit(net, *given, recipe, int(change == "seed"), checkpoint=path)


def test_a_checkpoint_from_before_a_setting_existed_goes_on(tmp_path: Path) -> None:
    path, net, recipe = tmp_path / "run.safetensors", network(), Recipe(epochs=2, batch_size=5, lr=5e-2)
    fit(net, *parts(), recipe, 0, checkpoint=path)
    header = read_header(path)
    assert header["identity"]["recipe"].pop("products") is None
    save_checkpoint(path, net, recipe.make_optimizer(net), header)
    assert len(fit(network(), *parts(), recipe, 0, checkpoint=path).history) == 2
    lower = replace(recipe, dtype="float32", products="bfloat16")
    with pytest.raises(CheckpointError, match="of another training"):
        fit(network().float(), *parts(), lower, 0, checkpoint=path)


class Exploding(nn.Module):
    """A linear softmax whose loss becomes NaN at its n-th batch."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.head = nn.Linear(N * N, CLASSES)
        self.at, self.calls = at, 0

    def forward(self, X: Tensor) -> Tensor:
        self.calls += 1
        y = self.head(X.flatten(-2))
        return y * float("nan") if self.calls == self.at else y


def test_a_loss_that_is_not_finite_ends_the_training_with_the_reason() -> None:
    # Five training batches and an evaluation are an epoch.
    stopped = train(model=Exploding(at=6 + 2))
    assert len(stopped.history) == 1
    assert stopped.stopped is not None
    assert "epoch 2: the loss of step 2 is nan" in stopped.stopped


def test_what_is_wrong_from_the_start_is_an_error() -> None:
    train_part, test_part = parts()
    train_part.matrices[train_part.places[0], 0, 0] = float("nan")
    with pytest.raises(InvalidMatrixError, match="NaN"):
        fit(network(), train_part, test_part, Recipe(epochs=2, batch_size=50))


@pytest.mark.parametrize(("at", "epochs"), [(2, 0), (6, 0), (8, 1)])
def test_only_the_very_first_step_is_the_inputs_fault(at: int, epochs: int) -> None:
    """Five training batches and an evaluation are an epoch; the sixth call is the evaluation."""

    class Failing(Exploding):
        def forward(self, X: Tensor) -> Tensor:
            if self.calls + 1 == self.at:
                raise InvalidMatrixError("out of the cone")
            return super().forward(X)

    stopped = train(model=Failing(at))
    assert len(stopped.history) == epochs
    assert "out of the cone" in str(stopped.stopped)
    with pytest.raises(InvalidMatrixError):
        train(model=Failing(1))


def test_an_evaluation_that_is_not_finite_ends_it() -> None:
    stopped = train(model=Exploding(at=6))
    assert "epoch 1: in evaluation, an output is not finite" in str(stopped.stopped)


def test_gradients_are_clipped_where_the_recipe_says_so() -> None:
    losses = [
        fit(network(), *parts(), Recipe(epochs=3, lr=5e-2, max_norm=norm)).history.loss[-1]
        for norm in (None, 1e-9)
    ]
    assert losses[1] > losses[0] + 1e-3, "nothing moves"


def test_a_matrix_that_becomes_indefinite_later_ends_it() -> None:
    class Sinking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.calls = network(), 0

        def forward(self, X: Tensor) -> Tensor:
            self.calls += 1
            return self.net(-X if self.calls == 8 else X)

    stopped = train(model=Sinking())
    assert stopped.stopped is not None
    assert "not positive definite" in stopped.stopped


def test_the_rate_follows_the_schedule() -> None:
    recipe = Recipe(schedule="cosine", epochs=4)
    assert [recipe.factor(epoch) for epoch in range(5)] == pytest.approx([1, 0.8535534, 0.5, 0.1464466, 0])
    assert Recipe().factor(100) == 1.0
    net, moved = network(), []
    weight = next(net.parameters())

    def watch(history: History) -> None:
        moved.append(weight.detach().clone())

    fit(net, *parts(), Recipe(schedule="cosine", epochs=40, lr=1e-3, batch_size=23), watch=watch)
    first, last = (moved[1] - moved[0]).norm(), (moved[-1] - moved[-2]).norm()
    assert last < 0.05 * first


def test_layers_that_look_at_the_training_set_beforehand_do() -> None:
    net = network(whiten=True)
    train_part, _ = parts()
    fit(net, train_part, None, Recipe(epochs=1, batch_size=5))
    (whiten,) = (m for m in net.modules() if hasattr(m, "root"))
    whitened = whiten(train_part.matrices[train_part.places]).mean(0)
    torch.testing.assert_close(whitened, torch.eye(N, dtype=torch.float64))


@pytest.mark.parametrize(("held", "workers"), [(0, 0), (0, 1), (0, 3), (2**30, 2)])
def test_samples_held_and_fetched_are_the_same(held: int, workers: int) -> None:
    part, _ = parts()
    order = torch.randperm(len(part.places), generator=torch.Generator().manual_seed(1))
    device = torch.device("cpu")
    batches = Batches(part.matrices, part.labels, part.places, torch.float32, device, held, workers)
    for given in (None, order):
        found = list(batches.run(4, given))
        expected = part.places if given is None else part.places[given]
        assert torch.equal(torch.cat([X for _, X, _ in found]), part.matrices[expected].float())
        assert torch.equal(torch.cat([y for _, _, y in found]), part.labels[expected])
        assert [piece.stop - piece.start for piece, _, _ in found] == [4, 4, 4, 4, 4, 3]


def test_a_training_that_fetches_its_batches_is_the_same() -> None:
    expected = train().history.loss
    for workers in (0, 3):
        assert train(held=0, workers=workers).history.loss == expected


def test_no_thread_outlives_the_batches_it_fetched() -> None:
    part, _ = parts()
    before = threading.active_count()
    batches = Batches(part.matrices, part.labels, part.places, torch.float64, torch.device("cpu"), 0, 3)
    for _ in batches.run(4):
        assert threading.active_count() > before
        break  # as where a training fails
    assert threading.active_count() == before


def test_what_goes_wrong_while_fetching_is_said_where_the_batch_is_asked_for() -> None:
    def f(x: int) -> float:
        return 1 / (3 - x)

    found = ahead(f, range(10), workers=2)
    assert [next(found) for _ in range(3)] == [1 / 3, 1 / 2, 1.0]
    with pytest.raises(ZeroDivisionError):
        next(found)


def test_single_precision() -> None:
    net = network()
    fit(net, *parts(), Recipe(epochs=1, dtype="float32"))
    assert {p.dtype for p in net.parameters()} == {torch.float32}


def test_prediction_leaves_the_mode_alone_and_is_in_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    part, _ = parts()
    net = network(dropout=0.5).train()
    batches = Batches(part.matrices, part.labels, part.places, torch.float64, torch.device("cpu"))
    at_once = predict(net, batches)
    monkeypatch.setattr("alem.training.batches.BLOCK", 4)
    assert [len(X) for X in batches.blocks()] == [4, 4, 4, 4, 4, 3]
    torch.testing.assert_close(predict(net, batches), at_once)
    assert net.training


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "sgd"}, "optimizer must be one of rsgd, amsgrad, got 'sgd'"),
        ({"schedule": "step"}, "schedule must be one of constant, cosine"),
        ({"dtype": "float16"}, "dtype must be one of float32, float64"),
        ({"epochs": 0}, "epochs must be 1 at least"),
        ({"batch_size": 0}, "batch_size must be 1 at least"),
        ({"lr": 0.0}, "lr must be positive"),
        ({"metric_lr": float("nan")}, "metric_lr must be positive"),
        ({"max_norm": -1.0}, "max_norm must be positive"),
        ({"lr": float("nan")}, "lr must be positive"),
        ({"optimizer": "amsgrad", "momentum": 0.9}, "momentum belongs to rsgd"),
    ],
)
def test_recipes_that_make_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe(**options)  # type: ignore[arg-type]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("held", [None, 0])
def test_on_cuda_it_does_what_it_does_on_the_cpu(tmp_path: Path, held: int | None) -> None:
    options = {"log": "gap", "whiten": True, "trace_norm": True, "chart_norm": True, "vec": "vech"}
    recipe = Recipe(optimizer="amsgrad", lr=1e-2, schedule="cosine", epochs=12, batch_size=5)
    histories = [
        fit(network(**options), *parts(), recipe, device=device, held=held).history
        for device in ("cpu", "cuda")
    ]
    assert histories[1].loss == pytest.approx(histories[0].loss, rel=1e-8)
    assert histories[1].train_accuracy == pytest.approx(histories[0].train_accuracy, rel=1e-12)
    assert histories[1].test_accuracy == pytest.approx(histories[0].test_accuracy, rel=1e-12)
    path = tmp_path / "run.safetensors"

    def stop(history: History) -> None:
        if len(history) == 8:
            raise KeyboardInterrupt

    again = {"device": "cuda", "held": held, "checkpoint": path, "saved_every": 0.0}
    with pytest.raises(KeyboardInterrupt):
        fit(network(**options), *parts(), recipe, **again, watch=stop)
    resumed = fit(network(**options), *parts(), recipe, **again)
    assert resumed.history.loss == pytest.approx(histories[0].loss, rel=1e-8)
