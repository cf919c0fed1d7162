from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import nn

from alem.geometry import spd_parameter, stiefel_parameter
from alem.optim import RiemannianSGD

from .conftest import normal, orthonormal, spd

OPTIONS: list[dict[str, Any]] = [
    {},
    {"weight_decay": 0.1},
    {"momentum": 0.9},
    {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", OPTIONS)
def test_it_is_sgd_on_euclidean_parameters(options: dict[str, Any], dtype: torch.dtype) -> None:
    """Also where a parameter joins late and one sits out."""
    values = [
        normal(3, 4, dtype=dtype),
        normal(5, seed=1, dtype=dtype),
        normal(2, 2, 2, seed=2, dtype=dtype),
    ]
    ours, theirs = ([nn.Parameter(v.clone()) for v in values] for _ in range(2))
    optimizers = [RiemannianSGD(ours, lr=0.1, **options), torch.optim.SGD(theirs, lr=0.1, **options)]
    for step in range(6):
        for i, (p, q) in enumerate(zip(ours, theirs, strict=True)):
            absent = (i == 1 and step < 2) or (i == 2 and step == 3)
            p.grad = q.grad = None if absent else normal(*p.shape, seed=10 * step + i, dtype=dtype)
        for optimizer in optimizers:
            optimizer.step()
        for p, q in zip(ours, theirs, strict=True):
            torch.testing.assert_close(
                p, q, rtol=4 * torch.finfo(dtype).eps, atol=4 * torch.finfo(dtype).eps
            )


def lq(Y: np.ndarray) -> np.ndarray:
    Q, R = np.linalg.qr(Y.T)
    return (Q * np.sign(np.diag(R))).T


def project(W: np.ndarray, U: np.ndarray) -> np.ndarray:
    A = U @ W.T
    return U - 0.5 * (A + A.T) @ W


@pytest.mark.parametrize("tall", [False, True])
@pytest.mark.parametrize(
    "options", [OPTIONS[0], {"momentum": 0.9, "dampening": 0.2}, {"momentum": 0.9, "nesterov": True}]
)
def test_two_steps_on_stiefel_by_the_formulas(options: dict[str, Any], tall: bool) -> None:
    W0, gradients = orthonormal(2, 5), [normal(2, 5, seed=1), normal(2, 5, seed=2)]
    W = stiefel_parameter(W0.mT.contiguous() if tall else W0)
    optimizer = RiemannianSGD([W], lr=0.1, **options)
    X, b = W0.numpy().copy(), None
    momentum, dampening = options.get("momentum", 0.0), options.get("dampening", 0.0)
    for G in gradients:
        W.grad = G.mT if tall else G
        optimizer.step()
        g = G.numpy() - X @ G.numpy().T @ X
        b = g if b is None else momentum * b + (1 - dampening) * g
        d = g + momentum * b if options.get("nesterov") else b
        if not momentum:
            d = g
        X = lq(X - 0.1 * d)
        b = project(X, b)
        np.testing.assert_allclose((W.mT if tall else W).detach().numpy(), X, atol=1e-13)


@pytest.mark.parametrize(
    "options", [OPTIONS[0], {"momentum": 0.9, "dampening": 0.2}, {"momentum": 0.9, "nesterov": True}]
)
def test_two_steps_on_spd_by_the_formulas(options: dict[str, Any]) -> None:
    P = spd_parameter(spd(n=3))
    gradients = [normal(3, 3, seed=1), normal(3, 3, seed=2)]
    optimizer = RiemannianSGD([P], lr=0.1, **options)
    X, b = P.detach().numpy().copy(), None
    momentum, dampening = options.get("momentum", 0.0), options.get("dampening", 0.0)
    for G in gradients:
        P.grad = G
        optimizer.step()
        g = X @ (0.5 * (G + G.mT)).numpy() @ X
        b = g if b is None else momentum * b + (1 - dampening) * g
        d = g + momentum * b if options.get("nesterov") else b
        inverse = np.linalg.inv(X)
        if not momentum:
            X = X - 0.1 * g + 0.005 * g @ inverse @ g
            np.testing.assert_allclose(P.detach().numpy(), X, rtol=1e-11, atol=1e-11)
            continue
        E = scipy.linalg.expm(-0.05 * d @ inverse)  # (QP⁻¹)^{1/2}
        X = X @ scipy.linalg.expm(-0.1 * inverse @ d)
        b = E @ b @ E.T
        np.testing.assert_allclose(P.detach().numpy(), X, rtol=1e-11, atol=1e-11)


def test_the_momentum_is_tangent_from_the_first_step_on() -> None:
    W = stiefel_parameter(orthonormal(2, 5))
    optimizer = RiemannianSGD([W], lr=0.1, momentum=0.9)
    for step in range(3):
        W.grad = normal(2, 5, seed=step)
        optimizer.step()
        buffer = optimizer.state[W]["momentum_buffer"]
        W.manifold.assert_check_vector_on_tangent(W.detach(), buffer, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"momentum": 1.0}, "momentum must be at least 0 and less than 1, got 1.0"),
        ({"momentum": -0.1}, "momentum must be"),
        ({"dampening": 1.5}, "dampening must be"),
        ({"nesterov": True}, "nesterov needs a momentum and no dampening"),
        ({"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "nesterov needs"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RiemannianSGD(nn.Linear(2, 2), lr=0.1, **options)
