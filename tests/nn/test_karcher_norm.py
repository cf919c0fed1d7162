"""SPDNetBN and SPDBN against loops in NumPy, and what they promise."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.linalg import expm, fractional_matrix_power, logm
from torch import Tensor, nn
from torch.func import functional_call

from alem.geometry import AffineInvariant, sample_wishart
from alem.linalg import InvalidMatrixError, NotPositiveDefiniteError
from alem.nn.karcher_norm import SPDBN, SPDNetBN

N = 3
AIM = AffineInvariant()


def spd(*size: int, n: int = N, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return sample_wishart(*size, n=n, dof=4 * n, generator=generator, dtype=dtype)


def moved(layer: nn.Module, seed: int = 9) -> nn.Module:
    """The layer with parameters away from their start."""
    with torch.no_grad():
        layer.bias.copy_(spd(n=layer.n, seed=seed))
        if hasattr(layer, "scale"):
            layer.scale.fill_(0.7)
    return layer


def made(name: str, **options: object) -> nn.Module:
    options = {"dtype": torch.float64, **options}
    if name == "spdnetbn":
        return SPDNetBN(N, **options)
    return SPDBN(N, domains=2 if name == "domains" else None, **options)


def domain_of(name: str, *batch: int) -> tuple[Tensor, ...]:
    """The further arguments of a layer's forward."""
    return (torch.arange(math.prod(batch)).reshape(batch) % 2,) if name == "domains" else ()


every_layer = pytest.mark.parametrize("name", ["spdnetbn", "spdbn", "domains"])


# Oracles: the formulas, one matrix at a time.


def root(P: np.ndarray, power: float) -> np.ndarray:
    return np.real(fractional_matrix_power(P, power))


def log(P: np.ndarray) -> np.ndarray:
    return np.real(logm(P))


def karcher(X: np.ndarray, steps: int) -> np.ndarray:
    B = sum(X) / len(X)
    for _ in range(steps):
        K = root(B, -0.5)
        B = root(B, 0.5) @ expm(sum(log(K @ x @ K) for x in X) / len(X)) @ root(B, 0.5)
    return B


def geodesic(P: np.ndarray, Q: np.ndarray, t: float) -> np.ndarray:
    K = root(P, -0.5)
    return root(P, 0.5) @ root(K @ Q @ K, t) @ root(P, 0.5)


def dispersion(M: np.ndarray, X: np.ndarray) -> float:
    K = root(M, -0.5)
    return sum(np.linalg.norm(log(K @ x @ K)) ** 2 for x in X) / len(X)


def normalised(X: np.ndarray, mean: np.ndarray, power: float, bias: np.ndarray) -> np.ndarray:
    K, G = root(mean, -0.5), root(bias, 0.5)
    return np.stack([G @ root(K @ x @ K, power) @ G for x in X])


class Oracle:
    """SPDBN without domains, as its docstring reads."""

    def __init__(self, layer: SPDBN) -> None:
        self.layer = layer
        self.bias, self.scale = layer.bias.detach().numpy(), float(layer.scale.detach())
        self.train_mean, self.train_var = np.eye(N), 1.0
        self.running_mean, self.running_var = np.eye(N), 1.0
        self.k = 0

    def gamma(self) -> float:
        rho, K = self.layer.final_momentum, self.layer.warmup
        return rho if K == 1 else 1 - rho ** (max(K - self.k, 0) / (K - 1)) + rho

    def train(self, X: np.ndarray) -> np.ndarray:
        self.k += 1
        gamma, eta = self.gamma(), self.layer.momentum
        B = karcher(X, self.layer.karcher_steps)
        self.train_mean = geodesic(self.train_mean, B, gamma)
        self.train_var = (1 - gamma) * self.train_var + gamma * dispersion(self.train_mean, X)
        self.running_mean = geodesic(self.running_mean, B, eta)
        self.running_var = (1 - eta) * self.running_var + eta * dispersion(self.running_mean, X)
        return self.normalised(X, self.train_mean, self.train_var)

    def evaluate(self, X: np.ndarray) -> np.ndarray:
        return self.normalised(X, self.running_mean, self.running_var)

    def normalised(self, X: np.ndarray, mean: np.ndarray, var: float) -> np.ndarray:
        return normalised(X, mean, self.scale / math.sqrt(var + self.layer.eps), self.bias)


