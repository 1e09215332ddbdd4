"""``gainful train``, ``gainful predict`` and ``gainful evaluate``."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gainful.cli import options

if TYPE_CHECKING:
    from gainful.data import RankingData
    from gainful.metrics import Metric
    from gainful.rankers.base import Ranker

Model = Annotated[Path, typer.Argument(help="Model file written by gainful train.", show_default=False)]


def train(
    ranker: Annotated[str, typer.Argument(help="Name of the ranker; gainful rankers lists them.", show_default=False)],
    data: options.Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.", show_default=False)],
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the ranker. Repeatable."),
    ] = None,
    valid: Annotated[Path | None, typer.Option(help="Validation data, for early stopping and history.")] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="MODEL", help="Go on from this model of boosted trees, up to --set n_trees=… in all."
        ),
    ] = None,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    json: options.Json = False,
) -> None:
    """Train one ranker and write it to a model file. Ctrl-C keeps the best model so far."""
    from gainful.cli.console import key_value_table, print_json, say, stdout
    from gainful.cli.inputs import load_data, read_options
    from gainful.comparison.contestants import ranker_with_settings
    from gainful.formats.files import refuse_unwritable
    from gainful.model_file import save
    from gainful.selection.layout import align_features

    model = ranker_with_settings(ranker, set or []) if start is None else _model_to_go_on(start, ranker, set or [])
    model._check_parameters()
    refuse_unwritable(output)
    how = read_options(format, merge, read)
    least = None if start is None else model.n_features_in_
    parts = {name: load_data(path, how, least) for name, path in (("data", data), ("valid", valid)) if path is not None}
    parts = align_features(parts)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        _fit_with_bar(model, parts["data"], parts.get("valid"), ranker)
    for warning in caught:
        say(f"note: {warning.message}")
    if start is not None:
        model.set_params(warm_start=False)  # how it came about is no part of the model
    reached = model.score(parts["data"])
    save(model, output, metrics={"training ndcg@10": reached})
    facts: dict[str, Any] = {
        "model": str(output),
        "ranker": ranker,
        "iterations": model.n_iter_,
        "seconds": model.history_[-1]["seconds"] if model.history_ else 0.0,
        "training ndcg@10": reached,
        "interrupted": model.interrupted_,
    }
    facts |= model._facts()
    if "valid" in parts:
        best = max((row["validation"] for row in model.history_ if row["validation"] is not None), default=None)
        facts[f"validation {_metric_name(model)}"] = best
    if json:
        print_json(facts)
    else:
        stdout().print(key_value_table([(name, _text(value)) for name, value in facts.items()]))


def predict(
    model: Model,
    data: options.Data,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the scores. Default: stdout.")] = None,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    json: options.Json = False,
) -> None:
    """Score every row of the data: one score a line, in the order of the rows, higher is better."""
    from gainful.cli.console import json_text
    from gainful.cli.inputs import load_data, load_model, read_options
    from gainful.formats.files import atomic_write, refuse_unwritable

    if output is not None:
        refuse_unwritable(output)
    fitted = load_model(model)
    rows = load_data(data, read_options(format, merge, read), fitted.n_features_in_)
    scores = rows.to_input_order(fitted.predict(rows))
    if json:
        text = json_text({"qid": rows.to_input_order(rows.qid), "score": scores}) + "\n"
    else:
        text = "".join(f"{score!r}\n" for score in scores.tolist())
    if output is None:
        sys.stdout.write(text)
    else:
        with atomic_write(output) as file:
            file.write(text.encode())


def evaluate(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL|SCORES", help="Model file, or a text with one score per row.", show_default=False
        ),
    ],
    data: options.Data,
    metrics: options.Metrics = "ndcg@10,ndcg@1,ndcg@5,map",
    convention: options.Convention = None,
    relevant: options.Relevant = None,
    per_query: Annotated[bool, typer.Option("--per-query", help="Also the value of every query.")] = False,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    json: options.Json = False,
) -> None:
    """Measure a model, or scores from anywhere, on data with grades."""
    from gainful.cli.console import print_json, stdout
    from gainful.cli.inputs import is_model, load_data, load_model, parse_metrics, read_options, read_scores
    from gainful.metrics import headings

    measures = parse_metrics(metrics, convention, relevant)
    fitted = load_model(model) if is_model(model) else None
    rows = load_data(data, read_options(format, merge, read), None if fitted is None else fitted.n_features_in_)
    if fitted is not None:
        scores = fitted.predict(rows)
    else:
        scores = read_scores(model, rows.n_rows)
        scores = scores if rows.input_order is None else scores[rows.input_order]
    names = headings(measures)
    means = {names[m]: m(scores, rows) for m in names}
    values = {names[m]: m.per_query(scores, rows) for m in names} if per_query else {}
    if json:
        result: dict[str, Any] = {
            "queries": rows.n_queries,
            "means": means,
            "metrics": {names[m]: str(m) for m in names},
        }
        if per_query:
            result["per_query"] = {"qid": rows.query_ids, **values}
        print_json(result)
        return
    stdout().print(_metric_table(names, means, rows, values))


def _model_to_go_on(path: Path, ranker: str, settings: list[str]) -> Ranker:
    """A trained model of this ranker, with the settings changed, ready to be trained further."""
    from gainful.cli.inputs import load_model
    from gainful.comparison.contestants import ranker_with_settings
    from gainful.errors import ParameterError
    from gainful.parameters import parse_setting
    from gainful.rankers.registry import RANKERS

    named = ranker_with_settings(ranker, settings)
    model = load_model(path)
    if type(model) is not type(named):
        raise ParameterError(f"{path} holds a {type(model).__name__}, but {ranker} is a {type(named).__name__}")
    if "warm_start" not in model.parameters:
        raise ParameterError(f"{ranker} cannot go on from a model; rankers of boosted trees can")
    given = dict(parse_setting(ranker, model.parameters, setting) for setting in settings)
    for name, value in RANKERS[ranker].params.items():
        if name not in given and getattr(model, name) != value:
            raise ParameterError(
                f"{path} was trained with {name}={getattr(model, name)!r}, but {ranker} means {name}={value!r}; name "
                f"the ranker it was trained as, or say --set {name}=…"
            )
    return model.set_params(**given, warm_start=True)


def _fit_with_bar(model: Ranker, data: RankingData, valid: RankingData | None, name: str) -> None:
    from gainful.cli.console import progress_bars, progress_note, say
    from gainful.monitor import Progress

    with progress_bars() as bars:
        if not bars.console.is_terminal:
            say(f"training {name} on {data.n_queries:,} queries")
        task = bars.add_task(name, total=None, note="")

        def show(event: Progress) -> bool:
            bars.update(task, completed=event.iteration, total=event.total, note=progress_note(event))
            return False

        model.fit(data, eval_set=valid, progress=show)


def _metric_table(names: dict[Metric, str], means: dict[str, float], rows: RankingData, values: dict[str, Any]) -> Any:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    if values:
        table.add_column("query")
        for name in values:
            table.add_column(name, justify="right")
        for q, query in enumerate(rows.query_ids):
            table.add_row(Text(str(query)), *(f"{values[name][q]:.4f}" for name in values))
        table.add_section()
        table.add_row("mean", *(f"{means[name]:.4f}" for name in values), style="bold")
    else:
        table.add_column("metric")
        table.add_column("mean", justify="right")
        table.add_column("conventions", style="dim")
        for m, name in names.items():
            table.add_row(name, f"{means[name]:.4f}", str(m))
    return Group(table, Text(f"{rows.n_queries:,} queries, {rows.n_rows:,} documents", style="dim"))


def _metric_name(model: Ranker) -> str:
    return model._validation_metric().name


def _text(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
