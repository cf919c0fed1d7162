from __future__ import annotations

import torch

from alem import nn

from ..geometry.conftest import sym


def test_vec_and_vech() -> None:
    X, Y = sym(2, 3, seed=1), sym(2, 3, seed=2)
    for layer, size in ((nn.Vec(), 16), (nn.Vech(), 10)):
        assert layer(X).shape == (2, 3, size)
        torch.testing.assert_close((layer(X) * layer(Y)).sum(-1), (X * Y).sum((-2, -1)))
