"""What both optimisers keep: manifolds, checkpoints, schedulers, arguments."""

from __future__ import annotations

import copy
import functools
import io
import pickle
import warnings
from typing import Any

import geoopt
import pytest
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler

from alem import geometry, linalg
from alem.geometry import manifolds, spd_parameter, stiefel_parameter
from alem.optim import RiemannianAMSGrad, RiemannianSGD
from alem.optim.riemannian import NonFiniteGradientError

from .conftest import Factory, Network, assert_same_state, normal, orthonormal, spd, train

DEFECT = {torch.float64: 1e-10, torch.float32: 1e-4}


# Staying on the manifold


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("make", "steps"),
    [
        (functools.partial(RiemannianSGD, lr=0.1), 10_000),
        (functools.partial(RiemannianSGD, lr=0.1, momentum=0.9), 2_000),
        (functools.partial(RiemannianSGD, lr=0.1, momentum=0.9, nesterov=True), 2_000),
        (functools.partial(RiemannianAMSGrad, lr=0.05), 10_000),
    ],
    ids=["sgd", "momentum", "nesterov", "amsgrad"],
)
def test_orthonormal_matrices_stay_so(make: Factory, steps: int, dtype: torch.dtype) -> None:
    """Under random gradients of size 1, one in a hundred 10⁶ times as large."""
    params = [stiefel_parameter(orthonormal(*shape, dtype=dtype)) for shape in ((2, 5), (5, 2), (3, 3))]
    gradients = [normal(1000, *p.shape, dtype=dtype) for p in params]
    for G in gradients:
        G[::100] *= 1e6
    optimizer, stiefel, worst = make(params), manifolds.Stiefel(), 0.0
    for step in range(steps):
        for p, G in zip(params, gradients, strict=True):
            p.grad = G[(7 * step) % 1000]
        optimizer.step()
        if step % 100 < 10:  # the steps after a large one
            worst = max(worst, *(float(stiefel.defect(p.detach())) for p in params))
    assert 0.0 < worst < DEFECT[dtype]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "make",
    [
        functools.partial(RiemannianSGD, lr=0.1),
        functools.partial(RiemannianSGD, lr=0.02, momentum=0.9),
        functools.partial(RiemannianAMSGrad, lr=0.05),
    ],
    ids=["sgd", "momentum", "amsgrad"],
)
def test_spd_matrices_stay_so(make: Factory, dtype: torch.dtype) -> None:
    """The same; the gradient I − P⁻¹ of tr P − ln det P keeps their random walk bounded."""
    P = spd_parameter(torch.eye(3, dtype=dtype))
    optimizer, eye = make([P]), torch.eye(3, dtype=dtype)
    for step, G in enumerate(normal(3000, 3, 3, dtype=dtype)):
        noise = 1e6 * G if step % 100 == 99 else G
        P.grad = noise + eye - torch.linalg.inv(P.detach())
        optimizer.step()
        assert torch.equal(P, P.mT)
        assert float(torch.linalg.eigvalsh(P.detach())[0]) > 0


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(geoopt.optim.RiemannianSGD, lr=0.1),
        functools.partial(geoopt.optim.RiemannianSGD, lr=0.01, momentum=0.9),
        functools.partial(geoopt.optim.RiemannianSGD, lr=0.01, momentum=0.9, nesterov=True, stabilize=10),
        functools.partial(geoopt.optim.RiemannianAdam, lr=0.05, amsgrad=True),
        functools.partial(geoopt.optim.RiemannianAdam, lr=0.05, stabilize=10),
    ],
)
def test_optimisers_of_geoopt_take_our_parameters(make: Factory) -> None:
    W, T, P = (
        stiefel_parameter(orthonormal(2, 5)),
        stiefel_parameter(orthonormal(5, 2)),
        spd_parameter(spd(n=3)),
    )
    optimizer = make([W, T, P])
    for step in range(200):
        W.grad, T.grad = 10 * normal(2, 5, seed=step), 10 * normal(5, 2, seed=step)
        P.grad = torch.eye(3).double() - torch.linalg.inv(P.detach()) + 0.1 * normal(3, 3, seed=step)
        optimizer.step()
    for p in (W, T, P):
        p.manifold.assert_check_point_on_manifold(p.detach(), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    "manifold",
    [
        geoopt.Sphere(),
        geoopt.Lorentz().double(),
        geoopt.PoincareBall().double(),
        geoopt.Stiefel(),
        geoopt.Euclidean(ndim=1),
    ],
    ids=str,
)
def test_a_manifold_of_geoopt_moves_by_its_own_methods(solver: Factory, manifold: geoopt.Manifold) -> None:
    x = geoopt.ManifoldParameter(manifold.projx(0.3 * normal(5, 3)), manifold=manifold)
    target = manifold.projx(0.3 * normal(5, 3, seed=1))
    optimizer = solver([x])
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = (x - target).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert manifold.check_point_on_manifold(x.detach(), atol=1e-6)


