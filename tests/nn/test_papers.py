"""The layers against the formulas of their papers, and the oracle of these tests against itself."""

import numpy as np
import pytest
import torch
from geomstats.geometry.spd_matrices import SPDBuresWassersteinMetric, SPDLogEuclideanMetric, SPDMatrices
from pyriemann.geometry.mean import mean_riemann
from pyriemann.geometry.tangentspace import exp_map, innerproduct, log_map, transport
from scipy.linalg import expm

from alem import geometry, nn
from tests.nn import papers

SIZES = pytest.mark.parametrize("n", [3, 5])
TRUE = {
    "lem": (papers.LogEuclidean(), geometry.LogEuclidean),
    "(a,b)-lem": (papers.LogEuclidean(0.7, 0.2), lambda: geometry.LogEuclidean(0.7, 0.2)),
    "lcm": (papers.LogCholesky(), geometry.LogCholesky),
    "aim": (papers.AIM, geometry.AffineInvariant),
}
GEOMETRIES = pytest.mark.parametrize("name", TRUE)
EVERY_GEOMETRY = pytest.mark.parametrize("name", [*TRUE, "bwm"])
NOT_A_METRIC = pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")


def random_symmetric(seed, *shape, size=0.7):
    M = np.random.default_rng(seed).standard_normal(shape)
    return size * (M + np.swapaxes(M, -2, -1)) / 2


def random_spd(seed, *shape):
    """Matrices that scatter about one that is not the identity."""
    n = shape[-1]
    around = random_symmetric([seed, 1], n, n) + np.diag(np.linspace(-0.5, 1, n))
    return np.vectorize(papers.exp, signature="(n,n)->(n,n)")(around + random_symmetric([seed, 2], *shape))


def matrices(X):
    """The list of matrices of an array or tensor `(..., n, n)`."""
    X = np.asarray(X)
    return list(X.reshape(-1, *X.shape[-2:]))


def tensor(X):
    return torch.as_tensor(np.asarray(X), dtype=torch.float64)


def give(parameter, value):
    with torch.no_grad():
        parameter.copy_(tensor(value))


def close(actual, expected, tolerance=1e-10):
    """Equal up to a tolerance relative to the largest entry; leading dimensions are flattened."""
    actual = np.asarray(actual.detach() if isinstance(actual, torch.Tensor) else actual)
    expected = np.asarray(expected)
    assert actual.size == expected.size
    np.testing.assert_allclose(
        actual.reshape(expected.shape), expected, rtol=0, atol=tolerance * np.abs(expected).max()
    )


def follows(layer, oracle, X, *buffers):
    """Train both on X and compare what they give and what they remember."""
    Y = layer.train()(tensor(X))
    assert Y.shape == X.shape
    close(Y, oracle.train(matrices(X)))
    for buffer in buffers:
        close(getattr(layer, buffer), getattr(oracle, buffer))


# --- LieBN ---------------------------------------------------------------------------------------


def liebn(name, n, moved=True, **options):
    """The layer and its oracle, with a bias and a scale away from their start where ``moved``."""
    oracle_geometry, metric = TRUE[name]
    bias, scale = (random_spd(90, n, n), 1.7) if moved else (np.eye(n), 1.0)
    layer = nn.LieBN(n, metric(), **options).double()
    if moved:
        give(layer.bias, bias)
        give(layer.scale, scale)
    return layer, papers.LieBN(oracle_geometry, bias, scale, **{"momentum": 0.1, **options})


@pytest.mark.parametrize("moved", [False, True])
@GEOMETRIES
@SIZES
def test_liebn_in_training(n, name, moved):
    layer, oracle = liebn(name, n, moved)
    follows(layer, oracle, random_spd(0, 2, 3, n, n))


@GEOMETRIES
@SIZES
def test_liebn_remembers_statistics_and_uses_them_in_evaluation(n, name):
    layer, oracle = liebn(name, n, momentum=0.3)
    for seed in range(3):
        follows(layer, oracle, random_spd(seed, 2, 3, n, n), "running_mean", "running_var")
    X = random_spd(3, 2, 3, n, n)
    close(layer.eval()(tensor(X)), oracle.evaluate(matrices(X)))
    close(layer(tensor(X[0, 0])), oracle.evaluate([X[0, 0]]))
    close(layer.running_mean, oracle.running_mean)
    close(layer.running_var, oracle.running_var)


@GEOMETRIES
def test_liebn_divides_by_no_variance_below_eps(name):
    X = random_spd(0, 2, 3, 3, 3)
    oracle_geometry = TRUE[name][0]
    variance = oracle_geometry.variance(matrices(X), oracle_geometry.centre(matrices(X)))
    for factor in (0.9, 1.1, 5.0):
        layer, oracle = liebn(name, 3, eps=factor * variance, momentum=1.0)
        follows(layer, oracle, X, "running_var")
        close(layer.eval()(tensor(X)), oracle.evaluate(matrices(X)))


