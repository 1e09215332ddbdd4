"""``gainful tune``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gainful.cli import options
from gainful.errors import ParameterError

if TYPE_CHECKING:
    from gainful.tuning import TuneResult

DEFAULT_TRIALS = 20
DEFAULT_METRIC = "ndcg@10"


def tune(
    ranker: Annotated[str, typer.Argument(help="Name of a ranker; see gainful rankers.", show_default=False)],
    data: Annotated[
        Path, typer.Argument(help="Data file, or folder with train and validation files.", show_default=False)
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Model file to write.")] = None,
    valid: Annotated[Path | None, typer.Option(help="Validation data. Default: a quarter of the queries.")] = None,
    pairs: options.Pairs = None,
    folds: Annotated[int | None, typer.Option(help="Number of folds for cross-validation, at least 3.")] = None,
    trials: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of trials; 20 unless --seconds is given.", show_default=False),
    ] = None,
    seconds: Annotated[float | None, typer.Option(metavar="S", help="Start no trial after this many seconds.")] = None,
    search: options.Search = "random",
    metric: Annotated[
        str | None,
        typer.Option(
            help="Metric to maximise on the validation data.",
            show_default=f"{DEFAULT_METRIC}; pair-accuracy on preferences",
        ),
    ] = None,
    convention: options.Convention = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set a parameter instead of tuning it. Repeatable."),
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(
            "--space",
            metavar="NAME=LOW..HIGH",
            help="Tune only the parameters named: C=0.01..100:log, n_leaves=4..64 or loss=a,b. Repeatable.",
        ),
    ] = None,
    refit_all: options.RefitAll = False,
    prune: options.Prune = True,
    jobs: options.Jobs = 1,
    store: options.StoreFolder = None,
    seed: Annotated[int, typer.Option(help="Seed for the search and for dividing the data.")] = 0,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    memory_limit: options.MemoryLimit = None,
    json: options.Json = False,
) -> None:
    """Choose the parameters of a ranker on validation data. Ctrl-C ends the search and shows the best so far."""
    from gainful.cli.console import watch_compilation
    from gainful.cli.inputs import parse_metrics, read_options
    from gainful.cli.jobs import run_with_progress, search_bars
    from gainful.formats.files import refuse_unwritable
    from gainful.formats.layout import fold_folders
    from gainful.parameters.space import parse_dimension
    from gainful.rankers.registry import ranker as make
    from gainful.rankers.specs import parse_settings
    from gainful.tuning import tune as tune_ranker

    fixed = parse_settings(ranker, set or [])
    model = make(ranker, **fixed)
    measures = parse_metrics(metric or DEFAULT_METRIC, convention)
    if len(measures) != 1:
        raise ParameterError.of("tune", "metric", "one metric", metric)
    if data.is_dir() and valid is not None:
        raise ParameterError(f"{data} is a folder with its own validation data; leave out --valid")
    if output is not None:
        refuse_unwritable(output)
        if data.is_dir() and len(fold_folders(data)) > 1:
            raise ParameterError(f"{data} has several folds, so there is no one model to write; leave out --output")
    settings: dict[str, Any] = {
        "valid": valid,
        "folds": folds,
        "space": dict(parse_dimension(ranker, model.parameters, text) for text in space) if space else None,
        "fixed": fixed,
        "search": search,
        "trials": DEFAULT_TRIALS if trials is None and seconds is None else trials,
        "seconds": seconds,
        "metric": None if metric is None and convention is None else measures[0],
        "refit": output is not None and ("all" if refit_all else True),
        "n_jobs": jobs,
        "prune": prune,
        "store": store,
        "seed": seed,
        "label": ranker,
        "read_options": read_options(format, merge, read, memory_limit, pairs),
    }
    watch_compilation()
    run_with_progress(
        lambda progress: tune_ranker(model, data, progress=progress, **settings),
        lambda bars: search_bars(bars, ranker, f"reading {data}"),
        lambda found: _save_and_show(found, output, json),
    )


def _save_and_show(found: TuneResult, output: Path | None, json: bool) -> None:
    from gainful.cli.console import print_json, say, stdout
    from gainful.rankers.model_file import save

    if found.model is not None and output is not None:
        save(found.model, output)
        say(f"model: {output}")
    elif output is not None:
        say(f"interrupted: {output} is not written; train with the parameters found: gainful train … --set NAME=VALUE")
    if json:
        print_json(found.to_dict() | {"model": None if found.model is None else str(output)})
    else:
        stdout().print(found.renderable())
