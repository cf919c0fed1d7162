"""SPDNet, with every logarithm, norm and classifier of the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn

from alem.geometry import Metric
from alem.linalg import vech_dim
from alem.models.network import Layer, MetricChoice, Network, bimaps, metric_factory, require_classes
from alem.nn import SPDBN, ALog, ChartNorm, GyroMLR, LieBN, SPDNetBN, Vec, Vech

HEADS = ("linear", "gyro")
VECS = {"full": Vec, "vech": Vech}


class SPDNet(Network):
    """BiMap and ReEig in turn, a logarithm, a linear classifier (Huang, Van Gool 2017).

    - ``dims``: sizes of the matrices, the input's first; ReEig (at ``eps``) after every BiMap but the last;
    - ``log``: a rule of :class:`alem.nn.ALog` (``"ln"``, ``"log2"``, ``"log10"``, ``"mul"``, ``"div"``,
      ``"relu"``, ``"exp"``, ``"sinh"``, ``"rank"``, ``"gap"``), or a module;
    - ``norm``: after every BiMap, the last included: ``"spdnetbn"``, ``"spdbn"``, ``"liebn"`` or a function
      from n to a module;
    - ``head``: ``"linear"``, on all n² entries of the logarithm (``vec="full"``, the paper's) or on its
      n(n+1)/2 coordinates (``"vech"``); or ``"gyro"``, :class:`alem.nn.GyroMLR` in place of logarithm and
      classifier;
    - ``metric``: of LieBN and of the gyro head: a name of the catalogue, a metric, or a function from n to
      one; each layer has its own;
    - ``trace_norm`` scales the input to a mean eigenvalue of one; ``whiten`` then brings the mean of the
      training matrices to I (:class:`alem.nn.Whiten`, by :meth:`calibrate`); ``chart_norm`` normalises the
      coordinates of the logarithm over the batch; ``dropout`` drops some of them in training.

    No logarithm or norm draws random numbers: one seed gives the same BiMaps and the same linear
    classifier with each of them.
    """

    def __init__(
        self,
        dims: Sequence[int],
        n_classes: int,
        log: str | nn.Module = "ln",
        norm: str | Callable[[int], nn.Module] | None = None,
        head: str = "linear",
        chart_norm: bool = False,
        dropout: float = 0.0,
        trace_norm: bool = False,
        metric: MetricChoice = "lem",
        vec: str = "full",
        eps: float = 1e-4,
        whiten: bool = False,
    ) -> None:
        make_metric = metric_factory(metric)
        layers = bimaps(dims, eps, _norm_factory(norm, make_metric), trace_norm, whiten)
        require_classes(n_classes)
        n = dims[-1]
        if head == "gyro":
            if log != "ln" or chart_norm or dropout or vec != "full":
                raise ValueError(
                    "the gyro head takes the matrices themselves: its logarithm is that of metric=, and "
                    "log=, chart_norm=, dropout= and vec= belong to head='linear'"
                )
            layers.append(Layer("head", GyroMLR(n, n_classes, make_metric(n)), f"{n_classes}"))
        elif head == "linear":
            layers += _linear_head(n, n_classes, log, chart_norm, dropout, vec)
        else:
            raise ValueError(f"head must be one of {', '.join(HEADS)}, got {head!r}")
        super().__init__(layers)


def _norm_factory(
    norm: str | Callable[[int], nn.Module] | None, make_metric: Callable[[int], Metric]
) -> Callable[[int], nn.Module] | None:
    if isinstance(norm, nn.Module):
        raise TypeError("norm must make a module for each size, as lambda n: SPDBN(n) does; got a module")
    if norm is None or callable(norm):
        return norm
    makers: dict[str, Callable[[int], nn.Module]] = {
        "spdnetbn": SPDNetBN,
        "spdbn": SPDBN,
        "liebn": lambda n: LieBN(n, make_metric(n)),
    }
    if norm not in makers:
        raise ValueError(f"norm must be one of {', '.join(makers)}, a function of n, or None; got {norm!r}")
    return makers[norm]


def _linear_head(
    n: int, n_classes: int, log: str | nn.Module, chart_norm: bool, dropout: float, vec: str
) -> list[Layer]:
    if vec not in VECS:
        raise ValueError(f"vec must be one of {', '.join(VECS)}, got {vec!r}")
    features = n * n if vec == "full" else vech_dim(n)
    layers = [Layer("log", ALog(n, log) if isinstance(log, str) else log, f"{n}×{n}")]
    if chart_norm:
        layers.append(Layer("chart_norm", ChartNorm(n), f"{n}×{n}"))
    layers.append(Layer("vec", VECS[vec](), f"{features}"))
    if dropout:
        layers.append(Layer("dropout", nn.Dropout(dropout), f"{features}"))
    layers.append(Layer("head", nn.Linear(features, n_classes), f"{n_classes}"))
    return layers
