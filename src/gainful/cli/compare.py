"""``gainful compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gainful.cli import options

if TYPE_CHECKING:
    from gainful.comparison import Comparison
    from gainful.data.splits import Split

EMBEDDED_QUERIES = 1000
DEFAULT_RANKERS = "few"
DEFAULT_SIZES = "0.6,0.2,0.2"


def compare(
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Data file, or a folder with train/test files or Fold1, Fold2, …  Default: artificial data."
        ),
    ] = None,
    rankers: Annotated[
        str,
        typer.Option(
            "--rankers",
            help="few (quick ones of different families), all, or names with commas between them; "
            "NAME:PARAMETER=VALUE sets parameters.",
        ),
    ] = DEFAULT_RANKERS,
    losses: Annotated[
        str | None,
        typer.Option("--losses", help="Cross these losses with --models instead: all, or 'ranknet,lambda(k=10)'."),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option("--models", help="Of linear, trees and net; with --losses. Default: those installed."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Ranker that the others are tested against. Default: the first.")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Test data, if DATA is training data only.")] = None,
    valid: Annotated[Path | None, typer.Option(help="Validation data, if DATA is training data only.")] = None,
    folds: Annotated[int | None, typer.Option(help="Cross-validate with so many folds (3 or more).")] = None,
    sizes: Annotated[
        str | None, typer.Option(help=f"Shares of train, validation and test queries. Default: {DEFAULT_SIZES}.")
    ] = None,
    metrics: options.Metrics = "ndcg@10,ndcg@1,ndcg@5,map",
    convention: options.Convention = None,
    relevant: options.Relevant = None,
    tests: Annotated[str, typer.Option(help="Paired tests.")] = "wilcoxon,t,randomization",
    alpha: Annotated[float, typer.Option(help="Level at which a difference is called significant.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Seed of the division, of the search and of the randomisation test.")] = 0,
    tune: Annotated[
        int | None, typer.Option("--tune", metavar="N", help="Choose parameters in so many trials a ranker and fold.")
    ] = None,
    tune_seconds: Annotated[
        float | None, typer.Option("--tune-seconds", metavar="S", help="The same, in so many seconds.")
    ] = None,
    search: options.Search = "random",
    refit_all: options.RefitAll = False,
    prune: options.Prune = True,
    jobs: options.Jobs = 1,
    store: options.StoreFolder = None,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    report: Annotated[Path | None, typer.Option(help="Folder for the report: HTML, Markdown, LaTeX, JSON.")] = None,
    json: options.Json = False,
) -> None:
    """Train several rankers on the same queries and say which is better, by how much and how surely.

    Without DATA it compares them on an artificial data set with a known target.
    """
    from gainful.cli.console import say, watch_compilation
    from gainful.cli.inputs import parse_metrics, parse_names, parse_numbers, read_options, warn_of_data
    from gainful.cli.jobs import run_job
    from gainful.comparison import ComparisonJob
    from gainful.comparison.compare import CURVE, check_comparison, how_to_choose
    from gainful.comparison.contestants import entries
    from gainful.comparison.protocol import as_splits, division
    from gainful.data.splits import first_look
    from gainful.formats.files import prepare_folder

    # Everything that can be wrong with the request is checked before the data is read.
    entered = entries(_contestants(rankers, losses, models))
    fitting = {label: model for label, (model, _) in entered.items()}
    measures = tuple(parse_metrics(metrics, convention, relevant))
    shares = parse_numbers(DEFAULT_SIZES if sizes is None else sizes, "--sizes")
    _refuse_sizes(sizes, data, test, folds)
    names = parse_names(tests)
    check_comparison(fitting, measures, names, baseline, alpha, seed)
    refit = "all" if refit_all else True
    choosing = how_to_choose(measures, tune, tune_seconds, search, refit, prune, jobs, seed)
    watch_compilation()
    how: dict[str, Any] = {"n_folds": folds, "sizes": shares, "seed": seed}
    how |= _load(data, test, valid, read_options(format, merge, read), seed)
    splits = as_splits(**how)
    warn_of_data(*first_look(how["data"], how.get("valid")))
    _say_without_validation(splits, test)
    if rankers == DEFAULT_RANKERS and losses is None and models is None:
        say("comparing a useful few; --rankers names others, or all of those that gainful rankers lists")
    if report is not None:
        prepare_folder(report)  # before the training, whose result it would lose
    job = ComparisonJob(
        fitting,
        splits,
        metrics=measures,
        curve=tuple(measure for name in CURVE for measure in parse_metrics(name, convention)),
        tests=tuple(names),
        baseline=baseline,
        alpha=alpha,
        seed=seed,
        choosing=choosing,
        fixed={label: fixed for label, (_, fixed) in entered.items()},
        store=store,
        divided=division(**how),
    )
    run_job(job, lambda: _show(job.result(), report, json))


def _refuse_sizes(sizes: str | None, data: Path | None, test: Path | None, folds: int | None) -> None:
    """Raise where --sizes would change nothing."""
    from gainful.errors import ParameterError

    if sizes is None:
        return
    if data is not None and data.is_dir():
        raise ParameterError(f"{data} is a folder that is divided already; leave out --sizes")
    if test is not None or folds is not None:
        other = "--test" if test is not None else "--folds"
        raise ParameterError(f"{other} says how the data is divided; leave out --sizes or {other}")


def _say_without_validation(splits: list[Split], test: Path | None) -> None:
    from gainful.cli.console import say

    if any(part._valid is None for part in splits):
        hint = "" if test is None else "; --valid FILE gives it"
        say(f"note: without validation data rankers cannot stop early and train to their last iteration{hint}")


def _contestants(rankers: str, losses: str | None, models: str | None) -> Any:
    """The rankers named, or the grid of losses and models."""
    from gainful.comparison.grid import loss_grid
    from gainful.errors import ParameterError

    if losses is None and models is None:
        return rankers
    if rankers != DEFAULT_RANKERS:
        raise ParameterError("--losses and --models make their own rankers; leave out --rankers")
    return loss_grid("all" if losses is None else losses, models)


def _show(result: Comparison, report: Path | None, json: bool) -> None:
    from gainful.cli.console import has_compiled, print_json, say, stdout
    from gainful.comparison.render import renderable

    if json:
        print_json(result.to_dict())
    else:
        stdout().print(renderable(result))
        if has_compiled():
            say("times include the compiling of kernels, which the next run need not do")
    if report is not None:  # last: whatever befalls the files, the result has been told
        say(f"report: {result.to_report(report)}")


def _load(data: Path | None, test: Path | None, valid: Path | None, how: dict[str, Any], seed: int) -> dict[str, Any]:
    """The keywords of ``as_splits`` that name the data."""
    from gainful.cli.console import say
    from gainful.cli.inputs import load_data, load_splits
    from gainful.data.synthetic import make_artificial
    from gainful.errors import ParameterError
    from gainful.formats.layout import align_features

    if data is None:
        if test is not None or valid is not None:
            raise ParameterError("--test and --valid need training data; name it first")
        say(
            f"artificial data: {EMBEDDED_QUERIES} queries of 50 documents, 50 features, 5 grades; the target has a "
            "linear, a quadratic and a cubic part"
        )
        return {"data": make_artificial(EMBEDDED_QUERIES, seed=seed)}
    if data.is_dir():
        if test is not None or valid is not None:
            raise ParameterError(f"{data} is a folder with its own test data; leave out --test and --valid")
        return {"data": load_splits(data, how)}
    paths = {"data": data, "test": test, "valid": valid}
    return dict(align_features({name: load_data(path, how) for name, path in paths.items() if path is not None}))
