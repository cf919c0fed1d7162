"""Within autocast every layer computes what it does without, but for the products of BiMap."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from alem import linalg
from alem import nn as ann
from alem.linalg import native, precision
from alem.testing.comparing import functionals
from tests.geometry.conftest import spd

from .conftest import LAYERS

HALF = torch.bfloat16
LOWERED = ("BiMap/", "Fused")  # products of BiMap, and of the linear layer in the run
FULL = [name for name in LAYERS if not name.startswith(LOWERED)]
pytestmark = pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")


def everything(layer: str, X: Tensor, autocast: bool, inside: bool) -> dict[str, Tensor]:
    """Of a forward pass in float32: output, buffers, and gradients, taken inside of the region or not."""
    case = LAYERS[layer]
    module = case.build(training=True).float()
    X = X.detach().requires_grad_()
    parameters = dict(module.named_parameters())
    with torch.autocast("cpu", HALF, enabled=autocast):
        Y = case.run(module, X)
        loss = functionals(Y.double(), 1).sum()
        if inside:
            grads = torch.autograd.grad(loss, [X, *parameters.values()])
    if not inside:
        grads = torch.autograd.grad(loss, [X, *parameters.values()])
    buffers = {f"buffer {name}": b for name, b in module.named_buffers()}
    return {"output": Y, "input": grads[0], **dict(zip(parameters, grads[1:], strict=True)), **buffers}


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("layer", FULL)
def test_autocast_changes_no_bit(layer: str, inside: bool) -> None:
    X = LAYERS[layer].X.float()
    expected, found = (everything(layer, X, autocast, inside) for autocast in (False, True))
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert torch.equal(found[name], value), name


@pytest.mark.parametrize("layer", FULL)
def test_the_way_by_double_precision_agrees(layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one of compiled graphs, transforms and TF32."""
    X = LAYERS[layer].X.float()
    expected = everything(layer, X, False, True)
    monkeypatch.setattr(precision, "_differentiates_elsewhere", lambda: True)
    for name, value in everything(layer, X, True, True).items():
        assert value.dtype == expected[name].dtype, name
        torch.testing.assert_close(value, expected[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("layer", FULL)
def test_half_precision_is_taken_up(layer: str) -> None:
    case = LAYERS[layer]
    X = linalg.symmetrize(case.X.to(HALF).float()) if case.symmetric else case.X.to(HALF).float()
    X = X.to(HALF)
    module, same = (case.build(training=True).float() for _ in range(2))
    with torch.autocast("cpu", HALF):
        found = case.run(module, X)
    assert found.dtype == torch.float32
    assert torch.equal(found, case.run(same, X.float()))


def test_half_precision_is_taken_up_by_keyword() -> None:
    X, layer = spd(4, n=3).to(HALF), ann.SPDBN(3, domains=2).eval()
    with torch.autocast("cpu", HALF):
        assert torch.equal(layer(X=X, domain=[0, 0, 1, 1]), layer(X.float(), [0, 0, 1, 1]))


@pytest.mark.parametrize("layer", ["ReEig", "LogEig", "LieBN/lem", "SPDNetBN", "TraceNorm", "Vech"])
def test_half_precision_is_an_error_elsewhere(layer: str) -> None:
    case = LAYERS[layer]
    with pytest.raises(linalg.InvalidMatrixError, match="float32"):
        case.build(training=True).float()(case.X.to(HALF))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_bimap_multiplies_in_half_precision_and_returns_symmetric_single(kind: torch.dtype) -> None:
    torch.manual_seed(0)
    layer, X = ann.BiMap(8, 5), spd(6, n=8).float()
    exact, reached = layer(X).detach(), []
    for inside in (True, False):
        layer.zero_grad()
        with torch.autocast("cpu", kind):
            Y = layer(X)
            if inside:
                Y.square().sum().backward()
        if not inside:
            Y.square().sum().backward()
        reached.append(layer.weight.grad.clone())
    assert Y.dtype == torch.float32
    assert torch.equal(Y, Y.mT)
    eps = torch.finfo(kind).eps
    assert eps / 100 < float((Y.detach() - exact).abs().max() / exact.abs().max()) < 4 * eps
    layer.zero_grad()
    layer(X).square().sum().backward()
    assert torch.equal(*reached)
    off = (reached[0] - layer.weight.grad).abs().max() / layer.weight.grad.abs().max()
    assert eps / 100 < float(off) < 8 * eps


def test_small_eigenvalues_need_reeig_after_a_product_in_half_precision() -> None:
    torch.manual_seed(0)
    bimap, U = ann.BiMap(8, 5), torch.linalg.qr(torch.randn(6, 8, 8)).Q
    X = linalg.symmetrize((U * torch.logspace(-6, 0, 8)) @ U.mT)
    with torch.autocast("cpu", HALF):
        with pytest.raises(linalg.NotPositiveDefiniteError):
            ann.LogEig()(bimap(X))
        assert ann.LogEig()(ann.ReEig(1e-2)(bimap(X))).isfinite().all()


def test_double_precision_is_not_lowered() -> None:
    layer, X = ann.BiMap(8, 5).double(), spd(6, n=8)
    with torch.autocast("cpu", HALF):
        found = layer(X)
    assert torch.equal(found, layer(X))


@pytest.mark.parametrize(
    "layer", ["SPDNetBN", "SPDBN", "GyroMLR/lem", "GyroMLR/aim", "RResBlock/lem", "Whiten"]
)
def test_a_compiled_graph_keeps_all_digits(layer: str) -> None:
    case = LAYERS[layer]
    reached = []
    for compiled in (False, True):
        module, X = case.build(training=True).float(), case.X.float().requires_grad_()
        run = torch.compile(module, fullgraph=True, backend="aot_eager") if compiled else module
        with torch.autocast("cpu", HALF):
            Y = case.run(run, X)
        grads = torch.autograd.grad(Y.double().square().sum(), [X, *module.parameters()])
        reached.append([Y, *grads])
    assert reached[1][0].dtype == torch.float32
    for found, expected in zip(reached[1], reached[0], strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_a_compiled_bimap_is_the_eager_one() -> None:
    case = LAYERS["BiMap/up"]
    module, X = case.build(training=True).float(), case.X.float()
    with torch.autocast("cpu", HALF):
        found = torch.compile(module, fullgraph=True, backend="aot_eager")(X)
        torch.testing.assert_close(found, module(X), rtol=1e-5, atol=1e-6)  # the identity that is added


class Watched:
    """The functions that decompose or solve, with what they were given and whether autocast was on."""

    TORCH = ("eigh", "eigvalsh", "cholesky", "cholesky_ex", "qr", "svd", "solve", "solve_triangular")
    NATIVE = ("eigh", "exceeds", "function", "derivative", "hadamard")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, bool, bool]] = []
        for module, names in ((torch.linalg, self.TORCH), (native, self.NATIVE)):
            for name in names:
                monkeypatch.setattr(module, name, self.watching(name, getattr(module, name)))

    def watching(self, name: str, function: object) -> object:
        def watched(*args: object, **kwargs: object) -> object:
            half = any(isinstance(a, Tensor) and a.dtype in (torch.bfloat16, torch.float16) for a in args)
            self.calls.append((name, half, torch.is_autocast_enabled("cpu")))
            return function(*args, **kwargs)  # type: ignore[operator]

        return watched


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


@pytest.mark.parametrize("layer", LAYERS)
def test_nothing_is_decomposed_in_half_precision_or_within_autocast(layer: str, watched: Watched) -> None:
    case = LAYERS[layer]
    module = case.build(training=True).float()
    watched.calls.clear()
    with torch.autocast("cpu", HALF):
        Y = case.run(module, case.X.float().requires_grad_())
        functionals(Y.double(), 1).sum().backward()
    if not layer.startswith(
        ("BiMap", "ChartNorm", "CoordinateNorm", "CovPool", "TraceNorm", "Whiten", "Vec")
    ):
        assert watched.calls
    assert not [name for name, half, autocast in watched.calls if half or autocast]


class Multiplied(nn.Module):
    """A layer of a user's own, with a plain product, between two of the library."""

    def forward(self, X: Tensor) -> Tensor:
        return X @ X.mT


def test_what_is_not_ours_is_lowered_as_torch_does() -> None:
    net = nn.Sequential(ann.ReEig(0.3), Multiplied(), ann.LogEig())
    X = spd(4, n=3).float()
    with torch.autocast("cpu", HALF):
        product = net[:2](X)
        assert product.dtype == HALF
        assert net(X).dtype == torch.float32
