"""The command line: one module for each command, with ``HELP``, ``add_arguments`` and ``run``."""

from alem.cli.start import main

__all__ = ["main"]
