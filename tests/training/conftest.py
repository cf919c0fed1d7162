"""Models, batches and changes that the tests of the training step share."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from alem import geometry, models, optim

Factory = Callable[[nn.Module], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Factory] = {
    "sgd": functools.partial(optim.RiemannianSGD, lr=0.05),
    "nesterov": functools.partial(optim.RiemannianSGD, lr=0.02, momentum=0.9, nesterov=True),
    "amsgrad": functools.partial(optim.RiemannianAMSGrad, lr=0.01, weight_decay=1e-3, metric_lr=0.5),
}


def batch(seed: int, N: int = 8, n: int = 7, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    X = geometry.sample_wishart(N, n=n, generator=generator, dtype=torch.float64)
    return X.to(dtype), torch.arange(N) % 3


def network(seed: int = 0, **options: object) -> models.SPDNet:
    torch.manual_seed(seed)
    return models.SPDNet([7, 5, 4], 3, **options)  # type: ignore[arg-type]


@pytest.fixture(params=OPTIMIZERS)
def make(request: pytest.FixtureRequest) -> Factory:
    return OPTIMIZERS[request.param]


class Changes:
    """Everything that a graph would not notice."""

    @staticmethod
    def mode(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        model.layers.norm1.eval()

    @staticmethod
    def number(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        model.layers.norm1.momentum = 0.3

    @staticmethod
    def frozen(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        model.layers.head.weight.requires_grad_(False)

    @staticmethod
    def data(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        model.layers.head.weight.data = model.layers.head.weight.data.clone()

    @staticmethod
    def parameter(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        model.layers.head.weight = nn.Parameter(model.layers.head.weight.detach())

    @staticmethod
    def buffer(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        model.layers.norm1.running_mean = model.layers.norm1.running_mean.clone()

    @staticmethod
    def option(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.param_groups[0]["weight_decay"] = 0.1

    @staticmethod
    def one_rate(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.param_groups[0]["lr"] *= 0.5

    @staticmethod
    def loaded(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.load_state_dict(optimizer.state_dict())

    @staticmethod
    def hook(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.register_step_post_hook(lambda *_: None)


CHANGES = [name for name in vars(Changes) if not name.startswith("_")]
