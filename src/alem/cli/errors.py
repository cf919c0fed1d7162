"""Errors that are the user's to mend: one line, exit code 2, no traceback."""

from __future__ import annotations

import argparse
import contextlib
import importlib
from collections.abc import Iterator
from typing import NoReturn

from alem.data import DataError
from alem.linalg import InvalidMatrixError
from alem.linalg.errors import shown, spelled


class UsageError(ValueError):
    """Arguments that make no sense; the message says which and what would."""


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {shown(message)} ({self.prog} --help shows what there is)\n")


@contextlib.contextmanager
def arguments_of(what: str) -> Iterator[None]:
    """An error while objects are made from arguments is an error of the arguments."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if is_mendable(error):
            raise
        raise UsageError(f"{what}: {error}") from error


# What training needs beside the core.
TRAINING = ("lightning_fabric", "safetensors", "joblib", "tqdm")


def require_training() -> None:
    """Raise UsageError, saying what to install, where a package that training needs is missing."""
    for name in TRAINING:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise UsageError(f"this command needs {name}: pip install 'alem[train]'") from error


def is_mendable(error: BaseException) -> bool:
    """Whether the message says all; anything else is a fault of the library and shows its traceback."""
    if isinstance(error, (UsageError, DataError, InvalidMatrixError, OSError)):
        return True
    try:
        from alem.experiments import LedgerError, MissingPackageError
        from alem.optim import NonFiniteGradientError
        from alem.training import CheckpointError
    except ImportError:
        return False
    return isinstance(error, (LedgerError, MissingPackageError, CheckpointError, NonFiniteGradientError))


def one_line(error: BaseException) -> str:
    """The message of an error without its line breaks."""
    if isinstance(error, OSError) and error.filename is not None:
        return shown(f"{error.filename}: {error.strerror}")
    return shown(" ".join(str(error).split())) or type(error).__name__


def say(*lines: object) -> None:
    """Print lines; what a terminal would obey in them is spelled out, as names in files may hold it."""
    for line in lines:
        print("\n".join(map(spelled, str(line).split("\n"))))
