"""The contract of a metric."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from alem.geometry import LogEuclidean, Metric, PullbackMetric
from alem.linalg import symmetrize
from alem.testing.case import MetricCase
from alem.testing.comparing import (
    require,
    require_close,
    require_finite,
    require_gradients,
    require_spd,
    saying,
)
from alem.testing.spectra import GAPS, log_spectra, quarter_turn, tied_spectra, with_spectra

# Bounds of dist / LEM, where Wishart matrices have 1. A collapse leaves rounding, 1e-9 at the smallest gap;
# a jump of 1e-4 makes 100. The catalogue with moved parameters stays above 0.3 and changes by less than 2.
APART, FACTOR = 1e-6, 100.0


def assert_metric(
    metric: Metric, n: int, *, smooth: bool = True, tolerance: float = 1e-8, seed: int = 0
) -> None:
    """Raise AssertionError unless the metric keeps the contract on n×n matrices: all of ``METRIC_CHECKS``.

    The arguments are those of :class:`MetricCase`. The metric is in float64.
    """
    case = MetricCase(metric, n, smooth, tolerance, seed)
    for name, check in METRIC_CHECKS.items():
        with saying(name):
            check(case)


def check_inner(case: MetricCase) -> None:
    """⟨·, ·⟩_P is symmetric, bilinear and positive, and ‖V‖² = ⟨V, V⟩."""
    m, P = case.metric, case.points()
    V, W = case.tangents(P), case.tangents(P, 1)
    case.close(m.inner(P, V, W), m.inner(P, W, V), "inner(P, V, W) against inner(P, W, V)")
    combined = m.inner(P, V, W) + 2 * m.inner(P, W, W)
    case.close(m.inner(P, V + 2 * W, W), combined, "inner(P, V + 2W, W) against the sum of its parts")
    case.close(m.norm(P, V) ** 2, m.inner(P, V, V), "norm² against inner(P, V, V)")
    least = float(m.inner(P, V, V).detach().min())
    require(least > 0, f"inner(P, V, V) is {least:.3g} for a V that is not 0")


def check_frame(case: MetricCase) -> None:
    """Tangent coordinates are linear, have the metric's inner products, and give the vector back."""
    m, P = case.metric, case.points()
    V, W = case.tangents(P), case.tangents(P, 1)
    v, w = m.tangent_coordinates(P, V), m.tangent_coordinates(P, W)
    d = case.n * (case.n + 1) // 2
    require(v.shape == (len(P), d), f"tangent_coordinates give shape {tuple(v.shape)}, not {(len(P), d)}")
    case.close((v * w).sum(-1), m.inner(P, V, W), "the product of tangent coordinates against inner")
    case.close(m.tangent_coordinates(P, V - 3 * W), v - 3 * w, "tangent coordinates of V − 3W")
    Q = m.exp(P, 0.1 * V)
    case.close(m.log_coordinates(P, Q), m.tangent_coordinates(P, m.log(P, Q)), "log_coordinates")
    case.close(m.tangent_vector(P, v), V, "tangent_vector(P, tangent_coordinates(P, V)) against V")


def check_topology(case: MetricCase) -> None:
    """Points that differ are apart and points that meet are near: d is LEM's but for a bounded factor.

    Looked at where a map that is no chart collapses or jumps: at rotated copies of one matrix while two of
    its eigenvalues meet, and on the way to matrices where two are equal.
    """
    tied = with_spectra(log_spectra(case.n, 0.0), case.generator(0))
    V = case.tangents(tied)
    copies = [
        [with_spectra(s, case.generator(0)) for s in (t, quarter_turn(t))]
        for t in (log_spectra(case.n, gap) for gap in GAPS)
    ]
    near = [[tied, tied + step * V] for step in GAPS]
    unit = _times_lem(case.metric, case.generic(), case.generic(1)).mean()
    for what, pairs in (("rotated copies", copies), ("points near equal eigenvalues", near)):
        ratio = torch.stack([_times_lem(case.metric, P, Q) / unit for P, Q in pairs]).flatten(1)
        require_finite(ratio, f"the distance of {what}")
        least, most = ratio.amin(0), ratio.amax(0)
        require(
            bool((least > APART).all()),
            f"{what} that differ have no distance: {float(least.min()):.3g} times LEM's, where Wishart "
            "matrices have 1",
        )
        worst = int((most / least).argmax())
        require(
            bool(most[worst] <= FACTOR * least[worst]),
            f"as {what} approach each other, their distance goes from {float(least[worst]):.3g} to "
            f"{float(most[worst]):.3g} times LEM's: it jumps or collapses where eigenvalues meet",
        )


