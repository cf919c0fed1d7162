"""Layers, parameters and networks in the hands of other libraries."""

from __future__ import annotations

import io
import warnings
from typing import Any

import geoopt
import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from torch import Tensor, nn

import alem.nn as an
from alem import models

from .estimators.conftest import classes_of_spd


def tensors(count: int = 60) -> tuple[Tensor, Tensor]:
    X, y = classes_of_spd(count)
    return torch.from_numpy(X), torch.from_numpy(np.unique(y, return_inverse=True)[1])


def by_hand() -> nn.Sequential:
    """Layers of the library and of torch, in a container of torch."""
    return nn.Sequential(
        an.BiMap(4, 3), an.ReEig(), an.ALog(3, "gap"), an.Vech(), nn.BatchNorm1d(6), nn.Linear(6, 3)
    ).double()


@pytest.mark.parametrize(
    "make",
    [
        lambda p: geoopt.optim.RiemannianAdam(p, lr=0.02),
        lambda p: geoopt.optim.RiemannianSGD(p, lr=0.02),
    ],
)
def test_optimisers_of_geoopt_take_our_parameters(make: Any) -> None:
    torch.manual_seed(0)
    X, y = tensors()
    for net in (by_hand(), models.SPDNet([4, 3], 3, log="mul", norm="liebn", metric="lcm").double()):
        optimizer = make(net.parameters())
        losses = []
        for _ in range(60):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(X), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.8 * losses[0]
        W = next(p for p in net.parameters() if isinstance(p, geoopt.ManifoldParameter))
        gram = W.mT @ W if W.shape[-2] >= W.shape[-1] else W @ W.mT
        torch.testing.assert_close(gram, torch.eye(3, dtype=W.dtype), atol=1e-9, rtol=0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_a_lightning_module_trains_our_network() -> None:
    import lightning

    from alem import optim

    class Lit(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = models.SPDNet([4, 4], 3, log="gap", chart_norm=True).double()
            self.losses: list[float] = []

        def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
            X, y = batch
            loss = nn.functional.cross_entropy(self.net(X), y)
            self.losses.append(float(loss.detach()))
            return loss

        def configure_optimizers(self) -> Any:
            return optim.RiemannianAMSGrad(self, lr=0.02, metric_lr=0.1)

    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(*tensors())
    module = Lit()
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=10,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=30, shuffle=True))
    assert np.mean(module.losses[-4:]) < 0.7 * np.mean(module.losses[:4])


def test_skorch_searches_over_our_network() -> None:
    from skorch import NeuralNetClassifier

    from alem import optim

    X, y = (t.numpy() for t in tensors())

    torch.manual_seed(0)
    net = NeuralNetClassifier(
        models.SPDNet,
        module__dims=[4, 3],
        module__n_classes=3,
        criterion=nn.CrossEntropyLoss,
        optimizer=optim.RiemannianAMSGrad,
        optimizer__lr=0.02,
        max_epochs=8,
        batch_size=30,
        train_split=None,
        verbose=0,
        iterator_train__shuffle=True,
    )
    search = GridSearchCV(net, {"module__log": ["ln", "sinh"]}, cv=2, error_score="raise")
    search.fit(X.astype(np.float32), y)
    assert search.best_score_ > 0.6


NETWORKS: dict[str, dict[str, Any]] = {
    "recommended": {
        "log": "gap",
        "whiten": True,
        "trace_norm": True,
        "chart_norm": True,
        "dropout": 0.5,
        "vec": "vech",
    },
    **{log: {"log": log} for log in ("ln", "mul", "sinh", "rank")},
    "spdnetbn": {"norm": "spdnetbn"},
    "liebn": {"norm": "liebn", "metric": "gap"},
    "gyro": {"head": "gyro", "metric": "lcm"},
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_exported_for_inference(name: str) -> None:
    """torch.export, with any number of matrices, through a file."""
    torch.manual_seed(0)
    X, _ = tensors()
    net = models.SPDNet([4, 4, 3], 3, **NETWORKS[name]).double()
    net.calibrate([X])
    net(X)
    net.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(net, (X,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        again = torch.export.load(file).module()
    with torch.no_grad():
        for part in (X, X[:1], X[:7]):
            torch.testing.assert_close(again(part), net(part), rtol=1e-10, atol=1e-10)
