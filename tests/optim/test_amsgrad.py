from __future__ import annotations

from typing import Any

import geoopt
import numpy as np
import pytest
import scipy.linalg
import torch
from torch import nn

from alem.geometry import spd_parameter, stiefel_parameter
from alem.optim import RiemannianAMSGrad

from .conftest import normal, orthonormal, spd
from .test_sgd import lq, project

B1, B2, EPS, LR = 0.8, 0.95, 1e-3, 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "options", [{}, {"weight_decay": 0.1}, {"betas": (0.5, 0.8), "eps": 1e-2}, {"betas": (0.0, 0.9)}]
)
def test_it_is_adam_on_euclidean_parameters(options: dict[str, Any], dtype: torch.dtype) -> None:
    """Also where a parameter joins late and one sits out."""
    values = [
        normal(3, 4, dtype=dtype),
        normal(5, seed=1, dtype=dtype),
        normal(2, 2, 2, seed=2, dtype=dtype),
    ]
    ours, theirs = ([nn.Parameter(v.clone()) for v in values] for _ in range(2))
    optimizers = [
        RiemannianAMSGrad(ours, lr=0.01, **options),
        torch.optim.Adam(theirs, lr=0.01, amsgrad=True, **options),
    ]
    for step in range(8):
        for i, (p, q) in enumerate(zip(ours, theirs, strict=True)):
            absent = (i == 1 and step < 2) or (i == 2 and step == 3)
            p.grad = q.grad = None if absent else normal(*p.shape, seed=10 * step + i, dtype=dtype)
        for optimizer in optimizers:
            optimizer.step()
        for p, q in zip(ours, theirs, strict=True):
            torch.testing.assert_close(
                p, q, rtol=8 * torch.finfo(dtype).eps, atol=8 * torch.finfo(dtype).eps
            )


class Moments:
    """The scalar side of AMSGrad, by the formulas."""

    def __init__(self) -> None:
        self.t, self.w, self.v = 0, 0.0, 0.0
        self.m: Any = 0.0

    def direction(self, g: np.ndarray, square: float) -> np.ndarray:
        self.t += 1
        self.m = B1 * self.m + (1 - B1) * g
        self.w = B2 * self.w + (1 - B2) * square
        self.v = max(self.v, self.w)
        return (self.m / (1 - B1**self.t)) / (np.sqrt(self.v / (1 - B2**self.t)) + EPS)


@pytest.mark.parametrize("tall", [False, True])
def test_three_steps_on_stiefel_by_the_formulas(tall: bool) -> None:
    W0 = orthonormal(2, 5)
    W = stiefel_parameter(W0.mT.contiguous() if tall else W0)
    optimizer = RiemannianAMSGrad([W], lr=LR, betas=(B1, B2), eps=EPS)
    X, moments = W0.numpy().copy(), Moments()
    for seed, size in ((1, 1.0), (2, 5.0), (3, 0.1)):  # the largest in the middle: max matters
        G = size * normal(2, 5, seed=seed)
        W.grad = G.mT if tall else G
        optimizer.step()
        g = G.numpy() - X @ G.numpy().T @ X
        square = np.trace(g @ (np.eye(5) - 0.5 * X.T @ X) @ g.T)
        X = lq(X - LR * moments.direction(g, square))
        moments.m = project(X, moments.m)
        np.testing.assert_allclose((W.mT if tall else W).detach().numpy(), X, atol=1e-13)


def test_three_steps_on_spd_by_the_formulas() -> None:
    P = spd_parameter(spd(n=3))
    optimizer = RiemannianAMSGrad([P], lr=LR, betas=(B1, B2), eps=EPS)
    X, moments = P.detach().numpy().copy(), Moments()
    for seed, size in ((1, 1.0), (2, 5.0), (3, 0.1)):
        P.grad = size * normal(3, 3, seed=seed)
        optimizer.step()
        S = 0.5 * (P.grad + P.grad.mT).numpy()
        inverse = np.linalg.inv(X)
        g = X @ S @ X
        d = moments.direction(g, np.trace(inverse @ g @ inverse @ g))
        E = scipy.linalg.expm(-0.5 * LR * d @ inverse)
        moments.m = E @ moments.m @ E.T
        X = X @ scipy.linalg.expm(-LR * inverse @ d)
        np.testing.assert_allclose(P.detach().numpy(), X, rtol=1e-11, atol=1e-11)


def test_it_is_the_algorithm_of_geoopt() -> None:
    ours, theirs = (stiefel_parameter(orthonormal(3, 6)) for _ in range(2))
    optimizers = [
        RiemannianAMSGrad([ours], lr=0.05),
        geoopt.optim.RiemannianAdam([theirs], lr=0.05, amsgrad=True),
    ]
    for step in range(20):
        ours.grad, theirs.grad = (normal(3, 6, seed=step) for _ in range(2))
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=1e-10, atol=1e-10)


def test_there_is_one_second_moment_for_each_matrix() -> None:
    """A batch moves as its matrices would."""
    W = torch.stack([orthonormal(2, 4, seed=seed) for seed in range(3)])
    batch = stiefel_parameter(W)
    single = [stiefel_parameter(w.clone()) for w in W]
    optimizers = [RiemannianAMSGrad([batch], lr=0.1), RiemannianAMSGrad(single, lr=0.1)]
    for step in range(3):
        batch.grad = normal(3, 2, 4, seed=step) * torch.tensor([1.0, 10.0, 0.1]).double()[:, None, None]
        for w, g in zip(single, batch.grad, strict=True):
            w.grad = g
        for optimizer in optimizers:
            optimizer.step()
    assert optimizers[0].state[batch]["exp_avg_sq"].shape == (3, 1, 1)
    for w, b in zip(single, batch.detach(), strict=True):
        torch.testing.assert_close(w.detach(), b)


def test_the_betas_may_be_a_list() -> None:
    p, q = (nn.Parameter(torch.ones(2)) for _ in range(2))
    for x, betas in ((p, (0.8, 0.9)), (q, [0.8, 0.9])):
        x.grad = normal(2, dtype=torch.float32)
        RiemannianAMSGrad([x], betas=betas).step()
    assert torch.equal(p, q)


def test_no_gradient_and_no_eps_is_no_step() -> None:
    W = stiefel_parameter(orthonormal(2, 5))
    before = W.detach().clone()
    W.grad = torch.zeros_like(W)
    RiemannianAMSGrad([W], eps=0.0).step()
    torch.testing.assert_close(W.detach(), before)


def test_the_mean_gradient_is_tangent() -> None:
    W = stiefel_parameter(orthonormal(2, 5))
    optimizer = RiemannianAMSGrad([W], lr=0.1)
    for step in range(3):
        W.grad = normal(2, 5, seed=step)
        optimizer.step()
        m = optimizer.state[W]["exp_avg"]
        W.manifold.assert_check_vector_on_tangent(W.detach(), m, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"betas": (1.0, 0.9)}, r"betas\[0\] must be at least 0 and less than 1"),
        ({"betas": (0.9, -0.1)}, r"betas\[1\] must be"),
        ({"eps": -1.0}, "eps must be finite and not negative"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RiemannianAMSGrad(nn.Linear(2, 2), **options)
