"""``alem``, which hands over to its commands."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Protocol

import alem
from alem.cli import bench, doctor, figure, listing, report, table, train
from alem.cli.errors import Parser, is_mendable, one_line


class Command(Protocol):
    """What a module of a command has."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Say what the command takes."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; the exit code."""


COMMANDS: dict[str, Command] = {
    "train": train,
    "report": report,
    "list": listing,
    "table": table,
    "figure": figure,
    "bench": bench,
    "doctor": doctor,
}


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = Parser(
        prog="alem", description="Learning on symmetric positive definite matrices with learned metrics."
    )
    top.add_argument("--version", action="version", version=f"alem {alem.__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.HELP, description=command.HELP)
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return top


def run(argv: Sequence[str] | None) -> int:
    """Run the command that ``argv`` names; the exit code."""
    arguments = parser().parse_args(argv)
    if os.environ.get("RANK", "0") != "0":  # of several processes one speaks
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except Exception as error:
        if isinstance(error, BrokenPipeError) or not is_mendable(error):
            raise
        print(f"alem: {one_line(error)}", file=sys.stderr)
        return 2
    return code
