"""``gainful tune``."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gainful.cli import INTERRUPTED, complain, options
from gainful.errors import ParameterError

if TYPE_CHECKING:
    from rich.progress import Progress

    from gainful.tuning import TuneProgress, TuneResult

DEFAULT_TRIALS = 20


def tune(
    ranker: Annotated[str, typer.Argument(help="Name of a ranker; see gainful rankers.", show_default=False)],
    data: Annotated[
        Path, typer.Argument(help="Data file, or a folder with train and validation files.", show_default=False)
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Model file to write.")] = None,
    valid: Annotated[Path | None, typer.Option(help="Validation data. Default: a quarter of the queries.")] = None,
    folds: Annotated[int | None, typer.Option(help="Cross-validate with so many folds (3 or more).")] = None,
    trials: Annotated[
        int | None, typer.Option(metavar="N", help="Trials; 20 unless --seconds is given.", show_default=False)
    ] = None,
    seconds: Annotated[float | None, typer.Option(metavar="S", help="Begin no trial after so many seconds.")] = None,
    search: options.Search = "random",
    metric: Annotated[str, typer.Option(help="Metric on the validation data.")] = "ndcg@10",
    convention: options.Convention = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter that is not to be tuned. Repeatable."),
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(
            "--space",
            metavar="NAME=LOW..HIGH",
            help="Tune this and no other parameter: C=0.01..100:log, n_leaves=4..64 or loss=a,b. Repeatable.",
        ),
    ] = None,
    refit_all: options.RefitAll = False,
    prune: options.Prune = True,
    jobs: options.Jobs = 1,
    store: options.StoreFolder = None,
    seed: Annotated[int, typer.Option(help="Seed of the search and of the division.")] = 0,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    json: options.Json = False,
) -> None:
    """Choose the parameters of a ranker on validation data. Ctrl-C shows the best so far."""
    from gainful.cli.console import progress_bars, run_interruptibly
    from gainful.cli.inputs import parse_metrics, read_options, warn_of_data
    from gainful.data.splits import first_look
    from gainful.formats.files import refuse_unwritable
    from gainful.parameters.space import parse_dimension
    from gainful.rankers.registry import ranker as make
    from gainful.rankers.specs import parse_settings
    from gainful.tuning import Budget, InterruptedSearchError, TuningJob, TuningPlan
    from gainful.tuning.tune import check_refit, prepared, training_parts, tuned_space

    # Everything that can be wrong with the request is checked before the data is read.
    fixed = parse_settings(ranker, set or [])
    model = make(ranker, **fixed)
    dimensions = dict(parse_dimension(ranker, model.parameters, text) for text in space) if space else None
    measures = parse_metrics(metric, convention)
    if len(measures) != 1:
        raise ParameterError.of("tune", "metric", "one metric", metric)
    if trials is None and seconds is None:
        trials = DEFAULT_TRIALS
    refit = ("all" if refit_all else True) if output is not None else False
    choosing = TuningPlan(measures[0], search, Budget(trials, seconds, jobs, prune), refit, seed, store)
    prepared(model, measures[0], fixed)._check_parameters()
    tuned_space(model, dimensions, fixed)
    if output is not None:
        refuse_unwritable(output)
    given = _load(data, valid, read_options(format, merge, read))
    parts, whole = training_parts(**given, n_folds=folds, seed=seed)
    check_refit(refit, parts, whole)
    if output is not None and len(parts) > 1 and whole is None:
        raise ParameterError(f"{data} has several folds, so there is no one model to write; leave out --output")
    warn_of_data(*first_look(**given))

    with progress_bars() as bars:  # owned by this thread, so that an interrupt leaves the terminal as it was
        job = TuningJob(choosing, ranker, model, parts, space=dimensions, fixed=fixed)
        interrupted, stuck = run_interruptibly(lambda stop: job.run(_shower(ranker, bars, stop)))
    interrupted = interrupted or (job.trials is not None and job.trials.interrupted)
    try:
        _finish(choosing, job.result(interrupted=interrupted), parts, whole, output, json)
    except InterruptedSearchError as error:
        complain(str(error))
    if stuck:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # a compiled kernel is still busy in its thread and cannot be stopped
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _finish(choosing: Any, found: TuneResult, parts: Any, whole: Any, output: Path | None, json: bool) -> None:
    """Train and write the model, unless the search was interrupted. Then show what was found."""
    from gainful.cli.console import print_json, say, status, stdout
    from gainful.rankers.model_file import save

    written = None if found.interrupted else output
    if output is not None and written is None:
        say(f"interrupted: {output} is not written; gainful train takes the parameters found with --set")
    if written is not None:
        with status("training with the best parameters"):
            found.model = choosing.refitted(found, parts, whole)
        assert found.model is not None
        save(found.model, written)
        say(f"model: {written}")
    if json:
        print_json(found.to_dict() | {"model": None if written is None else str(written)})
    else:
        stdout().print(found.renderable())


def _load(data: Path, valid: Path | None, how: dict[str, Any]) -> dict[str, Any]:
    """The keywords of ``training_parts`` that name the data."""
    from gainful.cli.inputs import load_data, load_splits
    from gainful.formats.layout import align_features

    if data.is_dir():
        if valid is not None:
            raise ParameterError(f"{data} is a folder with its own validation data; leave out --valid")
        return {"data": load_splits(data, how, needs_test=False), "valid": None}
    paths = {"data": data, "valid": valid}
    parts = align_features({name: load_data(path, how) for name, path in paths.items() if path is not None})
    return {"valid": None, **parts}


def _shower(ranker: str, bars: Progress, stop: threading.Event) -> Any:
    from gainful.cli.console import progress_note, say

    overall = bars.add_task(ranker, total=None, note="")
    current = bars.add_task("", total=None, note="", visible=False)
    seen: list[int] = []

    def show(event: TuneProgress) -> bool:
        note = "" if event.best is None else f"best {event.best:.4f}"
        bars.update(overall, completed=event.finished, total=event.n_trials, note=note)
        name = f"trial {event.trial + 1}"
        if event.training is None:
            if not bars.console.is_terminal and event.finished not in seen:  # a log shows lines, now and then
                seen.append(event.finished)
                if event.finished in (0, 1) or event.finished % 10 == 0 or event.finished == event.n_trials:
                    of = "" if event.n_trials is None else f" of {event.n_trials}"
                    say(f"tuning {ranker}: {event.finished}{of} trials{', ' + note if note else ''}")
            bars.reset(current, description=name, total=None, note="", visible=True)
        else:
            done, total = event.training.iteration, event.training.total
            bars.update(current, description=name, completed=done, total=total, note=progress_note(event.training))
        return stop.is_set()

    return show
