"""Every layer with every metric it takes, with parameters away from their start."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from alem import geometry
from alem import nn as ann
from alem.testing import LayerCase
from tests.geometry.conftest import NAMES, learned_metric, spd, sym

SIZE, BATCH, CLASSES = 3, 4, 2


def unequal_alem(n: int = SIZE) -> geometry.Metric:
    """The paper's metric as it is after training, when it is none."""
    metric = geometry.metric("alem", n=n)
    with torch.no_grad():
        metric.diffeo.weight.copy_(torch.linspace(0.8, 1.3, n))
    return metric


METRICS: dict[str, Callable[[], geometry.Metric]] = {
    **{name: lambda name=name: learned_metric(name, SIZE) for name in NAMES},
    "(a,b)-lem": lambda: geometry.metric("lem", a=0.7, b=0.2),
    "alem-unequal": unequal_alem,
}
WITH_GROUP = [name for name, make in METRICS.items() if make().has_group]
WITH_CHART = [name for name, make in METRICS.items() if make().is_flat]
COMPLETE = [name for name, make in METRICS.items() if make().is_complete]
BY_RANK = ("alem", "alem-unequal", "rank")  # no derivative where eigenvalues meet

# Rules of ALog that are smooth where eigenvalues meet.
RULES = {
    "ln": True, "log2": True, "log10": True, "mul": False, "div": False,
    "relu": False, "exp": False, "sinh": True, "rank": False, "gap": True,
}  # fmt: skip


def moved(layer: nn.Module) -> nn.Module:
    """The layer with parameters that are not where they start, and not equal where they start equal."""
    generator = torch.Generator().manual_seed(3)
    own = [(name, p) for name, p in layer.named_parameters() if "metric" not in name.split(".")]
    with torch.no_grad():
        for _, p in own:
            if getattr(getattr(p, "manifold", None), "name", None) == "SPD":
                p.copy_(geometry.sample_wishart(*p.shape[:-2], n=p.shape[-1], generator=generator))
            elif not hasattr(p, "manifold"):
                p.add_(0.2 * torch.randn(p.shape, generator=generator))
    return layer


class ByDomain(nn.Module):
    """SPDBN on two domains, told apart by the matrices themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = ann.SPDBN(SIZE, domains=2, warmup=3)

    def forward(self, X: Tensor) -> Tensor:
        return self.norm(X, (X.diagonal(dim1=-2, dim2=-1).sum(-1) > SIZE).long())


def whitening() -> nn.Module:
    """Whiten with a root that is not the identity."""
    layer = ann.Whiten(SIZE).double()
    layer.calibrate([2.0 * spd(9, n=SIZE, seed=5)])
    return layer


def fused() -> nn.Module:
    """A run in which charts cancel and functions of the spectrum are joined."""
    return ann.fuse(
        nn.Sequential(
            ann.BiMap(4, SIZE),
            ann.LieBN(SIZE, METRICS["lem"]()),
            ann.ReEig(0.3),
            ann.ALog(SIZE, "gap"),
            ann.ChartNorm(SIZE),
            ann.Vech(),
            nn.Linear(6, CLASSES),
        )
    )


def case(make: Callable[[], nn.Module], X: Tensor, **options: object) -> LayerCase:
    return LayerCase(lambda: moved(make()), X, **options)


MATRICES, LARGER, SYMMETRIC = spd(BATCH, n=SIZE), spd(BATCH, n=4), sym(BATCH, n=SIZE)

LAYERS: dict[str, LayerCase] = {
    "BiMap/down": case(lambda: ann.BiMap(4, SIZE), LARGER),
    "BiMap/square": case(lambda: ann.BiMap(SIZE, SIZE), MATRICES),
    "BiMap/up": case(lambda: ann.BiMap(SIZE, 4), MATRICES),
    "ReEig": case(lambda: ann.ReEig(0.5), SYMMETRIC),
    "LogEig": case(ann.LogEig, MATRICES, spd=False),
    "ExpEig": case(ann.ExpEig, SYMMETRIC),
    **{
        f"ALog/{rule}": case(lambda rule=rule: ann.ALog(SIZE, rule), MATRICES, spd=False, smooth=smooth)
        for rule, smooth in RULES.items()
    },
    **{
        f"LieBN/{name}": case(
            lambda name=name: ann.LieBN(SIZE, METRICS[name]()), MATRICES, smooth=name not in BY_RANK
        )
        for name in WITH_GROUP
    },
    "SPDNetBN": case(lambda: ann.SPDNetBN(SIZE), MATRICES),
    "SPDBN": case(lambda: ann.SPDBN(SIZE, warmup=3), MATRICES),
    "SPDBN/domains": case(ByDomain, MATRICES),
    **{
        f"RResBlock/{name}": case(
            lambda name=name: ann.RResBlock(SIZE, METRICS[name]()),
            MATRICES,
            smooth=False,  # the response depends on the order of the eigenvalues
        )
        for name in COMPLETE
    },
    "RResBlock/alcm without a limit": case(
        lambda: ann.RResBlock(SIZE, METRICS["alcm"](), limit=None),
        MATRICES,
        smooth=False,
        unmoved=("metric.diffeo.theta",),  # geodesics do not know a chart from a linear function of it
    ),
    **{
        f"GyroMLR/{name}": case(
            lambda name=name: ann.GyroMLR(SIZE, CLASSES, METRICS[name]()),
            MATRICES,
            spd=False,
            smooth=name not in BY_RANK,
        )
        for name in METRICS
    },
    "ChartNorm": case(lambda: ann.ChartNorm(SIZE), SYMMETRIC, spd=False),
    **{
        f"ChartNorm/{name}": case(
            lambda name=name: ann.ChartNorm(SIZE, METRICS[name]()), MATRICES, smooth=name not in BY_RANK
        )
        for name in WITH_CHART
    },
    "CoordinateNorm": case(lambda: ann.CoordinateNorm(SIZE), SYMMETRIC[..., 0], spd=False),
    "CovPool": case(
        ann.CovPool,
        torch.randn(BATCH, SIZE, 8, generator=torch.Generator().manual_seed(4), dtype=torch.float64),
    ),
    "TraceNorm": case(ann.TraceNorm, MATRICES),
    "Whiten": case(whitening, MATRICES),
    "Vec": case(ann.Vec, MATRICES, spd=False),
    "Vech": case(ann.Vech, MATRICES, spd=False),
    "Fused": case(fused, LARGER, spd=False),
}
