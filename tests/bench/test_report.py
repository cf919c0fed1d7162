from __future__ import annotations

import json
from pathlib import Path

import pytest

from alem.bench import report
from alem.bench.alone.task import Task
from alem.bench.alone.timing import Side, Times, alternate, best_setting
from alem.bench.memory import kept_bytes
from alem.bench.plot import plot
from alem.bench.result import Result
from alem.bench.targets import TARGETS, Target, verdicts

MACHINE = {"device": "cpu", "torch": "2"}


def times(median: float) -> Times:
    return Times(median, 0.9 * median, 1.2 * median, 7)


def result(ratio: float = 2.0, **changes: object) -> Result:
    given = {
        "row": "eigh",
        "case": "256×30",
        "dtype": "float32",
        "spectrum": "well conditioned",
        "peer": "torch",
        "alem": times(1e-3),
        "together": times(1.5 * ratio * 1e-3),
        "alone": times(ratio * 1e-3),
        "checks": {"error ratio": 0.8},
        "setting": {"threads": 2},
    }
    return Result(**(given | changes))  # type: ignore[arg-type]


def test_the_peer_gets_the_better_of_its_two_times() -> None:
    assert result().ratio == pytest.approx(2.0)
    assert result(together=None).ratio == pytest.approx(2.0)
    assert result(alone=None).ratio == pytest.approx(3.0)
    assert result(alem=None).ratio is None


def test_the_worst_case_decides_a_target() -> None:
    target = Target("t", "cpu", 3.0, lambda r: r.row == "eigh")
    verdict = target.verdict([result(8.0), result(2.0, case="30×30"), result(1.0, row="step")])
    assert verdict["reached"] is False
    assert verdict["value"] == pytest.approx(2.0)
    assert verdict["margin"] == pytest.approx(-1 / 3)
    assert verdict["where"] == "30×30 float32 well conditioned"
    assert target.verdict([])["reached"] is None
    error = next(t for t in TARGETS if t.text == "eigh's error over torch's")
    assert error.verdict([result()])["reached"] is True
    assert error.verdict([result(checks={"error ratio": 1.1})])["reached"] is False


def test_a_device_has_its_own_targets_and_those_of_any() -> None:
    texts = {v["target"] for v in verdicts([], "cuda:0")}
    assert "eigh 2048×75" in texts
    assert "eigh's error over torch's" in texts
    assert "eigh 256×30 float32" not in texts
    ignored = verdicts([result(status="refused")], "cpu")
    assert all(v["reached"] is None for v in ignored), "only what was timed counts"


def test_the_exponent_of_a_power_law() -> None:
    curve = [result(series="s", x=x, alem=times(1e-6 * x**1.5), together=times(1e-6 * x**3), alone=None)
             for x in (1.0, 2.0, 4.0, 8.0, 16.0)]  # fmt: skip
    (fit,) = report.exponents(curve)
    assert fit["alem"] == pytest.approx(1.5)
    assert fit["peer"] == pytest.approx(3.0)
    assert (fit["from"], fit["to"]) == (4.0, 16.0)


def test_amounts_have_three_digits_and_a_unit() -> None:
    assert report.amount(1.234) == "1.23 s"
    assert report.amount(0.01234) == "12.3 ms"
    assert report.amount(1.234e-5) == "12.3 µs"
    assert report.amount(3 * 2**20, "B") == "3.00 MiB"
    assert report.spread(None, "s") == ""


def test_the_page_has_the_targets_and_what_did_not_run() -> None:
    results = [result(), result(row="step", status="skipped", reason="not installed", alem=None)]
    data = report.record(results, MACHINE, {"device": "cpu"})
    page = report.page(data, results, "alem bench", "speed.svg")
    assert "| eigh 256×30 float32 | 7× | 2.00× |" in page
    assert "**missed**, -71%" in page
    assert "skipped: not installed" in page
    assert "![speed](speed.svg)" in page
    assert json.loads(json.dumps(data)) == data


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.json"
    report.write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        report.write_json(path, {"a": object()})
    assert json.loads(path.read_text("utf-8")) == {"a": 1}


def test_the_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    results = [result(), result(row="step"), result(row="growth", series="s", x=1.0)]
    assert plot(results, tmp_path / "p.svg")
    assert (tmp_path / "p.svg").stat().st_size > 1000
    assert not plot([result(alem=None)], tmp_path / "q.svg")


def test_sides_are_timed_in_turn() -> None:
    order: list[str] = []
    clock = iter(range(10**6))
    samples = alternate(
        [Side(lambda: order.append("a")), Side(lambda: order.append("b"))],
        1.0,
        lambda: float(next(clock)),
    )
    assert [len(s) for s in samples] == [3, 3]
    assert "".join(order[-6:]) == "ababab"


def test_the_fastest_setting_is_chosen() -> None:
    now = 0.0

    def build(setting: dict[str, float]) -> Task:
        def run() -> None:
            nonlocal now
            now += setting["cost"]

        return Task(run, dict)

    _, setting = best_setting(build, [{"cost": 3.0}, {"cost": 1.0}, {"cost": 2.0}], lambda: now)  # type: ignore[arg-type]
    assert setting == {"cost": 1.0}


def test_bytes_kept_for_the_backward_pass() -> None:
    import torch

    x = torch.ones(1000, requires_grad=True)
    assert kept_bytes(lambda: (x * x).sum().backward(), "cpu") == 4000
    assert kept_bytes(lambda: x.exp().sin().sum().backward(), "cpu") == 4000, "one piece of memory, once"
