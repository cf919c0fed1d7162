from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alem import geometry, nn
from alem.linalg import InvalidMatrixError

from ..geometry.conftest import NAMES, learned_metric, spd

COMPLETE = [name for name in NAMES if name != "bwm"]


class Times(torch.nn.Module):
    """The response t·f."""

    def __init__(self, response: torch.nn.Module, t: float) -> None:
        super().__init__()
        self.response, self.t = response, t

    def forward(self, x: Tensor) -> Tensor:
        return self.t * self.response(x)


@pytest.mark.parametrize("name", COMPLETE)
def test_a_zero_field_is_the_identity(name: str) -> None:
    block = nn.RResBlock(4, learned_metric(name, 4)).double()
    with torch.no_grad():
        block.response.convolutions[-1].weight.zero_()
        block.response.convolutions[-1].bias.zero_()
    S = spd(2, 3, seed=1)
    torch.testing.assert_close(block(S), S, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", COMPLETE)
def test_it_leaves_along_the_field(name: str) -> None:
    block = nn.RResBlock(4, learned_metric(name, 4)).double().eval()
    S, t = spd(3, seed=1), 1e-5
    V = block.field(S)
    block.response = Times(block.response, t)
    torch.testing.assert_close((block(S) - S) / t, V, rtol=1e-3, atol=1e-3)


def test_the_field_has_the_frame_and_the_spectrum_it_says() -> None:
    block = nn.RResBlock(5, geometry.LogEuclidean()).double().eval()
    S = spd(n=5)
    V, Q = block.field(S), block.frame
    spectrum = block.response(torch.linalg.eigvalsh(S))
    torch.testing.assert_close(Q @ torch.diag(spectrum) @ Q.mT, V)
    torch.testing.assert_close(Q @ Q.mT, torch.eye(5, dtype=S.dtype), atol=1e-6, rtol=0)
    rotation = torch.linalg.qr(torch.randn(5, 5, dtype=S.dtype))[0]
    torch.testing.assert_close(block.field(rotation @ S @ rotation.mT), V)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", COMPLETE)
def test_small_eigenvalues_do_not_make_it_overflow(name: str, dtype: torch.dtype) -> None:
    """A field of a length of 10⁴ and more, as covariance matrices of real signals make it."""
    torch.manual_seed(0)
    block = nn.RResBlock(4, learned_metric(name, 4)).to(dtype)
    U = torch.linalg.qr(torch.randn(6, 4, 4, dtype=dtype))[0]
    S = ((U * torch.tensor([1e-5, 1.1e-5, 1e-3, 1.0], dtype=dtype)) @ U.mT).requires_grad_()
    Y = block(S)
    geometry.check_spd(0.5 * (Y + Y.mT))
    assert (block.metric.dist(S, Y) < 1.05).all()  # the condition number costs single precision 1e-2
    (grad,) = torch.autograd.grad(Y.sum(), S)
    assert grad.isfinite().all()
    assert (block.metric.norm(S, block.field(S)) > 100).all()
    block.limit = None
    with pytest.raises(InvalidMatrixError, match="too large for torch"):
        block(S)


def test_without_a_limit_it_is_the_exponential_of_the_field() -> None:
    block = nn.RResBlock(4, learned_metric("lem", 4), limit=None).double().eval()
    S = spd(3)
    torch.testing.assert_close(block(S), block.metric.exp(S, block.field(S)))
    with pytest.raises(ValueError, match="limit must be positive"):
        nn.RResBlock(4, learned_metric("lem", 4), limit=0.0)


def test_refusals_say_why() -> None:
    with pytest.raises(ValueError, match="BuresWasserstein end where they meet a singular matrix"):
        nn.RResBlock(3, geometry.BuresWasserstein())
    with pytest.raises(InvalidMatrixError, match="RResBlock was made for n = 3"):
        nn.RResBlock(3, geometry.LogEuclidean())(torch.eye(4))
