from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from alem.linalg import eigh, symmetrize
from alem.linalg.lyapunov import lyapunov


def draw(*size: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*size, generator=generator, dtype=torch.float64)


def definite(*size: int, seed: int = 0) -> Tensor:
    A = draw(*size, seed=seed)
    return A @ A.mT + torch.eye(size[-1], dtype=A.dtype)


TIED = {
    "identity": torch.eye(3, dtype=torch.float64),
    "double": torch.diag(torch.tensor([2.0, 2.0, 5.0], dtype=torch.float64)),
    "distinct": definite(3, 3),
}


def test_solves_the_equation_as_scipy_does() -> None:
    P, C = definite(4, 4), draw(4, 4, seed=1)
    expected = scipy.linalg.solve_continuous_lyapunov(P.numpy(), C.numpy())
    np.testing.assert_allclose(lyapunov(P, C).numpy(), expected, rtol=1e-12, atol=1e-13)


def test_shapes_broadcast_and_a_known_decomposition_is_used() -> None:
    P, C = definite(2, 1, 3, 3), draw(5, 3, 3, seed=1)
    X = lyapunov(P, C)
    assert X.shape == (2, 5, 3, 3)
    torch.testing.assert_close(P @ X + X @ P, C.expand(2, 5, 3, 3))
    assert torch.equal(lyapunov(P, C, eigh(P)), X)
    x, U = eigh(P)
    torch.testing.assert_close(lyapunov(P, C, (2 * x, U)), X / 2)


@pytest.mark.parametrize("at", TIED)
def test_derivatives_are_exact_at_ties(at: str) -> None:
    P, C = TIED[at].clone().requires_grad_(), draw(3, 3, seed=1).requires_grad_()
    assert gradcheck(lyapunov, (P, C), check_forward_ad=True)
    assert gradgradcheck(lyapunov, (P, C))


def test_derivatives_are_exact_through_a_known_decomposition() -> None:
    C = draw(3, 3, seed=1).requires_grad_()

    def f(P: Tensor, C: Tensor) -> Tensor:
        return lyapunov(P, C, eigh(symmetrize(P.detach())))

    assert gradcheck(f, (TIED["double"].clone().requires_grad_(), C))


def test_vmap_of_grad_and_compile() -> None:
    P, C = definite(4, 3, 3).requires_grad_(), draw(4, 3, 3, seed=1).requires_grad_()

    def f(P: Tensor, C: Tensor) -> Tensor:
        return lyapunov(P, C).sin().sum()

    expected = torch.autograd.grad(f(P, C), (P, C))
    torch.testing.assert_close(
        torch.func.vmap(torch.func.grad(f, (0, 1)))(P.detach(), C.detach()), expected
    )
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(P, C), (P, C)), expected)
    torch.testing.assert_close(compiled(P.detach(), C.detach()), f(P, C).detach())
