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


def test_refusals_say_why() -> None:
    with pytest.raises(ValueError, match="BuresWasserstein end where they meet a singular matrix"):
        nn.RResBlock(3, geometry.BuresWasserstein())
    with pytest.raises(InvalidMatrixError, match="RResBlock was made for n = 3"):
        nn.RResBlock(3, geometry.LogEuclidean())(torch.eye(4))
