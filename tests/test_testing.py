"""The checks of :mod:`alem.testing` pass what is right and say what is wrong with the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from alem import geometry, linalg
from alem.geometry import LogEuclidean, Metric, spd_parameter
from alem.nn import ALog, BiMap, LieBN, LogEig, RResBlock
from alem.testing import (
    LAYER_CHECKS,
    METRIC_CHECKS,
    LayerCase,
    MetricCase,
    assert_layer,
    assert_metric,
)
from tests.geometry.conftest import learned_metric, spd

X = spd(4, n=3)


class Scale(nn.Module):
    """w X: a layer that keeps the contract, for others to break."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("passes", torch.zeros(1))

    def forward(self, X: Tensor) -> Tensor:
        if self.training:
            self.passes.add_(1)
        return self.weight * X


class NotFinite(Scale):
    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X) / 0


class Converts(Scale):
    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X).float()


class Indefinite(Scale):
    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X) - 10 * torch.eye(3).to(X)


class DropsTheBatch(Scale):
    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X)[:1]


class OneLeadingDimension(Scale):
    def forward(self, X: Tensor) -> Tensor:
        n, m, _ = X.shape
        return super().forward(X).reshape(n, m, m)


class DividesByTheSpread(Scale):
    def forward(self, X: Tensor) -> Tensor:
        flat = X.reshape(-1, 9)
        spread = (flat - flat.mean(0)).square().mean()
        return super().forward(X) / (spread if self.training else 1.0)


class SquareRootOfTheSpread(Scale):
    def forward(self, X: Tensor) -> Tensor:
        spread = (X - X.reshape(-1, 3, 3).mean(0)).square().sum()
        return super().forward(X) * (1 + spread.sqrt() if self.training else 1.0)


class Detaches(Scale):
    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X) * X.detach().square().sum((-2, -1), keepdim=True)


class LogByEigh(Scale):
    def forward(self, X: Tensor) -> Tensor:
        x, U = torch.linalg.eigh(X)
        return super().forward(U @ torch.diag_embed(x.log()) @ U.mT)


class Unused(Scale):
    def __init__(self) -> None:
        super().__init__()
        self.forgotten = nn.Parameter(torch.ones(2))


class DoesNotMatter(Unused):
    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X) + 0 * self.forgotten.sum()


class LeavesItsManifold(Scale):
    def __init__(self) -> None:
        super().__init__()
        self.point = spd_parameter(torch.eye(3))
        self.point.manifold.descend = lambda x, G, lr: x - lr * G - torch.eye(3).to(x)

    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X) + self.point


class KeepsStateToItself(Scale):
    def __init__(self) -> None:
        super().__init__()
        self.count = 1.0

    def forward(self, X: Tensor) -> Tensor:
        self.count += self.training
        return super().forward(X) * self.count


class CannotBePickled(Scale):
    def __init__(self) -> None:
        super().__init__()
        self.function = lambda x: x


class SharesItself(Scale):
    def __deepcopy__(self, memo: object) -> nn.Module:
        return self


class ForgetsTheManifold(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.point = spd_parameter(torch.eye(3))

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)
        self._parameters["point"] = nn.Parameter(self.point.detach().clone())

    def forward(self, X: Tensor) -> Tensor:
        return X + self.point


class OnlyDouble(Scale):
    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X) + torch.eye(3, dtype=torch.float64)


class LosesDigits(Scale):
    def forward(self, X: Tensor) -> Tensor:
        large = 1e6
        return super().forward((X + large) - large)


class AlwaysDrops(Scale):
    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X) * (1 + torch.rand(()).to(X))


class CountsInEvaluation(Scale):
    def forward(self, X: Tensor) -> Tensor:
        self.passes.add_(1)
        return super().forward(X)


class CentresInEvaluation(Scale):
    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X) + X.reshape(-1, 3, 3).mean(0)


class BreaksTheGraph(Scale):
    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X) * (2 if X.sum() > 0 else 3)