def assert_equal_to(actual: Tensor, expected: np.ndarray | float) -> None:
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-9, atol=1e-10)


# SPDNetBN.


@pytest.mark.parametrize("steps", [1, 3])
def test_spdnetbn_is_the_formula_in_training_and_evaluation(steps: int) -> None:
    layer = moved(SPDNetBN(N, momentum=0.3, karcher_steps=steps, dtype=torch.float64))
    bias, running = layer.bias.detach().numpy(), np.eye(N)
    for seed in range(3):
        X = spd(5, seed=seed)
        B = karcher(X.numpy(), steps)
        running = geodesic(running, B, 0.3)
        assert_equal_to(layer(X), normalised(X.numpy(), B, 1.0, bias))
        assert_equal_to(layer.running_mean, running)
    X = spd(4, seed=7)
    assert_equal_to(layer.eval()(X), normalised(X.numpy(), running, 1.0, bias))
    assert_equal_to(layer.running_mean, running)  # which evaluation leaves alone


def test_spdnetbn_moves_the_mean_of_the_batch_to_the_bias() -> None:
    layer = moved(SPDNetBN(N, karcher_steps=20, dtype=torch.float64))
    torch.testing.assert_close(AIM.mean(layer(spd(30))), layer.bias.detach(), rtol=1e-9, atol=1e-9)


def test_momentum_one_keeps_the_last_batch_alone() -> None:
    layer = SPDNetBN(N, momentum=1.0, dtype=torch.float64)
    layer(spd(5, seed=1))
    X = spd(5, seed=2)
    in_training = layer(X)
    torch.testing.assert_close(layer.eval()(X), in_training)


# SPDBN.


@pytest.mark.parametrize("warmup", [1, 2, 4])
@pytest.mark.parametrize("steps", [1, 2])
def test_spdbn_is_the_formula_in_training_and_evaluation(warmup: int, steps: int) -> None:
    layer = SPDBN(
        N, momentum=0.15, final_momentum=0.3, warmup=warmup, karcher_steps=steps, dtype=torch.float64
    )
    oracle = Oracle(moved(layer))
    for seed in range(6):
        X = spd(5, seed=seed)
        assert_equal_to(layer(X), oracle.train(X.numpy()))
        for name in ("train_mean", "train_var", "running_mean", "running_var"):
            assert_equal_to(getattr(layer, name), getattr(oracle, name))
    assert int(layer.num_batches_tracked) == 6
    X = spd(4, seed=7)
    assert_equal_to(layer.eval()(X), oracle.evaluate(X.numpy()))
    assert int(layer.num_batches_tracked) == 6


def test_the_training_momentum_falls_from_one_to_the_final_one() -> None:
    layer = SPDBN(N, final_momentum=0.2, warmup=5, dtype=torch.float64)
    momenta = []
    for k in range(8):
        layer.num_batches_tracked.fill_(k)
        momenta.append(float(layer.training_momentum()))
    assert momenta[0] == pytest.approx(1.0, abs=1e-15)
    assert momenta[4:] == pytest.approx([0.2] * 4, abs=1e-15)
    assert all(a > b for a, b in pairwise(momenta[:5]))


def test_warmup_of_one_step_is_the_final_momentum_throughout() -> None:
    layer = SPDBN(N, final_momentum=0.2, warmup=1)
    assert float(layer.training_momentum()) == pytest.approx(0.2)
    layer.num_batches_tracked.fill_(100)
    assert float(layer.training_momentum()) == pytest.approx(0.2)


def test_the_first_step_gives_mean_bias_and_dispersion_scale_squared() -> None:
    layer = moved(SPDBN(N, karcher_steps=20, dtype=torch.float64))
    Y = layer(spd(40)).detach()
    torch.testing.assert_close(AIM.mean(Y), layer.bias.detach(), rtol=1e-8, atol=1e-8)
    v = layer.train_var
    assert float(AIM.variance(Y, layer.bias.detach())) == pytest.approx(
        float(0.7**2 * v / (v + 1e-5)), rel=1e-9
    )