# Finding the optimum


def test_procrustes(solver: Factory) -> None:
    """min ‖WA − B‖ over orthonormal W, with B = W*A and W* in the component of the start."""
    A = normal(4, 20)
    start = orthonormal(4, 4)
    skew = normal(4, 4, seed=1)
    target = start @ torch.linalg.matrix_exp(0.3 * (skew - skew.mT))
    W = stiefel_parameter(start)
    optimizer = solver([W])
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.995)
    for _ in range(1200):
        optimizer.zero_grad()
        ((W @ A - target @ A).square().sum() / 40).backward()
        optimizer.step()
        schedule.step()
    torch.testing.assert_close(W.detach(), target, atol=1e-3, rtol=0.0)


@pytest.mark.parametrize("tall", [False, True])
def test_the_leading_eigenspace(solver: Factory, tall: bool) -> None:
    values, U = torch.arange(1.0, 7.0).double(), orthonormal(6, 6, seed=2)
    S = (U * values) @ U.mT
    W = stiefel_parameter(orthonormal(6, 2) if tall else orthonormal(2, 6))
    optimizer = solver([W])
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.995)
    for _ in range(1200):
        optimizer.zero_grad()
        rows = W.mT if tall else W
        loss = -torch.trace(rows @ S @ rows.mT)
        loss.backward()
        optimizer.step()
        schedule.step()
    assert loss.item() == pytest.approx(-11.0, abs=1e-4)


def test_the_mean_of_spd_matrices(solver: Factory) -> None:
    X, metric = spd(10, n=3), geometry.AffineInvariant()
    M = spd_parameter(torch.eye(3, dtype=torch.float64))
    optimizer = solver([M])
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.995)
    for _ in range(1200):
        optimizer.zero_grad()
        (metric.dist2(M, X).mean()).backward()
        optimizer.step()
        schedule.step()
    assert float(metric.dist(M.detach(), metric.mean(X))) < 1e-3


def test_a_network_learns(make: Factory, network: Network) -> None:
    losses = train(network, make(network), 60)
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])


# Going on where one stopped


def fresh(make: Factory, steps: int) -> tuple[Network, torch.optim.Optimizer]:
    model = Network()
    optimizer = make(model, weight_decay=1e-3, metric_lr=2.0)
    train(model, optimizer, steps)
    return model, optimizer


def test_a_checkpoint_goes_on_bit_for_bit(make: Factory) -> None:
    model, optimizer = fresh(make, 5)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    train(model, optimizer, 5, start=5)

    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other = Network()
    again = make(other)
    other.load_state_dict(saved["model"])
    again.load_state_dict(saved["optimizer"])
    train(other, again, 5, start=5)
    assert_same_state(model.parameters(), other.parameters())


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_a_copy_goes_on_bit_for_bit(make: Factory, twin: Any) -> None:
    model, optimizer = fresh(make, 5)
    other, again = twin((model, optimizer))
    train(model, optimizer, 5, start=5)
    train(other, again, 5, start=5)
    assert_same_state(model.parameters(), other.parameters())


@pytest.mark.parametrize(
    "schedule",
    [
        lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
        lambda o: lr_scheduler.CosineAnnealingLR(o, 10),
        lambda o: lr_scheduler.OneCycleLR(
            o, 0.01, total_steps=10, cycle_momentum="momentum" not in o.defaults
        ),
        lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
    ],
    ids=["lambda", "cosine", "onecycle", "plateau"],
)
def test_schedulers_move_the_rates_of_all_groups(make: Factory, schedule: Any, network: Network) -> None:
    optimizer = make(network, metric_lr=3.0)
    before = [group["lr"] for group in optimizer.param_groups]
    scheduler = schedule(optimizer)
    plateau = isinstance(scheduler, lr_scheduler.ReduceLROnPlateau)
    for step in range(5):
        train(network, optimizer, 1, start=step)
        scheduler.step(1.0) if plateau else scheduler.step()
    after = [group["lr"] for group in optimizer.param_groups]
    assert all(a != b for a, b in zip(after, before, strict=True))
    if not isinstance(scheduler, lr_scheduler.OneCycleLR):  # which has one peak for all
        assert after[-1] == pytest.approx(3.0 * after[0])


