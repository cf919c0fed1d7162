"""Within autocast every metric computes what it does without: values, derivatives, transforms, graphs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from alem import linalg
from alem.geometry import LogEuclidean, Metric
from alem.linalg import precision

from .conftest import NAMES, learned_metric, spd, sym

HALF = torch.bfloat16
pytestmark = pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")

OPERATIONS: dict[str, Callable[[Metric, Tensor, Tensor, Tensor], Tensor]] = {
    "inner": lambda m, P, Q, V: m.inner(P, V, V),
    "dist": lambda m, P, Q, V: m.dist(P, Q),
    "exp": lambda m, P, Q, V: m.exp(P, V),
    "log": lambda m, P, Q, V: m.log(P, Q),
    "transport": lambda m, P, Q, V: m.transport(P, Q, V),
    "geodesic": lambda m, P, Q, V: m.geodesic(P, Q, 0.3),
    "mean": lambda m, P, Q, V: m.mean(P),
    "variance": lambda m, P, Q, V: m.variance(P),
    "pairwise_dist": lambda m, P, Q, V: m.pairwise_dist(P, Q),
    "tangent_coordinates": lambda m, P, Q, V: m.tangent_coordinates(P.detach(), V),
    "tangent_vector": lambda m, P, Q, V: m.tangent_vector(P.detach(), linalg.vech(V)),
}


def points(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    P, Q, V = spd(4, n=3, seed=1), spd(4, n=3, seed=2), 0.1 * sym(4, n=3, seed=3)
    return P.to(dtype).requires_grad_(), Q.to(dtype), V.to(dtype).requires_grad_()


def value_and_gradients(run: Callable[..., Tensor], m: Metric, autocast: bool) -> list[Tensor]:
    P, Q, V = points()
    with torch.autocast("cpu", HALF, enabled=autocast):
        value = run(m, P, Q, V)
        leaves = [P, V, *m.parameters()]
        grads = torch.autograd.grad(value.double().square().sum(), leaves, allow_unused=True)
    return [value, *(g for g in grads if g is not None)]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_autocast_changes_no_bit_of_values_and_gradients(name: str, operation: str) -> None:
    m, run = learned_metric(name, 3).float(), OPERATIONS[operation]
    expected, found = (value_and_gradients(run, m, autocast) for autocast in (False, True))
    assert found[0].dtype == torch.float32
    assert len(found) == len(expected)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_the_way_by_double_precision_agrees(
    name: str, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one of compiled graphs, transforms and TF32."""
    m, run = learned_metric(name, 3).float(), OPERATIONS[operation]
    expected = value_and_gradients(run, m, False)
    monkeypatch.setattr(precision, "_differentiates_elsewhere", lambda: True)
    for a, b in zip(value_and_gradients(run, m, True), expected, strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_is_taken_up(name: str) -> None:
    m, (P, Q, _) = learned_metric(name, 3).float(), points(HALF)
    with torch.autocast("cpu", HALF):
        found = m.dist(P, Q)
    assert torch.equal(found, m.dist(P.float(), Q.float()))
    with pytest.raises(linalg.InvalidMatrixError, match="float32"):
        m.dist(P, Q)


@pytest.mark.parametrize("name", ["lem", "lcm", "aim", "bwm", "gap"])
def test_transforms_keep_all_digits(name: str) -> None:
    m, (P, Q, V) = learned_metric(name, 3).float(), points()

    def f(P: Tensor) -> Tensor:
        return m.dist2(P, Q).sum()

    def moved(P: Tensor) -> Tensor:
        return torch.func.jvp(lambda P: m.log(P, Q), (P,), (V.detach(),))[1]

    P = P.detach()
    for transform in (torch.func.grad(f), moved, torch.func.vmap(lambda P: m.dist2(P, Q))):
        expected = transform(P)
        with torch.autocast("cpu", HALF):
            found = transform(P)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["lem", "lcm", "aim"])
def test_a_compiled_graph_keeps_all_digits(name: str) -> None:
    m, (P, Q, _) = learned_metric(name, 3).float(), points()
    compiled = torch.compile(m.dist2, fullgraph=True, backend="aot_eager")
    (expected,) = torch.autograd.grad(m.dist2(P, Q).sum(), P)
    for inside in (True, False):
        with torch.autocast("cpu", HALF):
            value = compiled(P, Q)
            if inside:
                (found,) = torch.autograd.grad(value.sum(), P)
        if not inside:
            (found,) = torch.autograd.grad(value.sum(), P)
        assert value.dtype == found.dtype == torch.float32
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


class Doubled(LogEuclidean):
    """A metric of a user's own, written with plain products."""

    def inner(self, P: Tensor, V: Tensor, W: Tensor) -> Tensor:
        return (torch.linalg.inv(P) @ V @ torch.linalg.inv(P) @ W).diagonal(dim1=-2, dim2=-1).sum(-1)


def test_a_metric_of_ones_own_is_behind_the_same_doors() -> None:
    m, run = Doubled(), OPERATIONS["inner"]
    expected, found = (value_and_gradients(run, m, autocast) for autocast in (False, True))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
