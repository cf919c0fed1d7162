"""Runs cases: checks that both sides agree, then times them in turn, and the peer by itself."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from alem.bench.alone import worker
from alem.bench.alone.task import Task
from alem.bench.alone.timing import Setting, Side, Times, alternate, best_setting, clock_for
from alem.bench.case import Case, Disagreement, MissingPeer, Peer
from alem.bench.memory import kept_bytes
from alem.bench.result import Result


class Alone:
    """A process that has not imported alem and times peers, one job after another."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Alone:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def times(self, peer: Peer, seconds: float) -> tuple[Times, Setting]:
        """The peer's times there, and the setting they were taken with."""
        job = {
            "build": peer.build,
            "arguments": peer.arguments,
            "settings": [dict(s) for s in peer.settings],
            "seconds": seconds,
        }
        reply = self._ask(job)
        if "error" in reply:
            raise RuntimeError(f"{peer.package}, in a process of its own: {reply['error']}")
        if reply["alem"]:
            raise RuntimeError(f"{peer.package} imported alem in the process that is to be without it")
        return Times.of(reply["samples"]), reply["setting"]

    def _ask(self, job: dict[str, Any]) -> dict[str, Any]:
        if self._process is None:
            command = [sys.executable, str(Path(worker.__file__))]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._end()
            return {"error": "the process ended"}
        return json.loads(line)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def run(cases: Iterable[Case], device: str, each: Callable[[Result], None]) -> list[Result]:
    """The results of the cases; ``each`` sees them as they come."""
    results = []
    with Alone() as alone, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases:
            results.append(run_case(case, device, alone))
            each(results[-1])
            gc.collect()
    return results


def run_case(case: Case, device: str, alone: Alone) -> Result:
    """One result, whatever happens."""
    result = Result(
        case.row,
        case.name,
        case.dtype,
        case.spectrum,
        case.peer.label,
        case.unit,
        series=case.series,
        x=case.x,
    )
    try:
        measure(case, device, alone, result)
    except MissingPeer as missing:
        result.status, result.reason = "skipped", str(missing)
    except Disagreement as disagreement:
        result.status, result.reason = "refused", str(disagreement)
    except Exception as error:  # an interrupted run keeps its rows, and so does one with a case that fails
        result.status, result.reason = "failed", f"{type(error).__name__}: {error}"
    return result


def measure(case: Case, device: str, alone: Alone, result: Result) -> None:
    """Fill in the times of a case, or its bytes."""
    clock = clock_for(device)
    ours = case.ours()
    expected = ours.values()

    def theirs(setting: Setting) -> Task:
        task = case.peer.task(setting)
        result.checks = case.check(expected, task.values())
        return task

    if case.unit == "B":
        result.together = Times.of([kept_bytes(theirs(case.peer.settings[0]).run, device)])
        result.alem = Times.of([kept_bytes(ours.run, device)])
        return
    peer, setting = best_setting(theirs, case.peer.settings, clock)
    sides = [Side(ours.run, torch.get_num_threads()), Side(peer.run, setting.get("threads"))]
    for _ in range(ours.warm_up):
        ours.run()
    mine, other = alternate(sides, case.seconds, clock)
    result.alem, result.together, result.setting = Times.of(mine), Times.of(other), dict(setting)
    del ours, peer, sides  # their memory, before the other process takes its own
    if isinstance(case.peer, Peer) and case.peer.alone:
        result.alone, setting = alone.times(case.peer, case.seconds / 2)
        if result.theirs == result.alone:
            result.setting = dict(setting)
