"""The speed suite, with its numbers in the documentation.

    python -m benchmarks.speed        writes docs/results/speed-cpu.json, .md and .svg

Takes the options of ``alem bench``; with ``--device cuda`` the files are speed-cuda.
"""

from __future__ import annotations

import sys
from pathlib import Path

from alem.cli import main

OUT = Path(__file__).parents[1] / "docs" / "results"

if __name__ == "__main__":
    sys.exit(main(["bench", "--out", str(OUT), *sys.argv[1:]]))