def alem_liebn(A, **options):
    n = len(A)
    metric = geometry.AdaptiveLogEuclidean(n).double()
    give(metric.diffeo.weight, A)
    layer = nn.LieBN(n, metric, **options).double()
    bias = random_spd(90, n, n)
    give(layer.bias, bias)
    give(layer.scale, 0.8)
    oracle = papers.LieBN(papers.AdaptiveLogEuclidean(A), bias, 0.8, **{"momentum": 0.1, **options})
    return layer, oracle


@NOT_A_METRIC
@pytest.mark.parametrize(
    "A", [(1.0, 1.0, 1.0), (0.8, 1.3, 0.6), (1.2, 0.9, -0.7), (1.5, 0.7, 1.0, 1.2, 0.5)]
)
def test_liebn_under_the_papers_alem_in_training(A):
    layer, oracle = alem_liebn(np.array(A))
    follows(layer, oracle, random_spd(0, 2, 3, len(A), len(A)))


@NOT_A_METRIC
@SIZES
def test_liebn_under_the_papers_alem_remembers_means_that_its_chart_can_tell(n):
    """Spectra apart and frames alike, so that the mean of coordinates has an inverse."""
    layer, oracle = alem_liebn(1 + 0.1 * np.arange(n), momentum=0.3)
    rng = np.random.default_rng(0)

    def batch():
        X = np.empty((2, 3, n, n))
        for index in np.ndindex(2, 3):
            K = 0.1 * rng.standard_normal((n, n))
            U = expm(K - K.T)
            X[index] = U @ np.diag(np.exp(0.5 * np.arange(1, n + 1) + 0.1 * rng.standard_normal(n))) @ U.T
        return X

    for _ in range(3):
        X = batch()
        centre = oracle.geometry.centre(matrices(X))
        close(oracle.geometry.chart(oracle.geometry.unchart(centre)), centre)
        follows(layer, oracle, X, "running_var")
        close(expm(layer.running_mean.numpy()), oracle.running_mean)  # what it keeps under ALEM
    X = batch()
    close(layer.eval()(tensor(X)), oracle.evaluate(matrices(X)))


# --- SPDNetBN and SPDBN --------------------------------------------------------------------------


@pytest.mark.parametrize("moved", [False, True])
@SIZES
def test_spdnetbn_in_training_and_evaluation(n, moved):
    layer = nn.SPDNetBN(n, momentum=0.3).double()
    oracle = papers.SPDNetBN(random_spd(90, n, n) if moved else np.eye(n), 0.3)
    if moved:
        give(layer.bias, oracle.bias)
    for seed in range(3):
        follows(layer, oracle, random_spd(seed, 2, 3, n, n), "running_mean")
    X = random_spd(3, 2, 3, n, n)
    close(layer.eval()(tensor(X)), oracle.evaluate(matrices(X)))
    close(layer.running_mean, oracle.running_mean)


STATISTICS = "train_mean", "train_var", "running_mean", "running_var"
WARMUP, FINAL = 4, 0.3


def spdbn(n, domains=None, moved=True):
    """The layer and the oracles of its domains."""
    layer = nn.SPDBN(n, domains=domains, momentum=0.2, warmup=WARMUP, final_momentum=FINAL).double()
    bias, scale = (random_spd(90, n, n), 1.4) if moved else (np.eye(n), 1.0)
    if moved:
        give(layer.bias, bias)
        give(layer.scale, scale)
    return layer, [papers.SPDBN(bias, scale, 0.2) for _ in range(domains or 1)]


@pytest.mark.parametrize("moved", [False, True])
@SIZES
def test_spdbn_in_training_and_evaluation(n, moved):
    layer, (oracle,) = spdbn(n, moved=moved)
    for step in range(1, WARMUP + 3):
        X = random_spd(step, 2, 3, n, n)
        Y = layer.train()(tensor(X))
        close(Y, oracle.train(matrices(X), papers.training_momentum(step, WARMUP, FINAL)))
        for statistic in STATISTICS:
            close(getattr(layer, statistic), getattr(oracle, statistic))
    X = random_spd(0, 2, 3, n, n)
    close(layer.eval()(tensor(X)), oracle.evaluate(matrices(X)))
    for statistic in STATISTICS:
        close(getattr(layer, statistic), getattr(oracle, statistic))


def train_domains(layer, oracles, step, domain):
    """Train both on a batch of these domains and compare what they give and what they remember."""
    n = layer.bias.shape[-1]
    X = random_spd(step, len(domain), n, n)
    Y = layer.train()(tensor(X), torch.tensor(domain))
    for d in set(domain):
        mine = [i for i, of in enumerate(domain) if of == d]
        gamma = papers.training_momentum(step, WARMUP, FINAL)
        close(Y[mine], oracles[d].train(list(X[mine]), gamma))
    for statistic in STATISTICS:
        close(getattr(layer, statistic), np.stack([getattr(oracle, statistic) for oracle in oracles]))


