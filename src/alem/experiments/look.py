"""What a trained network has learned about the geometry: its parameters, and spectra before and after."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from alem import linalg
from alem.geometry import Diffeo, RankLog
from alem.geometry.diffeo import SpectralChart
from alem.nn import GyroMLR, LogEig
from alem.training import Batches

QUANTILES = (0.05, 0.5, 0.95)


def learned(model: nn.Module) -> dict[str, Any]:
    """The parameters of each chart in the model, by name, and its multipliers by rank if it has such."""
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        if not isinstance(module, Diffeo):
            continue
        values = {key: _list(p) for key, p in module.named_parameters(recurse=False)}
        if values:
            found[name] = {"kind": type(module).__name__, "parameters": values}
            if isinstance(module, RankLog):
                found[name] |= {"rule": module.rule, "multipliers": _list(module._multipliers())}
    return found


@torch.no_grad()
def spectra(model: nn.Module, samples: Batches, size: int = 512) -> dict[str, Any] | None:
    """Eigenvalues, by rank, of what enters the last logarithm (as ln σ) and of what leaves it.

    For each rank the 5 %, 50 % and 95 % quantiles over the samples; None if the model has no logarithm.
    """
    layers = getattr(model, "layers", model)
    children = list(layers.children())
    place = next((i for i, m in enumerate(children) if isinstance(m, (LogEig, GyroMLR))), None)
    if place is None:
        return None
    chart = _chart(children[place])
    if chart is None:
        return None
    model.eval()
    before, after = [], []
    for _, X, _ in samples.run(size):
        for layer in children[:place]:
            X = layer(X)
        before.append(linalg.eigvalsh(linalg.symmetrize(X)).log())
        Y = chart(X)
        after.append(linalg.eigvalsh(linalg.symmetrize(Y)))
    return {
        "quantiles": list(QUANTILES),
        "before": _quantiles(torch.cat(before)),
        "after": _quantiles(torch.cat(after)),
    }


def _chart(layer: nn.Module) -> Any:
    """The logarithm of a layer, if it has eigenvalues: a Cholesky chart has none."""
    owner = layer if isinstance(layer, LogEig) else getattr(layer, "metric", None)
    diffeo = getattr(owner, "diffeo", None)
    return diffeo.chart if isinstance(diffeo, SpectralChart) else None


def _quantiles(values: Tensor) -> list[list[float]]:
    levels = torch.tensor(QUANTILES, dtype=values.dtype, device=values.device)
    return [_list(row) for row in values.quantile(levels, dim=0)]


def _list(values: Tensor) -> list[float]:
    """Six significant digits."""
    return [float(f"{v:.6g}") for v in values.detach().flatten().tolist()]
