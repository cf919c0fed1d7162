"""Doors: what passes one is computed in full precision, and nothing happens where nothing is lowered."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from alem import linalg
from alem.linalg import precision
from alem.linalg.precision import full_precision, product

HALF = torch.bfloat16


def matrices(dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(5, 4, 9, generator=generator, dtype=torch.float64)
    return (A @ A.mT / 9).to(dtype)


X = matrices()
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "log": linalg.log,
    "power": lambda X: linalg.power(X, 0.3),
    "clamp": lambda X: linalg.clamp(X, 0.5),
    "pushforward": lambda X: linalg.pushforward(X, X, linalg.EXP),
    "displacement": lambda X: linalg.displacement(X, X.flip(0), linalg.LOG),
    "eigh": lambda X: linalg.eigh(X)[0],
    "eigvalsh": linalg.eigvalsh,
    "cholesky": linalg.cholesky,
    "cholesky_exp": linalg.cholesky_exp,
    "cholesky_log_pushforward": lambda X: linalg.cholesky_log_pushforward(X, X),
    "whiten": lambda X: linalg.whiten(linalg.cholesky(X[0]), X),
    "lyapunov": lambda X: linalg.lyapunov(X, X.flip(0)),
    "covariance": lambda X: linalg.covariance(X, "oas"),
    "shrink": lambda X: linalg.shrink(X, 0.1),
    "vech": linalg.vech,
    "sym_to_tril": linalg.sym_to_tril,
}


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_without_autocast(name: str, inside: bool) -> None:
    def run(autocast: bool, X: Tensor) -> tuple[Tensor, Tensor]:
        X = X.detach().requires_grad_()
        with torch.autocast("cpu", HALF, enabled=autocast):
            Y = FUNCTIONS[name](X)
            if inside:
                return Y, torch.autograd.grad(Y.square().sum(), X)[0]
        return Y, torch.autograd.grad(Y.square().sum(), X)[0]

    for a, b in zip(run(True, X), run(False, X), strict=True):
        assert a.dtype == torch.float32
        assert torch.equal(a, b)
    Y, grad = run(True, matrices(torch.float64))
    assert Y.dtype == grad.dtype == torch.float64


@pytest.mark.parametrize("name", FUNCTIONS)
def test_half_precision_is_taken_up_within_autocast_only(name: str) -> None:
    low = X.to(HALF)
    with torch.autocast("cpu", HALF):
        found = FUNCTIONS[name](low)
    assert torch.equal(found, FUNCTIONS[name](low.float()))
    if name not in ("shrink", "vech"):
        with pytest.raises((linalg.InvalidMatrixError, RuntimeError)):
            FUNCTIONS[name](low)


def test_the_backward_pass_of_what_follows_stays_lowered() -> None:
    A = torch.randn(4, 4, requires_grad=True)
    with torch.autocast("cpu", HALF):
        low = A @ product(A, A)
        assert low.dtype == HALF
        low.float().sum().backward()
        assert torch.is_autocast_enabled("cpu")
        assert (A @ A).dtype == HALF


@pytest.mark.parametrize("nodes", [1, 2])
def test_each_node_behind_a_door_is_told_once(nodes: int) -> None:
    told: list[bool] = []

    class Telling(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, grad: Tensor) -> Tensor:
            told.append(torch.is_autocast_enabled("cpu"))
            return grad

    @full_precision
    def inner(x: Tensor) -> Tensor:
        for _ in range(nodes):
            x = Telling.apply(x)
        return x

    x = torch.ones(3, requires_grad=True)
    with torch.autocast("cpu", HALF):
        Telling.apply(full_precision(inner)(Telling.apply(x))).sum().backward()
        Telling.apply(x).sum().backward()
    assert told == [True, *(False for _ in range(nodes)), True, True]


def test_tensors_in_lists_and_keywords_are_taken_up() -> None:
    @full_precision
    def total(xs: list[Tensor], *, last: Tensor, name: str) -> tuple[Tensor, str]:
        return sum(xs) + last, name

    x = torch.ones(2, dtype=HALF)
    with torch.autocast("cpu", HALF):
        found, name = total([x, x], last=x, name="a")
    assert found.dtype == torch.float32
    assert name == "a"


@pytest.mark.parametrize("precision_of_products", ["highest", "high"])
def test_compiled_graphs_may_ask_for_tf32(
    precision_of_products: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As builds for CUDA do; on the CPU there is none."""
    monkeypatch.setattr(precision, "HAS_CUDA", True)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision_of_products)
    try:
        compiled = torch.compile(linalg.cholesky_exp, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(X), linalg.cholesky_exp(X))
    finally:
        torch.set_float32_matmul_precision(before)
