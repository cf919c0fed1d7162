"""Which parameters of a model share a rate and a weight decay."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from alem.geometry import Diffeo, Metric


def parameter_groups(
    model: nn.Module, lr: float | Tensor, weight_decay: float, metric_lr: float
) -> list[dict[str, Any]]:
    """The parameters of a model in groups named ``weights``, ``vectors``, ``manifold`` and ``metric``.

    - ``metric``: what a :class:`Metric` or :class:`Diffeo` inside the model owns, at ``lr * metric_lr``;
    - ``manifold``: parameters with a manifold, which a decay to zero would leave;
    - ``weights``: of two dimensions or more, the only ones that decay;
    - ``vectors``: biases and scales.

    Each parameter once, in the order of ``model.parameters()``; empty groups are left out.
    """
    owners = (module for module in model.modules() if isinstance(module, (Metric, Diffeo)))
    metric = {p for owner in owners for p in owner.parameters()}
    members: dict[str, list[Tensor]] = {"weights": [], "vectors": [], "manifold": [], "metric": []}
    for p in model.parameters():
        if p in metric:
            name = "metric"
        elif manifold_of(p) is not None:
            name = "manifold"
        else:
            name = "weights" if p.ndim >= 2 else "vectors"
        members[name].append(p)
    return [
        {
            "params": params,
            "name": name,
            "lr": lr * metric_lr if name == "metric" else lr,
            "weight_decay": weight_decay if name == "weights" else 0.0,
        }
        for name, params in members.items()
        if params
    ]


def manifold_of(p: Tensor) -> Any:
    """The geoopt manifold of a parameter, or None if it is Euclidean."""
    return getattr(p, "manifold", None)
