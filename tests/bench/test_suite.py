"""The suite on small cases: it refuses what disagrees, keeps what it has, and leaves out absent peers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from alem import bench
from alem.bench import suite
from alem.bench.alone import of_torch
from alem.bench.alone.inputs import PARAMETERS, SPECTRA, matrices, parameters, weights
from alem.bench.case import Disagreement
from alem.bench.rows import eigh as eigh_row
from alem.bench.rows import liebn, logs, memory, sgd, step
from alem.bench.suite import Alone

OPTIONS = bench.Options(dtypes=("float64",), quick=True)


def small(**changes: object) -> bench.Case:
    case = eigh_row.case(OPTIONS, "well conditioned", 4, 5, "float64", seconds=0.02)
    return dataclasses.replace(case, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def alone() -> Iterator[Alone]:
    with Alone() as process:
        yield process


def test_a_case_is_checked_and_timed_on_both_sides_and_alone(alone: Alone) -> None:
    result = suite.run_case(small(), "cpu", alone)
    assert result.status == "timed", result.reason
    assert result.alem is not None
    assert result.together is not None
    assert result.alone is not None
    assert result.theirs == min(result.together, result.alone)
    assert result.ratio == result.theirs.median / result.alem.median
    assert result.alem.low <= result.alem.median <= result.alem.high
    assert result.checks["error ratio"] < 10
    assert result.setting["threads"] in OPTIONS.threads


def test_the_peer_s_process_never_imports_alem(alone: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = small().peer
    assert isinstance(peer, bench.Peer)
    reply = alone._ask(
        {"build": peer.build, "arguments": peer.arguments, "settings": [{}], "seconds": 0.01}
    )
    assert reply["alem"] is False
    assert len(reply["samples"]) >= 3
    monkeypatch.setattr(alone, "_ask", lambda job: {**reply, "alem": True})
    with pytest.raises(RuntimeError, match="imported alem"):
        alone.times(peer, 0.01)


def test_sides_that_disagree_are_refused(alone: Alone) -> None:
    def wrong() -> bench.Task:
        X = matrices("well conditioned", 4, 5, "float64")
        values, U = torch.linalg.eigh(X)
        return bench.Task(lambda: None, lambda: of_torch.errors(X, 1.001 * values, U))

    result = suite.run_case(small(ours=wrong), "cpu", alone)
    assert result.status == "refused"
    assert "reconstruction" in result.reason
    assert result.alem is None


def test_a_peer_that_is_not_there_is_left_out_and_a_case_that_fails_is_kept(alone: Alone) -> None:
    peer = bench.Peer("no_such_package", "of_torch:eigh", {})
    result = suite.run_case(small(peer=peer), "cpu", alone)
    assert (result.status, result.reason) == ("skipped", "no_such_package is not installed")

    def broken() -> bench.Task:
        raise ZeroDivisionError("made to fail")

    result = suite.run_case(small(ours=broken), "cpu", alone)
    assert (result.status, result.reason) == ("failed", "ZeroDivisionError: made to fail")


def test_a_mistake_in_the_other_process_is_told(alone: Alone) -> None:
    peer = dataclasses.replace(small().peer, arguments={"spectrum": "no such"})  # type: ignore[type-var]
    with pytest.raises(RuntimeError, match=r"torch, in a process of its own: TypeError"):
        alone.times(peer, 0.01)  # type: ignore[arg-type]
    again = small().peer
    assert isinstance(again, bench.Peer)
    assert alone.times(again, 0.01)[0].median > 0, "and the process goes on"


def test_agreement_is_relative_and_by_dtype() -> None:
    check = bench.agree(float32=1e-2, float64=1e-6)
    a = {"x": torch.tensor([3.0, 4.0])}
    assert check(a, {"x": torch.tensor([3.0, 4.02])})["x"] == pytest.approx(0.02 / 5, rel=0.1)
    with pytest.raises(Disagreement, match="x: alem and the peer differ by"):
        check(a, {"x": torch.tensor([3.0, 4.2])})
    with pytest.raises(Disagreement):
        check({"x": a["x"].double()}, {"x": torch.tensor([3.0, 4.02]).double()})
    with pytest.raises(Disagreement):
        check({"x": a["x"] * torch.nan}, a)


# --- both sides of every row ---------------------------------------------------------------------

ROWS: dict[str, Callable[[], bench.Case]] = {
    "eigh": small,
    "step": lambda: step.case(OPTIONS, (9, 6, 4), 5, "float64", "well conditioned"),
    "step, rank-deficient": lambda: step.case(OPTIONS, (9, 4), 5, "float64", "rank-deficient", rank=3),
    "step, low rank": lambda: step.case(OPTIONS, (9, 6, 4), 5, "float64", "low rank", rank=3),
    "step, clustered": lambda: step.case(OPTIONS, (9, 4), 5, "float64", "clustered", rank=2),
    "LieBN lem": lambda: liebn.case(OPTIONS, "lem", 8, 4, "float64"),
    "LieBN lcm": lambda: liebn.case(OPTIONS, "lcm", 8, 4, "float64"),
    "LieBN aim": lambda: liebn.case(OPTIONS, "aim", 8, 4, "float64"),
    "a logarithm": lambda: logs.case(OPTIONS, "gap", (9, 4), 5, "float64"),
    "sgd": lambda: sgd.case(OPTIONS, "a network of all", "float64"),
}


@pytest.mark.parametrize("name", ROWS)
def test_both_sides_compute_the_same(name: str) -> None:
    case = ROWS[name]()
    if isinstance(case.peer, bench.Peer):
        pytest.importorskip(case.peer.package, reason=f"{case.peer.package} is not installed")
    ours, theirs = case.ours(), case.peer.task(case.peer.settings[0])
    expected = theirs.values()
    assert case.check(ours.values(), expected)
    ours.run()
    theirs.run()


def test_means_and_distances_agree_with_pyriemann_and_geoopt() -> None:
    for package in ("pyriemann", "geoopt"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    for case in bench.ROWS["geometry"](OPTIONS):
        assert case.check(case.ours().values(), case.peer.task(case.peer.settings[0]).values())


def test_every_row_has_cases_and_a_quick_run_has_fewer() -> None:
    for row, cases in bench.ROWS.items():
        quick, full = list(cases(OPTIONS)), list(cases(dataclasses.replace(OPTIONS, quick=False)))
        assert 0 < len(quick) <= len(full), row
        assert {case.row for case in full} == {row}


def test_the_networks_of_the_comparison_are_all_there() -> None:
    names = {case.name for case in step.cases(bench.Options())}
    assert names == {
        "{93,30} batch 30",
        "{93,70,30} batch 30",
        "{93,70,50,30} batch 30",
        "{75,30} batch 30",
        "{75,30} batch 256",
        "{75,30} batch 2048",
        "{75,60,45} batch 256",
        "{512,200,100} batch 30",
    }
    assert {case.unit for case in memory.cases(OPTIONS)} == {"B"}


def test_inputs_are_the_same_everywhere_and_what_they_say() -> None:
    for spectrum in SPECTRA:
        X = matrices(spectrum, 3, 8, "float64", rank=3)
        assert torch.equal(X, matrices(spectrum, 3, 8, "float64", rank=3))
        assert torch.equal(X, X.mT)
    values = torch.linalg.eigvalsh(matrices("rank-deficient", 3, 8, "float64", rank=3))
    assert float(values[:, :5].abs().max()) < 1e-14 < 0.01 < float(values[:, 5:].min())
    values = torch.linalg.eigvalsh(matrices("clustered", 3, 8, "float64", rank=3))
    torch.testing.assert_close(values[:, :5], torch.ones(3, 5).double())
    with pytest.raises(ValueError, match="no spectrum is called"):
        matrices("odd", 3, 8, "float64")
    W = weights((8, 5, 3), 4, "float64")
    torch.testing.assert_close(W.bimaps[0] @ W.bimaps[0].mT, torch.eye(5).double())
    assert {kind for kind, *_ in parameters("a network of all", "float64")} == {"O", "P", "E"}
    assert "a network of all" in PARAMETERS


# --- the whole -----------------------------------------------------------------------------------


def test_a_run_writes_json_as_it_goes_and_a_page_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    kept: list[int] = []

    def cases(options: bench.Options) -> Iterator[bench.Case]:
        for n in (4, 6, 8):
            yield small(name=f"4×{n}", series="eigh, n", x=float(n))
            kept.append(len(json.loads((tmp_path / "run.json").read_text("utf-8"))["results"]))

    monkeypatch.setitem(bench.ROWS, "eigh", cases)
    results = bench.run(OPTIONS, ["eigh"], tmp_path, "run", say=said.append)
    assert [r.status for r in results] == ["timed"] * 3
    assert kept == [1, 2, 3]
    data = json.loads((tmp_path / "run.json").read_text("utf-8"))
    assert data["machine"]["torch"] == torch.__version__
    assert data["results"][0]["alem"]["median"] == results[0].alem.median
    assert {t["target"] for t in data["targets"]} >= {"eigh anywhere", "eigh's error over torch's"}
    page = (tmp_path / "run.md").read_text("utf-8")
    assert "## Eigendecomposition" in page
    assert "| 4×6 | float64 |" in page
    assert sum("4×" in line for line in said) >= 3
    assert not list(tmp_path.glob("*.part"))


def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cases(options: bench.Options) -> Iterator[bench.Case]:
        yield small()
        raise KeyboardInterrupt

    monkeypatch.setitem(bench.ROWS, "eigh", cases)
    with pytest.raises(KeyboardInterrupt):
        bench.run(OPTIONS, ["eigh"], tmp_path, "run", say=lambda _: None)
    assert len(json.loads((tmp_path / "run.json").read_text("utf-8"))["results"]) == 1
    assert (tmp_path / "run.md").exists()
