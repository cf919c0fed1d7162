"""Names, options, and messages for wrong ones."""

from __future__ import annotations

import pytest

from alem import geometry


def test_every_name_takes_n() -> None:
    for name in geometry.METRICS:
        assert isinstance(geometry.metric(name, n=3), geometry.Metric)


def test_metrics_without_parameters_per_dimension_need_no_n() -> None:
    assert isinstance(geometry.metric("gap"), geometry.GapLogEuclidean)
    with pytest.raises(ValueError, match="'alem' has parameters per dimension: pass n"):
        geometry.metric("alem")


def test_options_reach_the_constructor() -> None:
    m = geometry.metric("alem", n=3, rule="div", a=2.0, b=0.1)
    assert m.diffeo.rule == "div"
    assert (m.inner_product.a, m.inner_product.b) == (2.0, 0.1)
    assert geometry.metric("gap", widths=2).diffeo.theta.shape == (3,)
    with pytest.raises(ValueError, match="at least one width"):
        geometry.metric("gap", widths=0)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no metric is called 'lme'; there are lem, lcm, alem"):
        geometry.metric("lme")


def test_parameter_counts() -> None:
    counts = {
        name: sum(p.numel() for p in geometry.metric(name, n=5).parameters()) for name in geometry.METRICS
    }
    assert counts == {
        "lem": 0, "lcm": 0, "alem": 5, "alcm": 5, "sinh": 3, "rank": 5, "gap": 9, "aim": 0, "bwm": 0,
    }  # fmt: skip


def test_the_widths_of_the_gap_chart_start_from_one_to_e_squared() -> None:
    widths = geometry.metric("gap").diffeo.log_width.exp()
    assert widths.shape == (4,)
    assert float(widths.detach()[0]) == 1.0
    assert float(widths.detach()[-1]) == pytest.approx(2.718281828**2, rel=1e-6)
