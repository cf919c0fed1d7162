"""``python -m tests.fuzz --seconds 300``: every target for so long; ``--out`` keeps what is found."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.fuzz.loop import fuzz
from tests.fuzz.targets import TARGETS

parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all by default")
parser.add_argument("--seconds", type=float, default=60.0, help="for each target (60)")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--out", type=Path, help="folder for the files that break a promise")
arguments = parser.parse_args()
for name in arguments.targets or TARGETS:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = fuzz(TARGETS[name], Path(folder), 10**12, arguments.seconds, arguments.seed)
    halves = [edges for executions, edges in found.growth if executions <= found.executions / 2]
    print(
        f"{name}: {found.executions} executions in {time.monotonic() - start:.0f} s, {found.valid} valid, "
        f"{found.growth[0][1]} edges by the first file, {halves[-1]} at half of the executions, "
        f"{len(found.edges)} at the end, {len(found.corpus)} files kept, {len(found.findings)} findings",
        flush=True,
    )
    for i, finding in enumerate(found.findings.values()):
        print(f"  {finding.kind}: {finding.said}", flush=True)
        if arguments.out:
            for place, content in zip(TARGETS[name].places, finding.case, strict=True):
                file = arguments.out / f"{name}-{i}" / place
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
