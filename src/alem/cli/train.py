"""``alem train``: networks on a data set, one or several, and a report that compares them."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any

from alem.cli.arguments import add_running, command_line, count, numbers, rate, seed
from alem.cli.errors import UsageError, arguments_of, require_training, say
from alem.cli.running import execute, require_backend, require_files, start_processes
from alem.linalg.errors import spelled

if TYPE_CHECKING:
    from alem.data import Dataset
    from alem.experiments import Run, Source

HELP = "train networks on covariance matrices, compare them, write a report"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Data, network, recipe, and where to write."""
    parser.add_argument("--data", default="digits", help="a file, a folder, or digits (the default)")
    parser.add_argument("--reader", help="the layout of the data, where it is not recognised")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="for the reader, may be repeated",
    )
    parser.add_argument(
        "--log",
        help="logarithms to compare, separated by commas: ln, mul, gap … (alem list); gap by default",
    )
    parser.add_argument("--norm", help="spdnetbn, spdbn or liebn after every BiMap")
    parser.add_argument("--metric", help="of the norm and the gyro head: lem, alem, aim …")
    parser.add_argument("--head", help="linear (the default) or gyro")
    parser.add_argument("--dims", type=numbers, help="sizes after the input's, separated by commas")
    parser.add_argument(
        "--recipe",
        choices=("recommended", "paper"),
        default="recommended",
        help="where all that is not said here comes from",
    )
    parser.add_argument("--epochs", type=count)
    parser.add_argument("--lr", type=rate)
    parser.add_argument(
        "--metric-lr", type=rate, help="multiplies lr for what metrics and logarithms learn"
    )
    parser.add_argument("--batch-size", type=count)
    parser.add_argument("--optimizer", help="rsgd or amsgrad")
    parser.add_argument("--dtype", help="float64 or float32")
    parser.add_argument("--products", help="bfloat16, for those of BiMap and linear layers; with float32")
    parser.add_argument("--seed", type=seed, default=0, help="the first seed (0)")
    parser.add_argument("--seeds", type=count, default=1, help="how many seeds, one after the other (1)")
    add_running(parser, "alem-run")
    parser.add_argument("--devices", type=count, default=1, help="processes that share each batch (1)")
    parser.add_argument(
        "--nodes",
        type=count,
        default=1,
        help="machines with so many each, on all of which the command is given; MASTER_ADDR and "
        "MASTER_PORT say where the first is (1)",
    )


def run(arguments: argparse.Namespace) -> int:
    """0; what goes wrong is raised."""
    require_training()
    require_backend(arguments, arguments.devices * arguments.nodes)
    from alem.experiments import Ledger, Source
    from alem.experiments.claims import is_first
    from alem.experiments.report import pages, write_report
    from alem.experiments.summary import section_of, summarise
    from alem.training import are_shared

    options = tuple(_option(text) for text in arguments.option)
    source = Source(arguments.data, reader=arguments.reader, options=options)
    with arguments_of(f"{arguments.data} and its options"):
        data = source.load()
    runs = _runs(arguments, source, data)
    if arguments.devices * arguments.nodes > 1 and not are_shared():
        start_processes(arguments.devices, arguments.nodes)
    say(spelled(str(data)))
    if data.repairs:
        say(spelled(data.repairs.describe(data.names)))
    networks = arguments.out / "networks"
    require_files(*pages(arguments.out))
    records = execute(runs, arguments.out, arguments, networks)
    if not is_first():
        return 0
    rows = summarise(records)
    width = max(len(row.label) for row in rows)
    for row in rows:
        deviation = "" if row.deviation is None else f" ± {100 * row.deviation:.2f}"
        ended = f", {len(row.stopped)} stopped early" if row.stopped else ""
        of = "one seed" if row.n == 1 else f"{row.n} seeds"
        say(f"{row.label:{width}}  {100 * row.mean:.2f}{deviation} % right at the end, {of}{ended}")
    # With what has been run there before on the same data and split.
    section = section_of(records[0])
    before = [r for r in Ledger(arguments.out).records().values() if section_of(r) == section]
    page = write_report([*records, *before], arguments.out, f"alem on {data.name}", command_line())[0]
    say(f"report    {page}\nnetworks  {networks}")
    return 0


def _runs(arguments: argparse.Namespace, source: Source, data: Dataset) -> list[Run]:
    from alem.experiments import Method, Run
    from alem.experiments.method import one_bimap
    from alem.experiments.protocols import part
    from alem.experiments.recommended import RECOMMENDED
    from alem.models.spdnet import SPDNet
    from alem.training import Recipe

    recommended = arguments.recipe == "recommended"
    if arguments.metric is not None and arguments.norm != "liebn" and arguments.head != "gyro":
        raise UsageError("--metric is that of --norm liebn or of --head gyro, and neither is asked for")
    given = {
        "norm": arguments.norm,
        "metric": arguments.metric,
        "head": arguments.head,
    }
    base: dict[str, Any] = dict(RECOMMENDED.options) if recommended else {}
    if arguments.head == "gyro":  # takes the matrices themselves
        base = {key: base[key] for key in ("trace_norm", "whiten") if key in base}
        if arguments.log is not None:
            raise UsageError(
                "--log belongs to the linear head; the gyro head has the logarithm of --metric"
            )
    base |= {key: value for key, value in given.items() if value is not None}
    changes = {
        field.name: getattr(arguments, field.name)
        for field in dataclasses.fields(Recipe)
        if getattr(arguments, field.name, None) is not None
    }
    logs: list[str | None] = [None]
    if arguments.head != "gyro":
        logs = [log.strip() for log in (arguments.log or base.get("log", "ln")).split(",")]
    dims = arguments.dims or one_bimap(RECOMMENDED.share if recommended else 0.5, data.n)
    with arguments_of("arguments of training"):
        recipe = Recipe(**{**(RECOMMENDED.recipe if recommended else {}), **changes})
        methods = [
            Method("SPDNet", dims, base | ({} if log is None else {"log": log}), recipe) for log in logs
        ]
        for method in methods:  # a mistake is said before anything is trained
            SPDNet([data.n, *dims], len(data.classes), **dict(method.options))
        (split,) = part(data)
        seeds = range(arguments.seed, arguments.seed + arguments.seeds)
        for each in seeds:
            split.places(data, each)
    return [Run(source, method, split, each) for each in seeds for method in methods]


def _option(text: str) -> tuple[str, Any]:
    """NAME=VALUE, the value a number where it looks like one."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--option takes NAME=VALUE, got {text!r}")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value
