"""Coverage-guided: what reaches lines that nothing before has reached is changed further."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

from alem.data import limits
from alem.linalg.errors import shown
from tests.fuzz.targets import Case, Target
from tests.fuzz.watch import SOURCES, Edge, Forbidden, Guard, Hangs, Memory, in_time, traced

# In place of a gigabyte, so that what goes beyond shows at once; and what the machinery itself takes.
FREE, OWN = 2**24, 3 * 2**25


@dataclass
class Finding:
    """A case that broke a promise, and which."""

    kind: str
    said: str
    case: Case


@dataclass
class Outcome:
    """What came of it; ``growth`` has (executions, edges) whenever the edges had grown."""

    executions: int = 0
    valid: int = 0
    edges: set[Edge] = field(default_factory=set)
    corpus: list[Case] = field(default_factory=list)
    findings: dict[str, Finding] = field(default_factory=dict)
    growth: list[tuple[int, int]] = field(default_factory=list)


@cache
def _guard() -> Guard:
    return Guard()


def fuzz(target: Target, folder: Path, executions: int, seconds: float = 1e9, seed: int = 0) -> Outcome:
    """Change files until ``executions`` or ``seconds`` are over; the same seed makes the same changes."""
    random, outcome, memory = Random(f"{target.name} {seed}"), Outcome(), Memory()
    end = time.monotonic() + seconds
    seeds = target.seeds()
    with _quiet():
        for case in seeds:  # what is imported late, is imported now
            target.write(folder, case)
            with contextlib.suppress(Exception):
                target.read(folder)
        for case in seeds:
            _execute(target, case, folder, outcome, memory)
        while outcome.executions < executions and time.monotonic() < end:
            case = _mutated(target, random.choice(outcome.corpus[-40:] + outcome.corpus[:40]), random)
            _execute(target, case, folder, outcome, memory)
    return outcome


def _mutated(target: Target, case: Case, random: Random) -> Case:
    parts = list(case)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(parts))
        parts[at] = target.change(parts[at], random)
    return tuple(parts)


def _execute(target: Target, case: Case, folder: Path, outcome: Outcome, memory: Memory) -> None:
    target.write(folder, case)
    before = _state(folder, target.free)
    edges: set[Edge] = set()
    finding = None
    memory.start()
    try:
        with (
            _guard().on(None if target.free is None else folder / target.free),
            in_time(target.seconds),
            traced(edges),
        ):
            target.read(folder)
        outcome.valid += 1
    except target.errors as error:
        finding = _wrong_message(target, folder, error)
    except (Forbidden, Hangs, Exception) as error:
        finding = _where(error), f"{type(error).__name__}: {error!s:.300}"
    allowed = 3 * max(FREE, limits.RATIO * sum(map(len, case))) + OWN
    if finding is None and memory.grown() > allowed:
        finding = "memory", f"{memory.grown() / 2**20:.0f} MiB for {sum(map(len, case))} bytes"
    if finding is None and _state(folder, target.free) != before:
        finding = "files", "a file was made or changed"
        shutil.rmtree(folder)
    if finding is not None:
        outcome.findings.setdefault(finding[0], Finding(*finding, case))
    outcome.executions += 1
    if (finding is None and not edges <= outcome.edges) or not outcome.corpus:
        outcome.corpus.append(case)
    if not edges <= outcome.edges:
        outcome.edges |= edges
        outcome.growth.append((outcome.executions, len(outcome.edges)))


def _wrong_message(target: Target, folder: Path, error: Exception) -> tuple[str, str] | None:
    message = str(error)
    names = str(folder) in message
    if not names or len(message.splitlines()) != 1 or shown(message) != message:
        return f"message {_where(error)}", f"{type(error).__name__}: {message!r:.300}"
    if "allocate" in message or "MemoryError" in message:
        return f"refused by the system only {_where(error)}", message[:300]
    return None


def _where(error: BaseException) -> str:
    """The last line of the library, which finds of one cause have in common."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(SOURCES)]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "outside"
    return f"{type(error).__name__} in {place}"


def _state(folder: Path, free: str | None) -> list[tuple[str, int, int]]:
    found = []
    for root, folders, files in os.walk(folder):
        if free in folders:
            folders.remove(free)
        for name in files:
            about = os.stat(os.path.join(root, name))
            found.append((os.path.join(root, name), about.st_size, about.st_mtime_ns))
    return sorted(found)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without logs, without warnings, and with a limit that small files can reach."""
    before, limits.FREE = limits.FREE, FREE
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        limits.FREE = before
        logging.disable(logging.NOTSET)