def check_distance(case: MetricCase) -> None:
    """d is symmetric, 0 at equal points, keeps the triangle inequality, and is the length of log."""
    m = case.metric
    P, Q, R = (case.points(i) for i in range(3))
    d = m.dist(P, Q)
    case.close(d, m.dist(Q, P), "dist(P, Q) against dist(Q, P)")
    case.close(m.dist(P, P), torch.zeros_like(d), "dist(P, P)")
    excess = float((d - m.dist(P, R) - m.dist(R, Q)).detach().max())
    require(excess <= case.tolerance, f"the triangle inequality fails by {excess:.3g}")
    case.close(m.dist2(P, Q), d**2, "dist2 against dist²")
    V = m.log(P, Q)
    case.close(m.inner(P, V, V), d**2, "‖log(P, Q)‖² against dist²")
    case.close(m.pairwise_dist(P, Q).diagonal(), d, "the diagonal of pairwise_dist against dist")
    h = 1e-4
    P = case.generic()
    W = case.tangents(P)
    second = (m.dist2(P, P + h * W) + m.dist2(P, P - h * W)) / (2 * h**2)
    require_close(second, m.inner(P, W, W), "the second derivative of d²/2 against inner", 1e-5)


def check_exp_and_log(case: MetricCase) -> None:
    """exp and log undo each other, exp of nothing stays, and points are SPD."""
    m, P, Q = case.metric, case.points(), case.points(1)
    case.close(m.exp(P, m.log(P, Q)), Q, "exp(P, log(P, Q)) against Q")
    V = case.tangents(P)
    case.close(m.log(P, m.exp(P, V)), V, "log(P, exp(P, V)) against V")
    case.close(m.exp(P, torch.zeros_like(P)), P, "exp(P, 0) against P")
    require_spd(m.exp(P, V), "exp(P, V)")
    case.close(m.log(P, Q), m.log(P, Q).mT, "log(P, Q) against its transpose")


def check_geodesic(case: MetricCase) -> None:
    """A geodesic has its ends and constant speed."""
    m, P, Q = case.metric, case.points(), case.points(1)
    d = m.dist(P, Q)
    case.close(m.geodesic(P, Q, 0.0), P, "the start of the geodesic against P")
    case.close(m.geodesic(P, Q, 1.0), Q, "the end of the geodesic against Q")
    case.close(m.dist(P, m.geodesic(P, Q, 0.3)), 0.3 * d, "the distance after 0.3 of the geodesic")
    times = torch.linspace(0, 1, 4, dtype=P.dtype)
    path = m.geodesic(P[0], Q[0], times)
    case.close(m.dist(path[:-1], path[1:]), times[1] * d[:1].expand(3), "the speed of the geodesic")


def check_transport(case: MetricCase) -> None:
    """Transport is linear, keeps lengths and angles, undoes itself, and carries the geodesic's velocity."""
    m, P, Q = case.metric, case.points(), case.points(1)
    V, W = case.tangents(P), case.tangents(P, 1)
    TV, TW = m.transport(P, Q, V), m.transport(P, Q, W)
    case.close(m.inner(Q, TV, TW), m.inner(P, V, W), "the inner product of transported vectors")
    case.close(m.transport(P, Q, V - 3 * W), TV - 3 * TW, "transport of V − 3W")
    case.close(m.transport(Q, P, TV), V, "transport there and back")
    case.close(m.transport(P, Q, m.log(P, Q)), -m.log(Q, P), "the transported velocity of the geodesic")


