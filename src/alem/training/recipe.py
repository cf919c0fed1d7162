"""How a network is trained, in numbers that fit on one screen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from alem import optim
from alem.optim.riemannian import RiemannianOptimizer

OPTIMIZERS = ("rsgd", "amsgrad")
SCHEDULES = ("constant", "cosine")
DTYPES = {"float32": torch.float32, "float64": torch.float64}
PRODUCTS = {"bfloat16": torch.bfloat16}  # not float16, whose gradients vanish unless losses are scaled


@dataclass(frozen=True)
class Recipe:
    """Everything about training but the network, the data and the seed; the defaults are the paper's.

    - ``optimizer``: ``"rsgd"`` or ``"amsgrad"``, the Riemannian ones of :mod:`alem.optim`;
    - ``lr``, ``metric_lr`` (multiplies the rate of what metrics and learned logarithms own), ``momentum``
      (of rsgd), ``weight_decay``;
    - ``schedule``: ``"constant"``, or ``"cosine"`` from ``lr`` at the first epoch towards 0 after the last;
    - ``epochs``, ``batch_size``, ``dtype``; ``max_norm`` clips the norm of the gradient;
    - ``products``: None, or ``"bfloat16"`` with dtype float32: that of the products of BiMap and of layers
      on vectors, by autocast; all else stays in float32.
    """

    optimizer: str = "rsgd"
    lr: float = 1e-2
    metric_lr: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: str = "constant"
    epochs: int = 200
    batch_size: int = 30
    dtype: str = "float64"
    max_norm: float | None = None
    products: str | None = None

    def __post_init__(self) -> None:
        for name, value, known in (
            ("optimizer", self.optimizer, OPTIMIZERS),
            ("schedule", self.schedule, SCHEDULES),
            ("dtype", self.dtype, DTYPES),
        ):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        if self.products is not None and self.products not in PRODUCTS:
            raise ValueError(
                f"products must be one of {', '.join(PRODUCTS)}, or None, got {self.products!r}"
            )
        if self.products is not None and self.dtype != "float32":
            raise ValueError(
                f"products in {self.products} need dtype float32; autocast leaves {self.dtype} alone"
            )
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 at least, got {getattr(self, name)}")
        for name in ("lr", "metric_lr", "momentum", "weight_decay"):
            # A whole number is the same recipe, and has to look the same in a record.
            object.__setattr__(self, name, float(getattr(self, name)))
        for name in ("lr", "metric_lr"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {getattr(self, name)}")
        if self.max_norm is not None and not 0.0 < self.max_norm < math.inf:
            raise ValueError(f"max_norm must be positive and finite, or None, got {self.max_norm}")
        if self.momentum and self.optimizer != "rsgd":
            raise ValueError(f"momentum belongs to rsgd; {self.optimizer} has its own")

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype itself."""
        return DTYPES[self.dtype]

    @property
    def torch_products(self) -> torch.dtype | None:
        """That of matrix products, where it is another."""
        return None if self.products is None else PRODUCTS[self.products]

    def make_optimizer(self, model: nn.Module) -> RiemannianOptimizer:
        """The optimiser, over the parameters of ``model``."""
        if self.optimizer == "amsgrad":
            return optim.RiemannianAMSGrad(
                model, lr=self.lr, weight_decay=self.weight_decay, metric_lr=self.metric_lr
            )
        return optim.RiemannianSGD(
            model,
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            metric_lr=self.metric_lr,
        )

    def factor(self, epoch: int) -> float:
        """What the rates of ``epoch``, counted from 0, are multiplied by."""
        if self.schedule == "constant":
            return 1.0
        return 0.5 * (1.0 + math.cos(math.pi * epoch / self.epochs))