def test_the_momentum_can_be_cycled(network: Network) -> None:
    optimizer = RiemannianSGD(network, lr=0.01, momentum=0.9)
    scheduler = lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=10)
    train(network, optimizer, 1)
    scheduler.step()
    assert optimizer.param_groups[0]["momentum"] != 0.9


def test_the_rate_can_be_a_tensor(make: Factory) -> None:
    plain, tensor = Network(), Network()
    train(plain, make(plain, lr=0.01), 5)
    train(tensor, make(tensor, lr=torch.tensor(0.01, dtype=torch.float64)), 5)
    for p, q in zip(plain.parameters(), tensor.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-12)


# What torch allows


def test_parameters_come_in_every_form(make: Factory) -> None:
    models = [Network() for _ in range(4)]
    forms = [
        models[0].parameters(),
        models[1].named_parameters(),
        [{"params": list(models[2].parameters())}],
        models[3],
    ]
    for model, form in zip(models, forms, strict=True):
        train(model, make(form), 3)
    for model in models[1:]:
        assert_same_state(models[0].parameters(), model.parameters())


def test_groups_are_added_with_their_own_options(make: Factory, network: Network) -> None:
    optimizer = make(network.parameters())
    extra = nn.Parameter(torch.ones(3))
    optimizer.add_param_group({"params": [extra], "lr": 0.5})
    extra.grad = torch.ones(3)
    optimizer.step()
    assert optimizer.param_groups[-1]["lr"] == 0.5
    assert bool((extra < 1).all())
    with pytest.raises(ValueError, match="lr must be finite"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(3))], "lr": -1.0})
    assert len(optimizer.param_groups) == 2


def test_what_has_no_gradient_stays(make: Factory, network: Network) -> None:
    optimizer = make(network)
    network.bimap.requires_grad_(False)
    network.bimap.grad = normal(3, 5)
    before = [p.detach().clone() for p in (network.bimap, network.unused.weight)]
    for step in range(3):
        X = spd(6, n=5, seed=step)
        network(X).square().mean().backward()
        optimizer.step()
    assert_same_state(before, [network.bimap, network.unused.weight])
    assert network.unused.weight not in optimizer.state


def test_the_gradient_is_left_as_it_was(make: Factory, network: Network) -> None:
    network(spd(6, n=5)).square().mean().backward()
    before = [None if p.grad is None else p.grad.clone() for p in network.parameters()]
    make(network, weight_decay=0.1).step()
    for p, grad in zip(network.parameters(), before, strict=True):
        assert grad is None or torch.equal(p.grad, grad)


def test_a_closure_is_called_with_gradients_enabled(make: Factory) -> None:
    W = stiefel_parameter(orthonormal(2, 4))
    optimizer = make([W])

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = W.square()[0].sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == pytest.approx(1.0)


@pytest.mark.parametrize("layout", ["transposed", "strided", "expanded gradient"])
def test_the_layout_of_memory_does_not_matter(make: Factory, layout: str) -> None:
    """The fused kernels of torch take memory as it comes."""
    values, grads = normal(4, 3), [normal(4, 3, seed=step) for step in (1, 2, 3)]
    plain = nn.Parameter(values.clone())
    odd = nn.Parameter(values.clone())
    if layout == "transposed":
        odd = nn.Parameter(values.mT.contiguous().mT)
    elif layout == "strided":
        odd = nn.Parameter(torch.zeros(4, 6, dtype=torch.float64)[:, ::2].copy_(values))
    else:
        grads = [g[:, :1].expand(4, 3) for g in grads]
    for p in (plain, odd):
        optimizer = make([p], weight_decay=0.1)
        for g in grads:
            p.grad = g.clone() if p is plain else g
            optimizer.step()
    torch.testing.assert_close(odd, plain)


