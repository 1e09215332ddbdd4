"""``gainful reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gainful.cli import options

if TYPE_CHECKING:
    from reproduction.tables import Result

app = typer.Typer(
    no_args_is_help=True, help="Repeat the papers' experiments and show our figures next to the published ones."
)

Rankers = Annotated[
    str, typer.Option("--rankers", help="Comma-separated names; NAME:PARAMETER=VALUE sets a parameter.")
]
Store = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="Folder for results as they arrive; a killed run resumes from there. Default: in the user's cache.",
    ),
]
Report = Annotated[Path | None, typer.Option("--report", metavar="DIR", help="Folder for a report of the comparison.")]
Results = Annotated[
    Path | None,
    typer.Option("--results", metavar="DIR", help="Folder for the tables as Markdown and the means as JSON."),
]


@app.command("ohsumed")
def ohsumed(
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Folder with Fold1 … Fold5 of OHSUMED from LETOR 3.0.")
    ],
    rankers: Rankers = "all",
    trials: Annotated[int, typer.Option(metavar="N", help="Trials per ranker and fold.")] = 16,
    select: Annotated[str, typer.Option(help="Metric that chooses the parameters on the validation queries.")] = "map",
    jobs: options.Jobs = 1,
    seed: Annotated[int, typer.Option(help="Seed for the search and the randomisation test.")] = 0,
    store: Store = None,
    report: Report = None,
    results: Results = None,
    json: options.Json = False,
) -> None:
    """OHSUMED under LETOR 3.0's protocol and measures: all rankers tuned alike, next to the papers' tables.

    Takes about 20 minutes of processor time. The figures do not depend on --jobs or interruptions.
    """
    from gainful.cli.console import status, watch_compilation
    from gainful.cli.jobs import comparison_bars, run_with_progress
    from reproduction.ohsumed import Ohsumed
    from reproduction.tables import command_line

    watch_compilation()
    with status(f"reading {data}"):
        experiment = Ohsumed(data, rankers=rankers, trials=trials, select=select, jobs=jobs, seed=seed, store=store)
    _print_store(experiment.store)
    given = ["--data", "DIR", "--trials", str(trials), "--select", select, "--seed", str(seed)]
    given += ["--rankers", rankers] if rankers != "all" else []
    command = command_line(["reproduce", "ohsumed", *given])
    run_with_progress(
        experiment.run, comparison_bars, lambda _: _show(experiment.result(), command, report, results, json)
    )


@app.command("artificial")
def artificial(
    queries: Annotated[
        str | None, typer.Option(metavar="TRAIN,VALID,TEST", help="Numbers of queries. Default: 2000,500,2000.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Use 10,000, 5,000 and 10,000 queries, as in the paper.")
    ] = False,
    rankers: Annotated[
        str | None, typer.Option("--rankers", help="Comma-separated names. Default: those of the table.")
    ] = None,
    trees: Annotated[int, typer.Option(help="Iterations of boosted trees.")] = 1000,
    leaves: Annotated[int, typer.Option(help="Leaves per tree.")] = 10,
    rate: Annotated[float, typer.Option(help="Shrinkage of boosted trees.")] = 0.05,
    shares: Annotated[
        str | None, typer.Option(metavar="P0,…,P4", help="Probabilities of the five grades. Default: equal.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads per training; LightGBM's trees depend on it.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed for the data and the randomisation test.")] = 0,
    store: Store = None,
    report: Report = None,
    results: Results = None,
    json: options.Json = False,
) -> None:
    """Table 1 of the McRank paper on artificial data: the paper's settings, at a size you choose. Takes minutes."""
    from gainful.cli.console import status, watch_compilation
    from gainful.cli.inputs import parse_numbers
    from gainful.cli.jobs import comparison_bars, run_with_progress
    from gainful.errors import ParameterError
    from reproduction.artificial import FULL, RANKERS, SIZES, Artificial
    from reproduction.tables import command_line

    if full and queries is not None:
        raise ParameterError("--full and --queries both set the number of queries; leave out one")
    sizes = [*FULL] if full else [*SIZES] if queries is None else parse_numbers(queries, "--queries")
    if any(n != int(n) for n in sizes):
        raise ParameterError(f"--queries must be whole numbers, was {queries!r}")
    cut = None if shares is None else parse_numbers(shares, "--shares")
    watch_compilation()
    with status("generating the data"):
        experiment = Artificial(
            [int(n) for n in sizes], rankers=rankers or RANKERS, trees=trees, leaves=leaves, rate=rate, shares=cut,
            threads=threads, seed=seed, store=store,
        )  # fmt: skip
    _print_store(experiment.store)
    given = ["--queries", ",".join(str(int(n)) for n in sizes), "--trees", str(trees), "--leaves", str(leaves)]
    given += ["--rate", f"{rate:g}", "--threads", str(threads), "--seed", str(seed)]
    given += ["--shares", shares] if shares is not None else []
    given += ["--rankers", rankers] if rankers is not None else []
    command = command_line(["reproduce", "artificial", *given])
    run_with_progress(
        experiment.run, comparison_bars, lambda _: _show(experiment.result(), command, report, results, json)
    )


def _print_store(folder: Path) -> None:
    from gainful.cli.console import say

    say(f"results are stored in {folder}; the same command resumes from there")


def _show(result: Result, command: str, report: Path | None, results: Path | None, json: bool) -> None:
    from dataclasses import replace

    from gainful.cli.console import json_text, print_json, say, stdout
    from gainful.formats.files import atomic_write
    from reproduction.tables import markdown, terminal

    values = result.to_dict(command)
    if results is not None:
        results.mkdir(parents=True, exist_ok=True)
        for suffix, text in (("md", markdown(result, command)), ("json", json_text(values) + "\n")):
            path = results / f"{values['experiment']}.{suffix}"
            with atomic_write(path) as file:
                file.write(text.encode())
            say(f"written: {path}")
    if report is not None:
        few = replace(result.comparison, metrics=result.comparison.metrics[:4])  # as many as fit on a page
        say(f"report: {few.to_report(report)}")
    if json:
        print_json(values)
    else:
        stdout().print(terminal(result))
