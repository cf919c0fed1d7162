from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch

from alem import geometry, linalg, nn
from alem.nn.eig import RULES

from ..geometry.conftest import spd, sym

LEARNED = ("mul", "div", "relu", "exp", "sinh", "rank", "gap")


def test_reeig_raises_small_eigenvalues() -> None:
    S = sym(5, n=4)
    x, U = np.linalg.eigh(S.numpy())
    expected = (U * np.maximum(x, 0.3)[:, None, :]) @ U.transpose(0, 2, 1)
    np.testing.assert_allclose(nn.ReEig(0.3)(S).numpy(), expected, atol=1e-13)
    P = spd(3)
    torch.testing.assert_close(nn.ReEig()(P), P)
    with pytest.raises(ValueError, match="eps must be positive"):
        nn.ReEig(0.0)


def test_log_and_exp() -> None:
    S = spd(3)
    torch.testing.assert_close(nn.LogEig()(S)[1], torch.from_numpy(scipy.linalg.logm(S[1].numpy())))
    torch.testing.assert_close(nn.ExpEig()(nn.LogEig()(S)), S)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rule", LEARNED)
def test_every_learned_logarithm_starts_exactly_at_the_natural_one(rule: str, dtype: torch.dtype) -> None:
    S = spd(3, dtype=dtype)
    found = nn.ALog(4, rule).to(dtype)(S)
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(
        found, linalg.log(S), rtol=0, atol=4 * eps * float(linalg.log(S).abs().max())
    )


@pytest.mark.parametrize(("rule", "base"), [("log2", 2.0), ("log10", 10.0)])
def test_fixed_bases(rule: str, base: float) -> None:
    S, layer = spd(3), nn.ALog(4, rule)
    torch.testing.assert_close(layer(S), linalg.log(S, base))
    torch.testing.assert_close(layer.diffeo.unchart(layer(S)), S)
    assert not list(layer.parameters())


@pytest.mark.parametrize("rule", LEARNED)
def test_what_is_learned_reaches_the_output(rule: str) -> None:
    S, layer = spd(3), nn.ALog(4, rule).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.1 * torch.rand_like(parameter)
    assert (layer(S) - linalg.log(S)).abs().max() > 1e-3
    assert isinstance(layer.diffeo, geometry.Diffeo)


def test_edges_that_the_paper_leaves_open() -> None:
    S = torch.diag(torch.tensor([0.5, 2.0], dtype=torch.float64))
    layer = nn.ALog(2, "div").double()
    with torch.no_grad():
        layer.diffeo.weight.copy_(torch.tensor([1e-3, -1e-3]))
    expected = torch.tensor([1e3, -1e3], dtype=S.dtype) * S.diagonal().log()
    torch.testing.assert_close(layer(S).diagonal(), expected, rtol=1e-6, atol=0)
    with torch.no_grad():
        layer.diffeo.weight[0] = 0.0
    with pytest.raises(ValueError, match="multiplier 0 of the adaptive logarithm is inf"):
        layer(S)
    layer = nn.ALog(2, "relu").double()
    with torch.no_grad():
        layer.diffeo.weight.copy_(torch.tensor([1.0, -3.0]))
    expected = S.diagonal().log() / torch.tensor([1 + 1e-6, 1e-6], dtype=S.dtype).log()
    torch.testing.assert_close(layer(S).diagonal(), expected)


def test_unknown_rules_are_named() -> None:
    with pytest.raises(ValueError, match="no logarithm is called 'geom'; there are " + ", ".join(RULES)):
        nn.ALog(3, "geom")


@pytest.mark.parametrize(
    ("rule", "option", "message"),
    [
        ("ln", {"ties": "exact"}, "ALog got ties=, and its rule 'ln' takes no options"),
        ("sinh", {"widths": 2}, "ALog got widths=, and its rule 'sinh' takes no options"),
        ("gap", {"ties": "exact"}, "ALog got ties=, and its rule 'gap' takes widths="),
        ("mul", {"widths": 2}, "ALog got widths=, and its rule 'mul' takes ties="),
    ],
)
def test_options_of_another_rule_are_named(rule: str, option: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        nn.ALog(3, rule, **option)


def test_options_reach_the_chart() -> None:
    assert nn.ALog(3, "gap", widths=2).diffeo.log_width.numel() == 2
    for rule in ("mul", "div", "relu", "exp"):
        assert nn.ALog(3, rule, ties="exact").diffeo.ties == "exact"


@pytest.mark.parametrize("rule", RULES)
def test_it_is_made_where_and_as_asked(rule: str) -> None:
    layer = nn.ALog(4, rule, dtype=torch.float64)
    assert all(p.dtype == torch.float64 for p in layer.parameters())
    assert layer(spd(2)).dtype == torch.float64
    assert all(p.is_meta for p in nn.ALog(4, rule, device="meta").parameters())
