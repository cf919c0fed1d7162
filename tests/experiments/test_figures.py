from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from alem.experiments import figures
from alem.experiments.baselines import MissingPackageError
from alem.experiments.figures.geometry import _learned
from alem.experiments.figures.style import GREY
from alem.experiments.figures.training import _over_seeds
from alem.experiments.summary import Row, summarise
from tests.experiments.fakes import LEARNED, baseline, record, stopped

pytest.importorskip("matplotlib")

RECORDS = [
    baseline(right=9),
    *(record(6 + seed, seed=seed) for seed in range(3)),
    *(record(7, seed=seed, model={"log": log}) for log in LEARNED for seed in range(2)),
    stopped(4, "epoch 5: the loss is nan", model={"log": "div"}),
    stopped(0, "epoch 1: singular", model={"log": "relu"}),
]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return summarise(RECORDS)


def texts(drawing: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawing)


def lines(axis: Any) -> list[Any]:
    return [line for line in axis.get_lines() if len(line.get_xdata())]


def named(rows: list[Row], label: str) -> Row:
    return next(row for row in rows if row.label == label)


@pytest.mark.parametrize(
    ("draw", "shown", "hidden"),
    [
        (figures.accuracies, "TangentSpace-AIM + logistic", "nothing"),
        (figures.curves, "ALog-DIV", "ALog-RELU"),
        (lambda rows, looks: figures.curves(rows, looks, "loss"), "ALog-gap", "ALog-RELU"),
        (figures.training, "ALog-DIV", "ALog-RELU"),
        (figures.learned, "ALog-rank", "SPDNet"),
        (figures.spectra, "SPDNet", "ALog-DIV"),
        (figures.timings, "SPDNet", "TangentSpace-AIM + logistic"),
    ],
)
def test_figures_show_the_methods_that_have_something_to_show(
    draw: Callable[..., Any], shown: str, hidden: str, rows: list[Row]
) -> None:
    drawing = figures.draw(draw(rows, figures.looks(rows)), "one")
    assert shown in texts(drawing)
    assert hidden not in texts(drawing)


def test_a_method_has_one_look_and_no_other_has_it() -> None:
    rows = summarise([baseline(), *(record(recipe={"lr": 0.1 * (i + 1)}) for i in range(20))])
    looks = figures.looks(rows)
    assert len({looks[row.group] for row in rows}) == 21
    assert looks[rows[0].group].colour == GREY
    assert looks[rows[1].group] == figures.Look("#0072b2", "-")


def test_curves_are_means_over_seeds_with_one_deviation() -> None:
    (row,) = summarise([record(6), record(8, seed=2)])
    middle, spread = _over_seeds(row, "test_accuracy")
    assert middle == pytest.approx([1, 11, 21, 31, 41, 51, 99, 70])
    assert spread is not None
    assert spread[0] == pytest.approx(2**0.5)  # of 0 and 2
    assert _over_seeds(summarise([record()])[0], "loss")[1] is None
    figure = figures.curves([row], figures.looks([row]))
    (line,) = lines(figure.axes[0])
    assert line.get_xdata() == pytest.approx(range(1, 9))
    assert line.get_ydata() == pytest.approx(middle)
    assert len(figure.axes[0].collections) == 1  # the band


def test_epochs_are_whole_numbers() -> None:
    short = {key: values[:3] for key, values in record()["history"].items()}
    rows = summarise([record(history=short)])
    for figure in (figures.curves(rows, figures.looks(rows)), figures.training(rows, figures.looks(rows))):
        figures.draw(figure, "one")
        assert all(tick == round(tick) for axis in figure.axes for tick in axis.get_xticks())


def test_folds_of_a_seed_weigh_by_their_samples() -> None:
    fold = {"kind": "fold", "folds": 2}
    (row,) = summarise(
        [
            record(10, 10, split=fold | {"fold": 0}),
            record(15, 30, split=fold | {"fold": 1}),
        ]
    )
    middle, spread = _over_seeds(row, "test_accuracy")
    assert middle[-1] == pytest.approx(62.5)
    assert spread is None  # one seed


