from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from alem import data, geometry
from alem.experiments import TABLES, Column, Row, Run, Source, Table
from alem.experiments.paper import DEPTHS, HDM05_TABLE, NORMS_TABLE
from alem.experiments.protocols import PROTOCOLS, Protocol, folds, part, sessions
from alem.experiments.table import Published, published

from .conftest import small

SIZES = {"hdm05": 93, "fpha": 63, "afew": 512, "ntu60": 75, "utdmhad": 57, "natops": 24, "articulary": 9}
SHARED = Path(__file__).parents[3] / "shared" / "data"


def test_the_papers_numbers() -> None:
    assert Published.parse("62.92±0.81") == Published(62.92, 0.81)
    assert Published.parse("48.53") == Published(48.53)
    assert published("- 1.0") == (None, Published(1.0))
    for table in TABLES.values():
        for row in table.rows:
            assert len(row.published) in (0, len(table.columns)), (table.name, row.label)
    # The shape of the paper's Table II, and some entries of it.
    assert [len(HDM05_TABLE.rows), len(HDM05_TABLE.columns)] == [5, 6]
    assert HDM05_TABLE.row("SPDNetBN").published[5] == Published(37.84, 6.10)
    assert TABLES["gyro"].row("GyroMLR-ALEM").published == (Published(56.21, 0.39), Published(51.65, 0.44))
    assert TABLES["afew"].row("ALog-MUL").published[3] == Published(50.62)


def test_the_papers_settings() -> None:
    fpha = TABLES["fpha"]
    method = fpha.method(fpha.row("ALog-DIV"), fpha.columns[0], 63)
    assert method.dims == (33,)
    assert method.recipe is not None
    assert (method.recipe.lr, method.recipe.epochs, method.recipe.batch_size) == (1e-2, 500, 30)
    assert method.recipe.metric_lr == pytest.approx(1 / 30)
    assert (method.recipe.dtype, method.recipe.optimizer) == ("float64", "rsgd")
    true = fpha.method(fpha.row("ALog-DIV, metric_lr 1"), fpha.columns[0], 63)
    assert true.recipe is not None
    assert true.recipe.metric_lr == 1.0
    epochs = [
        NORMS_TABLE.method(NORMS_TABLE.row("LieBN-ALEM"), column, 93).recipe.epochs  # type: ignore[union-attr]
        for column in NORMS_TABLE.columns
    ]
    assert epochs == [150, 50, 30]
    assert [column.dims for column in NORMS_TABLE.columns] == list(DEPTHS.values())
    ntu = TABLES["rresnet"].method(TABLES["rresnet"].rows[3], TABLES["rresnet"].columns[1], 75)
    assert ntu.recipe is not None
    assert (ntu.recipe.optimizer, ntu.recipe.lr, ntu.recipe.epochs) == ("amsgrad", 1e-2, 50)


def _cases() -> list[tuple[str, str]]:
    """A row of each table; the wide ones of HDM05 in one column are enough."""
    return [(name, row.label) for name, table in TABLES.items() for row in table.rows]


@pytest.mark.parametrize(("name", "label"), _cases())
def test_every_row_is_a_network_that_can_be_built_and_run(name: str, label: str) -> None:
    table = TABLES[name]
    row = table.row(label)
    for column in table.columns:
        n = SIZES.get(column.protocol.name, 24)
        method = table.method(row, column, n)
        if method.recipe is None:
            continue
        if n == SIZES["afew"]:  # the same layers as elsewhere: smaller matrices will do
            n = max(method.dims) + 10
        net = method.build(n, 4, seed=0)
        with torch.no_grad():
            X = geometry.sample_wishart(2, n=n).double()
            assert net(X).shape == (2, 4)
        optimizer = method.recipe.make_optimizer(net)
        assert optimizer.param_groups


def test_a_row_of_a_share_takes_its_size_from_the_data() -> None:
    (column,) = TABLES["natops"].columns
    for share, dims in ((0.7, (17,)), (0.01, (1,)), (0.0, ()), (None, column.protocol.dims)):
        row = Row("r", share=share)
        assert _table(column.protocol, (row,)).method(row, column, 24).dims == dims