# Domains.


def test_domains_are_separate_layers_with_shared_parameters() -> None:
    options = {"final_momentum": 0.3, "warmup": 3, "karcher_steps": 2, "dtype": torch.float64}
    layer = moved(SPDBN(N, domains=3, **options))
    separate = [moved(SPDBN(N, **options)) for _ in range(3)]
    domain = torch.tensor([2, 0, 0, 1, 2, 1, 2, 0])
    for seed in range(4):
        X = spd(8, seed=seed)
        Y = layer(X, domain)
        for d, single in enumerate(separate):
            torch.testing.assert_close(Y[domain == d], single(X[domain == d]))
    for d, single in enumerate(separate):
        for name in ("train_mean", "train_var", "running_mean", "running_var"):
            torch.testing.assert_close(getattr(layer, name)[d], getattr(single, name))
    layer.eval()
    X = spd(8, seed=9)
    Y = layer(X, domain)
    for d, single in enumerate(separate):
        torch.testing.assert_close(Y[domain == d], single.eval()(X[domain == d]))


def test_one_domain_is_no_domain() -> None:
    one, none = (moved(SPDBN(N, domains=d, warmup=3, dtype=torch.float64)) for d in (1, None))
    for seed in range(3):
        X = spd(5, seed=seed)
        torch.testing.assert_close(one(X, 0), none(X))
    torch.testing.assert_close(one.eval()(X, 0), none.eval()(X))


def test_an_absent_domain_keeps_its_statistics_to_the_last_bit() -> None:
    layer = SPDBN(N, domains=3, dtype=torch.float64)
    layer(spd(9), torch.arange(9) % 3)
    names = ("train_mean", "train_var", "running_mean", "running_var")
    before = {name: getattr(layer, name).clone() for name in names}
    X = spd(4, seed=1).requires_grad_()
    layer(X, torch.tensor([0, 2, 2, 0])).square().sum().backward()
    assert X.grad.isfinite().all()
    for name in names:
        assert torch.equal(getattr(layer, name)[1], before[name][1])
        assert not torch.equal(getattr(layer, name)[0], before[name][0])


def test_one_int_is_the_domain_of_the_whole_batch() -> None:
    layers = [SPDBN(N, domains=2, dtype=torch.float64) for _ in range(2)]
    X = spd(4)
    torch.testing.assert_close(layers[0](X, 1), layers[1](X, torch.ones(4, dtype=torch.int32)))
    for layer in layers:
        torch.testing.assert_close(layer.train_mean[0], torch.eye(N, dtype=torch.float64))


@pytest.mark.parametrize("warmup", [1, 100])
def test_batches_of_one_move_means_and_leave_variances(warmup: int) -> None:
    layer = SPDBN(N, warmup=warmup, dtype=torch.float64)
    for seed in range(20):
        layer(spd(1, seed=seed))
    assert float(layer.train_var) == float(layer.running_var) == 1.0
    for mean in (layer.train_mean, layer.running_mean):
        assert not torch.equal(mean, torch.eye(N, dtype=torch.float64))
    assert layer.eval()(spd(3)).abs().max() < 1e3
    layer.train()(spd(2))
    assert float(layer.train_var) != 1.0
    assert float(layer.running_var) != 1.0


def test_a_domain_with_one_member_is_a_batch_of_one() -> None:
    layer, single = (SPDBN(N, domains=d, warmup=3, dtype=torch.float64) for d in (2, None))
    X = spd(4)
    domain = torch.tensor([0, 0, 1, 0])
    Y = layer(X, domain)
    torch.testing.assert_close(Y[2], single(X[2]))
    for name in ("train_mean", "train_var", "running_mean", "running_var"):
        torch.testing.assert_close(getattr(layer, name)[1], getattr(single, name))
    for var in (layer.train_var, layer.running_var):
        assert float(var[1]) == 1.0 != float(var[0])


