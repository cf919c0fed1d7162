"""Arguments that several commands take."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

import torch


def add_running(parser: argparse.ArgumentParser, out: str) -> None:
    """Where to compute, and where results go."""
    parser.add_argument("--out", type=Path, default=Path(out), help=f"folder for the results ({out})")
    parser.add_argument("--device", type=device, default="cpu", help="cpu (the default), cuda, cuda:1 …")
    parser.add_argument(
        "--jobs", type=count, help="runs at a time; one for each core, or worker, by default"
    )
    parser.add_argument(
        "--backend",
        choices=("local", "dask"),
        default="local",
        help="who makes the runs: the cores of this machine (the default) or the workers of a Dask cluster",
    )
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of the cluster, as tcp://host:8786")


def device(text: str) -> str:
    """A device that is here."""
    try:
        asked = torch.device(text)
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"no device is called {text!r}") from error
    if asked.type not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"alem runs on cpu and cuda, not on {asked.type}")
    if asked.type == "cpu":
        return "cpu"
    if not torch.cuda.is_available():
        raise argparse.ArgumentTypeError("torch sees no CUDA device here")
    if (asked.index or 0) >= torch.cuda.device_count():
        raise argparse.ArgumentTypeError(f"torch sees {torch.cuda.device_count()} CUDA devices, not {text}")
    return text


def count(text: str) -> int:
    """A whole number of 1 or more."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more, got {text!r}")
    return number


def seed(text: str) -> int:
    """A whole number that generators take."""
    try:
        number = int(text)
    except ValueError:
        number = 2**63
    if not -(2**63) <= number < 2**63:
        raise argparse.ArgumentTypeError(f"expected a whole number of 64 bits, got {text!r}")
    return number


def rate(text: str) -> float:
    """A positive number; ``1/30`` is one."""
    try:
        above, _, below = text.partition("/")
        number = float(above) / float(below or 1)
    except (ValueError, ZeroDivisionError):
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text!r}")
    return number


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas."""
    return tuple(count(part) for part in text.split(","))


def command_line() -> str:
    """What was typed, to be repeated."""
    return shlex.join(["alem", *sys.argv[1:]])
