from __future__ import annotations

import json
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyriemann.estimation import Covariances as TheirCovariances
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from torch.nn import functional

from alem import models
from alem.estimators import SPDNetClassifier, SPDNetRegressor
from alem.experiments.recommended import RECOMMENDED
from alem.geometry import METRICS
from alem.nn import ALog
from alem.training import CheckpointError, Recipe

from .conftest import classes_of_spd

BRIEF: dict[str, Any] = {"epochs": 8, "lr": 0.03, "random_state": 0}


@pytest.fixture(scope="module")
def trained() -> tuple[SPDNetClassifier, Any, Any]:
    X, y = classes_of_spd()
    return SPDNetClassifier(**BRIEF, validation=0.2, patience=5).fit(X, y), X, y


def test_without_arguments_it_is_the_recipe_of_the_study() -> None:
    model = SPDNetClassifier()
    options = {k: v for k, v in model.options().items() if k not in ("norm", "head", "metric")}
    assert options == dict(RECOMMENDED.options)
    assert model.recipe() == Recipe(**RECOMMENDED.recipe)
    assert RECOMMENDED.share == 1.0
    assert model.dims is None


def test_it_learns_and_says_how_it_went(trained: Any) -> None:
    model, X, y = trained
    assert model.score(X, y) > 0.8
    assert list(model.classes_) == ["down", "left", "up"]
    assert model.n_features_in_ == 4
    assert isinstance(model.network_, models.SPDNet)
    assert model.n_epochs_ == len(model.history_.loss) == len(model.history_.test_accuracy)
    assert model.best_score_ == max(model.history_.test_accuracy)
    assert model.history_.test_accuracy[model.best_epoch_ - 1] == model.best_score_


def test_probabilities_decisions_and_predictions_agree(trained: Any) -> None:
    model, X, _ = trained
    p, z = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_allclose(p, functional.softmax(torch.from_numpy(z), -1).numpy())
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(1)])
    with torch.no_grad():
        np.testing.assert_array_equal(model.network_(torch.from_numpy(X)).numpy(), z)
    np.testing.assert_array_equal(model.predict(torch.from_numpy(X)), model.predict(X))


def test_a_seed_determines_everything_and_touches_nothing_else() -> None:
    X, y = classes_of_spd()
    torch.manual_seed(3), np.random.seed(3), random.seed(3)  # noqa: NPY002
    a = SPDNetClassifier(**BRIEF).fit(X, y)
    after = float(torch.rand(())), np.random.rand(), random.random()  # noqa: NPY002
    torch.manual_seed(3), np.random.seed(3), random.seed(3)  # noqa: NPY002
    assert after == (float(torch.rand(())), np.random.rand(), random.random())  # noqa: NPY002
    b, c = clone(a).fit(X, y), clone(a).set_params(random_state=1).fit(X, y)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    assert np.abs(a.predict_proba(X) - c.predict_proba(X)).max() > 1e-3


def test_patience_ends_a_training_and_both_weights_are_kept() -> None:
    X, y = classes_of_spd(90)
    model = SPDNetClassifier(epochs=60, lr=0.05, validation=0.3, patience=3, random_state=1).fit(X, y)
    assert model.n_epochs_ == model.best_epoch_ + 3 < 60
    assert model.weights_in_use_ == "last"
    last = model.predict_proba(X)
    best = model.use_weights("best").predict_proba(X)
    assert np.abs(best - last).max() > 1e-4
    np.testing.assert_array_equal(model.use_weights("last").predict_proba(X), last)
    again = clone(model).set_params(weights="best").fit(X, y)
    assert again.weights_in_use_ == "best"
    np.testing.assert_array_equal(again.predict_proba(X), best)


def test_the_best_score_is_that_of_the_best_weights() -> None:
    X, y = classes_of_spd(90)
    model = SPDNetClassifier(epochs=12, lr=0.05, validation=0.3, weights="best", random_state=1).fit(X, y)
    seed = int(np.random.RandomState(1).randint(2**31))
    _, held = train_test_split(np.arange(90), test_size=0.3, stratify=y, random_state=seed)
    assert model.score(X[held], y[held]) == pytest.approx(model.best_score_)


