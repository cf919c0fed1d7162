"""Training with products in bfloat16: by the recipe, by Lightning Fabric, by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from alem import data, models, optim
from alem.training import Batches, Part, Recipe, TrainingStep, fit, predict, seeded

from .conftest import OPTIMIZERS, batch, network

LOW = torch.bfloat16


def digits() -> tuple[Part, Part]:
    d = data.digits()
    places = (d.train.nonzero().flatten()[:400], (~d.train).nonzero().flatten())
    return Part(d.matrices, d.labels, places[0]), Part(d.matrices, d.labels, places[1])


def test_digits_are_learned_to_about_the_accuracy_of_float32() -> None:
    train, test, accuracy = *digits(), {}
    for products in (None, "bfloat16"):
        recipe = Recipe("amsgrad", lr=2e-2, epochs=12, dtype="float32", products=products)
        net = seeded(0, lambda: models.SPDNet([7, 6], 10, chart_norm=True), torch.float32)
        fitted = fit(net, train, test, recipe)
        assert fitted.stopped is None
        accuracy[products] = fitted.history.test_accuracy[-1]
        assert all(p.dtype == torch.float32 for p in net.parameters())
        samples = Batches(test.matrices, test.labels, test.places, torch.float32, torch.device("cpu"))
        outputs = predict(net, samples, recipe.torch_products)
        assert outputs.dtype == torch.float32
        right = (outputs.argmax(-1) == test.labels[test.places]).double().mean()
        assert float(right) == accuracy[products]
    assert accuracy[None] > 0.7
    assert accuracy["bfloat16"] > accuracy[None] - 0.03


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float64", "products": "bfloat16"}, "need dtype float32"),
        ({"dtype": "float32", "products": "float16"}, "must be one of bfloat16"),
    ],
)
def test_recipes_that_make_no_sense(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe(**options)  # type: ignore[arg-type]


def test_a_step_lowers_products_alone_and_keeps_its_dtype() -> None:
    seen: dict[str, torch.dtype] = {}

    def loss(output: Tensor, y: Tensor) -> Tensor:
        seen["output"] = output.dtype
        return nn.functional.cross_entropy(output, y)

    results = []
    for products in (None, LOW):
        net = network()
        net.layers.head.register_forward_hook(lambda m, args, y, p=products: seen.update({str(p): y.dtype}))
        step = TrainingStep(net, optim.RiemannianSGD(net, lr=0.1), loss, products=products)
        value, output = step(*batch(0))
        results.append(output)
        assert value.dtype == output.dtype == torch.float32
        W = net.layers.bimap1.weight.detach()
        assert float((W @ W.mT - torch.eye(len(W))).abs().max()) < 1e-6
    assert seen == {"None": torch.float32, str(LOW): LOW, "output": torch.float32}
    off = float((results[0] - results[1]).abs().max() / results[0].abs().max())
    assert 1e-4 < off < 0.1


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_of_the_optimiser_within_autocast_is_that_without(name: str) -> None:
    nets = []
    for autocast in (False, True):
        net = network(norm="liebn", metric="aim", head="gyro")
        optimizer = OPTIMIZERS[name](net)
        for seed in range(2):
            X, y = batch(seed)
            loss = nn.functional.cross_entropy(net(X), y)
            optimizer.zero_grad()
            loss.backward()
            with torch.autocast("cpu", LOW, enabled=autocast):
                optimizer.step()
        nets.append(net)
    for p, q in zip(*(net.parameters() for net in nets), strict=True):
        assert torch.equal(p, q)


def test_fabric_trains_in_mixed_precision() -> None:
    from lightning_fabric import Fabric

    fabric, net = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed"), network(log="gap")
    model, optimizer = fabric.setup(net, optim.RiemannianAMSGrad(net, lr=0.02))
    X, y = batch(0, N=30)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        output = model(X)
        loss = nn.functional.cross_entropy(output, y)
        fabric.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
