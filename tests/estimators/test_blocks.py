from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from alem.estimators import Covariances, FrechetClassifier, SPDNetClassifier, SPDNetRegressor, TangentSpace
from alem.estimators import blocks as blocks_module
from alem.geometry import METRICS, frechet_blocks
from alem.linalg import InvalidMatrixError, NotPositiveDefiniteError

from .conftest import Array, classes_of_spd

da = pytest.importorskip("dask.array", reason="Dask is not installed")

FLAT = [name for name in METRICS if name not in ("aim", "bwm")]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a hundred matrices are many."""
    monkeypatch.setattr(blocks_module, "SLICE", 17 * 8 * 16)
    monkeypatch.setattr(blocks_module, "ARITY", 2)
    monkeypatch.setattr(frechet_blocks, "SAMPLE_BYTES", 0)


@pytest.fixture
def data() -> tuple[Array, Array, Array]:
    X, y = classes_of_spd(150)
    return X, y, np.random.default_rng(1).random(150)


class Sliceable:
    """What a Zarr or HDF5 array is like: a shape and slices, no more."""

    def __init__(self, array: Array) -> None:
        self._array, self.shape, self.dtype = array, array.shape, array.dtype
        self.largest = 0

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, place: slice) -> Array:
        part = self._array[place]
        self.largest = max(self.largest, len(part))
        return part


def generator(X: Array) -> Iterator[Array]:
    yield from np.array_split(X, 7)


def on_disk(X: Array, folder: Path) -> Array:
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


SEVERAL_TIMES: dict[str, Callable[[Array], Any]] = {
    "sliceable": Sliceable,
    "dask": lambda X: da.from_array(X, chunks=(20, 4, 2)),
    "list of blocks": lambda X: np.array_split(X, 5),
    "torch": torch.from_numpy,
}


@pytest.fixture(params=SEVERAL_TIMES)
def given(request: pytest.FixtureRequest) -> Callable[[Array], Any]:
    return SEVERAL_TIMES[request.param]


def whole(result: Any) -> Array:
    """Of whatever kind, as one array."""
    if isinstance(result, (np.ndarray, torch.Tensor)):
        return np.asarray(result)
    return result.compute() if hasattr(result, "compute") else np.concatenate(list(result))


@pytest.mark.parametrize("metric", METRICS)
def test_tangent_space_of_blocks(metric: str, given: Callable[[Array], Any], data: Any) -> None:
    X, _, w = data
    expected = TangentSpace(metric).fit(X[:], sample_weight=w)
    space = TangentSpace(metric).fit(given(X), sample_weight=w)
    np.testing.assert_allclose(space.reference_, expected.reference_, atol=1e-9)
    np.testing.assert_allclose(whole(space.transform(given(X))), expected.transform(X), atol=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_nearest_mean_of_blocks(metric: str, given: Callable[[Array], Any], data: Any) -> None:
    X, y, w = data
    expected = FrechetClassifier(metric).fit(X, y, w)
    nearest = FrechetClassifier(metric).fit(given(X), y, w)
    np.testing.assert_allclose(nearest.means_, expected.means_, atol=1e-9)
    for method in ("transform", "decision_function", "predict_proba", "predict"):
        found, known = whole(getattr(nearest, method)(given(X))), getattr(expected, method)(X)
        assert found.dtype == known.dtype
        if method == "predict":
            assert found.tolist() == known.tolist()
        else:
            np.testing.assert_allclose(found, known, atol=1e-8)


def test_a_generator_suffices_for_a_flat_metric(data: Any) -> None:
    X, y, w = data
    expected = TangentSpace("gap").fit(X, sample_weight=w)
    np.testing.assert_allclose(
        TangentSpace("gap").fit(generator(X), sample_weight=w).reference_, expected.reference_, atol=1e-12
    )
    nearest = FrechetClassifier("lem").fit(generator(X), y)
    assert (
        whole(nearest.predict(generator(X))).tolist()
        == FrechetClassifier("lem").fit(X, y).predict(X).tolist()
    )
    for estimator in (TangentSpace("aim"), FrechetClassifier("bwm")):
        with pytest.raises(TypeError, match="several passes"):
            estimator.fit(generator(np.concatenate([X] * 2)), np.concatenate([y] * 2))


def test_a_mapped_file_is_read_in_slices(tmp_path: Path, data: Any) -> None:
    X, y, _ = data
    mapped = on_disk(X, tmp_path)
    nearest = FrechetClassifier().fit(mapped, y)
    assert nearest.predict(mapped).tolist() == FrechetClassifier().fit(X, y).predict(X).tolist()
    like_zarr = Sliceable(X)
    TangentSpace("lem").fit(like_zarr).transform(like_zarr)
    assert like_zarr.largest == 17


@pytest.mark.parametrize("metric", FLAT)
def test_fitted_in_parts_and_merged(metric: str, data: Any) -> None:
    X, y, w = data
    space = TangentSpace(metric)
    for i in range(0, 100, 30):
        space.partial_fit(X[i : min(i + 30, 100)], sample_weight=w[i : min(i + 30, 100)])
    space.merge(TangentSpace(metric).fit(X[100:], sample_weight=w[100:]))
    expected = TangentSpace(metric).fit(X, sample_weight=w)
    np.testing.assert_allclose(space.reference_, expected.reference_, atol=1e-12)

    kinds = np.unique(y)
    nearest = FrechetClassifier(metric).partial_fit(X[:1], y[:1], classes=kinds, sample_weight=w[:1])
    assert nearest.predict(X).tolist() == [y[0]] * 150  # it knows no other yet
    nearest.partial_fit(X[1:90], y[1:90], sample_weight=w[1:90])
    other = FrechetClassifier(metric).partial_fit(X[90:], y[90:], kinds, w[90:])
    np.testing.assert_allclose(
        nearest.merge(other).means_, FrechetClassifier(metric).fit(X, y, w).means_, atol=1e-12
    )


def test_what_cannot_be_fitted_in_parts_says_so(data: Any) -> None:
    X, y, _ = data
    for estimator in (TangentSpace(), FrechetClassifier("bwm")):
        assert not hasattr(estimator, "partial_fit")
        with pytest.raises(AttributeError, match="partial_fit") as caught:
            estimator.partial_fit(X, y)
        assert "take a flat metric" in str(caught.value.__cause__)
    nearest = FrechetClassifier("lem")
    with pytest.raises(ValueError, match="needs classes="):
        nearest.partial_fit(X, y)
    nearest.partial_fit(X[:30], y[:30], classes=np.unique(y))
    with pytest.raises(ValueError, match="the classes are"):
        nearest.partial_fit(X[:3], ["up", "down", "sideways"])
    with pytest.raises(ValueError, match="the classes are"):
        nearest.partial_fit(X[:3], y[:3], classes=["up"])
    with pytest.raises(ValueError, match="different classes"):
        nearest.merge(FrechetClassifier("lem").fit(X[y != "up"], y[y != "up"]))
    with pytest.raises(ValueError, match="different metrics"):
        TangentSpace("lem").fit(X).merge(TangentSpace("lcm").fit(X))


def test_covariances_of_blocks(data: Any) -> None:
    x = np.random.default_rng(0).standard_normal((50, 4, 30))
    expected = Covariances("oas").fit(x[:2]).transform(x[:])
    mapped = Covariances("oas").fit(Sliceable(x)).transform(Sliceable(x))
    np.testing.assert_allclose(mapped, expected, rtol=1e-12)
    lazy = (
        Covariances("oas").fit(da.from_array(x, chunks=(11, 4, 7))).transform(da.from_array(x, chunks=11))
    )
    assert lazy.shape == (50, 4, 4)
    np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-12)
    from_generator = Covariances("oas").fit(x[:1]).transform(generator(x))
    np.testing.assert_allclose(whole(from_generator), expected, rtol=1e-12)


def test_networks_predict_blocks_and_train_on_arrays(given: Callable[[Array], Any], data: Any) -> None:
    X, y, _ = data
    network = SPDNetClassifier(epochs=2, random_state=0).fit(X, y)
    for method in ("predict", "predict_proba", "decision_function"):
        found, known = whole(getattr(network, method)(given(X))), getattr(network, method)(X)
        assert found.shape == known.shape
        if method == "predict":
            assert found.tolist() == known.tolist()
        else:
            np.testing.assert_allclose(found, known, atol=1e-12)
    for targets in (X[:, 0, 0], X[:, :2, 0]):
        regressor = SPDNetRegressor(epochs=1, random_state=0).fit(X, targets)
        np.testing.assert_allclose(whole(regressor.predict(given(X))), regressor.predict(X), atol=1e-12)
    for blocks in (generator(X), da.from_array(X, chunks=20)):
        with pytest.raises(TypeError, match=r"SPDNetClassifier takes .* as an array here.*save_blocks"):
            SPDNetClassifier(epochs=1).fit(blocks, y)


def test_a_pipeline_over_dask_is_lazy_from_signals_to_classes() -> None:
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = rng.standard_normal((90, 4, 40)) * (1.0 + y[:, None, None] * np.arange(4)[:, None])
    pipeline = make_pipeline(Covariances(), FrechetClassifier("lem")).fit(da.from_array(x, chunks=20), y)
    classes = pipeline.predict(da.from_array(x, chunks=20))
    assert isinstance(classes, da.Array)
    assert (classes.compute() == y).mean() > 0.9


def test_errors_name_the_place_among_all_samples(given: Callable[[Array], Any], data: Any) -> None:
    X, y, _ = data
    bad = X.copy()
    bad[77] -= 100 * np.eye(4)
    for estimator in (
        TangentSpace("lem"),
        TangentSpace("aim"),
        FrechetClassifier("lem"),
        FrechetClassifier(),
    ):
        with pytest.raises(NotPositiveDefiniteError, match="matrix 77 ") as caught:
            estimator.fit(given(bad), y)
        assert caught.value.index == (77,)
        fitted = estimator.fit(X, y)
        with pytest.raises(InvalidMatrixError, match="matrix 77 "):
            whole(fitted.transform(given(bad)))


def test_numbers_of_labels_and_weights_that_do_not_fit(given: Callable[[Array], Any], data: Any) -> None:
    X, y, w = data
    for estimator in (TangentSpace("lem"), TangentSpace("aim")):
        with pytest.raises(ValueError, match=r"sample_weight must have shape|149 labels or weights"):
            estimator.fit(given(X), sample_weight=w[:-1])
    for estimator in (FrechetClassifier("lem"), FrechetClassifier("aim")):
        for labels in (y[:-1], np.append(y, "up")):
            with pytest.raises(ValueError, match=r"labels"):
                estimator.fit(given(X), labels)


def test_a_dask_array_must_have_known_chunks_of_matrices(data: Any) -> None:
    X, _, _ = data
    lazy = da.from_array(X, chunks=20)
    unknown = lazy[lazy[:, 0, 0] > 1]
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        TangentSpace("lem").fit(unknown)
    TangentSpace("lem").fit(unknown.compute_chunk_sizes())
    with pytest.raises(ValueError, match=r"matrices \(n_samples, n, n\)"):
        TangentSpace("lem").fit(lazy).transform(lazy[:, 0])
    with pytest.raises(ValueError, match="fitted to 4 channels"):
        TangentSpace("lem").fit(lazy).transform(lazy[:, :3, :3])


def test_what_is_lazy_is_computed_with_the_estimator_as_it_was(data: Any) -> None:
    X, y, _ = data
    other = X[::-1] * 7
    lazy = da.from_array(X, chunks=20)
    for estimator, method in (
        (TangentSpace("lem"), "transform"),
        (FrechetClassifier("lem"), "decision_function"),
        (SPDNetClassifier(epochs=1, random_state=0), "predict_proba"),
    ):
        expected = getattr(estimator.fit(X, y), method)(X)
        of_dask, of_blocks = (getattr(estimator, method)(given) for given in (lazy, generator(X)))
        getattr(estimator, "partial_fit", estimator.fit)(other, y)
        np.testing.assert_allclose(whole(of_dask), expected, atol=1e-12)
        np.testing.assert_allclose(whole(of_blocks), expected, atol=1e-12)


def test_sums_do_not_outlive_their_metric(data: Any) -> None:
    X, y, _ = data
    kinds = np.unique(y)
    for estimator, more in ((TangentSpace("lem"), ()), (FrechetClassifier("lem"), (kinds,))):
        estimator.fit(X, y).set_params(metric="aim").fit(X[:50], y[:50])
        estimator.set_params(metric="lem").partial_fit(X[50:], y[50:], *more)
        expected = type(estimator)("lem").fit(X[50:], y[50:])
        for a, b in zip(
            *(vars(e).get("means_", vars(e).get("reference_")) for e in (estimator, expected)), strict=True
        ):
            np.testing.assert_allclose(a, b, atol=1e-12)
        estimator.set_params(metric="lcm")
        with pytest.raises(
            ValueError, match=r"fitted with metric='lem' and has now metric='lcm'.*call fit"
        ):
            estimator.partial_fit(X, y)
        with pytest.raises(ValueError, match="fitted with metric='lem'"):
            estimator.merge(expected)


def test_a_generator_that_is_used_up_is_an_error(data: Any) -> None:
    X, _, _ = data
    space = TangentSpace("lem").fit(X)
    blocks = generator(X)
    assert len(whole(space.transform(blocks))) == 150
    with pytest.raises(ValueError, match="gone through once"):
        list(space.transform(blocks))
    with pytest.raises(ValueError, match="gone through once"):
        list(TangentSpace("lem").fit_transform(generator(X)))
    for given in (generator(X), da.from_array(X, chunks=20)):
        with pytest.raises(NotFittedError):
            TangentSpace().transform(given)
    with pytest.raises(TypeError, match="would use up"):
        Covariances().fit(generator(X))


def test_blocks_without_samples_are_passed_over(data: Any) -> None:
    X, y, _ = data
    lazy = da.from_array(X, chunks=20)
    lazy = lazy[
        da.from_array(np.r_[np.zeros(40, bool), np.ones(110, bool)], chunks=20)
    ].compute_chunk_sizes()
    assert 0 in lazy.chunks[0]
    some = [X[:0], X[40:70], X[:0], X[70:]]
    for metric in ("lem", "aim"):
        expected = FrechetClassifier(metric).fit(X[40:], y[40:])
        for given in (lazy, some):
            nearest = FrechetClassifier(metric).fit(given, y[40:])
            np.testing.assert_allclose(nearest.means_, expected.means_, atol=1e-9)
            assert whole(nearest.predict(given)).tolist() == expected.predict(X[40:]).tolist()


@pytest.mark.parametrize("dtype", [np.int16, bool, np.float32])
def test_signals_of_any_dtype_over_dask(dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 50, (8, 3, 60)).astype(dtype) if dtype is not bool else (
        np.random.default_rng(0).random((8, 3, 60)) > 0.5
    )  # fmt: skip
    expected = Covariances().fit_transform(x)
    lazy = da.from_array(x, chunks=(3, 3, 60))
    found = Covariances().fit(lazy).transform(lazy).compute()
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)