def check_mean(case: MetricCase) -> None:
    """Σ w_i log_M X_i = 0 at the mean M; the variance is the mean squared distance to it."""
    m, X = case.metric, case.points()
    w = torch.linspace(0.5, 2.0, len(X), dtype=X.dtype)
    M = m.mean(X, w)
    require_spd(M, "the mean")
    logs = m.log(M.expand_as(X), X)
    case.close((w[:, None, None] * logs).sum(0), torch.zeros_like(M), "Σ w log(mean, X)")
    case.close(m.mean(X, 7 * w), M, "the mean with seven times the weights")
    case.close(m.mean(X), m.mean(X, torch.ones_like(w)), "the mean without weights against equal ones")
    case.close(m.mean(torch.stack([X, X], 1)), X, "the mean of P and P against P")
    pairs = torch.stack([X, case.points(1)], 1)
    logs = m.log(m.mean(pairs)[:, None], pairs)
    case.close(logs.sum(1), torch.zeros_like(X), "log(M, P) + log(M, Q) at the mean M of P and Q")
    expected = (w * m.dist2(M, X)).sum() / w.sum()
    case.close(m.variance(X, weights=w), expected, "the variance")
    case.close(m.variance(X, M, w), expected, "the variance about a given mean")


def check_chart(case: MetricCase) -> None:
    """Where the metric has a chart: there and back, differentials, coordinates that measure distance."""
    m = case.metric
    if not isinstance(m, PullbackMetric):
        return
    P, Q = case.points(), case.points(1)
    X, Y = m.chart(P), m.chart(Q)
    case.close(m.unchart(X), P, "unchart(chart(P)) against P")
    for what, Z in (("−φ(P)", -X), ("φ(P) + φ(Q)", X + Y), ("the mean of φ(P) and φ(Q)", (X + Y) / 2)):
        case.close(m.chart(m.unchart(Z)), Z, f"chart(unchart(X)) against X = {what}")
    case.close(m.point(m.coordinates(P)), P, "point(coordinates(P)) against P")
    length = (m.coordinates(P) - m.coordinates(Q)).norm(dim=-1)
    case.close(length, m.dist(P, Q), "the distance of coordinates against dist")
    P, h = case.generic(), 1e-6
    V, X = case.tangents(P), m.chart(P)
    slope = (m.chart(P + h * V) - m.chart(P - h * V)) / (2 * h)
    require_close(m.pushforward(P, V), slope, "pushforward against finite differences of chart", 1e-6)
    W = m.pushforward(P, V)
    case.close(m.pullback(X, W), V, "pullback(pushforward(V)) against V")
    slope = (m.unchart(X + h * W) - m.unchart(X - h * W)) / (2 * h)
    require_close(m.pullback(X, W), slope, "pullback against finite differences of unchart", 1e-6)


def check_group(case: MetricCase) -> None:
    """Where the metric has a group: its axioms, translations that keep distances, relative and place."""
    m = case.metric
    if not m.has_group:
        return
    P, Q, R = (case.points(i) for i in range(3))
    E = torch.eye(case.n, dtype=P.dtype).expand_as(P)
    case.close(m.compose(P, E), P, "P ⊙ I against P")
    case.close(m.compose(E, P), P, "I ⊙ P against P")
    case.close(m.compose(P, m.invert(P)), E, "P ⊙ P⁻¹ against I")
    case.close(m.compose(m.invert(P), P), E, "P⁻¹ ⊙ P against I")
    case.close(
        m.compose(m.compose(P, Q), R), m.compose(P, m.compose(Q, R)), "(P ⊙ Q) ⊙ R against P ⊙ (Q ⊙ R)"
    )
    case.close(m.dist(m.compose(R, P), m.compose(R, Q)), m.dist(P, Q), "the distance after R ⊙")
    case.close(m.scale(P, 1.0), P, "1 ⊛ P against P")
    case.close(m.scale(P, 0.0), E, "0 ⊛ P against I")
    case.close(m.scale(m.scale(P, 2.0), -0.3), m.scale(P, -0.6), "−0.3 ⊛ (2 ⊛ P) against −0.6 ⊛ P")
    case.close(m.dist(E, m.scale(P, 0.7)), 0.7 * m.dist(E, P), "the distance of 0.7 ⊛ P from I")
    T = m.relative(P, Q)
    case.close(T.norm(dim=(-2, -1)), m.dist(P, Q), "‖relative(P, Q)‖ against dist")
    case.close(m.place(P, T), Q, "place(P, relative(P, Q)) against Q")
    case.close(m.place(P, torch.zeros_like(P)), P, "place(P, 0) against P")
    case.close(
        m.place(E, m.relative(P, Q)), m.compose(m.invert(P), Q), "Exp(relative(P, Q)) against P⁻¹ ⊙ Q"
    )


