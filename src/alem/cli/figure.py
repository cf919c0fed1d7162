"""``alem figure``: a figure of the paper, from the data to the picture."""

from __future__ import annotations

import argparse

from alem.cli.errors import UsageError, require_training, say
from alem.cli.running import require_files
from alem.cli.table import add_table_arguments, find_table, is_trial, run_table

HELP = "run what a figure of the paper shows, and draw it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which figure, and what tables take."""
    parser.add_argument("name", help="of the figure (alem list)")
    add_table_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0; what goes wrong is raised."""
    require_training()
    from alem.experiments import figures
    from alem.experiments.pictures import FIGURES
    from alem.experiments.report import write_whole
    from alem.experiments.summary import summarise

    if arguments.name not in FIGURES:
        raise UsageError(f"no figure is called {arguments.name!r}; there are {', '.join(FIGURES)}")
    if not figures.available():
        raise UsageError("figures need matplotlib: pip install matplotlib")
    figure = FIGURES[arguments.name]
    folder = arguments.out / "figures"
    require_files(*(folder / f"{arguments.name}{trial}.svg" for trial in ("", "-trial")))
    table = find_table(figure.table)
    records, differs = run_table(table, arguments, figure.rows)
    rows = summarise(record for own in records.values() for record in own)
    drawing = figures.draw(figure.draw(rows, figures.looks(rows)), arguments.name)
    trial = "-trial" if differs or is_trial(arguments) else ""  # never in place of the real one
    path = folder / f"{arguments.name}{trial}.svg"
    write_whole(path, figures.to_file(drawing))
    say(f"{figure.title}: {path}")
    return 0
