from __future__ import annotations

import pytest
import torch

from alem import geometry, nn
from alem.linalg import InvalidMatrixError

from ..geometry.conftest import FLAT, NAMES, learned_metric, spd, sym


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_the_hyperplanes(name: str) -> None:
    m = learned_metric(name, 3)
    head = nn.GyroMLR(3, 4, m).double()
    P, A, S = spd(4, n=3, seed=1), 0.3 * sym(4, n=3), spd(2, 5, n=3, seed=2)
    head.set_hyperplanes(P, A)
    E = torch.eye(3, dtype=P.dtype)
    expected = m.inner(P, m.log(P, S.unsqueeze(-3)), m.transport(E, P, A))
    assert expected.shape == (2, 5, 4)
    torch.testing.assert_close(head(S), expected, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(head(P).diagonal(), torch.zeros(4, dtype=P.dtype), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", FLAT)
def test_under_a_flat_metric_the_function_class_is_the_linear_softmax(name: str) -> None:
    m = learned_metric(name, 3)
    head = nn.GyroMLR(3, 2, m).double()
    # every linear function of the coordinates with a slope is a pair of hyperplanes …
    W = torch.randn(2, 6, dtype=torch.float64)
    b = torch.randn(2, dtype=torch.float64)
    P = m.point(-b[:, None] * W / W.square().sum(-1, keepdim=True))
    E = torch.eye(3, dtype=P.dtype)
    flat = m.inner_product.isometry(m.diffeo.matrix(W), inverse=True)
    A = m.diffeo.solve(E, flat)
    head.set_hyperplanes(P, A)
    S = spd(5, n=3)
    torch.testing.assert_close(head(S), m.coordinates(S) @ W.mT + b, rtol=1e-8, atol=1e-8)
    # … and every pair of hyperplanes one such function, with as many numbers.
    torch.testing.assert_close(head.weight, W, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(head.bias, b, rtol=1e-8, atol=1e-8)
    assert sum(p.numel() for p in (head.weight, head.bias)) == 2 * (6 + 1)


@pytest.mark.parametrize("name", ["lem", "aim"])
def test_it_starts_with_planes_through_the_identity(name: str) -> None:
    torch.manual_seed(0)
    head = nn.GyroMLR(5, 3, learned_metric(name, 5)).double()
    E = torch.eye(5, dtype=torch.float64)
    torch.testing.assert_close(head(E), torch.zeros(3, dtype=E.dtype))
    torch.manual_seed(0)
    other = nn.GyroMLR(5, 3, geometry.AffineInvariant()).double()
    bound = (6 / 25) ** 0.5
    assert other.normals.abs().max() <= bound
    assert torch.equal(other.normals, other.normals.mT)
    # near the identity all metrics but BWM and LCM agree, and so do the logits of one seed
    S = E + 1e-4 * sym(n=5)
    torch.testing.assert_close(head(S), other(S), rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize("name", [*NAMES, "(a,b)-lem"])
def test_one_seed_draws_the_same_normals_under_every_metric(name: str) -> None:
    metric = geometry.metric("lem", a=0.7, b=0.2) if name == "(a,b)-lem" else learned_metric(name, 3)
    heads = []
    for m in (metric, geometry.AffineInvariant()):
        torch.manual_seed(0)
        heads.append(nn.GyroMLR(3, 4, m, dtype=torch.float64))
    head, A = heads[0], heads[1].normals.detach()
    E = torch.eye(3, dtype=torch.float64)
    S = spd(5, n=3)
    expected = metric.inner(E, metric.log(E, S).unsqueeze(-3), A)
    torch.testing.assert_close(head(S), expected, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(head(E), torch.zeros(4, dtype=E.dtype), rtol=0, atol=1e-12)


def test_it_can_be_made_before_it_has_values() -> None:
    head = nn.GyroMLR(3, 2, geometry.metric("alem", n=3), device="meta")
    assert head.weight.is_meta
    assert head.bias.is_meta


@pytest.mark.parametrize("name", ["lcm", "aim"])
def test_hyperplanes_are_checked_and_converted(name: str) -> None:
    head = nn.GyroMLR(3, 2, geometry.metric(name))
    P, A = spd(2, n=3), sym(2, n=3)
    head.set_hyperplanes(P, A)  # double, into a layer of single precision
    assert all(p.dtype == torch.float32 for p in head.parameters())
    before = [p.detach().clone() for p in head.parameters()]
    for P_, A_ in ((P[:1], A), (P, A[0]), (P.tolist(), A), (P[..., :2], A)):
        with pytest.raises(InvalidMatrixError, match=r"of shape \(2, 3, 3\), one matrix for each class"):
            head.set_hyperplanes(P_, A_)
    with pytest.raises(InvalidMatrixError, match=r"matrix 1 .* not positive definite"):
        head.set_hyperplanes(torch.stack([P[0], -P[1]]), A)
    with pytest.raises(InvalidMatrixError, match=r"matrix 1 .* not symmetric"):
        head.set_hyperplanes(torch.stack([P[0], P[1].tril()]), A)
    with pytest.raises(InvalidMatrixError, match=r"matrix 1 .* not symmetric"):
        head.set_hyperplanes(P, torch.stack([A[0], A[1].tril()]))
    with pytest.raises(InvalidMatrixError, match="NaN"):
        head.set_hyperplanes(P, A * float("nan"))
    assert all(torch.equal(p, b) for p, b in zip(head.parameters(), before, strict=True))


def test_bad_input_is_named() -> None:
    for metric in (geometry.LogEuclidean(), geometry.AffineInvariant()):
        with pytest.raises(InvalidMatrixError, match="GyroMLR was made for n = 3"):
            nn.GyroMLR(3, 2, metric)(torch.eye(4))
    with pytest.raises(ValueError, match="n_classes=0"):
        nn.GyroMLR(3, 0, geometry.LogEuclidean())