def test_weights_count_as_they_should() -> None:
    """A sample of weight 0 does not pull; scaling all weights changes nothing."""
    X, y = classes_of_spd()
    plain = {**BRIEF, "chart_norm": False, "whiten": False, "dropout": 0.0}
    a = SPDNetClassifier(**plain).fit(X, y)
    b = SPDNetClassifier(**plain).fit(X, y, sample_weight=np.full(60, 7.0))
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), rtol=1e-9)
    flipped = np.where(np.arange(60) < 20, np.roll(y, 1), y)
    w = np.where(np.arange(60) < 20, 0.0, 1.0)
    c = SPDNetClassifier(**plain).fit(X, flipped, sample_weight=w)
    d = SPDNetClassifier(**plain).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(c.predict_proba(X), d.predict_proba(X), rtol=1e-9)
    e = SPDNetClassifier(**plain).fit(X, flipped)
    assert np.abs(c.predict_proba(X) - e.predict_proba(X)).max() > 1e-2


@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_serves_norm_and_head(metric: str) -> None:
    X, y = classes_of_spd(30)
    brief = {**BRIEF, "epochs": 2}
    assert SPDNetClassifier(head="gyro", metric=metric, **brief).fit(X, y).predict_proba(X).shape == (30, 3)
    if metric != "bwm":  # which has no group, and so no LieBN
        assert SPDNetClassifier(norm="liebn", metric=metric, **brief).fit(X, y).predict(X).shape == (30,)


def test_searches_over_logarithms_and_metrics() -> None:
    X, y = classes_of_spd(30)
    model = SPDNetClassifier(**{**BRIEF, "epochs": 2})
    grid = [{"log": ["ln", "gap", "mul"]}, {"norm": ["liebn"], "metric": ["lem", "lcm"]}]
    search = GridSearchCV(model, grid, cv=2, n_jobs=2).fit(X, y)
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert search.best_estimator_.predict(X).shape == (30,)


def test_pipelines_with_pyriemann_and_workers() -> None:
    rng = np.random.default_rng(0)
    signals = rng.standard_normal((40, 3, 60)) * np.where(np.arange(40) % 2, 1.0, 3.0)[:, None, None]
    signals[:, 0] *= np.where(np.arange(40) % 2, 3.0, 1.0)[:, None]
    y = np.arange(40) % 2
    steps = make_pipeline(TheirCovariances("oas"), SPDNetClassifier(**BRIEF))
    scores = cross_val_score(steps, signals, y, cv=2, n_jobs=2)
    assert scores.min() > 0.8


def test_a_regressor_learns_one_or_several_targets() -> None:
    X, _ = classes_of_spd(120)
    target = np.stack([np.log(np.linalg.det(X)), 100 + 5 * X[:, 0, 0]], 1)
    whole = SPDNetRegressor(epochs=40, lr=0.02, dropout=0.0, random_state=0).fit(X, target)
    assert whole.predict(X).shape == (120, 2)
    assert whole.score(X, target) > 0.7
    one = SPDNetRegressor(epochs=40, lr=0.02, dropout=0.0, random_state=0, validation=0.25, weights="best")
    one.fit(X, target[:, 0])
    assert one.predict(X).shape == (120,)
    assert one.best_score_ == max(one.history_.test_accuracy)
    seed = int(np.random.RandomState(0).randint(2**31))
    _, held = train_test_split(np.arange(120), test_size=0.25, random_state=seed)
    assert r2_score(target[held, 0], one.predict(X[held])) == pytest.approx(one.best_score_, abs=1e-8)


@pytest.mark.parametrize("kind", [np.int64, bool, str, object, float])
def test_files_give_back_the_estimator(kind: Any, tmp_path: Path) -> None:
    X, y = classes_of_spd(kinds=2)
    labels = y if kind in (str, object) else (y == "up")
    model = SPDNetClassifier(**BRIEF, validation=0.2).fit(X, labels.astype(kind))
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = SPDNetClassifier.load(path)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.predict(X).dtype == model.predict(X).dtype
    assert again.get_params() == model.get_params()
    assert again.history_ == model.history_
    np.testing.assert_array_equal(
        again.use_weights("best").predict_proba(X), model.use_weights("best").predict_proba(X)
    )


