"""``alem list``: what there is to choose from."""

from __future__ import annotations

import argparse

HELP = "list tables, figures, logarithms, metrics and readers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def run(arguments: argparse.Namespace) -> int:
    """0."""
    from alem.data import READERS
    from alem.experiments import TABLES
    from alem.experiments.pictures import FIGURES
    from alem.geometry import METRICS
    from alem.nn.eig import RULES

    def line(name: str, about: str) -> None:
        print(f"  {name:18}{about}")

    print("tables (alem table NAME --data PATH)")
    for name, table in TABLES.items():
        line(name, f"{table.title}; data: {', '.join(table.data)}")
    line("complexity", "Parameters and time of the layers; no data")
    print("\nfigures (alem figure NAME --data PATH)")
    for name, figure in FIGURES.items():
        line(name, f"{figure.title}; data: {', '.join(TABLES[figure.table].data)}")
    print("\nlogarithms (alem train --log)", f"  {', '.join(RULES)}", sep="\n")
    print("\nmetrics (alem train --metric)", f"  {', '.join(METRICS)}", sep="\n")
    print("\nlayouts of data (alem train --reader), recognised without being named")
    for name, reader in READERS.items():
        line(name, reader.layout)
    line("digits", "no file: scikit-learn's digits as 7×7 region covariances")
    return 0