class ForgetsInAGraph(Scale):
    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X) * (1 if torch.compiler.is_compiling() else 2)


BUILT_ONCE = Scale()
PARTS = nn.Sequential(Scale())


class MovesWhatIsFrozen(Scale):
    def __init__(self) -> None:
        super().__init__()
        self.running = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, X: Tensor) -> Tensor:
        if self.training:
            self.running.add_(1)
        return super().forward(X)


class ThawsInACopy(MovesWhatIsFrozen):
    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)
        self.running.requires_grad_()


WRONG_LAYERS = [
    ("making", lambda: BUILT_ONCE, "make returns the same layer twice"),
    ("making", lambda: nn.Sequential(PARTS[0]), r"the layers that make returns share \['0.weight'\]"),
    ("outputs", NotFinite, "outputs in training: 36 of 36 entries are not finite"),
    ("outputs", Converts, "outputs in training: torch.float32 from torch.float64"),
    ("outputs", Indefinite, "matrix [0-3] .* is not positive definite: its smallest eigenvalue is -"),
    ("outputs", DropsTheBatch, r"shape \(1, 3, 3\) from a batch of 4"),
    ("leading dimensions", OneLeadingDimension, r"on an input of shape \(3, 3\): ValueError"),
    ("leading dimensions", CentresInEvaluation, "a single input against the first of the batch.*off by"),
    ("leading dimensions", DividesByTheSpread, "batch of one in training: 9 of 9 entries"),
    ("leading dimensions", SquareRootOfTheSpread, "gradient of the input for a batch of one in training"),
    ("gradients", Detaches, "derivatives in training .*Jacobian mismatch .* with respect to input 0"),
    ("ties", LogByEigh, "gradient of the input at repeated eigenvalues in training: .* not finite"),
    ("training", Unused, "forgotten receives no gradient"),
    ("training", DoesNotMatter, r"forgotten\[0\] has not moved in 5 steps"),
    ("training", LeavesItsManifold, "point has left its manifold"),
    ("training", MovesWhatIsFrozen, "running is frozen and moved in 5 steps"),
    ("state_dict", KeepsStateToItself, "saved and loaded gives other outputs"),
    ("copies", CannotBePickled, "a copy by pickle: .*CannotBePickled"),
    ("copies", SharesItself, "training a copy by deepcopy changes the original"),
    ("copies", ForgetsTheManifold, "point is ManifoldParameter on .*, and in a copy by deepcopy Parameter"),
    ("copies", ThawsInACopy, "running is frozen Parameter, and in a copy by deepcopy Parameter"),
    ("precision", OnlyDouble, "float32 in training: the output is torch.float64"),
    ("precision", LosesDigits, "float32 in training: .* off by"),
    ("evaluation", AlwaysDrops, "two passes in evaluation differ"),
    ("evaluation", CountsInEvaluation, "passes changes in evaluation"),
    ("evaluation", CentresInEvaluation, "the first of the batch without the others"),
    ("compile", BreaksTheGraph, "in training, on an input of shape .*Data-dependent branching"),
    ("compile", ForgetsInAGraph, "the output, compiled, in training: .* off by"),
]


@pytest.mark.parametrize(("check", "wrong", "sentence"), WRONG_LAYERS)
def test_what_is_wrong_with_a_layer_is_said(
    check: str, wrong: Callable[[], nn.Module], sentence: str
) -> None:
    spd = wrong is not LogByEigh
    with pytest.raises(AssertionError, match=sentence):
        LAYER_CHECKS[check](LayerCase(wrong, X, spd=spd))


def test_every_check_of_a_layer_has_something_that_it_finds() -> None:
    assert {check for check, _, _ in WRONG_LAYERS} == set(LAYER_CHECKS)


def test_layers_that_keep_the_contract_pass() -> None:
    assert_layer(Scale, X, compile=True)
    assert_layer(lambda: nn.Sequential(BiMap(3, 2), LieBN(2, LogEuclidean()), LogEig()), X, spd=False)
    assert_layer(lambda: nn.Linear(3, 2), X[:, 0], spd=False)  # no matrices at all


