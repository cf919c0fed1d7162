"""Means over seeds, and whether two of them differ."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from alem.experiments.baselines import MissingPackageError
from alem.experiments.ledger import LedgerError, Record
from alem.experiments.naming import distinguish, group_of
from alem.experiments.split import Split

# Differences of accuracies that are counts over fewer than 10¹² samples; below it is rounding.
SAME = 1e-12


@dataclass(frozen=True)
class Row:
    """A method over its seeds.

    ``accuracies`` by seed: correct over tested samples, all folds or groups of the seed together, of the
    model after its last epoch. ``mean`` is that over seeds (NaN if no seed is complete), ``deviation`` the
    sample standard deviation (None below two seeds), ``n`` the number of seeds. A training that
    ended early counts with its last whole epoch; ``stopped`` are the reasons, one for each. ``unfinished``
    are seeds for which some fold or group is missing; they do not count. ``parameters`` is None for a
    baseline, ``seconds`` the mean for a run.
    """

    group: str
    label: str
    accuracies: dict[int, float]
    mean: float
    deviation: float | None
    n: int
    stopped: tuple[str, ...]
    unfinished: tuple[int, ...]
    parameters: int | None
    seconds: float
    records: tuple[Record, ...] = field(repr=False)

    @property
    def is_baseline(self) -> bool:
        """Whether it was fitted without a recipe."""
        return is_baseline(self.records[0])


class Paired(NamedTuple):
    """Of a paired t-test: the two-sided p, the number of shared seeds, the mean of a − b."""

    p: float
    n: int
    difference: float


def summarise(records: Iterable[Record]) -> list[Row]:
    """A row for each group of records that differ only in seed and fold, in the order of the records.

    A seed is complete when it has every fold or group that any record of the same data and kind of
    split has.
    """
    records = unique(records)
    _require_alike(records)
    labels = distinguish(records)
    groups: dict[str, list[Record]] = {}
    asked: dict[str, set[str]] = {}
    for record in records:
        groups.setdefault(group_of(record), []).append(record)
        asked.setdefault(section_of(record), set()).update(_splits(record))
    return [_row(group, labels[group], own, asked[section_of(own[0])]) for group, own in groups.items()]


def _require_alike(records: Iterable[Record]) -> None:
    """Raise LedgerError unless the runs of a method have learned numbers of the same shapes."""
    shapes: dict[str, Any] = {}
    for record in records:
        if record["stopped"] is None:
            own = _shape(record.get("learned")), _shape(record.get("spectra")), len(record["classes"])
            if shapes.setdefault(group_of(record), own) != own:
                raise LedgerError(
                    f"record {record['key']} has other shapes than those beside it; remove it"
                )


def _shape(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _shape(own) for key, own in value.items()}
    return len(value) if isinstance(value, list) else None


def paired_test(a: Mapping[int, float], b: Mapping[int, float]) -> Paired:
    """The two-sided paired t-test over the seeds that ``a`` and ``b`` share; two at least.

    Where all differences are the same, p is 1 if they are zero, and 0 if not.
    """
    shared = sorted(a.keys() & b.keys())
    n = len(shared)
    if n < 2:
        raise ValueError(f"a paired test needs two shared seeds at least, got {n}")
    differences = [a[seed] - b[seed] for seed in shared]
    mean, spread = statistics.fmean(differences), statistics.stdev(differences)
    if spread < SAME:
        return Paired(1.0 if abs(mean) < SAME else 0.0, n, mean)
    try:
        from scipy import special
    except ImportError as error:
        raise MissingPackageError(
            "the paired test needs Student's distribution, which is SciPy's: pip install scipy"
        ) from error
    return Paired(float(2 * special.stdtr(n - 1, -abs(mean) / spread * math.sqrt(n))), n, mean)


def unique(records: Iterable[Record]) -> list[Record]:
    """The first record of each key: two ledgers may hold the same run."""
    by_key: dict[str, Record] = {}
    for record in records:
        by_key.setdefault(record["key"], record)
    return list(by_key.values())


def section_of(record: Record) -> str:
    """The data set and the kind of split: what makes results comparable."""
    config = json.loads(group_of(record))
    return json.dumps({key: config.get(key) for key in ("data", "split")}, sort_keys=True)


def is_baseline(record: Record) -> bool:
    """Whether it was fitted without a recipe."""
    return not record["config"].get("recipe")


def correct(record: Record) -> int:
    """How many tested samples the model after the last epoch got right."""
    if record["predictions"] is None:
        return round(record["accuracy"] * record["tested"])
    return sum(
        guess == target for guess, target in zip(record["predictions"], record["targets"], strict=True)
    )


def _splits(record: Record) -> set[str]:
    """All splits that a seed needs, as far as one of them tells: every fold, or this one."""
    split = _split(record)
    if split["kind"] != "fold":
        return {_text(split)}
    return {_text(split | {"fold": k}) for k in range(split["folds"])}


def _split(record: Record) -> dict[str, Any]:
    """How the samples were divided; records leave out what is a default.

    The digest of the samples is left out: that of one fold says nothing of the others.
    """
    split = asdict(Split()) | record["config"].get("split", {})
    split.pop("samples", None)
    return split


def _text(split: dict[str, Any]) -> str:
    return json.dumps(split, sort_keys=True)


def _row(group: str, label: str, records: list[Record], asked: set[str]) -> Row:
    by_seed: dict[int, dict[str, Record]] = {}
    for record in records:
        by_seed.setdefault(record["config"]["seed"], {}).setdefault(_text(_split(record)), record)
    accuracies = {
        seed: sum(map(correct, own.values())) / sum(record["tested"] for record in own.values())
        for seed, own in sorted(by_seed.items())
        if own.keys() == asked
    }
    values = list(accuracies.values())
    return Row(
        group=group,
        label=label,
        accuracies=accuracies,
        mean=statistics.fmean(values) if values else math.nan,
        deviation=statistics.stdev(values) if len(values) > 1 else None,
        n=len(values),
        stopped=tuple(record["stopped"] for record in records if record["stopped"] is not None),
        unfinished=tuple(seed for seed in sorted(by_seed) if seed not in accuracies),
        parameters=records[0].get("parameters"),
        seconds=statistics.fmean(record["seconds"] for record in records),
        records=tuple(records),
    )