def test_files_of_regressors_and_what_files_cannot_hold(tmp_path: Path) -> None:
    X, _ = classes_of_spd()
    path = tmp_path / "deep" / "model.safetensors"
    model = SPDNetRegressor(**BRIEF).fit(X, X[:, 0, 0])
    model.save(path)
    np.testing.assert_array_equal(SPDNetRegressor.load(path).predict(X), model.predict(X))
    with pytest.raises(
        CheckpointError, match=r"holds a SPDNetRegressor; load it with SPDNetRegressor\.load"
    ):
        SPDNetClassifier.load(path)
    with pytest.raises(TypeError, match=r"random_state=.* cannot be written as JSON"):
        SPDNetRegressor(epochs=1, random_state=np.random.RandomState(0)).fit(X, X[:, 0, 0]).save(path)
    assert [p.name for p in path.parent.iterdir()] == ["model.safetensors"]


def test_broken_and_changed_files_are_refused(tmp_path: Path, trained: Any) -> None:
    model, _, _ = trained
    good = tmp_path / "good.safetensors"
    model.save(good)
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(good.read_bytes()[:2000])
    with pytest.raises(CheckpointError, match="cannot be read"):
        SPDNetClassifier.load(cut)
    flipped = bytearray(good.read_bytes())
    flipped[-1] ^= 1  # in a tensor
    cut.write_bytes(flipped)
    with pytest.raises(CheckpointError, match="it was changed after it was written"):
        SPDNetClassifier.load(cut)
    with pytest.raises(FileNotFoundError, match="absent does not exist"):
        SPDNetClassifier.load(tmp_path / "absent")
    from safetensors.torch import load_file, save_file

    def rewritten(change: Any) -> Path:
        header = json.loads(_header(good)["alem"])
        change(header["header"]["estimator"])
        path = tmp_path / "changed.safetensors"
        save_file(load_file(good), path, metadata={"alem": json.dumps(header)})
        return path

    for change in (
        lambda h: h["parameters"].update(os="system"),
        lambda h: h["parameters"].update(log="exec"),
        lambda h: h["parameters"].update(dims=[3]),
        lambda h: h["fitted"].pop("classes"),
        lambda h: h["fitted"].update(n_features="4"),
        lambda h: h["fitted"]["classes"].update(dtype="nonsense"),
        lambda h: h["fitted"]["classes"].update(dtype="<U1"),
        lambda h: h["fitted"]["classes"].update(values=["up", "up", "down"]),
        lambda h: h["fitted"]["classes"].update(values=["up", "down"]),
        lambda h: h["fitted"].update(weights_in_use="worst"),
        lambda h: h.pop("fitted"),
    ):
        with pytest.raises(
            CheckpointError, match=r"no file of SPDNetClassifier\.save, or one that was changed"
        ):
            SPDNetClassifier.load(rewritten(change))

    for text in ("{", "[]", '{"format": 1}', "[" * 100_000):
        save_file(load_file(good), cut, metadata={"alem": text})
        with pytest.raises(CheckpointError):
            SPDNetClassifier.load(cut)
    tensors = load_file(good)
    for name, change in (
        ("last.layers.head.weight", lambda t: t * torch.nan),
        ("best.layers.head.weight", lambda t: t[:1]),
    ):
        save_file(
            {**tensors, name: change(tensors[name]).contiguous()},
            cut,
            metadata={"alem": _header(good)["alem"]},
        )
        with pytest.raises(CheckpointError, match=r"no file of SPDNetClassifier\.save"):
            SPDNetClassifier.load(cut)


def _header(path: Path) -> dict[str, str]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return file.metadata()


def test_a_file_holds_the_parameters_of_the_fit(tmp_path: Path) -> None:
    X, y = classes_of_spd()
    model = SPDNetClassifier(**BRIEF).fit(X, y)
    model.set_params(trace_norm=False, log="ln").save(tmp_path / "m")
    again = SPDNetClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.trace_norm is True


def test_a_module_that_is_given_is_neither_trained_nor_shared() -> None:
    X, y = classes_of_spd()
    log = ALog(4, "gap")
    before = {key: t.clone() for key, t in log.state_dict().items()}
    model = SPDNetClassifier(log=log, **BRIEF).fit(X, y)
    first = model.predict_proba(X)
    for key, t in log.state_dict().items():
        assert t.dtype == before[key].dtype
        assert torch.equal(t, before[key])
    np.testing.assert_array_equal(model.fit(X, y).predict_proba(X), first)


def test_threads_wait_for_each_other() -> None:
    X, y = classes_of_spd()
    alone = SPDNetClassifier(**BRIEF).fit(X, y).predict_proba(X)
    with ThreadPoolExecutor(4) as pool:
        many = list(pool.map(lambda _: SPDNetClassifier(**BRIEF).fit(X, y).predict_proba(X), range(4)))
    assert torch.get_default_dtype() == torch.float32
    for p in many:
        np.testing.assert_array_equal(p, alone)