def test_options_are_heeded() -> None:
    with pytest.raises(AssertionError, match="positive definite"):
        assert_layer(LogEig, X)
    with pytest.raises(AssertionError, match="repeated eigenvalues"):
        LAYER_CHECKS["ties"](LayerCase(_unequal, X, spd=False))
    LAYER_CHECKS["ties"](LayerCase(_unequal, X, spd=False, smooth=False))
    assert_layer(BreaksTheGraph, X)
    with pytest.raises(AssertionError, match="Data-dependent branching"):
        assert_layer(BreaksTheGraph, X, compile=True)
    LAYER_CHECKS["leading dimensions"](LayerCase(DividesByTheSpread, X, train=False))
    assert_layer(DoesNotMatter, X, unmoved=("forgotten",))


def test_unmoved_is_held_to_its_word() -> None:
    check = LAYER_CHECKS["training"]
    with pytest.raises(AssertionError, match="weight was to stay and moved in 5 steps"):
        check(LayerCase(DoesNotMatter, X, unmoved=("forgotten", "weight")))
    with pytest.raises(AssertionError, match=r"forgotten\[1\] has not moved"):
        check(LayerCase(DoesNotMatter, X, unmoved=("forgotten[0]",)))
    check(LayerCase(DoesNotMatter, X, unmoved=("forgotten[0]", "forgotten[1]")))
    with pytest.raises(
        AssertionError, match=r"unmoved names \['lost'\], and the parameters are \['weight'\]"
    ):
        check(LayerCase(Scale, X, unmoved=("lost",)))


def test_a_layer_built_once_is_told_so_before_anything_else() -> None:
    layer = Scale()
    with pytest.raises(AssertionError, match="it must build a new one in each call"):
        assert_layer(lambda: layer, X)


@pytest.mark.parametrize("frozen", ["weight", "forgotten"])
def test_frozen_parameters_are_skipped(frozen: str) -> None:
    def make() -> nn.Module:
        layer = DoesNotMatter()
        getattr(layer, frozen).requires_grad_(False)
        return layer

    assert_layer(make, X, unmoved=("forgotten",), compile=True)


def test_a_layer_that_is_frozen_altogether_passes() -> None:
    assert_layer(lambda: LieBN(3, LogEuclidean()).requires_grad_(False), X)


def test_inputs_that_cannot_be_checked_are_refused() -> None:
    with pytest.raises(ValueError, match=r"X must be float64, .* got torch.float32"):
        assert_layer(Scale, X.float())
    with pytest.raises(ValueError, match=r"N >= 2, got shape \(1, 3, 3\)"):
        assert_layer(Scale, X[:1])
    assert_layer(Scale, X[:2])
    with pytest.raises(ValueError, match="n must be 2 at least"):
        assert_metric(LogEuclidean(), 1)
    assert_metric(LogEuclidean(), 2)


def test_layers_are_built_from_one_seed_and_the_callers_random_numbers_are_left_alone() -> None:
    state = torch.get_rng_state()
    case = LayerCase(lambda: RResBlock(3, LogEuclidean()), X)
    assert torch.equal(case.build().frame, case.build().frame)
    LAYER_CHECKS["gradients"](LayerCase(lambda: nn.Sequential(nn.Dropout(0.5), Scale()), X))
    assert torch.equal(torch.get_rng_state(), state)


def _unequal() -> nn.Module:
    layer = ALog(3, "mul")
    with torch.no_grad():
        layer.diffeo.weight.copy_(torch.tensor([1.0, 1.5, 2.0]))
    return layer


class LopsidedInner(LogEuclidean):
    def inner(self, P: Tensor, V: Tensor, W: Tensor) -> Tensor:
        return super().inner(P, V, W) * V.detach().abs().sum((-2, -1))


class CoordinatesAtTheIdentity(LogEuclidean):
    def tangent_coordinates(self, P: Tensor, V: Tensor) -> Tensor:
        return linalg.vech(V)


