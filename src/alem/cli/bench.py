"""``alem bench``: the speed suite."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import torch

from alem import bench
from alem.cli.arguments import device

HELP = "time alem beside its peers"
DTYPES = ("float32", "float64")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Rows, device, dtype, and where to write."""
    parser.add_argument(
        "--rows", type=_rows, default=list(bench.ROWS), help=f"of {','.join(bench.ROWS)}; all by default"
    )
    parser.add_argument("--device", type=device, default="cpu", help="cpu (the default), cuda, cuda:1 …")
    parser.add_argument("--dtype", choices=DTYPES, help="one of the two only")
    parser.add_argument(
        "--quick", action="store_true", help="a few cases of each row, a few minutes in all"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("alem-bench"), help="folder for JSON, page and plot (alem-bench)"
    )


def run(arguments: argparse.Namespace) -> int:
    """0 if every pair agreed and was timed or skipped."""
    dtypes = (arguments.dtype,) if arguments.dtype else DTYPES
    options = bench.Options(arguments.device, dtypes, arguments.quick)
    name = f"speed-{torch.device(arguments.device).type}"
    say = partial(print, flush=True)
    results = bench.run(options, arguments.rows, arguments.out, name, say=say)
    return int(any(r.status in ("refused", "failed") for r in results))


def _rows(text: str) -> list[str]:
    rows = text.split(",")
    for row in rows:
        if row not in bench.ROWS:
            raise argparse.ArgumentTypeError(f"no row is called {row!r}; there are {', '.join(bench.ROWS)}")
    return rows
