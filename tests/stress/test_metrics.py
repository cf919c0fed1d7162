"""Every operation of every metric on spectra of every kind gives numbers, or an error by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from alem import geometry, linalg
from alem.linalg import InvalidMatrixError
from tests.geometry.conftest import NAMES

from .spectra import DTYPES, NAMED, Hard, hard, matrix, outcome

Operation = Callable[[geometry.Metric, Tensor, Tensor, Tensor], Tensor]

EVERY: dict[str, Operation] = {
    "inner": lambda m, P, Q, V: m.inner(P, V, V),
    "norm": lambda m, P, Q, V: m.norm(P, V),
    "dist": lambda m, P, Q, V: m.dist(P, Q),
    "exp": lambda m, P, Q, V: m.exp(P, V),
    "bounded_exp": lambda m, P, Q, V: m.bounded_exp(P, V, 1.0),
    "log": lambda m, P, Q, V: m.log(P, Q),
    "transport": lambda m, P, Q, V: m.transport(P, Q, V),
    "geodesic": lambda m, P, Q, V: m.geodesic(P, Q, 0.3),
    "mean": lambda m, P, Q, V: m.mean(torch.stack([P, Q])),
    "variance": lambda m, P, Q, V: m.variance(torch.stack([P, Q])),
    "pairwise_dist": lambda m, P, Q, V: m.pairwise_dist(P[None], Q[None]),
    "tangent_coordinates": lambda m, P, Q, V: m.tangent_coordinates(P.detach(), V),
    "log_coordinates": lambda m, P, Q, V: m.log_coordinates(P.detach(), Q),
    "moments": lambda m, P, Q, V: m.moments([P[None].detach(), Q[None].detach()]).mean,
}
GROUP: dict[str, Operation] = {
    "compose": lambda m, P, Q, V: m.compose(P, Q),
    "invert": lambda m, P, Q, V: m.invert(P),
    "scale": lambda m, P, Q, V: m.scale(P, 0.5),
    "relative": lambda m, P, Q, V: m.relative(P, Q),
    "place": lambda m, P, Q, V: m.place(P, 0.1 * m.relative(P, Q)),
}
FLAT: dict[str, Operation] = {
    "unchart": lambda m, P, Q, V: m.unchart(m.chart(P)),
    "pushforward": lambda m, P, Q, V: m.pushforward(P, V),
    "pullback": lambda m, P, Q, V: m.pullback(m.chart(P), m.pushforward(P, V)),
    "coordinates": lambda m, P, Q, V: m.coordinates(P),
    "kernel": lambda m, P, Q, V: m.kernel(P[None], Q[None], gamma=0.1),
}


def operations(m: geometry.Metric) -> dict[str, Operation]:
    return {**EVERY, **(GROUP if m.has_group else {}), **(FLAT if m.is_flat else {})}


def metric(name: str, n: int, dtype: torch.dtype) -> geometry.Metric:
    m = geometry.metric(name, n=n).to(dtype)
    with torch.no_grad():
        for p in m.parameters():
            step = torch.cos(torch.arange(p.numel(), dtype=dtype)).reshape(p.shape)
            p.add_(0.2 * (step if name != "alem" else step[:1]))
    return m


def computed(name: str, operation: str, case: Hard) -> list[Tensor]:
    """The value, and its gradient in P and Q."""
    m = metric(name, case.n, case.dtype)
    P, Q = (X.clone().requires_grad_() for X in case.matrices(2))
    # Short for every metric: a part of P itself, turned.
    S = 0.1 * matrix(torch.linspace(-1, 1, case.n, dtype=torch.float64), 7)
    root = torch.linalg.cholesky_ex(case.matrices(1, torch.float64)[0])[0]
    V = linalg.symmetrize(root @ S @ root.mT).to(case.dtype)
    value = operations(m)[operation](m, P, Q, V)
    found = [value.detach()]
    if value.requires_grad:
        grads = torch.autograd.grad(value.sum(), (P, Q), allow_unused=True)
        found += [g for g in grads if g is not None]
    return found


@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
@pytest.mark.parametrize("operation", [*EVERY, *GROUP, *FLAT])
@pytest.mark.parametrize("name", NAMES)
def test_operations(name: str, operation: str) -> None:
    if operation not in operations(geometry.metric(name, n=2)):
        pytest.skip("not an operation of this metric")
    # What is relative to another matrix has the condition of both.
    power = 2 if name in ("aim", "bwm") or operation == "compose" else 1
    wrong = Counter()
    for case in hard(f"{name} {operation}"):
        found = outcome(lambda c: computed(name, operation, c), case, power)
        if found not in ("finite", "an error", "beyond the range"):
            wrong[f"{found} ({case})"] += 1
    assert not wrong, "\n".join(list(wrong)[:20])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("least", [0.0, -1e-3, -1.0])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_positive_definite_is_an_error(name: str, least: float, dtype: torch.dtype) -> None:
    x = torch.ones(5, dtype=torch.float64)
    x[0] = least
    bad, good = matrix(x, 0, dtype), matrix(torch.ones(5, dtype=torch.float64), 1, dtype)
    if least == 0.0:  # exactly singular, not by rounding
        bad = torch.ones(5, 5, dtype=dtype)
    m = metric(name, 5, dtype)
    for label in ("dist", "log", "mean", "geodesic"):
        f = operations(m)[label]
        for P, Q in ((bad, good), (good, bad)):
            try:
                value = f(m, P, Q, good)
            except NAMED:
                continue
            # The Bures-Wasserstein distance is defined for singular matrices too; rounding may make any of
            # them regular.
            assert least == 0.0, f"{label} of {name} took an indefinite matrix"
            assert value.isfinite().all()
    with pytest.raises(InvalidMatrixError, match=r"positive definite|singular"):
        geometry.check_spd(bad)