class ForgetsTheFrame(LogEuclidean):
    def dist2(self, P: Tensor, Q: Tensor) -> Tensor:
        return (linalg.eigvalsh(P).log() - linalg.eigvalsh(Q).log()).square().sum(-1)


class PowerOfTheDistance(LogEuclidean):
    def __init__(self, power: float) -> None:
        super().__init__()
        self.power = power

    def dist2(self, P: Tensor, Q: Tensor) -> Tensor:
        return super().dist2(P, Q) ** self.power


class TwiceTheDistance(LogEuclidean):
    def dist2(self, P: Tensor, Q: Tensor) -> Tensor:
        return 4 * super().dist2(P, Q)


class EuclideanExp(LogEuclidean):
    def exp(self, P: Tensor, V: Tensor) -> Tensor:
        return P + V


class StraightLine(LogEuclidean):
    def geodesic(self, P: Tensor, Q: Tensor, t: float | Tensor) -> Tensor:
        return P + torch.as_tensor(t, dtype=P.dtype)[..., None, None] * (Q - P)


class NoTransport(LogEuclidean):
    def transport(self, P: Tensor, Q: Tensor, V: Tensor) -> Tensor:
        return V


class ArithmeticMean(LogEuclidean):
    def mean(self, X: Tensor, weights: Tensor | None = None) -> Tensor:
        w = torch.ones(X.shape[-3], dtype=X.dtype) if weights is None else weights
        return (w[..., None, None] * X).sum(-3) / w.sum(-1)[..., None, None]


class HalfTheSlope(LogEuclidean):
    def pushforward(self, P: Tensor, V: Tensor) -> Tensor:
        return super().pushforward(P, V) / 2


class WrongPlace(LogEuclidean):
    def place(self, P: Tensor, T: Tensor) -> Tensor:
        return super().place(P, 2 * T)


class MatrixProduct(LogEuclidean):
    def compose(self, P: Tensor, Q: Tensor) -> Tensor:
        root = linalg.sqrt(P)
        return root @ Q @ root


class AlwaysDouble(LogEuclidean):
    def scale(self, P: Tensor, k: float | Tensor) -> Tensor:
        return super().scale(P.double(), k)


class NoGradient(LogEuclidean):
    def log(self, P: Tensor, Q: Tensor) -> Tensor:
        return super().log(P, Q.detach())


class InvertByEigh(LogEuclidean):
    def invert(self, P: Tensor) -> Tensor:
        x, U = torch.linalg.eigh(P)
        return U @ torch.diag_embed(1 / x) @ U.mT


WRONG_METRICS = [
    ("inner", LopsidedInner, r"inner\(P, V, W\) against inner\(P, W, V\)"),
    ("frame", CoordinatesAtTheIdentity, "the product of tangent coordinates against inner"),
    ("topology", ForgetsTheFrame, "rotated copies that differ have no distance: .* times LEM's"),
    (
        "topology",
        lambda: PowerOfTheDistance(0.5),
        "as rotated copies approach each other, their distance goes from",
    ),
    ("distance", TwiceTheDistance, r"‖log\(P, Q\)‖² against dist²: .* off by"),
    ("exp and log", EuclideanExp, r"exp\(P, log\(P, Q\)\) against Q"),
    ("geodesic", StraightLine, "the distance after 0.3 of the geodesic"),
    ("transport", NoTransport, "the inner product of transported vectors"),
    ("mean", ArithmeticMean, r"Σ w log\(mean, X\)"),
    ("chart", HalfTheSlope, "pushforward against finite differences of chart"),
    ("group", WrongPlace, r"place\(P, relative\(P, Q\)\) against Q"),
    ("group", MatrixProduct, r"\(P ⊙ Q\) ⊙ R against P ⊙ \(Q ⊙ R\)"),
    ("dtype and shapes", AlwaysDouble, "scale of float32 matrices gives torch.float64"),
    ("gradients", NoGradient, "derivatives of log: .*Jacobian mismatch"),
    ("ties", InvertByEigh, "a gradient of invert at repeated eigenvalues: .* not finite"),
]