@pytest.mark.parametrize("manifold", ["stiefel", "spd"])
def test_a_gradient_that_is_not_finite_moves_nothing(make: Factory, manifold: str) -> None:
    weight = nn.Parameter(torch.ones(2))
    p = stiefel_parameter(orthonormal(2, 4)) if manifold == "stiefel" else spd_parameter(spd(n=3))
    optimizer = make([weight, p])
    weight.grad, p.grad = torch.ones(2), torch.ones_like(p)
    p.grad[0, 0], p.grad[0, 1] = torch.inf, -torch.inf
    before = p.detach().clone()
    with pytest.raises(NonFiniteGradientError, match=r"2 of \d+ entries"):
        optimizer.step()
    assert torch.equal(weight, torch.ones(2))
    assert torch.equal(p, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("manifold", ["stiefel", "spd"])
def test_a_gradient_too_large_to_square_moves_nothing(
    make: Factory, manifold: str, dtype: torch.dtype
) -> None:
    weight = nn.Parameter(torch.ones(2))
    start = orthonormal(2, 4, dtype=dtype) if manifold == "stiefel" else spd(n=3, dtype=dtype)
    p = stiefel_parameter(start) if manifold == "stiefel" else spd_parameter(start)
    limit = torch.finfo(dtype).max ** 0.5 / 2**10 / float(p.detach().norm())
    optimizer = make([weight, p], lr=0.1)
    direction = normal(*p.shape, dtype=dtype)
    direction /= direction.norm()
    weight.grad = torch.ones(2)
    before = p.detach().clone()
    for size in (1.1 * limit, 1e4 * limit, 0.4 * torch.finfo(dtype).max):
        p.grad = size * direction
        with pytest.raises(NonFiniteGradientError, match="too large to square"):
            optimizer.step()
    assert torch.equal(weight, torch.ones(2))
    assert torch.equal(p, before)
    for size in (0.9 * limit, 1.0, 1.0):  # just inside, and then back to what is usual
        p.grad = size * direction
        optimizer.step()
        assert bool(p.isfinite().all())
        p.manifold.assert_check_point_on_manifold(p.detach())


def test_a_large_gradient_of_a_small_matrix_is_no_error(make: Factory) -> None:
    """What is squared is ‖G‖‖P‖."""
    P = spd_parameter(1e-20 * spd(n=3, dtype=torch.float32))
    P.grad = 1e20 * normal(3, 3, dtype=torch.float32)
    before = P.detach().clone()
    make([P], lr=0.01).step()
    assert bool(P.isfinite().all())
    assert not torch.equal(P, before)


def test_state_follows_the_model_to_another_dtype(make: Factory) -> None:
    model = Network()
    optimizer = make(model)
    train(model, optimizer, 2)
    other = copy.deepcopy(model).float().double()
    again = make(other)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    model.float().double()  # the state stays as it is: it is not looked at before a step
    train(model, optimizer, 2)
    train(other, again, 2)
    assert_same_state(model.parameters(), other.parameters())

    model.float()
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    for p, state in optimizer.state.items():
        moments = [value.dtype for key, value in state.items() if key != "step"]
        assert all(dtype == p.dtype == torch.float32 for dtype in moments)


def test_a_sparse_gradient_is_refused(make: Factory) -> None:
    embedding = nn.Embedding(4, 2, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match="sparse"):
        make(embedding).step()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -0.1}, "lr must be finite and not negative"),
        ({"lr": float("nan")}, "lr must be finite"),
        ({"weight_decay": -1.0}, "weight_decay must be finite and not negative"),
        ({"metric_lr": -1.0}, "metric_lr must be finite and not negative"),
    ],
)
def test_bad_arguments_are_refused(make: Factory, options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(nn.Linear(2, 2), **options)


def test_a_model_without_parameters_is_refused(make: Factory) -> None:
    with pytest.raises(ValueError, match="ReLU has no parameters"):
        make(nn.ReLU())
    with pytest.raises(ValueError, match="empty"):
        make([])


def test_complex_parameters_are_refused(make: Factory) -> None:
    with pytest.raises(ValueError, match="complex"):
        make([nn.Parameter(torch.ones(2, dtype=torch.complex64))])


def test_a_step_asks_for_no_value(make: Factory) -> None:
    """On an accelerator; the meta device, which has none, stands for it."""
    params = [
        stiefel_parameter(torch.empty(2, 4, device="meta")),
        stiefel_parameter(torch.empty(4, 2, device="meta")),
        spd_parameter(torch.empty(3, 3, device="meta")),
    ]
    optimizer = make(params)
    for _ in range(2):
        for p in params:
            p.grad = torch.empty_like(p)
        optimizer.step()


def test_no_warning_from_a_compiled_model(make: Factory, network: Network) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(network, make(torch.compile(network, backend="eager")), 2)
    assert linalg.is_positive_definite(network.bias.detach())