def test_a_choice_looks_at_training_samples_only_and_by_subject_where_it_can() -> None:
    dataset = small()
    assert dataset.train is not None
    by_subject = folds(dataset)
    assert [split.column for split in by_subject] == ["subject"] * 4
    plain = folds(replace(dataset, columns={}))
    assert [(split.fold, split.folds, split.column) for split in plain] == [(k, 5, "") for k in range(5)]
    for splits in (by_subject, plain):
        for split in splits:
            train, test = split.places(dataset, 0)
            assert bool(dataset.train[train].all() & dataset.train[test].all())
    choice = TABLES["choice"]
    assert all(column.protocol.splits is folds for column in choice.columns)


def _table(protocol: Protocol, rows: tuple[Row, ...]) -> Table:
    return Table("t", "T", (Column("c", protocol),), rows, {"epochs": 1}, seeds=4)


def test_cells_are_runs_over_splits_and_seeds(small_file: Path) -> None:
    rows = (Row("SPDNet"), Row("baseline", recipe=None, kind="log-euclidean"))
    for splits, of_network, of_baseline in ((part, 4, 1), (sessions, 4 * 6, 6)):
        cells = _table(Protocol("small", "", 6, 3, (4,), splits), rows).cells({"small": str(small_file)})
        assert [len(runs) for runs in cells.values()] == [of_network, of_baseline]
        assert all(isinstance(run, Run) for runs in cells.values() for run in runs)
    random = _table(Protocol("small", "", 6, 3, (4,), lambda _: PROTOCOLS["hdm05"].splits(small())), rows)
    cells = random.cells({"small": str(small_file)}, seeds=3)
    assert [len(runs) for runs in cells.values()] == [3, 3], "random halves give baselines seeds too"


def test_columns_without_data_and_rows_not_named_are_left_out(small_file: Path) -> None:
    table = TABLES["bases"]
    cells = table.cells({"fpha": str(small_file)}, rows=["SPDNet"], changes={"epochs": 3})
    assert list(cells) == [("SPDNet", "{63,33} FPHA")]
    (run, *_) = cells["SPDNet", "{63,33} FPHA"]
    assert run.method.recipe is not None
    assert run.method.recipe.epochs == 3
    assert table.data == ("hdm05", "fpha")


def test_sessions_are_left_out_one_at_a_time_within_their_subject() -> None:
    splits = sessions(small())
    assert [(dict(split.within)["subject"], split.value) for split in splits] == [
        (str(s), f"{s}-{i}") for s in range(3) for i in range(2)
    ], "the fourth subject is excluded"


def test_a_single_session_cannot_be_left_out() -> None:
    dataset = small()
    dataset.columns["session"][:] = "only"
    assert sessions(dataset) == ()


def test_a_data_set_may_lie_in_any_layout(tmp_path: Path) -> None:
    """Folders of matrices have been made of their sequences already."""
    utd = PROTOCOLS["utdmhad"]
    assert utd.source("utd_seq.npz").options == (("centre_joint", 3),)
    assert utd.source("utd/").options == ()
    data.save(small(), tmp_path / "ntu")
    assert PROTOCOLS["ntu60"].source(str(tmp_path / "ntu")).load().n == 6


@pytest.mark.skipif(not SHARED.exists(), reason="the real data sets are not here (../shared/data)")
@pytest.mark.parametrize(
    ("name", "file", "n", "splits"),
    [
        ("fpha", "fpha_cov", 63, 1),
        ("utdmhad", "utdmhad_seq", 57, 1),
        ("natops", "natops_seq", 24, 1),
        ("articulary", "articularywordrecognition_seq", 9, 1),
        ("ssvep", "ssvep_cov", 24, 28),
    ],
)
def test_the_real_data_sets_divide_as_their_protocol_says(
    name: str, file: str, n: int, splits: int
) -> None:
    protocol = PROTOCOLS[name]
    dataset = Source(*_fields(protocol, str(SHARED / f"{file}.npz"))).load()
    assert dataset.n == n
    found = protocol.splits(dataset)
    assert len(found) == splits
    tested: list[int] = []
    for split in found:
        train, test = split.places(dataset, 0)
        assert not set(train.tolist()) & set(test.tolist())
        tested += test.tolist()
    assert len(tested) == len(set(tested))
    if name == "ssvep":
        assert not dataset.columns["excluded"][np.array(tested)].any()


def _fields(protocol: Protocol, path: str) -> tuple[object, ...]:
    source = protocol.source(path)
    return source.path, source.name, source.reader, source.options