@pytest.mark.parametrize(("check", "wrong", "sentence"), WRONG_METRICS)
def test_what_is_wrong_with_a_metric_is_said(
    check: str, wrong: Callable[[], Metric], sentence: str
) -> None:
    with pytest.raises(AssertionError, match=sentence):
        METRIC_CHECKS[check](MetricCase(wrong(), 3))
    with pytest.raises(AssertionError):
        assert_metric(wrong(), 3)


def test_every_check_of_a_metric_has_something_that_it_finds() -> None:
    assert {check for check, _, _ in WRONG_METRICS} == set(METRIC_CHECKS)


@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
@pytest.mark.parametrize("name", geometry.METRICS)
def test_metrics_of_the_catalogue_pass(name: str) -> None:
    assert_metric(learned_metric(name, 3), 3, smooth=name not in ("rank", "alem"))


def alem(*multipliers: float) -> Metric:
    metric = geometry.metric("alem", n=len(multipliers)).double()
    with torch.no_grad():
        metric.diffeo.weight.copy_(torch.tensor(multipliers))
    return metric


NOT_METRICS = [
    (0.8, 1.0, 1.3),
    (0.95, 1.0, 1.05),
    (1.0, 1.01, 1.0),
    (2.0, 1.0, 1.0),
    (1.3, 1.0),
    (1.0, 1.01),
]


@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
@pytest.mark.parametrize("multipliers", NOT_METRICS)
def test_unequal_multipliers_do_not_pass_as_a_metric(multipliers: tuple[float, ...]) -> None:
    metric, n = alem(*multipliers), len(multipliers)
    with pytest.raises(AssertionError, match=r"rotated copies .* times LEM's"):
        assert_metric(metric, n, smooth=False)
    for check, sentence in (
        ("mean", "the mean of P and P against P|Σ w log"),
        ("chart", r"unchart\(chart\(P\)\) against P"),
        ("group", "P ⊙ I against P"),
    ):
        with pytest.raises(AssertionError, match=sentence):
            METRIC_CHECKS[check](MetricCase(metric, n, smooth=False))


@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")  # of finite differences
def test_equal_multipliers_pass_as_a_metric() -> None:
    assert_metric(alem(1.7, 1.7, 1.7), 3, smooth=False)


def test_bounds_of_the_topology() -> None:
    check = METRIC_CHECKS["topology"]
    check(MetricCase(PowerOfTheDistance(0.68), 3))  # over a factor of 1e6 in the distance, 1e6^0.32 = 83
    with pytest.raises(AssertionError, match="approach each other"):
        check(MetricCase(PowerOfTheDistance(0.66), 3))  # 110
    check(MetricCase(LogEuclidean(b=1e10), 3))  # rotated copies differ in b-free directions only: 1e-5
    with pytest.raises(AssertionError, match="have no distance"):
        check(MetricCase(LogEuclidean(b=1e13), 3))


def test_points_include_spectra_on_every_side_of_one_and_nearly_tied() -> None:
    t = linalg.eigvalsh(MetricCase(LogEuclidean(), 3).points()).log()
    above = (t > 0).sum(-1)
    assert {0, 1, 2, 3} == set(above.tolist())
    gaps = t.diff(dim=-1)
    for gap in (1.0, 1e-3, 1e-6):
        assert (((gaps / gap - 1).abs() < 1e-6).sum(0) >= 3).all()  # between both pairs of neighbours


def test_options_of_assert_metric_are_heeded() -> None:
    with pytest.raises(AssertionError, match="derivatives at repeated eigenvalues"):
        METRIC_CHECKS["ties"](MetricCase(learned_metric("rank", 3), 3))
    with pytest.raises(AssertionError, match="allowed is"):
        assert_metric(LogEuclidean(), 3, tolerance=0.0)
    assert not torch.equal(
        MetricCase(LogEuclidean(), 3, seed=1).points(), MetricCase(LogEuclidean(), 3).points()
    )
