from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from alem.linalg import congruence
from tests.linalg.points import random, random_symmetric


@pytest.mark.parametrize("shape", [(4, 4), (3, 4, 4), (2, 3, 4, 4), (0, 4, 4)], ids=str)
@pytest.mark.parametrize("m", [1, 3, 6])
def test_it_is_the_product_and_symmetric_to_the_last_bit(m: int, shape: tuple[int, ...]) -> None:
    W, X = random(m, 4), random_symmetric(*shape[:-1])
    Y = congruence(W, X)
    torch.testing.assert_close(Y, W @ X @ W.mT)
    assert torch.equal(Y, Y.mT)


@pytest.mark.parametrize("shape", [(4,), (3, 4)], ids=str)
def test_derivatives_of_both_orders_in_both_arguments(shape: tuple[int, ...]) -> None:
    W, X = random(3, 4).requires_grad_(), random_symmetric(*shape).requires_grad_()

    def f(W: torch.Tensor, A: torch.Tensor) -> torch.Tensor:
        return congruence(W, (A + A.mT) / 2)

    assert gradcheck(f, (W, X), check_forward_ad=True)
    assert gradgradcheck(f, (W, X))


def test_only_what_needs_a_gradient_gets_one() -> None:
    for wanted in (0, 1):
        W, X = random(3, 4), random_symmetric(2, 4)
        (W, X)[wanted].requires_grad_()
        congruence(W, X).sum().backward()
        assert [(W, X)[i].grad is not None for i in (0, 1)] == [wanted == 0, wanted == 1]


def test_transforms() -> None:
    W, X = random(3, 4), random_symmetric(5, 4)
    per_matrix = torch.func.vmap(torch.func.grad(lambda W, X: congruence(W, X).square().sum()), (None, 0))(
        W, X
    )
    for k in range(5):
        V = W.clone().requires_grad_()
        congruence(V, X[k]).square().sum().backward()
        torch.testing.assert_close(per_matrix[k], V.grad)


def test_forward_mode_can_be_differentiated() -> None:
    W, X, D = random(3, 4), random_symmetric(4), random(3, 4, seed=5)

    def slope(W: torch.Tensor) -> torch.Tensor:
        return torch.func.jvp(lambda W: congruence(W, X), (W,), (D,))[1].sum()

    expected = torch.func.grad(lambda W: (W @ X @ D.mT + D @ X @ W.mT).sum())(W)
    torch.testing.assert_close(torch.func.grad(slope)(W), expected)
