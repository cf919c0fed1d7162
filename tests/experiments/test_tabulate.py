from __future__ import annotations

import statistics

import pytest
from scipy import stats

from alem.experiments import Column, Row, Table
from alem.experiments.protocols import Protocol
from alem.experiments.table import Published
from alem.experiments.tabulate import cells, legend, lines, markdown, text

from .fakes import baseline, record

PROTOCOL = Protocol("fakes", "", 9, 3, (5,))
TABLE = Table(
    "t",
    "A table",
    (Column("c", PROTOCOL),),
    (
        Row("SPDNet", published=(Published(82.0, 3.0),)),
        Row("ALog-MUL", {"log": "mul"}, published=(Published(99.0, 0.5),)),
        Row("baseline", recipe=None, kind="log-euclidean"),
        Row("unmeasured"),
    ),
    against=("SPDNet", "baseline"),
)
PLAIN, LEARNED = (80, 83, 85), (84, 86, 90)


def records() -> dict[tuple[str, str], list[dict[str, object]]]:
    return {
        ("SPDNet", "c"): [record(right, 100, seed) for seed, right in enumerate(PLAIN)],
        ("ALog-MUL", "c"): [
            record(
                right, 100, seed, model={"log": "mul"}, stopped="epoch 3: the loss is nan" if seed else None
            )
            for seed, right in enumerate(LEARNED)
        ],
        ("baseline", "c"): [baseline("log-euclidean", 81, tested=100)],
    }


def test_mean_deviation_and_the_papers_number_beside_them() -> None:
    own = records()
    head, plain, learned, baseline = lines(TABLE, own)
    assert head == ["method", "c", "paper", "against SPDNet", "against baseline", "seeds"]
    assert plain[1] == f"{statistics.fmean(PLAIN):.2f} ± {statistics.stdev(PLAIN):.2f}"
    assert plain[2] == "82.00 ± 3.00", "82.67 is within the paper's deviation"
    assert learned[2] == "99.00 ± 0.50 ≠"
    assert learned[1].endswith(", 2 stopped")
    p = stats.ttest_1samp(PLAIN, 81).pvalue
    assert baseline == ["baseline", "81.00", "", f"-1.67 (p = {p:.3f})", "", "–"]


def test_against_other_rows_by_a_paired_test() -> None:
    own = records()
    _, plain, learned, baseline = lines(TABLE, own)
    p = stats.ttest_rel(LEARNED, PLAIN).pvalue
    assert learned[3] == f"+4.00 (p = {p:.3f})"
    one = stats.ttest_1samp(PLAIN, 81).pvalue
    assert plain[4] == f"+1.67 (p = {one:.3f})"
    assert baseline[3] == f"-1.67 (p = {one:.3f})"
    assert plain[3] == ""


def test_two_seeds_are_too_few_for_a_test() -> None:
    own = {key: values[:2] for key, values in records().items()}
    assert lines(TABLE, own)[2][3] == "+3.50"


def test_the_median_of_the_last_epochs_with_the_last_beside_it() -> None:
    table = Table("t", "T", (Column("c", PROTOCOL),), (Row("SPDNet"),), tail=3)
    history = {"loss": [1.0] * 4, "test_accuracy": [0.9, 0.5, 0.2, 0.8]}
    own = {("SPDNet", "c"): [record(80, 100, seed, history=history) for seed in range(2)]}
    (cell,) = cells(table, own).values()
    assert cell.mean == pytest.approx(50.0), "of 0.5, 0.2 and 0.8"
    assert lines(table, own)[1][1] == "50.00 ± 0.00 (80.00)"
    assert "median of the last 3 epochs" in legend(table)


def test_several_columns_are_wide_and_unmeasured_rows_are_left_out() -> None:
    table = Table(
        "t",
        "T",
        tuple(Column(name, PROTOCOL) for name in "ab"),
        (Row("SPDNet", published=(None, Published(80.0))), Row("unmeasured")),
        against=("SPDNet",),
    )
    own = {("SPDNet", "a"): [record(80, 100)], ("SPDNet", "b"): [record(70, 100)]}
    assert lines(table, own) == [["method", "a", "b", "paper"], ["SPDNet", "80.00", "70.00", "80.00"]]
    assert len(lines(table, {})) == 1


def test_the_mean_over_the_columns_where_all_are_there() -> None:
    table = Table(
        "t",
        "T",
        tuple(Column(name, PROTOCOL) for name in "ab"),
        (Row("SPDNet"), Row("baseline")),
        average=True,
    )
    own = {
        ("SPDNet", "a"): [record(80, 100)],
        ("SPDNet", "b"): [record(8, 20)],
        ("baseline", "a"): [baseline("log-euclidean", 81, tested=100)],
    }
    assert lines(table, own) == [
        ["method", "a", "b", "mean"],
        ["SPDNet", "80.00", "40.00", "60.00"],
        ["baseline", "81.00", "", ""],
    ]
    assert "Mean: over the columns." in legend(table)


def test_text_and_markdown_hold_the_same_numbers() -> None:
    own = records()
    page, shown = markdown(TABLE, own), text(TABLE, own)
    for line in lines(TABLE, own):
        for cell in line:
            assert cell in page
            assert cell in shown
    widths = {line.index("82.67") + 5 for line in shown.splitlines() if "82.67" in line}
    assert len(widths) == 1
    assert page.startswith("# A table\n")