@pytest.mark.parametrize(
    "domain",
    [
        [0, 1, 1, 0],
        (0, 1, 1, 0),
        np.array([0, 1, 1, 0]),
        np.array([0, 1, 1, 0], dtype=np.uint8),
        torch.tensor([0, 1, 1, 0], dtype=torch.int16),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_domains_are_any_integers_of_the_shape_of_the_batch(domain: object, training: bool) -> None:
    layers = [SPDBN(N, domains=2, dtype=torch.float64).train(training) for _ in range(2)]
    expected = layers[0](spd(4), torch.tensor([0, 1, 1, 0]))
    torch.testing.assert_close(layers[1](spd(4), domain), expected, rtol=0, atol=0)


@pytest.mark.parametrize("domain", [torch.tensor(1), np.int64(1), np.array(1)])
def test_one_integer_of_any_kind_is_the_domain_of_the_whole_batch(domain: object) -> None:
    layers = [SPDBN(N, domains=2, dtype=torch.float64) for _ in range(2)]
    for X in (spd(4), spd(2, 3), spd()):
        torch.testing.assert_close(layers[0](X, domain), layers[1](X, 1), rtol=0, atol=0)
    assert layers[0].eval()(spd(0), domain).shape == (0, N, N)
    assert layers[0](spd(0), []).shape == (0, N, N)


@pytest.mark.parametrize(
    "bad", [True, 1.0, [0.0, 1, 1, 0], [True] * 4, "left", ["a"] * 4, [[0, 1], [0]], np.ones(4), {0: 1}, 1j]
)
def test_what_is_no_domain_is_refused_with_a_sentence(bad: object) -> None:
    layer = SPDBN(N, domains=2, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"domain must (be an int|hold integers)"):
        layer(spd(4), bad)
    assert int(layer.num_batches_tracked) == 0


@pytest.mark.parametrize("training", [True, False])
def test_wrong_domains_say_what_is_wrong(training: bool) -> None:
    layer, plain, X = SPDBN(N, domains=2).train(training), SPDBN(N), spd(4, dtype=torch.float32)
    with pytest.raises(ValueError, match="needs that of each matrix"):
        layer(X)
    with pytest.raises(ValueError, match="made without domains"):
        plain(X, 0)
    for bad in (2, -1, torch.tensor([0, 1, 2, 0]), torch.tensor([0, -1, 0, 0])):
        with pytest.raises(ValueError, match="0 to 1"):
            layer(X, bad)
    with pytest.raises(ValueError, match="one index for each matrix"):
        layer(X, torch.zeros(3, dtype=torch.long))
    for dtype in (torch.float32, torch.bool):
        with pytest.raises(ValueError, match="must hold integers"):
            layer(X, torch.zeros(4, dtype=dtype))
    assert int(layer.num_batches_tracked) == 0


def test_spdbn_says_that_it_takes_a_domain() -> None:
    assert SPDBN.takes_domain
    assert not hasattr(SPDNetBN, "takes_domain")


# What all of them promise.


@every_layer
def test_all_leading_dimensions_are_the_batch(name: str) -> None:
    flat, shaped = moved(made(name)), moved(made(name))
    X = spd(6)
    expected = flat(X, *domain_of(name, 6))
    actual = shaped(X.reshape(2, 3, N, N), *domain_of(name, 2, 3))
    torch.testing.assert_close(actual, expected.reshape(2, 3, N, N))
    torch.testing.assert_close(shaped.running_mean, flat.running_mean)


@every_layer
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_of_one_becomes_the_bias(name: str, dtype: torch.dtype) -> None:
    layer = moved(made(name, dtype=dtype))
    X = spd(dtype=dtype)
    X.requires_grad_()
    Y = layer(X, *domain_of(name, *X.shape[:-2]))
    assert Y.shape == (N, N)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-3  # 1/√eps times rounding
    torch.testing.assert_close(Y.detach(), layer.bias.detach(), rtol=tolerance, atol=tolerance)
    Y.sum().backward()
    assert X.grad.isfinite().all()


@every_layer
def test_a_batch_of_identities_has_statistics_and_gradients(name: str) -> None:
    layer = made(name)
    X = torch.eye(N, dtype=torch.float64).repeat(4, 1, 1).requires_grad_()
    Y = layer(X, *domain_of(name, 4))
    torch.testing.assert_close(Y, X)
    Y.square().sum().backward()
    for tensor in (X, *layer.parameters()):
        assert tensor.grad.isfinite().all()


BATCHES = {
    "distinct": spd(4),
    "identities": torch.eye(N, dtype=torch.float64).repeat(4, 1, 1),
    "ties": torch.cat([torch.eye(N, dtype=torch.float64)[None], 2 * spd(1), spd(1), spd(1)]),
    "one": spd(1),
}


@every_layer
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("training", [True, False])
def test_gradients_are_the_true_ones(name: str, batch: str, training: bool) -> None:
    # In the second step of a warm-up old statistics and the batch both count.
    layer = moved(made(name, karcher_steps=2, **({} if name == "spdnetbn" else {"warmup": 4, "eps": 1e-1})))
    layer(spd(6, seed=5), *domain_of(name, 6))
    layer.train(training)
    X = BATCHES[batch].clone()
    names, start = zip(*((k, p.detach().clone()) for k, p in layer.named_parameters()), strict=True)

    def function(X: Tensor, *parameters: Tensor) -> Tensor:
        state = {k: b.clone() for k, b in layer.named_buffers()} | dict(zip(names, parameters, strict=True))
        return functional_call(layer, state, ((X + X.mT) / 2, *domain_of(name, len(X))))

    inputs = tuple(x.requires_grad_() for x in (X, *start))
    assert torch.autograd.gradcheck(function, inputs)


@every_layer
def test_statistics_are_not_part_of_the_graph(name: str) -> None:
    layer = made(name)
    X = spd(4).requires_grad_()
    total = sum(layer(X, *domain_of(name, 4)).sum() for _ in range(3))
    total.backward()  # the statistics moved in place in between
    assert not any(buffer.requires_grad for buffer in layer.buffers())


@every_layer
def test_a_trained_layer_loads_into_a_fresh_one_and_is_copied(name: str) -> None:
    layer = moved(made(name))
    fresh = made(name)
    shapes = {k: v.shape for k, v in fresh.state_dict().items()}
    pointers = {k: v.data_ptr() for k, v in layer.named_buffers()}
    domain = domain_of(name, 6)
    for seed in range(3):
        layer(spd(6, seed=seed), *domain)
    assert {k: v.shape for k, v in layer.state_dict().items()} == shapes
    assert {k: v.data_ptr() for k, v in layer.named_buffers()} == pointers
    fresh.load_state_dict(layer.state_dict())
    X = spd(6, seed=8)
    copies = [fresh, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
    expected = layer(X, *domain)
    for other in copies:
        torch.testing.assert_close(other(X, *domain), expected, rtol=0, atol=0)
        assert type(other.bias) is type(layer.bias)


@every_layer
def test_dtype_is_kept_and_can_be_changed(name: str) -> None:
    layer = made(name, dtype=torch.float32)
    X, domain = spd(6), domain_of(name, 6)
    Y = layer(X.float(), *domain)
    assert Y.dtype == torch.float32
    torch.testing.assert_close(Y.double(), made(name)(X, *domain), rtol=1e-4, atol=1e-5)
    assert layer.double()(X, *domain).dtype == torch.float64
    assert layer.eval()(X, *domain).dtype == torch.float64


@every_layer
@pytest.mark.parametrize("training", [True, False])
def test_compiles_into_one_graph(name: str, training: bool) -> None:
    torch.compiler.reset()
    eager = moved(made(name, **({} if name == "spdnetbn" else {"warmup": 9})))
    layer = copy.deepcopy(eager)
    for module in (eager, layer):
        module(spd(6, seed=4), *domain_of(name, 6))
        module.train(training)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    domain = domain_of(name, 6)
    # Two calls before each backward pass: by then the statistics have changed twice.
    for seed in range(2):
        inputs = [spd(6, seed=seed).requires_grad_() for _ in range(2)]
        for call, X in zip((compiled, eager), inputs, strict=True):
            (call(X, *domain).square() + call(2 * X, *domain)).sum().backward()
        torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
        torch.testing.assert_close(compiled(X, *domain), eager(X, *domain))
    torch.testing.assert_close(dict(layer.named_buffers()), dict(eager.named_buffers()))
    for a, b in zip(layer.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


@every_layer
def test_bad_input_is_named(name: str) -> None:
    layer = made(name)
    for bad in (spd(4, n=N + 1), spd(4, dtype=torch.float32), torch.zeros(4, N, N + 1).double()):
        with pytest.raises(InvalidMatrixError):
            layer(bad, *domain_of(name, 4))
    with pytest.raises(InvalidMatrixError, match="no matrices"):
        layer(spd(0), *domain_of(name, 0))
    assert layer.eval()(spd(0), *domain_of(name, 0)).shape == (0, N, N)
    layer.train()
    before = copy.deepcopy(layer.state_dict())
    X = spd(4)
    X[2] = torch.diag(torch.tensor([1.0, 1.0, -1e-3], dtype=torch.float64))
    with pytest.raises(NotPositiveDefiniteError, match="matrix 2"):
        layer(X, *domain_of(name, 4))
    torch.testing.assert_close(layer.state_dict(), before, rtol=0, atol=0)


@every_layer
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_not_spd_is_refused_in_both_modes(name: str, training: bool, bad: float) -> None:
    layer, X = made(name).train(training), spd(4)
    X[2] = bad * torch.eye(N, dtype=torch.float64)
    # In training a mean that is not positive definite may be what is found first.
    named = not (training and math.isfinite(bad))
    with pytest.raises(InvalidMatrixError, match="matrix 2" if named else "not positive definite"):
        layer(X, *domain_of(name, 4))


@pytest.mark.parametrize(
    ("layer", "options", "message"),
    [
        (SPDNetBN, {"momentum": 0.0}, "momentum"),
        (SPDNetBN, {"momentum": 1.1}, "momentum"),
        (SPDNetBN, {"karcher_steps": 0}, "karcher_steps"),
        (SPDBN, {"momentum": -0.1}, "momentum"),
        (SPDBN, {"final_momentum": 0.0}, "final_momentum"),
        (SPDBN, {"warmup": 0}, "warmup"),
        (SPDBN, {"domains": 0}, "domains"),
        (SPDBN, {"eps": 0.0}, "eps"),
    ],
)
def test_options_out_of_range_are_refused(layer: type, options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layer(N, **options)


@every_layer
def test_parameters_and_buffers_start_as_documented(name: str) -> None:
    layer = made(name)
    lead = (2,) if name == "domains" else ()
    eye = torch.eye(N, dtype=torch.float64)
    expected = {"bias": eye, "running_mean": eye.expand(*lead, N, N)}
    if name != "spdnetbn":
        one = torch.ones((), dtype=torch.float64)
        expected |= {"scale": one, "train_mean": eye.expand(*lead, N, N)}
        expected |= {"train_var": one.expand(lead), "running_var": one.expand(lead)}
        expected |= {"num_batches_tracked": torch.tensor(0)}
    assert set(layer.state_dict()) == set(expected)
    for key, value in layer.state_dict().items():
        assert torch.equal(value, expected[key])
    assert "n=3" in repr(layer)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@every_layer
@pytest.mark.parametrize("training", [True, False])
def test_cuda_gives_the_same_and_waits_for_decompositions_alone(name: str, training: bool) -> None:
    host = made(name).train(training)
    device = copy.deepcopy(host).cuda()
    X, domain = spd(6), domain_of(name, 6)
    inputs = (X.cuda(), *(d.cuda() for d in domain))
    torch.testing.assert_close(device(*inputs).cpu(), host(X, *domain))
    torch.testing.assert_close(device.cpu().state_dict(), host.state_dict())
    device.cuda()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")  # which warns that it is a prototype
        try:
            device(*inputs)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    waits = [w for w in caught if "called a synchronizing" in str(w.message)]
    # torch.linalg.eigh looks at what the solver reports
    assert {Path(w.filename).name for w in waits} <= {"eigh.py"}
