"""Covariances and shrinkage, against scikit-learn one signal at a time."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn.covariance
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from alem.linalg.covariance import covariance, ledoit_wolf_shrinkage, oas_shrinkage, shrink
from alem.linalg.errors import InvalidMatrixError

ESTIMATORS = {
    "ledoit-wolf": (sklearn.covariance.ledoit_wolf, ledoit_wolf_shrinkage),
    "oas": (sklearn.covariance.oas, oas_shrinkage),
}
estimators = pytest.mark.parametrize("name", ESTIMATORS)


def random(*shape: int, seed: int = 0) -> Tensor:
    """Correlated channels of unequal scale, with a mean."""
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(shape[-2], shape[-2], dtype=torch.float64, generator=generator)
    scale = torch.linspace(0.5, 2, shape[-2], dtype=torch.float64)[:, None]
    return scale * (mix @ torch.randn(*shape, dtype=torch.float64, generator=generator)) + 3.0


def reference(name: str, x: Tensor, assume_centered: bool) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's matrices and coefficients, for the signals of x one by one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "Only one sample available"
        estimates = [
            ESTIMATORS[name][0](signal.T, assume_centered=assume_centered)
            for signal in x.reshape(-1, *x.shape[-2:]).numpy()
        ]
    C = np.stack([c for c, _ in estimates]).reshape(*x.shape[:-2], x.shape[-2], x.shape[-2])
    return C, np.array([s for _, s in estimates]).reshape(x.shape[:-2])


@pytest.mark.parametrize("assume_centered", [False, True])
def test_without_shrinkage(assume_centered: bool) -> None:
    x = random(4, 5, 20)
    C = covariance(x, assume_centered=assume_centered)
    for got, signal in zip(C, x, strict=True):
        expected = sklearn.covariance.empirical_covariance(
            signal.numpy().T, assume_centered=assume_centered
        )
        np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-13)
    assert torch.equal(C, C.mT)


@estimators
@settings(max_examples=60, deadline=None)
@given(
    p=st.integers(1, 12),
    samples=st.integers(1, 30),
    assume_centered=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_shrinkage_is_scikit_learns(
    name: str, p: int, samples: int, assume_centered: bool, seed: int
) -> None:
    x = random(2, p, samples + (not assume_centered), seed=seed)
    C, coefficient = reference(name, x, assume_centered)
    np.testing.assert_allclose(
        ESTIMATORS[name][1](x, assume_centered=assume_centered), coefficient, rtol=1e-10, atol=1e-12
    )
    got = covariance(x, shrinkage=name, assume_centered=assume_centered)
    np.testing.assert_allclose(got, C, rtol=0, atol=1e-12 * np.abs(C).max())


@estimators
def test_leading_dimensions(name: str) -> None:
    x = random(2, 3, 4, 9)
    C, coefficient = reference(name, x, assume_centered=False)
    np.testing.assert_allclose(covariance(x, shrinkage=name), C, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ESTIMATORS[name][1](x), coefficient, rtol=1e-11)
    assert covariance(x[0, 0], shrinkage=name).shape == (4, 4)
    assert covariance(x[:0], shrinkage=name).shape == (0, 3, 4, 4)


@estimators
def test_constant_signals(name: str) -> None:
    # All channels constant: C = 0; the coefficient of a zero matrix is scikit-learn's.
    x = torch.full((2, 3, 8), 2.0, dtype=torch.float64, requires_grad=True)
    C, coefficient = reference(name, x.detach(), assume_centered=False)
    got = covariance(x, shrinkage=name)
    assert not C.any()
    assert not got.any()
    assert ESTIMATORS[name][1](x).tolist() == coefficient.tolist()
    assert torch.autograd.grad(got.sum(), x)[0].isfinite().all()
    # One channel constant.
    y = random(3, 8)
    y[1] = 2.0
    np.testing.assert_allclose(
        covariance(y, shrinkage=name), reference(name, y, False)[0], rtol=1e-12, atol=1e-12
    )


@estimators
def test_multiple_of_the_identity(name: str) -> None:
    # C = I/2 exactly: nothing to shrink, whatever the coefficient, and no 0/0.
    x = torch.tensor([[1.0, -1, 0, 0], [0, 0, 1, -1]], dtype=torch.float64, requires_grad=True)
    C = covariance(x, shrinkage=name)
    assert torch.equal(C, 0.5 * torch.eye(2, dtype=torch.float64))
    assert torch.autograd.grad(C.square().sum(), x)[0].isfinite().all()
    assert ESTIMATORS[name][1](x).item() == reference(name, x.detach(), False)[1].item()


@estimators
@pytest.mark.parametrize("scale", [1e-13, 1e-6, 1e12])
def test_coefficient_survives_the_units_in_single_precision(name: str, scale: float) -> None:
    # Fourth powers of these leave the range of float32.
    x = random(5, 40)
    expected = ESTIMATORS[name][1](x).item()
    assert 0.01 < expected < 0.99
    got = ESTIMATORS[name][1]((scale * x).float()).item()
    assert got == pytest.approx(expected, rel=1e-4)


@settings(max_examples=50, deadline=None)
@given(p=st.integers(1, 8), samples=st.integers(2, 12), seed=st.integers(0, 1000))
def test_coefficients_lie_between_0_and_1(p: int, samples: int, seed: int) -> None:
    x = random(3, p, samples, seed=seed)
    x[0] = x[0, :, :1]  # constant up to rounding
    x[1, :, 1:] = -x[1, :, :1]  # two values only: β is 0 up to rounding at two samples
    for f in (ledoit_wolf_shrinkage, oas_shrinkage):
        s = f(x)
        assert s.shape == (3,)
        assert ((s >= 0) & (s <= 1)).all()


def test_shrink() -> None:
    C = covariance(random(3, 4, 9))
    trace = C.diagonal(dim1=-2, dim2=-1).sum(-1)
    assert torch.equal(shrink(C, 0.0), C)
    mean = trace[:, None, None] / 4 * torch.eye(4, dtype=torch.float64)
    torch.testing.assert_close(shrink(C, 1), mean)
    torch.testing.assert_close(shrink(C, 0.3), 0.7 * C + 0.3 * mean)
    torch.testing.assert_close(covariance(random(3, 4, 9), shrinkage=0.3), shrink(C, 0.3))
    each = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    torch.testing.assert_close(shrink(C, each)[1], shrink(C[1], 0.5))
    torch.testing.assert_close(shrink(C, each).diagonal(dim1=-2, dim2=-1).sum(-1), trace)
    np.testing.assert_allclose(
        shrink(C[0], 0.3), sklearn.covariance.shrunk_covariance(C[0].numpy(), 0.3), rtol=1e-14
    )


def test_loading_is_relative_to_the_trace() -> None:
    x = random(2, 6, 3)  # fewer samples than channels: singular
    C = covariance(x)
    trace = C.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
    loaded = covariance(x, loading=1e-3)
    torch.testing.assert_close(loaded, C + 1e-3 * trace * torch.eye(6, dtype=torch.float64))
    smallest = torch.linalg.eigvalsh(loaded)[:, 0]
    torch.testing.assert_close(smallest, 1e-3 * trace.flatten())


@pytest.mark.parametrize("shrinkage", [None, 0.2, "ledoit-wolf", "oas"])
def test_derivatives(shrinkage: float | str | None) -> None:
    x = random(2, 3, 7).requires_grad_()
    assert gradcheck(lambda x: covariance(x, shrinkage, loading=0.1), x)
    assert gradgradcheck(lambda x: covariance(x, shrinkage, loading=0.1), x)


@pytest.mark.parametrize("shrinkage", [None, 0.2, "ledoit-wolf", "oas"])
def test_vmap_compile_and_float32(shrinkage: float | str | None) -> None:
    def f(x: Tensor) -> Tensor:
        return covariance(x, shrinkage, loading=0.1)

    x = random(4, 3, 7)
    torch.testing.assert_close(torch.func.vmap(f)(x), f(x))
    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    for y in (x, random(2, 4, 9)):  # the second makes the shapes dynamic
        torch.testing.assert_close(compiled(y), f(y))
    assert f(x.float()).dtype == torch.float32
    torch.testing.assert_close(f(x.float()).double(), f(x), rtol=1e-4, atol=1e-4)


def test_a_large_offset_does_not_spoil_single_precision() -> None:
    x = random(4, 200)
    shifted = (x + 1000.0).float()
    expected = covariance(shifted.double())
    torch.testing.assert_close(covariance(shifted).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(3, 4, dtype=torch.int64), "int64"),
        (torch.ones(3, 4).half(), "float16"),
        (torch.ones(4), "channels, samples"),
        (torch.ones(3, 1), "two samples"),
        (torch.ones(3, 0), "0 samples"),
        (torch.ones(0, 5), "0 channels"),
    ],
)
def test_wrong_signals(x: Tensor, message: str) -> None:
    for f in (covariance, ledoit_wolf_shrinkage, oas_shrinkage):
        with pytest.raises(InvalidMatrixError, match=message):
            f(x)


def test_one_sample_needs_a_known_mean() -> None:
    x = random(3, 1)
    torch.testing.assert_close(covariance(x, assume_centered=True), x @ x.mT)
    with pytest.raises(InvalidMatrixError, match="0 samples"):
        covariance(x[:, :0], assume_centered=True)


@pytest.mark.parametrize("assume_centered", [False, True])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_non_finite_signals_are_named(value: float, assume_centered: bool) -> None:
    x = random(2, 3, 4, 9)
    x[1, 2, 3, 5] = value
    for f in (covariance, ledoit_wolf_shrinkage, oas_shrinkage):
        with pytest.raises(InvalidMatrixError, match=r"channel 3 is .* at sample 5") as failure:
            f(x, assume_centered=assume_centered)
        assert failure.value.index == (1, 2)
        assert "matrix (1, 2)" in str(failure.value)
    bad = torch.func.vmap(lambda x: covariance(x, "oas"))(x.flatten(0, 1))
    assert bad.isnan().flatten(1).all(-1).tolist() == [False] * 5 + [True]


def test_overflow_is_named() -> None:
    x = 1e25 * random(3, 8).float()
    with pytest.raises(InvalidMatrixError, match="too large to square in"):
        covariance(x)


@pytest.mark.parametrize("shrinkage", [-0.1, 1.1, float("nan"), "lw"])
def test_wrong_shrinkage(shrinkage: float | str) -> None:
    with pytest.raises(ValueError, match="shrinkage"):
        covariance(random(3, 8), shrinkage)


def test_wrong_loading() -> None:
    with pytest.raises(ValueError, match="loading"):
        covariance(random(3, 8), loading=-1e-3)
