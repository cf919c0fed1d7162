from __future__ import annotations

import copy
import importlib
import pickle

import pytest
import torch
from torch.nn import Sequential

from alem import geometry, nn
from alem.linalg import InvalidMatrixError
from alem.nn.eig import RULES

from ..geometry.conftest import FLAT, learned_metric, spd


def shake(module: torch.nn.Module) -> torch.nn.Module:
    """Parameters away from their start, so that nothing is trivial; SPD ones stay SPD."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, p in module.named_parameters():
            if not name.endswith("weight") or "diffeo" in name:
                step = 0.05 * torch.rand(p.shape[-1:] or (1,), generator=generator, dtype=p.dtype)
                p.copy_(p + (torch.diag(step) if p.ndim == 2 else step.reshape(p.shape)))
    return module


spectral_module = importlib.import_module("alem.linalg.spectral")  # the package has a function of that name
METRIC = {name: learned_metric(name, 4) for name in FLAT}
UNEQUAL = geometry.AdaptiveLogEuclidean(4)
with torch.no_grad():
    UNEQUAL.diffeo.weight.copy_(torch.tensor([1.3, 0.8, 1.4, 0.7]))


def runs() -> dict[str, Sequential]:
    cases: dict[str, Sequential] = {
        f"reeig {rule}": Sequential(nn.ReEig(0.5), nn.ALog(4, rule)) for rule in RULES
    }
    cases |= {f"liebn {name} reeig log": Sequential(nn.LieBN(4, m), nn.ReEig(0.5), nn.LogEig())
              for name, m in METRIC.items()}  # fmt: skip
    cases |= {
        f"liebn {name} twice": Sequential(nn.LieBN(4, m), nn.LieBN(4, m)) for name, m in METRIC.items()
    }
    cases |= {
        f"liebn {name} gyro": Sequential(nn.LieBN(4, m), nn.GyroMLR(4, 3, m)) for name, m in METRIC.items()
    }
    cases |= {
        "log exp": Sequential(nn.LogEig(), nn.ExpEig()),
        "liebn alem log": Sequential(nn.LieBN(4, UNEQUAL), nn.LogEig()),
        "chart norm alem log": Sequential(nn.ChartNorm(4, UNEQUAL), nn.LogEig()),
        "exp log": Sequential(nn.ExpEig(), nn.LogEig()),
        "other base": Sequential(nn.ExpEig(), nn.ALog(4, "log2")),
        "nested": Sequential(
            Sequential(nn.BiMap(4, 4), nn.ReEig(0.5)), Sequential(nn.ALog(4, "gap"), nn.Vech())
        ),
        "rank after mul": Sequential(nn.ALog(4, "mul"), nn.ExpEig(), nn.ALog(4, "rank")),
        "chart norm": Sequential(nn.ChartNorm(4, METRIC["gap"]), nn.ReEig(0.5), nn.ALog(4, "sinh")),
        "aim": Sequential(nn.LieBN(4, geometry.AffineInvariant()), nn.ReEig(0.5), nn.LogEig()),
        "residual": Sequential(nn.ReEig(0.5), nn.RResBlock(4, METRIC["sinh"]), nn.LogEig()),
    }
    return cases


@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("case", runs())
def test_values_gradients_and_statistics_are_those_of_the_plain_run(case: str, mode: str) -> None:
    plain = shake(copy.deepcopy(runs()[case]).double())
    fused = nn.fuse(copy.deepcopy(plain))
    plain.train(mode == "train")
    fused.train(mode == "train")
    assert list(fused.state_dict()) == list(plain.state_dict())
    # One eigenvalue below the 0.5 of ReEig: with two, the paper's chart has no value that is right.
    U = torch.linalg.qr(torch.randn(6, 4, 4, dtype=torch.float64))[0]
    spectrum = torch.tensor([0.2, 0.8, 1.5, 3.0], dtype=torch.float64) + 0.1 * torch.rand(6, 4)
    X = ((U * spectrum[:, None, :]) @ U.mT).requires_grad_()
    expected, found = plain(X), fused(X)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    G = torch.randn_like(expected)
    leaves = [(X, *plain.parameters()), (X, *fused.parameters())]
    grads = [
        torch.autograd.grad((Y * G).sum(), p, allow_unused=True, materialize_grads=True)
        for Y, p in zip((expected, found), leaves, strict=True)
    ]
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(
        dict(fused.named_buffers()), dict(plain.named_buffers()), rtol=1e-9, atol=1e-9
    )


def test_the_papers_inverse_warns_in_a_run_too_and_keeps_what_no_matrix_holds() -> None:
    """Coordinates that far apart are those of no positive definite matrix that double precision holds."""
    run = Sequential(nn.LieBN(4, copy.deepcopy(UNEQUAL)), nn.LogEig()).double()
    with torch.no_grad():
        run[0].scale.fill_(100.0)
    fused, X = nn.fuse(run), spd(6)
    with pytest.warns(geometry.NotADiffeomorphismWarning):
        Y = fused(X)
    x, U = torch.linalg.eigh(run[0].in_coordinates(run[0].metric.chart(X)))
    torch.testing.assert_close(Y, (U * (x / run[0].metric.diffeo.weight)[..., None, :]) @ U.mT)
    with pytest.raises(InvalidMatrixError):
        run(X)


@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
@pytest.mark.parametrize(
    ("case", "before", "after"),
    [
        ("reeig mul", 2, 1),
        ("reeig gap", 2, 1),
        ("exp log", 2, 0),
        ("log exp", 2, 1),
        ("liebn sinh gyro", 3, 1),
        ("liebn rank reeig log", 4, 2),
        ("liebn alem log", 3, 2),
        ("nested", 2, 1),
    ],
)
def test_decompositions_are_saved(
    case: str, before: int, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = copy.deepcopy(runs()[case]).double().eval()
    fused = nn.fuse(plain)
    count = 0
    decompose = spectral_module.decompose

    def counted(X: torch.Tensor, vectors: bool) -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal count
        count += X.ndim > 2  # of batches: the bias and the running mean are single matrices
        return decompose(X, vectors)

    monkeypatch.setattr(spectral_module, "decompose", counted)
    X = spd(5)
    plain(X)
    assert count == before
    count = 0
    fused(X)
    assert count == after


def test_parameters_are_shared_and_the_original_is_left_alone() -> None:
    plain = Sequential(nn.BiMap(4, 3), nn.ReEig(), nn.ALog(3, "sinh"))
    fused = nn.fuse(plain)
    assert isinstance(plain, Sequential)
    assert [id(p) for p in fused.parameters()] == [id(p) for p in plain.parameters()]
    assert len(fused) == 3
    assert fused[2] is plain[2]
    assert nn.fuse(fused) is fused


def test_runs_inside_a_module_are_fused_and_the_rest_is_kept() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = Sequential(nn.ReEig(), nn.LogEig())
            self.head = torch.nn.Linear(16, 2)

        def forward(self, X: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(X).flatten(-2))

    net = Net().double()
    fused = nn.fuse(net)
    assert isinstance(fused, Net)
    assert isinstance(net.body, Sequential)
    assert isinstance(fused.body, nn.Fused)
    assert fused.head is net.head
    X = spd(3)
    torch.testing.assert_close(fused(X), net(X))
    head = torch.nn.Linear(3, 2)
    assert nn.fuse(head) is head


def test_the_papers_chart_does_not_cancel() -> None:
    m = geometry.AdaptiveLogEuclidean(2).double()
    with torch.no_grad():
        m.diffeo.weight.copy_(torch.tensor([2.0, 1.0]))
    layer = nn.ALog(2, "mul")
    layer.diffeo = m.diffeo
    run = Sequential(nn.LieBN(2, m).double(), layer).eval()
    X = torch.diag(torch.tensor([1.0, 1.5], dtype=torch.float64).exp())
    with pytest.warns(geometry.NotADiffeomorphismWarning):
        torch.testing.assert_close(nn.fuse(run)(X), run(X))


def test_copies_of_a_fused_run_use_their_own_layers() -> None:
    fused = nn.fuse(Sequential(nn.ReEig(), nn.ALog(4, "sinh"))).double()
    X = spd(3)
    before = fused(X).detach()
    for clone in (copy.deepcopy(fused), pickle.loads(pickle.dumps(fused))):
        torch.testing.assert_close(clone(X).detach(), before)
        with torch.no_grad():
            clone[1].diffeo.theta.fill_(0.5)
        assert (clone(X) - before).abs().max() > 0.01
        torch.testing.assert_close(fused(X).detach(), before)


def test_children_may_be_replaced_after_fusing() -> None:
    fused = nn.fuse(Sequential(nn.ReEig(), nn.LogEig(), nn.Vech(), torch.nn.Linear(10, 3))).double()
    X = spd(2)
    assert fused(X).shape == (2, 3)
    setattr(fused, "3", torch.nn.Linear(10, 7).double())
    assert fused(X).shape == (2, 7)
    before = fused(X)
    fused[1].diffeo = geometry.MatrixLog(2.0)
    assert (fused(X) - before).abs().max() > 0.01
    fused.add_module("last", torch.nn.Linear(7, 2).double())
    assert fused(X).shape == (2, 2)
    head = fused[:3]
    torch.testing.assert_close(head(X), nn.Vech()(fused[1](X)))


def test_a_replica_uses_its_own_parameters() -> None:
    fused = nn.fuse(Sequential(nn.ReEig(), nn.ALog(4, "sinh"))).double()
    replica = fused._replicate_for_data_parallel()
    log = copy.deepcopy(fused[1])
    with torch.no_grad():
        log.diffeo.theta.fill_(0.5)
    replica._modules = {"0": fused[0], "1": log}
    X = spd(2)
    torch.testing.assert_close(replica(X), log(X))


def test_what_a_subclass_does_differently_is_not_passed_over() -> None:
    class Doubled(nn.LogEig):
        def forward(self, X: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(X)

    class Residual(Sequential):
        def forward(self, X: torch.Tensor) -> torch.Tensor:
            return X + super().forward(X)

    X = spd(3)
    for run in (Sequential(nn.ReEig(), Doubled()), Residual(nn.ReEig(), nn.LogEig())):
        torch.testing.assert_close(nn.fuse(run)(X), run(X))
    patched = Sequential(nn.ReEig(), nn.LogEig())
    patched[1].forward = lambda X: 3 * X  # type: ignore[method-assign]
    torch.testing.assert_close(nn.fuse(patched)(X), 3 * X)


def test_hooks_are_called() -> None:
    calls = []

    def hook(module: torch.nn.Module, *_: object) -> None:
        calls.append(type(module).__name__)

    fused = nn.fuse(Sequential(nn.BiMap(4, 4), nn.ReEig(), nn.LogEig(), nn.ExpEig())).double()
    X = spd(2)
    handles = [layer.register_forward_hook(hook) for layer in (fused[0], fused[2])]
    expected = fused(X)
    assert calls == ["BiMap", "LogEig"]
    for handle in handles:
        handle.remove()
    torch.testing.assert_close(fused(X), expected)
    assert calls == ["BiMap", "LogEig"]
    plain = Sequential(nn.ReEig(), nn.LogEig()).double()
    plain.register_forward_hook(hook)
    nn.fuse(plain)(X)
    assert calls[2:] == ["Sequential"]


def test_a_layer_that_is_left_alone_is_called_itself() -> None:
    fused = nn.fuse(Sequential(nn.BiMap(4, 4), nn.LieBN(4, METRIC["gap"]), nn.BiMap(4, 3), nn.LogEig()))
    assert fused._stages == list(fused)


def test_a_layer_that_is_there_twice_works_twice() -> None:
    norm = nn.LieBN(4, geometry.LogEuclidean(), momentum=0.5).double()
    run = Sequential(norm, norm, nn.LogEig())
    shared = Sequential(nn.ReEig(), nn.LogEig())
    both = torch.nn.ModuleDict({"a": shared, "b": shared})
    X = spd(6)
    expected = copy.deepcopy(run)(X)
    fused = nn.fuse(run)
    torch.testing.assert_close(fused(X), expected)
    assert len(fused) == 3
    made = nn.fuse(both)
    assert made["a"] is made["b"]


def test_the_mode_is_kept() -> None:
    run = Sequential(nn.LieBN(4, geometry.LogEuclidean()), nn.LogEig())
    assert nn.fuse(run).training
    assert not nn.fuse(run.eval()).training
    assert not run[0].training


def test_a_domain_that_nobody_takes_is_refused() -> None:
    fused = nn.fuse(Sequential(nn.ReEig(), nn.LogEig())).double()
    with pytest.raises(ValueError, match="none of the layers takes one"):
        fused(spd(3), domain=torch.tensor([0, 1, 0]))