def test_what_is_changed_after_a_fit_does_not_change_predictions() -> None:
    X, y = classes_of_spd()
    model = SPDNetClassifier(**BRIEF).fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_array_equal(model.set_params(dtype="float32", lr=-1.0).predict_proba(X), p)
    with pytest.raises(ValueError, match="lr must be positive"):
        model.fit(X, y == "up")
    assert list(model.classes_) == ["down", "left", "up"]
    np.testing.assert_array_equal(model.predict_proba(X), p)


def test_weights_that_leave_a_part_empty_are_refused() -> None:
    X, y = classes_of_spd()
    seed = int(np.random.RandomState(0).randint(2**31))
    train, held = train_test_split(np.arange(60), test_size=0.2, stratify=y, random_state=seed)
    for places, what in ((held, "held-out"), (train, "training")):
        w = np.ones(60)
        w[places] = 0
        with pytest.raises(ValueError, match=f"all {what} samples have weight 0"):
            SPDNetClassifier(**BRIEF, validation=0.2).fit(X, y, sample_weight=w)


def test_it_pickles(trained: Any) -> None:
    model, X, _ = trained
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"log": "nl"}, "nl"),
        ({"head": "cubic"}, "head must be one of linear, gyro"),
        ({"metric": "lcm"}, "metric='lcm' is that of norm='liebn' or head='gyro'"),
        ({"metric": "lmc", "norm": "liebn"}, "lmc"),
        ({"norm": "bn"}, "norm must be one of"),
        ({"patience": 3}, "give validation=0.2"),
        ({"weights": "best"}, "give validation=0.2"),
        ({"weights": "first", "validation": 0.2}, "weights must be one of last, best"),
        ({"lr": -1.0}, "lr must be positive"),
        ({"optimizer": "sgd"}, "optimizer must be one of"),
        ({"dims": [0]}, "dims must be sizes"),
        ({"dims": 5}, "dims must be a list of sizes"),
        ({"dims": "4"}, "dims must be a list of sizes"),
        ({"dims": [3.7]}, "dims must be sizes"),
        ({"dims": (), "norm": "liebn"}, "follows a BiMap"),
        ({"patience": 0, "validation": 0.2}, "patience must be 1 at least"),
        ({"validation": 12}, "validation must be a share"),
        ({"head": "gyro", "log": "mul"}, "the gyro head"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, Any], sentence: str) -> None:
    X, y = classes_of_spd(12)
    with pytest.raises(ValueError, match=sentence):
        SPDNetClassifier(**options).fit(X, y)


def test_wrong_samples_are_named(trained: Any) -> None:
    model, X, y = trained
    with pytest.raises(ValueError, match=r"X has 60 matrices and y 59 labels"):
        SPDNetClassifier().fit(X, y[:59])
    bad = X.copy()
    bad[7] = -bad[7]
    with pytest.raises(ValueError, match="X: matrix 7"):
        SPDNetClassifier().fit(bad, y)
    with pytest.raises(ValueError, match="matrix 7"):
        model.predict(bad)
    with pytest.raises(ValueError, match=r"y must be numbers \(60,\) or \(60, m\)"):
        SPDNetRegressor().fit(X, np.arange(59.0))
    with pytest.raises(ValueError, match="there are no best weights"):
        SPDNetClassifier(**BRIEF).fit(X, y).use_weights("best")


def test_a_training_that_diverges_says_so() -> None:
    X, y = classes_of_spd()
    with pytest.raises(ArithmeticError, match="the training of SPDNetClassifier ended early: epoch 1: "):
        SPDNetClassifier(optimizer="rsgd", lr=1e200, epochs=3, random_state=0).fit(X, y)


def test_progress_is_shown_when_asked(capsys: Any) -> None:
    X, y = classes_of_spd(30)
    SPDNetClassifier(epochs=2, validation=0.2, random_state=0).fit(X, y)
    assert capsys.readouterr().err == ""
    SPDNetClassifier(epochs=2, validation=0.2, random_state=0, verbose=True).fit(X, y)
    assert "2/2" in capsys.readouterr().err


def test_digits(digits: Any) -> None:
    X, y = digits
    model = SPDNetClassifier(epochs=30, random_state=0).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.6