def test_a_training_that_stopped_counts_as_far_as_it_came_and_is_crossed() -> None:
    (row,) = summarise([record(), stopped(3, "epoch 4: it is over", seed=1)])
    middle, spread = _over_seeds(row, "loss")
    assert middle[0] == pytest.approx((2.0 + 1.0) / 2)
    assert middle[3] == pytest.approx(2.0 / 4)
    assert spread is not None
    assert spread[3] == 0.0
    figure = figures.curves([row], figures.looks([row]))
    crosses = [line for line in lines(figure.axes[0]) if line.get_marker() == "x"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in crosses] == [(3, pytest.approx(21.0))]


def test_learned_numbers_are_those_of_the_formulas() -> None:
    assert _learned(LEARNED["mul"]).values == pytest.approx([1.0, 0.9, 1.1, 1.2, 0.5])
    assert _learned(LEARNED["sinh"]).values == pytest.approx(np.exp([0.1, 0.3, -0.1]))
    assert _learned(LEARNED["rank"]).names is None
    gap = _learned(LEARNED["gap"])
    c = np.exp(0.1)
    assert gap.values[:3] == pytest.approx([c, 0.0, c / 4 * np.expm1(1.2)])
    assert gap.values[5:] == pytest.approx(np.exp([0.0, 0.7, 1.3, 2.0]))
    assert gap.start == pytest.approx([1, 0, 0, 0, 0, *np.exp([0, 2 / 3, 4 / 3, 2])])
    other = _learned({"kind": "Other", "parameters": {"a": [1.0, 2.0]}})
    assert other.names == ("a 1", "a 2")


def test_the_gap_of_a_record_is_that_of_the_library() -> None:
    from alem.geometry import GapLog

    chart = GapLog(4)
    made = {name: values.tolist() for name, values in chart.named_parameters()}
    start = _learned({"kind": "GapLog", "parameters": made})
    assert start.values == pytest.approx(start.start)


def test_multipliers_are_drawn_by_rank_from_one_and_the_runs_averaged(rows: list[Row]) -> None:
    row = named(rows, "ALog-MUL")
    (axis,) = figures.learned([row], figures.looks(rows)).axes
    drawn = [line for line in lines(axis) if len(line.get_xdata()) == 5]
    assert drawn[0].get_xdata() == pytest.approx([1, 2, 3, 4, 5])
    assert drawn[0].get_ydata() == pytest.approx([1.0, 0.9, 1.1, 1.2, 0.5])


def test_what_was_learned_before_a_training_stopped_is_left_out() -> None:
    far = {"layers.log.diffeo": LEARNED["mul"] | {"multipliers": [float("nan")] * 5}}
    records = [record(model={"log": "mul"}), stopped(3, "over", seed=1, model={"log": "mul"}, learned=far)]
    rows = summarise(records)
    (axis,) = figures.learned(rows, figures.looks(rows)).axes
    assert next(line for line in lines(axis) if len(line.get_xdata()) == 5).get_ydata()[1] == 0.9


def test_a_model_with_several_charts_shows_each() -> None:
    charts = {f"layers.norm{i}.metric.diffeo": LEARNED["mul"] for i in (1, 2)}
    rows = summarise([record(model={"norm": "liebn", "metric": "alem"}, learned=charts)])
    (axis,) = figures.learned(rows, figures.looks(rows)).axes
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["norm1", "norm2"]


def test_confusions_are_summed_over_seeds() -> None:
    (row,) = summarise([record(3, 4), record(4, 4, seed=1), stopped(2, "over", seed=2)])
    counts, classes = figures.confusion_counts(row.records)
    assert classes == ["wave", "clap", "drink", "sit"]
    assert counts.tolist() == [[2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0], [1, 0, 0, 1]]
    axis = figures.confusion(row).axes[0]
    assert axis.images[0].get_array().tolist()[3] == [0.5, 0.0, 0.0, 0.5]
    assert sorted(text.get_text() for text in axis.texts) == ["1", "1", "2", "2", "2"]


