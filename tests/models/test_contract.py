"""Networks: the contract of :mod:`alem.testing`, training, and what the constructors promise."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from alem import geometry
from alem.models import RResNet, SPDNet
from alem.nn import SPDBN, BiMap, LieBN
from alem.nn.eig import RULES
from alem.optim import RiemannianSGD
from alem.testing import LAYER_CHECKS, LayerCase
from tests.geometry.conftest import spd

pytestmark = pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")

DIMS, CLASSES, BATCH = (4, 4, 3), 2, 4


def network(kind: str) -> nn.Module:
    """A small network: ``log/mul``, ``norm/spdbn``, ``liebn/lem``, ``gyro/aim``, ``rresnet/lem``, ..."""
    part, _, which = kind.partition("/")
    if part == "rresnet":
        return RResNet(DIMS, CLASSES, which)
    options = {
        "log": {"log": which},
        "norm": {"norm": which},
        "liebn": {"norm": "liebn", "metric": which},
        "gyro": {"head": "gyro", "metric": which},
        "vech": {"vec": "vech", "log": "sinh"},
        "chart_norm": {"chart_norm": True, "log": "gap"},
        "trace_norm": {"trace_norm": True},
        "dropout": {"dropout": 0.3},
    }[part]
    return SPDNet(DIMS, CLASSES, **options)


NETWORKS = (
    *(f"log/{rule}" for rule in RULES),
    "norm/spdnetbn",
    "norm/spdbn",
    *(f"liebn/{name}" for name in ("lem", "lcm", "alem", "aim")),
    *(f"gyro/{name}" for name in ("lem", "alem", "aim")),
    *(f"rresnet/{name}" for name in ("lem", "alcm", "sinh", "aim")),
    "vech",
    "chart_norm",
    "trace_norm",
    "dropout",
)


def case(kind: str) -> LayerCase:
    return LayerCase(
        lambda: network(kind),
        spd(BATCH, n=DIMS[0]),
        spd=False,
    )


# Of the layers one by one, tests/nn checks the derivatives at ties.
@pytest.mark.parametrize("check", [name for name in LAYER_CHECKS if name not in ("compile", "ties")])
@pytest.mark.parametrize("kind", NETWORKS)
def test_network(kind: str, check: str) -> None:
    LAYER_CHECKS[check](case(kind))


@pytest.mark.parametrize("kind", NETWORKS)
def test_training_lowers_the_loss_of_a_batch(kind: str) -> None:
    torch.manual_seed(0)
    net = network(kind).double().train()
    X, y = spd(12, n=DIMS[0], seed=8), torch.arange(12) % CLASSES
    optimizer = RiemannianSGD(net, lr=5e-2)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        torch.manual_seed(1)  # the same entries are dropped each time
        loss = nn.functional.cross_entropy(net(X), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] - 1e-3


def seeded(**options: object) -> SPDNet:
    torch.manual_seed(0)
    return SPDNet(DIMS, CLASSES, **options)


CHOICES = [
    *({"log": rule} for rule in RULES),
    *({"norm": norm} for norm in ("spdnetbn", "spdbn", "liebn")),
    {"norm": "liebn", "metric": "alem"},
    {"trace_norm": True},
    {"chart_norm": True},
    {"dropout": 0.5},
]


@pytest.mark.parametrize("options", CHOICES, ids=str)
def test_one_seed_gives_the_same_bimaps_and_classifier(options: dict[str, object]) -> None:
    expected, state = seeded().state_dict(), seeded(**options).state_dict()
    assert {name for name in expected if name not in state} == set()
    for name, value in expected.items():
        assert torch.equal(state[name], value)


def count(**options: object) -> int:
    return sum(p.numel() for p in seeded(**options).parameters())


def test_the_adaptive_logarithm_adds_n_numbers_where_batch_norms_add_n_squared_a_layer() -> None:
    """The paper's remark on complexity; n is the last dimension for ALog and each one for the norms."""
    plain, n, layers = count(), DIMS[-1], DIMS[1:]
    for rule in ("mul", "div", "relu", "exp", "rank"):
        assert count(log=rule) - plain == n
    assert count(norm="spdnetbn") - plain == sum(n * n for n in layers)
    assert count(norm="spdbn") - plain == sum(n * n + 1 for n in layers)
    assert count(norm="liebn", metric="lem") - plain == sum(n * n + 1 for n in layers)
    assert count(norm="liebn", metric="alem") - plain == sum(n * n + 1 + n for n in layers)
    assert count(norm="liebn", metric="sinh") - plain == sum(n * n + 1 + 3 for n in layers)