@SIZES
def test_spdbn_keeps_the_statistics_of_domains_apart(n):
    layer, oracles = spdbn(n, domains=3)
    for step in range(1, 4):
        train_domains(layer, oracles, step, [2, 0, 2, 2, 0, 0, 2])
    for statistic, start in zip(STATISTICS, (np.eye(n), 1.0) * 2, strict=True):
        assert torch.equal(getattr(layer, statistic)[1], tensor(start))
    domain = [1, 0, 2, 1, 2]
    X = random_spd(9, len(domain), n, n)
    Y = layer.eval()(tensor(X), torch.tensor(domain))
    close(Y, [oracles[d].evaluate([P])[0] for d, P in zip(domain, X, strict=True)])


def test_spdbn_counts_the_steps_of_the_layer_and_not_those_of_a_domain():
    layer, oracles = spdbn(3, domains=3)
    for step, domain in enumerate([[0, 0, 2, 2], [0, 2, 0, 2], [1, 0, 1, 1], [1, 2, 1, 2]], start=1):
        train_domains(layer, oracles, step, domain)


# --- residual blocks -----------------------------------------------------------------------------


def residual_block(name, n):
    """A block with random frame and response, matrices S, and the responses f(spec S)."""
    generator = torch.Generator().manual_seed(0)
    block = nn.RResBlock(n, TRUE[name][1](), limit=None).double().eval()
    give(block.frame, np.linalg.qr(np.random.default_rng(7).standard_normal((n, n)))[0])
    with torch.no_grad():
        for parameter in block.response.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    S = random_spd(0, 2, 3, n, n)
    spectra = np.stack([papers.spectrum(P) for P in matrices(S)])
    return block, S, block.response(tensor(spectra)).detach().numpy()


@GEOMETRIES
@SIZES
def test_residual_block(n, name):
    block, S, values = residual_block(name, n)
    Q = block.frame.detach().numpy()
    assert np.abs(values).max() > 0.1  # a response that does something
    close(block.field(tensor(S)), [papers.field(Q, f) for f in values])
    Y = block(tensor(S))
    assert Y.shape == S.shape
    pairs = zip(matrices(S), values, strict=True)
    close(Y, [papers.residual_block(TRUE[name][0], P, Q, f) for P, f in pairs])


@GEOMETRIES
@SIZES
def test_residual_block_moves_a_matrix_as_far_as_its_field_is_long(n, name):
    block, S, _ = residual_block(name, n)
    metric = TRUE[name][0]
    V, Y = (matrices(f(tensor(S)).detach()) for f in (block.field, block))
    for P, end, velocity in zip(matrices(S), Y, V, strict=True):
        close(metric.dist2(P, end), metric.norm2(P, velocity))


# --- classifiers ---------------------------------------------------------------------------------


def hyperplanes(n, classes=4):
    return random_spd(1, classes, n, n), random_symmetric(2, classes, n, n)


@EVERY_GEOMETRY
@SIZES
def test_gyro_mlr(n, name):
    oracle, metric = TRUE.get(name, (papers.BuresWasserstein(), geometry.BuresWasserstein))
    P, A = hyperplanes(n)
    mlr = nn.GyroMLR(n, len(P), metric()).double()
    mlr.set_hyperplanes(tensor(P), tensor(A))
    S = random_spd(0, 2, 3, n, n)
    logits = mlr(tensor(S))
    assert logits.shape == (2, 3, len(P))
    # The parallel transport of BWM is computed to 1e-9.
    tolerance = 1e-8 if name == "bwm" else 1e-10
    close(logits, [papers.gyro_logits(oracle, point, P, A) for point in matrices(S)], tolerance)


# --- the oracle itself ---------------------------------------------------------------------------


@SIZES
def test_oracle_means(n):
    X = random_spd(0, 6, n, n)
    M = papers.AIM.mean(list(X))
    assert np.abs(sum(papers.AIM.log(M, P) for P in X)).max() < 1e-12
    close(M, mean_riemann(X, tol=1e-12, maxiter=500))
    with pytest.warns(UserWarning, match="Convergence not reached"):
        close(papers.AIM.one_step_mean(list(X)), mean_riemann(X, maxiter=1))


@GEOMETRIES
@SIZES
def test_oracle_of_liebn_gives_its_bias_as_mean_and_its_scale_as_deviation(n, name):
    metric = TRUE[name][0]
    bias, X = random_spd(90, n, n), list(random_spd(0, 6, n, n))
    layer = papers.LieBN(metric, bias, 1.7, momentum=1.0)
    Y = layer.train(X)
    close(metric.point(metric.centre(Y)), bias)
    close(metric.variance(Y, metric.centre(Y)), 1.7**2)
    # With momentum 1 the batch is all that is remembered.
    close(layer.evaluate(X), Y)