@pytest.mark.parametrize(("n", "ticks"), [(20, 20), (21, 5), (117, 12)])
def test_only_few_classes_have_their_names_beside_the_matrix(n: int, ticks: int) -> None:
    (row,) = summarise([record(8, classes=[f"class {i}" for i in range(n)])])
    axis = figures.confusion(row).axes[0]
    assert len(axis.get_xticks()) == len(axis.get_yticks()) == ticks
    assert len(axis.texts) == 0
    assert axis.get_xticklabels()[1].get_text() == ("class 1" if n <= 20 else str(axis.get_xticks()[1]))


def test_methods_far_below_the_best_are_a_number_at_the_edge() -> None:
    rows = summarise([record(90, 100), record(76, 100, model={"log": "mul"}), baseline(right=2)])
    axis = figures.accuracies(rows, figures.looks(rows)).axes[0]
    assert [text.get_text() for text in axis.texts] == ["← 20.00"]
    assert axis.get_xlim()[0] > 70


def test_text_that_looks_like_a_formula_or_markup_is_text() -> None:
    names = ["$\\frac$", "<script>", "走る", "a & b"]
    (row,) = summarise([record(classes=names)])
    drawing = figures.draw(figures.confusion(row), "one")
    assert "<script" not in drawing
    assert {"&lt;script&gt;", "走る", "a &amp; b", "$\\frac$"} <= set(texts(drawing))


def test_a_drawing_in_a_page_has_its_colours_and_no_address(rows: list[Row]) -> None:
    drawing = figures.draw(figures.curves(rows, figures.looks(rows)), "one")
    inline = figures.to_inline(drawing, "one", 'a "b" <c>')
    assert "http" in drawing
    assert "http" not in inline
    assert inline.startswith('<svg role="img" aria-label="a &quot;b&quot; &lt;c&gt;"')
    assert "currentColor" in inline
    assert "var(--line-0, #0072b2)" in inline
    assert all(name.startswith("one-") for name in re.findall(r'\bid="([^"]*)"', inline))
    used = set(re.findall(r'href="#([^"]*)"', inline)) | set(re.findall(r"url\(#([^)]*)\)", inline))
    assert used
    assert used <= set(re.findall(r'\bid="([^"]*)"', inline))


def test_a_drawing_as_a_file_is_dark_on_white(rows: list[Row]) -> None:
    text = figures.to_file(figures.draw(figures.timings(rows, figures.looks(rows)), "one"))
    assert text.startswith("<?xml")
    assert "fill: #ffffff" in text
    assert "currentColor" not in text
    assert "dc:date" not in text
    paths = re.findall(r' d="([^"]*)"', text)
    assert any(re.search(r"\.\d\d\b", path) for path in paths)
    assert not any(re.search(r"\.\d\d\d", path) for path in paths)


def test_without_matplotlib_it_is_said(monkeypatch: pytest.MonkeyPatch, rows: list[Row]) -> None:
    assert figures.available()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert not figures.available()
    with pytest.raises(MissingPackageError, match="pip install matplotlib"):
        figures.curves(rows, figures.looks(rows))


@pytest.mark.parametrize("log", ["mul", "gap", "sinh"])
def test_what_has_run_away_is_drawn(log: str) -> None:
    made = record(8, model={"log": log})
    (chart,) = copy.deepcopy(list(made["learned"].values()))
    for own in (*chart["parameters"].values(), chart.get("multipliers", [])):
        own[:] = [1e300] * len(own)
    rows = summarise([made | {"learned": {"layers.log.diffeo": chart}}])
    figures.draw(figures.learned(rows, figures.looks(rows)), "away")
