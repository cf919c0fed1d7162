"""From records to the blocks of a report: a section for each data set and kind of split."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from alem.experiments import figures
from alem.experiments.ledger import Record
from alem.experiments.report.blocks import Block, Bullets, Heading, Listing, Paragraph, Table
from alem.experiments.report.pictures import confused, pictures
from alem.experiments.report.results import best, many, results
from alem.experiments.summary import section_of, summarise, unique

SPLITS = {
    "given": "the official split",
    "half": "a random half of the samples to train on, by the seed",
    "part": "a random fifth of each class to test, by the seed",
    "fold": "folds of the official training samples",
    "group": "one group left out at a time",
}
NO_FIGURES = "There are no figures, because matplotlib is not installed: pip install matplotlib."


def content(records: Iterable[Record], title: str, command: str | None = None) -> list[Block]:
    """The report."""
    records = unique(records)
    if not records:
        raise ValueError("there is nothing to report: no records were given")
    sections: dict[str, list[Record]] = {}
    for record in records:
        sections.setdefault(section_of(record), []).append(record)
    blocks: list[Block] = [Heading(title, 1)]
    for place, own in enumerate(sections.values(), start=1):
        blocks += _section(own, f"{place}-{_slug(own[0])}")
    return [*blocks, *_provenance(records, command)]


def _section(records: Sequence[Record], slug: str) -> list[Block]:
    rows = summarise(records)
    blocks: list[Block] = [Heading(_name(records)), *_summary(records, len(rows)), *results(rows)]
    if figures.available():
        blocks += pictures(rows, slug)
    else:
        blocks.append(Paragraph(NO_FIGURES))
    first = best(rows)
    return blocks if first is None else [*blocks, *confused(first, slug)]


def _summary(records: Sequence[Record], methods: int) -> list[Block]:
    """What was run, in a paragraph."""
    config, samples = records[0]["config"], records[0]["samples"]
    data, kind = config["data"], config.get("split", {}).get("kind", "given")
    repairs = sorted({record["samples"]["repaired"] for record in records} - {""})
    seeds = sorted({record["config"]["seed"] for record in records})
    epochs = sorted({r["config"]["recipe"]["epochs"] for r in records if r["config"].get("recipe")})
    parts = [
        f"Data {data['name']}, fingerprint {data['fingerprint']}: "
        f"{samples['size']}×{samples['size']} matrices in {len(records[0]['classes'])} classes, "
        f"{_range(r['trained'] for r in records)} to train on and "
        f"{_range(r['tested'] for r in records)} to test on; {SPLITS.get(kind, kind)}{_within(records)}.",
        f"Repaired: {'; '.join(repairs)}." if repairs else "No matrix was repaired.",
        f"{_count(methods, 'method')} in {_count(len(records), 'run')}, {_seeds(seeds)}.",
    ]
    if epochs:
        parts.append(f"Networks were trained for {', '.join(map(str, epochs))} epochs.")
    return [Paragraph(" ".join(parts))]


def _provenance(records: Sequence[Record], command: str | None) -> list[Block]:
    """Warnings, versions and commands."""
    blocks: list[Block] = [Heading("Warnings")]
    counts: dict[str, int] = {}
    for record in records:
        for warning in record["warnings"]:
            counts[warning] = counts.get(warning, 0) + 1
    if counts:
        blocks.append(Bullets([f"{text} ({_count(n, 'run')})" for text, n in sorted(counts.items())]))
    else:
        blocks.append(Paragraph("None was recorded."))
    names = dict.fromkeys(name for record in records for name in record["versions"])
    found = {name: sorted({record["versions"].get(name, "absent") for record in records}) for name in names}
    found["device"] = sorted({str(record["device"]) for record in records})
    found["threads of a run"] = [str(n) for n in sorted({record["threads"] for record in records})]
    blocks += [
        Heading("Versions"),
        Table(("of", "version"), [(name, ", ".join(values)) for name, values in found.items()], text=2),
    ]
    commands = dict.fromkeys([command, *(record["command"] for record in records)])
    lines = [line for line in commands if line]
    if lines:
        blocks += [Heading("To repeat it"), Listing("\n".join(lines))]
    return blocks


def _name(records: Sequence[Record]) -> str:
    """The data set; the split too where it is not the official one."""
    name, split = records[0]["config"]["data"]["name"], records[0]["config"].get("split", {})
    kinds = {
        "given": "",
        "half": ", random halves",
        "part": ", random fifths",
        "fold": f", {split.get('folds')} folds",
        "group": f", one {split.get('column')} left out",
    }
    return f"{name}{kinds.get(split.get('kind', 'given'), '')}{_within(records)}"


def _within(records: Sequence[Record]) -> str:
    """The columns that samples are restricted by, with the value where it is always the same."""
    values: dict[str, set[str]] = {}
    for record in records:
        for column, value in record["config"].get("split", {}).get("within", ()):
            values.setdefault(column, set()).add(value)
    parts = [f"{c} {''.join(v)}" if len(v) == 1 else f"each {c}" for c, v in values.items()]
    return f", within {' and '.join(parts)}" if parts else ""


def _slug(record: Record) -> str:
    """The data set in letters that files and identifiers may have."""
    name = re.sub(r"[^a-z0-9]+", "-", str(record["config"]["data"]["name"]).lower()).strip("-")
    return name or "data"


def _range(numbers: Iterable[int]) -> str:
    several = sorted(set(numbers))
    return f"{several[0]}" if len(several) == 1 else f"{several[0]}–{several[-1]}"


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) > 2 and seeds[-1] - seeds[0] + 1 == len(seeds):
        return f"seeds {seeds[0]}–{seeds[-1]}"
    return many(seeds, "seed")


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
