"""How many digits the flat metrics keep on ill-conditioned matrices, against 80-digit arithmetic.

The error of a result is measured by the metric itself: a point is compared with the true one in the
chart, a tangent vector after the differential of the chart, both evaluated by mpmath at the exact
values of the floats. It is stated in units of eps · cond · max(1, ‖φ‖).

    python -m benchmarks.accuracy        writes docs/results/accuracy.md
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import mpmath as mp
import torch
from torch import Tensor

from alem import geometry

METRICS = ("lem", "lcm", "alem", "alcm", "sinh", "rank", "gap")
# From 10 on: at 1 all eigenvalues are equal, where the rank chart has no derivative.
CONDITIONS = {torch.float64: (1e1, 1e4, 1e8, 1e12), torch.float32: (1e1, 1e2, 1e4, 1e5)}
N = 4
DIGITS = 80


def moved_metric(name: str) -> geometry.PullbackMetric:
    """The metric away from its start, in float64; ALEM with equal multipliers."""
    metric = geometry.metric(name, n=N).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in metric.parameters():
            step = torch.randn(p.shape, generator=generator, dtype=p.dtype)
            p.add_(0.2 * (step if name != "alem" else step[:1]))
    assert isinstance(metric, geometry.PullbackMetric)
    return metric


def spd(condition: float, dtype: torch.dtype, seed: int) -> Tensor:
    """A random matrix with log-spaced eigenvalues from cond^−½ to cond^½."""
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(N, N, generator=generator, dtype=torch.float64)
    Q = torch.linalg.qr(A)[0]
    x = torch.logspace(-0.5, 0.5, N, base=condition, dtype=torch.float64)
    P = (Q * x) @ Q.mT
    return (0.5 * (P + P.mT)).to(dtype)


# The charts in mpmath.


def _spectrum(P: mp.matrix) -> tuple[list[mp.mpf], mp.matrix]:
    x, U = mp.eigsy(P)
    order = sorted(range(N), key=lambda i: x[i])
    return [mp.log(x[i]) for i in order], mp.matrix([[U[r, i] for i in order] for r in range(N)])


def _parameters(metric: geometry.PullbackMetric, dtype: torch.dtype) -> list[list[mp.mpf]]:
    """The parameters of the spectral map as the library computes them in that dtype, exactly."""
    _, parameters = metric.diffeo.function()
    return [[mp.mpf(float(v)) for v in p.detach().to(dtype).reshape(-1)] for p in parameters]


def _spectral_values(name: str, t: list[mp.mpf], q: list[list[mp.mpf]]) -> list[mp.mpf]:
    if name == "lem":
        return t
    if name == "alem":
        return [a * v for a, v in zip(q[0], t, strict=True)]
    if name == "sinh":
        (c,), (delta,), (s,) = q
        return [c * s * mp.sinh(delta * mp.asinh(v / s)) for v in t]
    if name == "rank":
        steps = [t[0], *(b - a for a, b in pairwise(t))]
        scaled = [c * d for c, d in zip(q[0], steps, strict=True)]
        return [mp.fsum(scaled[: i + 1]) for i in range(N)]
    (c,), v, s = q
    pairs = list(zip(v, s, strict=True))
    return [c * a + mp.fsum(vk * sk * mp.tanh((a - b) / sk) for b in t for vk, sk in pairs) / N for a in t]


def exact_chart(
    name: str, metric: geometry.PullbackMetric, dtype: torch.dtype
) -> Callable[[mp.matrix], mp.matrix]:
    """φ in mpmath, independent of the library but for the values of the parameters."""
    if name in ("lcm", "alcm"):
        factors = [mp.mpf(1)] * N
        if name == "alcm":
            theta = metric.diffeo.theta.detach()
            factors = [mp.mpf(float(v)) for v in theta.exp().to(dtype)]

        def cholesky_log(P: mp.matrix) -> mp.matrix:
            L = mp.cholesky(P)
            for i in range(N):
                L[i, i] = factors[i] * mp.log(L[i, i])
            return L

        return cholesky_log
    q = _parameters(metric, dtype) if name != "lem" else []

    def spectral(P: mp.matrix) -> mp.matrix:
        t, U = _spectrum(P)
        return U * mp.diag(_spectral_values(name, t, q)) * U.T

    return spectral


def _exact(A: Tensor) -> mp.matrix:
    return mp.matrix(A.detach().double().tolist())


def _norm(A: mp.matrix) -> mp.mpf:
    return mp.sqrt(mp.fsum(a * a for a in A))


def measure(name: str, condition: float, dtype: torch.dtype, seeds: int = 3) -> dict[str, float]:
    """The worst error of each operator over ``seeds`` draws, in units of eps · cond · max(1, ‖φ‖)."""
    metric = moved_metric(name)
    worst: dict[str, float] = {}
    with mp.workdps(DIGITS):
        chart = exact_chart(name, metric, dtype)
        h = mp.mpf(10) ** (-DIGITS // 3)

        def push(P: mp.matrix, V: mp.matrix) -> mp.matrix:
            return (chart(P + h * V) - chart(P - h * V)) / (2 * h)

        for seed in range(seeds):
            P, Q = (spd(condition, dtype, 10 * seed + k) for k in (0, 1))
            L = torch.linalg.cholesky(P)
            generator = torch.Generator().manual_seed(100 + seed)
            S = 0.3 * torch.randn(N, N, generator=generator, dtype=torch.float64).to(dtype)
            V = L @ (S + S.mT) @ L.mT
            V = 0.5 * (V + V.mT)
            P_, Q_, V_ = _exact(P), _exact(Q), _exact(V)
            X, Y, W = chart(P_), chart(Q_), push(P_, V_)
            scale = max(mp.mpf(1), _norm(X), _norm(Y), _norm(W))
            errors = {
                "chart": _norm(_exact(metric.chart(P)) - X),
                "dist": abs(mp.mpf(float(metric.dist(P, Q).detach())) - _norm(X - Y)),
                "pushforward": _norm(_exact(metric.pushforward(P, V)) - W),
                "exp": _norm(chart(_exact(metric.exp(P, V))) - (X + W)),
                "log": _norm(push(P_, _exact(metric.log(P, Q))) - (Y - X)),
                "transport": _norm(push(Q_, _exact(metric.transport(P, Q, V))) - W),
                "geodesic": _norm(chart(_exact(metric.geodesic(P, Q, 0.25))) - (X + (Y - X) / 4)),
                "mean": _norm(chart(_exact(metric.mean(torch.stack([P, Q])))) - (X + Y) / 2),
            }
            unit = torch.finfo(dtype).eps * condition * scale
            for operator, error in errors.items():
                worst[operator] = max(worst.get(operator, 0.0), float(error / unit))
    return worst


def main() -> None:
    """Write the table."""
    rows = []
    for dtype, conditions in CONDITIONS.items():
        for name in METRICS:
            cells = []
            for condition in conditions:
                errors = measure(name, condition, dtype)
                operator = max(errors, key=lambda k: errors[k])
                cells.append(f"{errors[operator]:.2g} ({operator})")
            rows.append((str(dtype).removeprefix("torch."), name, *cells))
            print(*rows[-1], flush=True)
    lines = [
        "# Accuracy by condition number",
        "",
        f"Flat metrics on {N}×{N} matrices whose eigenvalues run from cond^−½ to cond^½, against "
        f"{DIGITS}-digit arithmetic: the worst operator of each metric (of "
        + ", ".join(errors)
        + "), its error in units of eps · cond · max(1, ‖φ‖). Below 1 the operator loses less than the "
        "conversion of the matrix to floats may have lost already.",
        "",
        "Made by `python -m benchmarks.accuracy`; a bound of 5 is a test.",
        "",
    ]
    for dtype, conditions in CONDITIONS.items():
        label = str(dtype).removeprefix("torch.")
        lines += [
            f"## {label}",
            "",
            "| metric | " + " | ".join(f"cond {c:.0e}" for c in conditions) + " |",
            "|---" * (len(conditions) + 1) + "|",
            *("| " + " | ".join(row[1:]) + " |" for row in rows if row[0] == label),
            "",
        ]
    path = Path(__file__).parents[1] / "docs" / "results" / "accuracy.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
