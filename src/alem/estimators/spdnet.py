"""SPDNet with fit and predict."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted
from torch import Tensor, nn

from alem import models
from alem.estimators import store
from alem.estimators.base import MatrixEstimator, as_array, read_weights
from alem.estimators.blocks import by_block
from alem.estimators.following import Follow, state_of
from alem.estimators.generators import generators_kept
from alem.estimators.labels import decision, read_labels
from alem.geometry import Metric
from alem.training import (
    CLASSIFICATION,
    REGRESSION,
    WEIGHTED_CLASSIFICATION,
    Batches,
    History,
    Objective,
    Part,
    Recipe,
    fit,
    predict,
    seeded,
    weighted_labels,
)

Array = NDArray[Any]
KEPT = ("last", "best")
# Bytes of the name of a class in a file.
LONGEST = 2**16


class _SPDNetEstimator(MatrixEstimator):
    """Network, recipe and early stopping; a subclass says what the targets are."""

    # What a head takes; the values are those of the recipe that cross-validation chose.
    _HEADS: ClassVar[dict[str, dict[str, Any]]] = {
        "linear": {"log": "gap", "chart_norm": True, "dropout": 0.5, "vec": "vech"},
        "gyro": {},
    }

    def __init__(
        self,
        *,
        dims: Sequence[int] | None = None,
        log: str | nn.Module | None = None,
        norm: str | None = None,
        head: str = "linear",
        metric: str | Metric | None = None,
        trace_norm: bool = True,
        whiten: bool = True,
        chart_norm: bool | None = None,
        dropout: float | None = None,
        vec: str | None = None,
        optimizer: str = "amsgrad",
        lr: float = 5e-3,
        metric_lr: float = 1.0,
        weight_decay: float = 1e-2,
        schedule: str = "cosine",
        epochs: int = 100,
        batch_size: int = 30,
        max_norm: float | None = None,
        dtype: str = "float64",
        validation: float | None = None,
        patience: int | None = None,
        weights: str = "last",
        device: str = "cpu",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.dims = dims
        self.log = log
        self.norm = norm
        self.head = head
        self.metric = metric
        self.trace_norm = trace_norm
        self.whiten = whiten
        self.chart_norm = chart_norm
        self.dropout = dropout
        self.vec = vec
        self.optimizer = optimizer
        self.lr = lr
        self.metric_lr = metric_lr
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.epochs = epochs
        self.batch_size = batch_size
        self.max_norm = max_norm
        self.dtype = dtype
        self.validation = validation
        self.patience = patience
        self.weights = weights
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    # What a fit is made of.

    def options(self) -> dict[str, Any]:
        """The options of :class:`alem.models.SPDNet` that follow from the parameters."""
        if self.head not in self._HEADS:
            raise ValueError(f"head must be one of {', '.join(self._HEADS)}, got {self.head!r}")
        if self.metric is not None and self.head == "linear" and self.norm != "liebn":
            raise ValueError(
                f"metric={self.metric!r} is that of norm='liebn' or head='gyro'; choose one of them, or "
                "leave it out (the geometry of head='linear' is that of log=)"
            )
        chosen = {name: getattr(self, name) for name in ("log", "chart_norm", "dropout", "vec")}
        return {
            **self._HEADS[self.head],
            **{name: value for name, value in chosen.items() if value is not None},
            "norm": self.norm,
            "head": self.head,
            "metric": "lem" if self.metric is None else self.metric,
            "trace_norm": self.trace_norm,
            "whiten": self.whiten,
        }

    def recipe(self) -> Recipe:
        """How the network is trained."""
        names = ("optimizer", "lr", "metric_lr", "weight_decay", "schedule", "epochs", "batch_size")
        return Recipe(**{name: getattr(self, name) for name in (*names, "max_norm", "dtype")})

    def _build(self, n: int, outputs: int, seed: int) -> nn.Module:
        # Copies: what was given as a module is not trained, nor shared with another fit.
        recipe, options = self.recipe(), copy.deepcopy(self.options())
        sizes = [n, *self._sizes(n)]
        return seeded(seed, lambda: models.SPDNet(sizes, outputs, **options), recipe.torch_dtype)

    def _sizes(self, n: int) -> list[int]:
        """The sizes of the matrices after the input's."""
        if self.dims is None:
            return [n]
        if isinstance(self.dims, str) or not isinstance(self.dims, Iterable):
            raise ValueError(f"dims must be a list of sizes, as [{n}], or None; got {self.dims!r}")
        sizes = list(self.dims)
        if any(not isinstance(d, Integral) or d < 1 for d in sizes):
            raise ValueError(f"dims must be sizes of matrices, whole and positive; got {sizes}")
        if self.norm is not None and not sizes:
            raise ValueError(f"norm={self.norm!r} follows a BiMap, and with dims=() there is none")
        return [int(d) for d in sizes]

    def _fit(
        self,
        matrices: Tensor,
        targets: Tensor,
        outputs: int,
        objective: Objective,
        strata: Array | None,
        weights: Tensor | None,
    ) -> None:
        """Train on all samples, or on those that are not held out."""
        if self.weights not in KEPT:
            raise ValueError(f"weights must be one of {', '.join(KEPT)}, got {self.weights!r}")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience must be 1 at least, or None; got {self.patience}")
        if self.validation is not None and not 0.0 < self.validation < 1.0:
            raise ValueError(f"validation must be a share between 0 and 1, or None; got {self.validation}")
        if self.validation is None and (self.patience is not None or self.weights == "best"):
            raise ValueError(
                "patience= and weights='best' go by the score on held-out samples; give validation=0.2, say"
            )
        seed = int(check_random_state(self.random_state).randint(2**31))
        train, test = self._divide(len(matrices), strata, seed)
        for places, what in ((train, "training"), (test, "held-out")):
            if weights is not None and places is not None and not bool(weights[places].sum() > 0):
                raise ValueError(f"all {what} samples have weight 0; give some of them another")
        with generators_kept():
            network = self._build(matrices.shape[-1], outputs, seed)
            watch = Follow(network, self.patience, self.epochs, self.verbose)
            with watch:
                fitted = fit(
                    network,
                    Part(matrices, targets, train),
                    None if test is None else Part(matrices, targets, test),
                    self.recipe(),
                    seed,
                    device=self.device,
                    watch=watch,
                    objective=objective,
                )
        if fitted.stopped is not None:
            raise ArithmeticError(f"the training of {type(self).__name__} ended early: {fitted.stopped}")
        self.fitted_params_ = self.get_params(deep=False)
        self.network_ = network.cpu().eval()
        self.n_outputs_ = outputs
        self.history_ = fitted.history
        self.n_epochs_ = len(fitted.history)
        self.last_weights_ = state_of(network)
        self.best_epoch_, self.best_score_, self.best_weights_ = watch.best
        self.use_weights(self.weights)

    def _divide(self, N: int, strata: Array | None, seed: int) -> tuple[Tensor, Tensor | None]:
        if self.validation is None:
            return torch.arange(N), None
        from sklearn.model_selection import train_test_split

        train, test = train_test_split(
            np.arange(N), test_size=self.validation, stratify=strata, random_state=seed
        )
        return torch.from_numpy(np.sort(train)), torch.from_numpy(np.sort(test))

    def use_weights(self, which: str) -> Self:
        """Predict with the weights of the ``"last"`` epoch or of the ``"best"`` one in validation."""
        check_is_fitted(self)
        if which not in KEPT:
            raise ValueError(f"weights must be one of {', '.join(KEPT)}, got {which!r}")
        state = self.last_weights_ if which == "last" else self.best_weights_
        if state is None:
            raise ValueError("there are no best weights: nothing was held out (validation=None)")
        self.network_.load_state_dict(state)
        self.weights_in_use_ = which
        return self

    def _outputs(self, X: Any) -> Tensor:
        """Outputs of the network `(n_samples, n_outputs)`."""
        check_is_fitted(self)
        matrices = self._matrices(X, reset=False)
        network = self.network_.to(self.device)
        try:
            places = torch.arange(len(matrices))
            dtype = next(network.parameters()).dtype
            samples = Batches(matrices, places, places, dtype, torch.device(self.device))
            return predict(network, samples).cpu()
        finally:
            self.network_.cpu()

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to a file: tensors as safetensors, the rest as JSON in its header."""
        check_is_fitted(self)
        store.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> Self:
        """Read what :meth:`save` has written, to predict on ``device``; nothing in the file is run."""
        return store.load(cls, Path(path), device)

    def _facts(self) -> dict[str, Any]:
        """What was fitted but the weights, as JSON holds it."""
        return {
            "n_features": self.n_features_in_,
            "n_outputs": self.n_outputs_,
            "history": asdict(self.history_),
            "best_epoch": self.best_epoch_,
            "best_score": self.best_score_,
            "weights_in_use": self.weights_in_use_,
        }

    def _restore(self, facts: dict[str, Any]) -> None:
        """The inverse of :meth:`_facts`, the network included."""
        self.fitted_params_ = self.get_params(deep=False)
        self.n_features_in_, self.n_outputs_ = facts["n_features"], facts["n_outputs"]
        self.history_ = History.of(facts["history"])
        self.n_epochs_ = len(self.history_)
        self.best_epoch_, self.best_score_ = facts["best_epoch"], facts["best_score"]
        with generators_kept():
            self.network_ = self._build(self.n_features_in_, self.n_outputs_, seed=0).eval()


class SPDNetClassifier(ClassifierMixin, _SPDNetEstimator):
    """:class:`alem.models.SPDNet` as a scikit-learn classifier on SPD matrices `(n_samples, n, n)`.

    Without arguments it is the recipe that cross-validation inside the training sets of four data sets
    chose (:doc:`reproduction`): one BiMap, from n to n, the ``"gap"`` logarithm, chart norm, dropout 0.5.

    The network: ``dims`` (sizes after the input's; None is one BiMap of the input's size, () none), ``log``
    (default ``"gap"``), ``norm``, ``head``, ``metric`` (of ``norm="liebn"`` or ``head="gyro"``),
    ``trace_norm``, ``whiten``, ``chart_norm`` (True), ``dropout`` (0.5), ``vec`` (``"vech"``); the defaults
    in brackets are those of the linear head, the gyro head takes none of these.

    Its training: ``optimizer``, ``lr``, ``metric_lr``, ``weight_decay``, ``schedule``, ``epochs``,
    ``batch_size``, ``max_norm``, ``dtype``, as in :class:`alem.training.Recipe`.

    - ``validation`` holds out a share of the samples, by class; training ends when its score has not
      risen for ``patience`` epochs; ``weights`` says whether those of the ``"last"`` epoch are used or of
      the ``"best"``;
    - ``random_state`` determines everything; ``device``; ``verbose`` shows a progress bar.

    Fitted: ``classes_``, ``network_``, ``history_``, ``n_epochs_``, ``last_weights_``, and with
    ``validation`` ``best_weights_``, ``best_epoch_``, ``best_score_``.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train; ``sample_weight`` multiplies the loss of each sample."""
        matrices = self._matrices(X, reset=True)
        places, classes = read_labels(y, len(matrices))
        labels = torch.from_numpy(places)
        weights = read_weights(sample_weight, len(matrices))
        targets, objective = labels, CLASSIFICATION
        if weights is not None:
            rows = weighted_labels(labels, weights, len(classes))
            targets, objective = rows.to(self.recipe().torch_dtype), WEIGHTED_CLASSIFICATION
        self._fit(matrices, targets, len(classes), objective, places, weights)
        self.classes_ = classes
        return self

    def _facts(self) -> dict[str, Any]:
        if not all(isinstance(name, (bool, int, float, str)) for name in self.classes_.tolist()):
            raise TypeError(
                f"classes of {self.classes_.dtype} cannot be written as JSON; pickle the estimator"
            )
        classes = {"dtype": self.classes_.dtype.str, "values": self.classes_.tolist()}
        return {**super()._facts(), "classes": classes}

    def _restore(self, facts: dict[str, Any]) -> None:
        super()._restore(facts)
        values = facts["classes"]["values"]
        dtype = np.dtype(facts["classes"]["dtype"])
        # A string of one letter may be of a type for a billion.
        if dtype.kind not in "biufUSO" or dtype.itemsize > LONGEST:
            raise ValueError(f"classes of {dtype}")
        classes = np.array(values, dtype=dtype)
        if classes.tolist() != values or len(set(values)) != self.n_outputs_ or classes.ndim != 1:
            raise ValueError(f"{self.n_outputs_} outputs and the classes {values}")
        self.classes_ = classes

    @by_block
    def decision_function(self, X: Any) -> Any:
        """Logits `(n_samples, n_classes)`; of two classes their difference `(n_samples,)`."""
        return decision(self._outputs(X))

    @by_block
    def predict_proba(self, X: Any) -> Any:
        """Probabilities `(n_samples, n_classes)`, in the order of ``classes_``."""
        return torch.softmax(self._outputs(X), -1).numpy()

    @by_block
    def predict(self, X: Any) -> Any:
        """The most probable class `(n_samples,)`."""
        best = self._outputs(X).argmax(-1).numpy()
        return self.classes_[best]


class SPDNetRegressor(RegressorMixin, _SPDNetEstimator):
    """:class:`alem.models.SPDNet` as a scikit-learn regressor: y `(n_samples,)` or `(n_samples, m)`.

    Parameters and fitted attributes are those of :class:`SPDNetClassifier` but for classes. The targets are
    standardised while it trains, on the squared error; scores are R².
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train; ``sample_weight`` multiplies the squared error of each sample."""
        matrices = self._matrices(X, reset=True)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        values = check_array(as_array(y), ensure_2d=False, dtype=np.float64, input_name="y", estimator=self)
        if values.ndim > 2 or len(values) != len(matrices):
            raise ValueError(
                f"y must be numbers ({len(matrices)},) or ({len(matrices)}, m), got shape {values.shape}"
            )
        Y = torch.from_numpy(values.reshape(len(values), -1).copy())
        weights = read_weights(sample_weight, len(matrices))
        w = torch.ones(len(Y), dtype=Y.dtype) if weights is None else weights
        share = (w / w.sum())[:, None]
        mean = (share * Y).sum(0)
        spread = (share * (Y - mean).square()).sum(0).sqrt()
        scale = torch.where(spread > 0, spread, 1.0)
        targets = torch.cat([(Y - mean) / scale, (w / w.mean())[:, None]], 1)
        self._fit(matrices, targets.to(self.recipe().torch_dtype), Y.shape[1], REGRESSION, None, weights)
        self.y_mean_, self.y_scale_, self._is_vector = mean.numpy(), scale.numpy(), values.ndim == 1
        return self

    def _facts(self) -> dict[str, Any]:
        scale = {"mean": self.y_mean_.tolist(), "scale": self.y_scale_.tolist()}
        return {**super()._facts(), "y": {**scale, "is_vector": self._is_vector}}

    def _restore(self, facts: dict[str, Any]) -> None:
        super()._restore(facts)
        y = facts["y"]
        self.y_mean_, self.y_scale_ = (np.array(y[key], dtype=np.float64) for key in ("mean", "scale"))
        self._is_vector = bool(y["is_vector"])
        if {self.y_mean_.shape, self.y_scale_.shape} != {(self.n_outputs_,)}:
            raise ValueError(f"{self.n_outputs_} outputs and the scales {y}")

    @by_block
    def predict(self, X: Any) -> Any:
        """Predictions of the shape y had in ``fit``."""
        standard = self._outputs(X).double().numpy()
        values = standard * self.y_scale_ + self.y_mean_
        return values[:, 0] if self._is_vector else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