def test_summary_lists_every_layer_with_its_shape_geometry_and_parameters() -> None:
    net = SPDNet(DIMS, CLASSES, log="mul", norm="liebn", metric="gap", trace_norm=True, dropout=0.1)
    head, rule, *rows, last_rule, total = net.summary().splitlines()
    assert head.split() == ["layer", "kind", "output", "geometry", "parameters"]
    assert set(rule) == set(last_rule) == {"-"}
    assert [row.split()[:3] for row in rows] == [
        ["trace_norm", "TraceNorm", "4×4"],
        ["bimap1", "BiMap", "4×4"],
        ["norm1", "LieBN", "4×4"],
        ["reeig1", "ReEig", "4×4"],
        ["bimap2", "BiMap", "3×3"],
        ["norm2", "LieBN", "3×3"],
        ["log", "ALog", "3×3"],
        ["vec", "Vec", "9"],
        ["dropout", "Dropout", "9"],
        ["head", "Linear", "2"],
    ]
    assert "GapLogEuclidean (9 learned)" in rows[2]
    assert "RankLog mul (3 learned)" in rows[6]
    learned = [int(row.split()[-1].replace(",", "")) for row in rows]
    assert learned == [0, 16, 16 + 1 + 9, 0, 12, 9 + 1 + 9, 3, 0, 0, 20]
    assert total.split() == ["total", str(sum(learned))]
    assert len({len(line) for line in (head, rule, *rows, total)}) == 1


def test_summary_of_the_other_heads() -> None:
    rows = SPDNet((4, 3), 2, head="gyro", metric="aim").summary().splitlines()[2:-2]
    assert [row.split() for row in rows] == [
        ["bimap1", "BiMap", "3×3", "12"],
        ["head", "GyroMLR", "2", "AffineInvariant", "36"],
    ]
    rows = RResNet((4, 3), 2, "lem").summary().splitlines()[2:-2]
    assert [row.split()[0] for row in rows] == ["bimap1", "block", "log", "vec", "head"]
    assert "LogEuclidean" in rows[1]
    assert SPDNet((4,), 2, vec="vech").summary().splitlines()[3].split() == ["vec", "Vech", "10", "0"]


@pytest.mark.parametrize("make", [lambda d: SPDNet(d, CLASSES), lambda d: RResNet(d, CLASSES, "lem")])
def test_a_single_dimension_means_no_bimap(make: object) -> None:
    net = make([3]).double()
    assert not any(isinstance(module, BiMap) for module in net.modules())
    assert net(spd(BATCH, n=3)).shape == (BATCH, CLASSES)


def test_dims_may_grow() -> None:
    net = SPDNet((3, 5), CLASSES).double()
    assert net(spd(BATCH, n=3)).shape == (BATCH, CLASSES)


BAD = [
    ({"dims": ()}, "dims must be sizes"),
    ({"dims": (), "trace_norm": True}, "dims must be sizes"),
    ({"dims": (4, 0)}, "dims must be sizes"),
    ({"log": "ln2"}, "no logarithm is called 'ln2'; there are ln, "),
    ({"norm": "batch"}, "norm must be one of spdnetbn, spdbn, liebn.*'batch'"),
    ({"norm": "liebn", "metric": "bwm"}, "BuresWasserstein"),
    ({"norm": "liebn", "metric": "lme"}, "no metric is called 'lme'"),
    ({"head": "svm"}, "head must be one of linear, gyro, got 'svm'"),
    ({"vec": "half"}, "vec must be one of full, vech, got 'half'"),
    ({"head": "gyro", "log": "mul"}, "gyro head.*log="),
    ({"head": "gyro", "chart_norm": True}, "gyro head.*chart_norm="),
    ({"head": "gyro", "dropout": 0.1}, "gyro head.*dropout="),
    ({"head": "gyro", "vec": "vech"}, "gyro head.*vec="),
    ({"head": "gyro", "n_classes": 0}, "n_classes=0"),
    ({"n_classes": 0}, "n_classes=0"),
    ({"dims": (4.0, 3)}, "dims must be sizes"),
    ({"metric": "lme"}, "no metric is called 'lme'"),
    ({"eps": 0.0}, "eps must be positive"),
]


