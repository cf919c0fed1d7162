"""What was measured, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from alem.bench.alone.timing import Times

SCHEMA = 1


@dataclass
class Result:
    """A case and its outcome. Times are in seconds (``unit`` ``"s"``), memory in bytes (``"B"``)."""

    row: str
    case: str
    dtype: str
    spectrum: str
    peer: str
    unit: str = "s"
    status: str = "timed"  # or skipped, refused, failed: then ``reason`` says why
    reason: str = ""
    alem: Times | None = None
    together: Times | None = None  # the peer, in turn with alem
    alone: Times | None = None  # the peer, in a process of its own
    setting: dict[str, Any] = field(default_factory=dict)  # the peer's best
    checks: dict[str, float] = field(default_factory=dict)
    series: str = ""
    x: float | None = None

    @property
    def theirs(self) -> Times | None:
        """The peer's better one."""
        found = [t for t in (self.together, self.alone) if t is not None]
        return min(found) if found else None

    @property
    def ratio(self) -> float | None:
        """How many times as much the peer takes."""
        if self.alem is None or self.theirs is None:
            return None
        return self.theirs.median / self.alem.median if self.alem.median else None

    def to_json(self) -> dict[str, Any]:
        """A dictionary for JSON."""
        times = {
            name: None if value is None else value._asdict()
            for name in ("alem", "together", "alone")
            for value in (getattr(self, name),)
        }
        return {**asdict(self), **times, "ratio": self.ratio}
