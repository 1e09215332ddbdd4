"""``gainful compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gainful.cli import options

if TYPE_CHECKING:
    from gainful.comparison import Comparison, ComparisonJob

EMBEDDED_QUERIES = 1000
DEFAULT_RANKERS = "few"
DEFAULT_SIZES = "0.6,0.2,0.2"


def compare(
    given: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DATA|RUN…]",
            help="Data file, or folder with train and test files or with Fold1, Fold2, …  Default: artificial data. "
            "With --qrels: TREC runs.",
        ),
    ] = None,
    qrels: options.QrelsFile = None,
    rankers: Annotated[
        str,
        typer.Option(
            "--rankers",
            help="few (fast ones of different families), all, names, or several of these with commas; "
            "NAME:PARAMETER=VALUE sets a parameter. Also what you have: feature:NAME or feature:NUMBER (feature:-NAME: "
            "lowest first), scores:FILE (one per row), run:FILE (TREC), model:FILE (of gainful or another library).",
        ),
    ] = DEFAULT_RANKERS,
    losses: Annotated[
        str | None,
        typer.Option(
            "--losses",
            help="Compare these losses on each of --models instead: all, or for example 'ranknet,lambda(k=10)'.",
        ),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option("--models", help="Models for --losses: linear, trees, net. Default: all installed."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds that the ranker auto may train, per fold.", show_default="60")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Ranker to test the others against. Default: the first.")] = None,
    test: Annotated[Path | None, typer.Option(help="Test data, if DATA is training data only.")] = None,
    valid: Annotated[Path | None, typer.Option(help="Validation data, if DATA is training data only.")] = None,
    folds: Annotated[
        int | None, typer.Option(help="Number of folds for cross-validation, at least 3 unless --time is given.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help=f"Shares of training, validation and test queries. Default: {DEFAULT_SIZES}.")
    ] = None,
    pairs: options.Pairs = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Divide by time: train on the earliest queries, test on the latest; with --folds, roll forward. A "
            "column or feature number with the time of the query, a number or a date.",
        ),
    ] = None,
    metrics: options.Metrics = None,
    convention: options.Convention = None,
    relevant: options.Relevant = None,
    queries: options.Queries = "all",
    tests: Annotated[str, typer.Option(help="Paired tests, comma-separated.")] = "wilcoxon,t,randomization",
    alpha: Annotated[float, typer.Option(help="Significance level.")] = 0.05,
    seed: Annotated[
        int, typer.Option(help="Seed for dividing the data, for the search and for the randomisation test.")
    ] = 0,
    all_pairs: Annotated[bool, typer.Option("--all-pairs", help="Also test every pair.")] = False,
    delta: Annotated[
        float | None,
        typer.Option(
            metavar="D", help="Also test whether rankers are practically the same, within ±D of the baseline."
        ),
    ] = None,
    segments: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN|FILE",
            help="Also show results by segment: a column of the data with one value per query, which is then not a "
            "feature; or a CSV file with columns query and segment.",
        ),
    ] = None,
    explain: Annotated[
        bool | None,
        typer.Option(
            "--explain/--no-explain",
            help="Keep what each feature is worth to each ranker, and contributions on some queries. Default: with "
            "--report.",
            show_default=False,
        ),
    ] = None,
    tune: Annotated[
        int | None,
        typer.Option("--tune", metavar="N", help="Tune the parameters: number of trials per ranker and fold."),
    ] = None,
    tune_seconds: Annotated[
        float | None,
        typer.Option("--tune-seconds", metavar="S", help="Tune the parameters: seconds per ranker and fold."),
    ] = None,
    search: options.Search = "random",
    refit_all: options.RefitAll = False,
    prune: options.Prune = True,
    jobs: options.RankerJobs = 1,
    store: options.StoreFolder = None,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    report: Annotated[Path | None, typer.Option(help="Folder for a report as HTML, Markdown, LaTeX and JSON.")] = None,
    per_query_csv: options.PerQueryFile = None,
    memory_limit: options.MemoryLimit = None,
    json: options.Json = False,
) -> None:
    """Train several rankers on the same queries and show which is better, by how much, and whether it is significant.

    Without DATA, they are compared on artificial data with a known target. With --qrels, runs are compared instead, and
    nothing is trained.
    """
    from gainful.cli.console import watch_compilation
    from gainful.cli.inputs import parse_metrics, parse_names, parse_numbers, read_options, read_segments
    from gainful.cli.jobs import comparison_bars, run_with_progress
    from gainful.comparison import compare as compare_rankers
    from gainful.data.synthetic import make_artificial
    from gainful.errors import ParameterError
    from gainful.formats.files import prepare_folder, refuse_unwritable

    if per_query_csv is not None:
        refuse_unwritable(per_query_csv)
    further = {
        "all_pairs": all_pairs,
        "delta": delta,
        "segments": segments if segments is None or is_column(segments, qrels) else read_segments(Path(segments)),
    }
    if qrels is not None:
        named = None if rankers == DEFAULT_RANKERS else rankers
        trained = {"--rankers": named, "--losses": losses, "--models": models, "--seconds": seconds, "--store": store}
        divided = {"--test": test, "--valid": valid, "--folds": folds, "--sizes": sizes, "--time": time}
        trained["--explain"] = explain or None
        _refuse_training_options({**trained, **divided, "--tune": tune, "--tune-seconds": tune_seconds})
        how = {"queries": queries, "tests": parse_names(tests), "baseline": baseline, "alpha": alpha, "seed": seed}
        result = _compared_runs(given, qrels, metrics, convention, relevant, how | further)
        if report is not None:
            prepare_folder(report)
        _show(result, report, per_query_csv, json)
        return
    refuse_without_qrels(queries)
    if given is not None and len(given) > 1:
        raise ParameterError(f"compare takes one data file or folder, was given {len(given)}; runs need --qrels QRELS")
    data = given[0] if given else None
    shares = parse_numbers(DEFAULT_SIZES if sizes is None else sizes, "--sizes")
    _refuse_useless_options(data, test, valid, folds, sizes)
    contestants = _contestants(rankers, losses, models, seconds)
    usual = metrics is None and relevant is None  # those for grades, or the one for preferences
    measures = parse_metrics(metrics or options.DEFAULT_METRICS, convention, relevant)
    settings: dict[str, Any] = {
        "test": test,
        "valid": valid,
        "folds": folds,
        "sizes": shares,
        "time": time,
        "metrics": None if usual else [str(one) for one in measures],
        "convention": convention,
        "tests": parse_names(tests),
        "baseline": baseline,
        "alpha": alpha,
        "seed": seed,
        **further,
        "explain": report is not None if explain is None else explain,
        "tune": tune,
        "tune_seconds": tune_seconds,
        "search": search,
        "refit": "all" if refit_all else True,
        "prune": prune,
        "n_jobs": jobs,
        "store": store,
        "read_options": read_options(format, merge, read, memory_limit, pairs),
    }
    few = rankers == DEFAULT_RANKERS and losses is None and models is None

    def begin(job: ComparisonJob) -> None:
        _print_notes(job, data, test, few)
        if report is not None:
            prepare_folder(report)  # before training, whose result would be lost

    watch_compilation()
    rows = make_artificial(EMBEDDED_QUERIES, seed=seed) if data is None else data
    run_with_progress(
        lambda progress: compare_rankers(contestants, rows, progress=progress, **settings),
        lambda bars: comparison_bars(bars, "" if data is None else f"reading {data}", begin),
        lambda result: _show(result, report, per_query_csv, json),
    )


def is_column(segments: str, qrels: Path | None) -> bool:
    """Whether ``--segments`` names a column rather than a file; runs have no columns."""
    is_file = Path(segments).suffix == ".csv" or Path(segments).exists()
    return qrels is None and not is_file


def _compared_runs(
    paths: list[Path] | None,
    qrels: Path,
    metrics: str | None,
    convention: str | None,
    relevant: float | None,
    settings: dict[str, Any],
) -> Comparison:
    from gainful.cli.console import status
    from gainful.cli.inputs import parse_run_metrics
    from gainful.comparison.judged_runs import compare_runs
    from gainful.errors import ParameterError
    from gainful.metrics.conventions import RUN_CONVENTION

    if not paths:
        raise ParameterError("there is no run to compare; name TREC run files before --qrels")
    measures = parse_run_metrics(metrics, convention, relevant)
    with status("reading and judging the runs"):
        return compare_runs(paths, qrels, metrics=measures, convention=convention or RUN_CONVENTION, **settings)


def _refuse_training_options(given: dict[str, Any]) -> None:
    """Raise if an option of training comes with --qrels, which trains nothing."""
    from gainful.errors import ParameterError

    for name, value in given.items():
        if value is not None:
            raise ParameterError(f"--qrels compares runs and trains nothing; leave out {name}")


def refuse_without_qrels(queries: str) -> None:
    """Raise if --queries is given without --qrels."""
    from gainful.errors import ParameterError

    if queries != "all":
        raise ParameterError("--queries is for runs; it needs --qrels QRELS")


def _refuse_useless_options(
    data: Path | None, test: Path | None, valid: Path | None, folds: int | None, sizes: str | None
) -> None:
    """Raise if an option that divides the data would change nothing."""
    from gainful.errors import ParameterError
    from gainful.formats.layout import is_divided

    divided = data is not None and data.is_dir() and is_divided(data)
    if test is not None or valid is not None:
        if data is None:
            raise ParameterError("--test and --valid need training data; name it first")
        if divided:
            raise ParameterError(f"{data} is a folder with its own test data; leave out --test and --valid")
    if sizes is None:
        return
    if divided:
        raise ParameterError(f"{data} is a folder that is already divided; leave out --sizes")
    if test is not None or folds is not None:
        other = "--test" if test is not None else "--folds"
        raise ParameterError(f"{other} says how the data is divided; leave out --sizes or {other}")


def _print_notes(job: ComparisonJob, data: Path | None, test: Path | None, few: bool) -> None:
    """Say what the user may not expect: artificial data, no validation data, only some of the rankers."""
    from gainful.cli.console import say

    if data is None:
        say(
            f"artificial data: {EMBEDDED_QUERIES} queries of 50 documents, 50 features, 5 grades; the target has a "
            "linear, a quadratic and a cubic part"
        )
    if any(part._valid is None for part in job.splits):
        hint = "" if test is None else "; give it with --valid FILE"
        say(f"note: without validation data, rankers cannot stop early and train to their last iteration{hint}")
    if few:
        say("comparing a useful few; choose others with --rankers: names that gainful rankers lists, or all")


def _contestants(rankers: str, losses: str | None, models: str | None, seconds: float | None) -> Any:
    """The rankers named, or those of the grid of losses and models."""
    from gainful.comparison.contestants import AUTO_SECONDS, ranker_names, within_seconds
    from gainful.comparison.grid import loss_grid
    from gainful.errors import ParameterError

    if losses is None and models is None:
        specs = ranker_names(rankers)
        timed = within_seconds(specs, AUTO_SECONDS if seconds is None else seconds)
        if seconds is not None and list(timed) == list(timed.values()):
            raise ParameterError("--seconds is for auto, which is not among the rankers, or has a budget of its own")
        return timed
    if rankers != DEFAULT_RANKERS:
        raise ParameterError("--losses and --models define the rankers; leave out --rankers")
    if seconds is not None:
        raise ParameterError("--seconds is for auto; --losses and --models define other rankers")
    return loss_grid("all" if losses is None else losses, models)


def _show(result: Comparison, report: Path | None, per_query_csv: Path | None, json: bool) -> None:
    from gainful.cli.console import has_compiled, print_json, say, stdout
    from gainful.comparison.render import renderable

    try:
        if json:
            print_json(result.to_dict())
        else:
            stdout().print(renderable(result))
            if result.trained and has_compiled():
                say("times include compiling kernels, which the next run will not need")
    finally:  # after the table, so that it is shown even if writing fails; and even if nobody reads the table
        if per_query_csv is not None:
            result.to_csv(per_query_csv)
        if report is not None:
            say(f"report: {result.to_report(report)}")