@pytest.mark.parametrize(("options", "sentence"), BAD, ids=str)
def test_bad_arguments_are_named(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        SPDNet(**{"dims": DIMS, "n_classes": CLASSES, **options})


def test_bad_arguments_of_the_residual_network_are_named() -> None:
    with pytest.raises(ValueError, match=r"RResBlock.*BuresWasserstein"):
        RResNet(DIMS, CLASSES, "bwm")
    with pytest.raises(ValueError, match="dims must be sizes"):
        RResNet((), CLASSES, "lem")
    with pytest.raises(ValueError, match="n_classes=0"):
        RResNet(DIMS, 0, "lem")
    with pytest.raises(ValueError, match="limit must be positive"):
        RResNet(DIMS, CLASSES, "lem", limit=-1.0)


def test_a_norm_is_made_for_each_size_and_not_given() -> None:
    with pytest.raises(TypeError, match="lambda n: SPDBN"):
        SPDNet(DIMS, CLASSES, norm=LieBN(3, geometry.metric("lem")))


def test_the_head_can_be_replaced() -> None:
    net = SPDNet(DIMS, CLASSES)
    net.layers.head = nn.Linear(net.layers.head.in_features, 9)
    assert net(spd(2, n=DIMS[0], dtype=torch.float32)).shape == (2, 9)
    assert " 9 " in net.summary().splitlines()[-3]


def test_a_domain_that_no_norm_takes_is_refused() -> None:
    with pytest.raises(ValueError, match="none of the layers takes one"):
        SPDNet(DIMS, CLASSES)(spd(2, n=DIMS[0], dtype=torch.float32), domain=0)


@pytest.mark.parametrize("limit", [1.0, None])
def test_the_residual_network_scales_its_input_when_asked(limit: float | None) -> None:
    torch.manual_seed(0)
    net = RResNet(DIMS, CLASSES, "lem", limit=limit, trace_norm=True).double().eval()
    X = spd(3, n=DIMS[0])
    torch.testing.assert_close(net(X), net(1e-3 * X))
    assert net.layers.block.limit == limit


def test_a_metric_is_given_by_name_object_or_function_and_each_layer_has_its_own() -> None:
    shared = geometry.metric("sinh")
    for metric in ("sinh", shared, lambda n: geometry.metric("sinh")):
        net = SPDNet(DIMS, CLASSES, norm="liebn", head="gyro", metric=metric)
        metrics = [module.metric for module in net.modules() if hasattr(module, "metric")]
        assert len(metrics) == len({id(m) for m in metrics}) == 3
        assert all(m is not shared for m in metrics)


def test_modules_of_your_own_serve_as_logarithm_and_norm() -> None:
    log = nn.Identity()
    net = SPDNet(DIMS, CLASSES, log=log, norm=lambda n: LieBN(n, geometry.metric("lem")))
    assert net.layers.log is log
    assert isinstance(net.layers.norm1, LieBN)


def test_domains_reach_the_norm() -> None:
    torch.manual_seed(0)
    net = SPDNet((4, 3), CLASSES, norm=lambda n: SPDBN(n, domains=3)).double()
    X, domain = spd(6, seed=3), torch.tensor([0, 1, 0, 1, 0, 1])
    norm, before = net.layers.norm1, torch.eye(3, dtype=X.dtype)
    direct = SPDBN(3, domains=3, dtype=X.dtype)
    expected = net.layers.head(net.layers.log(direct(net.layers.bimap1(X), domain)).flatten(-2))
    torch.testing.assert_close(net(X, domain), expected)
    assert torch.equal(norm.running_mean[2], before)
    assert not any(torch.equal(norm.running_mean[d], before) for d in (0, 1))
    net.eval()
    assert not torch.equal(net(X, 0), net(X, 1))
    with pytest.raises(ValueError, match="3 domains"):
        net(X)
