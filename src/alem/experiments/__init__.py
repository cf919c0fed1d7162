"""Runs, their results, and the tables and figures made of them."""

from alem.experiments.baselines import MissingPackageError
from alem.experiments.grid import run_grid
from alem.experiments.ledger import Ledger, LedgerError
from alem.experiments.method import Method
from alem.experiments.run import Run, Source
from alem.experiments.split import Split
from alem.experiments.studies import TABLES
from alem.experiments.table import Column, Row, Table

__all__ = [
    "TABLES",
    "Column",
    "Ledger",
    "LedgerError",
    "Method",
    "MissingPackageError",
    "Row",
    "Run",
    "Source",
    "Split",
    "Table",
    "run_grid",
]