def test_oracles_of_spdnetbn_and_spdbn_on_diagonal_matrices_are_batch_normalisation_of_logarithms():
    t = np.random.default_rng(0).standard_normal((6, 3))
    X = [np.diag(np.exp(row)) for row in t]
    centred = t - t.mean(0)
    close(np.log([np.diag(P) for P in papers.SPDNetBN(np.eye(3), 0.1).train(X)]), centred)
    bias, variance = np.array([0.3, -0.2, 1.0]), np.sum(centred**2) / 6
    layer = papers.SPDBN(np.diag(np.exp(bias)), 1.4, momentum=0.1)
    Y = layer.train(X, gamma=1.0)
    close(np.log([np.diag(P) for P in Y]), bias + 1.4 * centred / np.sqrt(variance + papers.EPS))
    close(layer.train_var, variance)
    close(np.log(np.diag(layer.running_mean)), 0.1 * t.mean(0))
    close(layer.running_var, 0.9 + 0.1 * np.sum((t - 0.1 * t.mean(0)) ** 2) / 6)


def test_oracle_of_the_training_momentum_falls_from_one_to_its_final_value():
    gammas = [papers.training_momentum(k, 5, 0.2) for k in range(1, 9)]
    close([gammas[0], *gammas[4:]], [1.0] + [0.2] * 4)
    assert np.all(np.diff(gammas[:5]) < 0)


PYRIEMANN = {"lem": "logeuclid", "lcm": "logchol", "aim": "riemann", "bwm": "wasserstein"}


def geomstats_metric(n, name):
    space = SPDMatrices(n, equip=False)
    space.equip_with_metric({"lem": SPDLogEuclideanMetric, "bwm": SPDBuresWassersteinMetric}[name])
    return space.metric


@EVERY_GEOMETRY
@SIZES
def test_oracle_of_the_exponential_is_a_geodesic(n, name):
    """It leaves S with velocity V, and the distances along it are those of a straight line."""
    metric = TRUE.get(name, (papers.BuresWasserstein(),))[0]
    S, V = random_spd(0, n, n), random_symmetric(1, n, n, size=0.1)
    h = 1e-4
    velocity = (metric.exp(S, h * V) - metric.exp(S, -h * V)) / (2 * h)
    close(velocity, V, 1e-6)
    middle, end = metric.exp(S, 0.4 * V), metric.exp(S, V)
    length = np.sqrt(metric.norm2(S, V))
    parts = [metric.dist2(S, middle), metric.dist2(middle, end), metric.dist2(S, end)]
    close(np.sqrt(parts), [0.4 * length, 0.6 * length, length])
    if name in PYRIEMANN:
        close(end, exp_map(V, S, metric=PYRIEMANN[name], Cm12=True))
    if name in ("lem", "bwm"):
        close(end, geomstats_metric(n, name).exp(V, S))


@pytest.mark.parametrize("name", ["lem", "lcm", "aim"])
@SIZES
def test_oracle_of_gyro_mlr_agrees_with_pyriemann(n, name):
    P, A = hyperplanes(n)
    S = random_spd(0, n, n)
    expected = [
        innerproduct(
            log_map(S, Pk, metric=PYRIEMANN[name], C12=True),
            transport(Ak, np.eye(n), Pk, metric=PYRIEMANN[name]),
            Pk,
            metric=PYRIEMANN[name],
        )
        for Pk, Ak in zip(P, A, strict=True)
    ]
    metric = TRUE[name][0]
    close(papers.gyro_logits(metric, S, P, A), expected)
    if name != "aim":  # what LEM and LCM say in closed form, from their differentials
        close([papers.Flat.hyperplane(metric, S, Pk, Ak) for Pk, Ak in zip(P, A, strict=True)], expected)


@SIZES
def test_oracle_of_bures_wasserstein_transport(n):
    """An isometry that agrees with geomstats, and between commuting matrices with its closed form."""
    metric, other = papers.BuresWasserstein(), geomstats_metric(n, "bwm")
    P, Q, V = random_spd(0, n, n), random_spd(1, n, n), random_symmetric(2, n, n)
    there = metric.transport(P, Q, V)
    close(metric.norm2(Q, there), metric.norm2(P, V))
    close(metric.transport(Q, P, there), V)
    close(there, other.parallel_transport(V, P, end_point=Q, n_steps=1000))
    close(metric.log(P, Q), other.log(Q, P))
    p, q = papers.spectrum(P), papers.spectrum(Q)[::-1]
    expected = V * np.sqrt((q[:, None] + q) / (p[:, None] + p))
    close(metric.transport(np.diag(p), np.diag(q), V), expected)
