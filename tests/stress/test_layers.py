"""Every layer on spectra of every kind gives numbers and gradients, or an error by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from alem import geometry, models
from alem import nn as ann

from .spectra import Hard, hard, outcome
from .test_metrics import metric

RULES = ("ln", "log2", "log10", "mul", "div", "relu", "sinh", "rank", "gap")
WITH_GROUP = ("lem", "lcm", "alem", "alcm", "sinh", "rank", "gap", "aim")
FLAT = tuple(name for name in WITH_GROUP if name != "aim")

Make = Callable[[int, torch.dtype], nn.Module]

LAYERS: dict[str, Make] = {
    "BiMap": lambda n, dtype: ann.BiMap(n, max(1, n // 2)),
    "ReEig": lambda n, dtype: ann.ReEig(),
    "LogEig": lambda n, dtype: ann.LogEig(),
    "TraceNorm": lambda n, dtype: ann.TraceNorm(),
    "Vech": lambda n, dtype: ann.Vech(),
    "SPDNetBN": lambda n, dtype: ann.SPDNetBN(n),
    "SPDBN": lambda n, dtype: ann.SPDBN(n),
    **{f"ALog/{rule}": lambda n, dtype, rule=rule: ann.ALog(n, rule) for rule in RULES},
    **{f"LieBN/{m}": lambda n, dtype, m=m: ann.LieBN(n, metric(m, n, dtype)) for m in WITH_GROUP},
    **{f"ChartNorm/{m}": lambda n, dtype, m=m: ann.ChartNorm(n, metric(m, n, dtype)) for m in FLAT},
    **{f"RResBlock/{m}": lambda n, dtype, m=m: ann.RResBlock(n, metric(m, n, dtype)) for m in WITH_GROUP},
    **{
        f"GyroMLR/{m}": lambda n, dtype, m=m: ann.GyroMLR(n, 3, metric(m, n, dtype))
        for m in (*WITH_GROUP, "bwm")
    },
    "SPDNet": lambda n, dtype: models.SPDNet([n, max(1, n // 2)], 3, log="gap", chart_norm=True),
    "SPDNet/trace norm": lambda n, dtype: models.SPDNet([n, n], 3, norm="liebn", trace_norm=True),
    "RResNet": lambda n, dtype: models.RResNet([n, max(1, n // 2)], 3, "lem"),
}
# Their statistics start at the identity, or are squares: of matrices of far another size they say so.
SIZED = ("LieBN/lcm", "LieBN/alcm", "ChartNorm/lcm", "ChartNorm/alcm", "RResBlock", "RResNet")
# In float32 the derivative of a mean^-½ of size 1e-30 is no float: the optimisers refuse such gradients.
NO_GRADIENT = ("SPDNetBN", "SPDBN")
# Those whose results are relative to a mean, or to a point that is learned.
RELATIVE = ("SPDNetBN", "SPDBN", "LieBN/aim", "RResBlock/aim", "GyroMLR/aim", "GyroMLR/bwm")


def computed(name: str, case: Hard) -> list[Tensor]:
    """Output and gradients of the input and the parameters, in training."""
    torch.manual_seed(0)
    layer = LAYERS[name](case.n, case.dtype).to(case.dtype).train()
    X = case.matrices(4).requires_grad_()
    Y = layer(X)
    (Y.square().sum() / (1 + Y.detach().square().sum())).backward()
    return [Y.detach(), *(t.grad for t in (X, *layer.parameters()) if t.grad is not None)]


@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    wrong = []
    for case in hard(name):
        found = outcome(lambda c: computed(name, c), case, 2 if name in RELATIVE else 1)
        if name.startswith(SIZED) and case.scale != 1.0 and found.startswith("an error"):
            continue
        if name in NO_GRADIENT and case.scale < 1.0 and case.dtype == torch.float32:
            continue
        if found not in ("finite", "an error", "beyond the range"):
            wrong.append(f"{found} ({case})")
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize(
    "name", [name for name in LAYERS if name not in ("Vech", "ReEig", "BiMap", "TraceNorm")]
)
def test_an_indefinite_matrix_is_an_error_and_reeig_before_it_mends_it(name: str) -> None:
    layer = LAYERS[name](4, torch.float64).double().train()
    X = geometry.sample_wishart(6, n=4, dtype=torch.float64)
    X[3] -= 2 * torch.linalg.eigvalsh(X[3])[-1] * torch.eye(4, dtype=X.dtype)
    if not name.startswith(("SPDNet", "RResNet")) or name == "SPDNetBN":
        with pytest.raises((ValueError, ArithmeticError), match=r"positive definite|converge"):
            layer(X)
    assert layer(ann.ReEig()(X)).isfinite().all()