def check_dtype_and_shapes(case: MetricCase) -> None:
    """Leading dimensions broadcast, and float32 stays float32."""
    P, Q = case.generic()[:, None], case.generic(1)
    V, N = case.tangents(Q), len(Q)
    for name, f in _operators(case.metric).items():
        whole, alone = f(P, Q, V), f(P[1, 0], Q[2], V[2])
        part = whole[1, 2] if whole.shape[:2] == (N, N) else whole[1, 0]
        case.close(part, alone, f"{name} of one pair against the same pair in a batch")
        single = f(P.float(), Q.float(), V.float())
        require(single.dtype == torch.float32, f"{name} of float32 matrices gives {single.dtype}")


def check_gradients(case: MetricCase) -> None:
    """Derivatives of every operator, by points, vectors and the metric's parameters, are right."""
    _gradcheck(case, case.generic()[:2], "derivatives of")


def check_ties(case: MetricCase) -> None:
    """Where eigenvalues repeat and points meet, gradients are finite, and right if the metric is smooth."""
    X = tied_spectra(case.generic()[:2])
    P, Q, V = X[0], X[1], case.tangents(X)[0]
    parameters = [p for p in case.metric.parameters() if p.requires_grad]
    for name, f in _operators(case.metric).items():
        for where, other in (("repeated eigenvalues", Q), ("equal points", P)):
            leaves = [A.clone().requires_grad_() for A in (P, other, V)]
            grads = torch.autograd.grad(f(*leaves).sum(), [*leaves, *parameters], allow_unused=True)
            for grad in grads:
                if grad is not None:
                    require_finite(grad, f"a gradient of {name} at {where}")
    if case.smooth:
        _gradcheck(case, X, "derivatives at repeated eigenvalues of")


METRIC_CHECKS: dict[str, Callable[[MetricCase], None]] = {
    "inner": check_inner,
    "frame": check_frame,
    "topology": check_topology,
    "distance": check_distance,
    "exp and log": check_exp_and_log,
    "geodesic": check_geodesic,
    "transport": check_transport,
    "mean": check_mean,
    "chart": check_chart,
    "group": check_group,
    "dtype and shapes": check_dtype_and_shapes,
    "gradients": check_gradients,
    "ties": check_ties,
}


def _times_lem(m: Metric, P: Tensor, Q: Tensor) -> Tensor:
    """The distance of P and Q over that of LEM."""
    return m.dist(P, Q).detach() / LogEuclidean().dist(P, Q)


def _operators(m: Metric) -> dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]]:
    """What the metric has, as functions of two points and a vector at the first."""
    operators = {
        "inner": lambda P, Q, V: m.inner(P, V, V),
        "dist2": lambda P, Q, V: m.dist2(P, Q),
        "exp": lambda P, Q, V: m.exp(P, V),
        "log": lambda P, Q, V: m.log(P, Q),
        "transport": lambda P, Q, V: m.transport(P, Q, V),
        "geodesic": lambda P, Q, V: m.geodesic(P, Q, 0.3),
    }
    if m.has_group:
        operators |= {
            "compose": lambda P, Q, V: m.compose(P, Q),
            "invert": lambda P, Q, V: m.invert(P),
            "scale": lambda P, Q, V: m.scale(P, 0.7),
            "relative": lambda P, Q, V: m.relative(P, Q),
            "place": lambda P, Q, V: m.place(P, V),
        }
    if isinstance(m, PullbackMetric):
        operators |= {"chart": lambda P, Q, V: m.chart(P), "unchart": lambda P, Q, V: m.unchart(m.chart(P))}
    return operators


def _gradcheck(case: MetricCase, X: Tensor, what: str) -> None:
    m, parameters = case.metric, tuple(case.metric.parameters())
    V = case.tangents(X)
    for name, f in _operators(m).items():
        require_gradients(_of_symmetric(f), [X[0], X[1], V[0]], f"{what} {name}", parameters)
    w = torch.linspace(1, 2, len(X), dtype=X.dtype)
    require_gradients(_of_symmetric(m.mean), [X, w], f"{what} mean", parameters)


def _of_symmetric(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """f with matrices made symmetric first, so that finite differences stay where it is defined."""
    return lambda *x: f(*(symmetrize(A) if A.ndim > 1 else A for A in x))
