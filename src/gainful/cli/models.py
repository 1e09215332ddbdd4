"""``gainful train``, ``gainful predict`` and ``gainful evaluate``."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gainful.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from gainful.data.dataset import Dataset
    from gainful.data.rows import Array
    from gainful.metrics import Metric
    from gainful.rankers.base import Ranker
    from gainful.training.checkpoint import Checkpoint

TRAINING = ""  # the name of the training data among the parts; validation data always has one
Model = Annotated[Path, typer.Argument(help="Model file of gainful or of another library.", show_default=False)]


def train(
    ranker: Annotated[str, typer.Argument(help="Name of the ranker; gainful rankers lists them.", show_default=False)],
    data: options.DataOrShards,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.", show_default=False)],
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set a parameter of the ranker. Repeatable."),
    ] = None,
    valid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help="Validation data, for early stopping. Repeatable: the first decides, the others are measured too.",
        ),
    ] = None,
    pairs: options.Pairs = None,
    init_score: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Start training from these scores of DATA, one per line. The model is what training adds to them.",
        ),
    ] = None,
    valid_init_score: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The scores of the validation data to start from.")
    ] = None,
    position: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The grades are clicks: the position in which each row was shown, one per line."
        ),
    ] = None,
    propensity: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The grades are clicks: the probability that each row was examined, one per line; or a click model.",
        ),
    ] = None,
    debias: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="How to correct clicks for positions: ipw, em, pairwise or naive; with settings: 'em(clip=0.05)'.",
            show_default="ipw with propensities, else em",
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds that the ranker auto may train.", show_default="600")
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Number of rankers for auto to try, instead of a time.")] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="MODEL", help="Continue from this model of boosted trees, up to --set n_trees=… in total."
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save training progress to this file; the same command resumes from it."),
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(metavar="SECONDS", help="Time between checkpoints.")] = 60.0,
    cluster: options.Cluster = None,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    memory_limit: options.MemoryLimit = None,
    json: options.Json = False,
) -> None:
    """Train one ranker and write it to a model file. Ctrl-C keeps the best model so far."""
    from gainful.cli.console import key_value_table, print_json, say, stdout
    from gainful.cli.inputs import open_data, read_options
    from gainful.comparison.contestants import ranker_with_settings
    from gainful.data.dataset import RankingData
    from gainful.errors import ParameterError
    from gainful.formats.files import refuse_unwritable
    from gainful.formats.layout import align_features
    from gainful.formats.shards import named_features, shard_files
    from gainful.rankers.base import usual_metric
    from gainful.rankers.model_file import save
    from gainful.rankers.summary import validation_quality
    from gainful.training.checkpoint import Checkpoint
    from gainful.tuning.trials import kept_iteration

    settings = [*(set or []), *_budget(ranker, seconds=seconds, trials=trials)]
    model = ranker_with_settings(ranker, settings) if start is None else _model_to_continue(start, ranker, settings)
    model._check_parameters()
    held = _validation_files(valid)
    _refuse_same_file(output, checkpoint, data, held, start)
    refuse_unwritable(output)
    # kept until the model is written, so that a long training is never lost
    resume = None if checkpoint is None else Checkpoint(checkpoint, checkpoint_every, keep=True)
    if resume is not None:
        model._refuse_checkpoint()
    how = read_options(format, merge, read, memory_limit, pairs)
    known = None if start is None else model
    if len(held) > 1 and checkpoint is not None:
        raise ParameterError("a checkpoint holds one set of validation data; give --valid once, or no --checkpoint")
    parts: dict[str, Dataset] = {}
    for name, path in {TRAINING: data, **held}.items():  # the training data first: validation data has its features
        names = parts[TRAINING].feature_names if parts else None
        more = {} if cluster else named_features(names, shard_files(path, format)[0], format, how)
        parts[name] = open_data(path, how | more, known, cluster)
    whole = {name: part for name, part in parts.items() if isinstance(part, RankingData)}
    if len(whole) == len(parts):  # shards keep their number of features
        parts |= align_features(whole)
    if init_score is not None:
        parts[TRAINING] = _with_init_scores(parts[TRAINING], init_score, data)
    if valid_init_score is not None:
        if len(held) != 1:
            raise ParameterError(f"--valid-init-score belongs to one --valid, but there are {len(held)}")
        ((name, path),) = held.items()
        parts[name] = _with_init_scores(parts[name], valid_init_score, path)
    parts[TRAINING] = _with_clicks(parts[TRAINING], position, propensity, data)
    if checkpoint is not None and checkpoint.exists():
        say(f"resuming from {checkpoint}")
    sets = {name: part for name, part in parts.items() if name != TRAINING}
    _fit_with_bar(model, parts[TRAINING], sets, ranker, resume, debias)
    if start is not None:
        model.set_params(warm_start=False)  # not part of the model
    board = getattr(model, "leaderboard_", None)
    if parts[TRAINING].has_clicks:
        reached = {}  # clicks do not measure a ranker
    elif board is None:
        reached = {f"training {usual_metric(parts[TRAINING]).name}": model.score(parts[TRAINING])}
    else:  # scoring all rows by all models would take long, and say little
        reached = {f"out-of-fold {board.metric}": board.blend.mean}
    save(model, output, metrics=reached)
    if resume is not None and model.interrupted_:
        if resume.path.exists():
            say(f"note: the same command resumes from {checkpoint}")
    elif resume is not None:
        resume.remove()
    facts: dict[str, Any] = {
        "model": str(output),
        "ranker": ranker,
        "iterations": model.n_iter_,
        **({} if board is not None else {"iterations kept": kept_iteration(model)}),
        "seconds": model.history_[-1]["seconds"] if model.history_ else 0.0,
        **reached,
        "interrupted": model.interrupted_,
    }
    facts |= model._facts() | {name: model.training_[name] for name in ("debias",) if name in model.training_}
    if sets and board is None:
        facts |= _validation_facts(model, list(sets))
        chosen = validation_quality(model)
        facts |= {} if chosen is None else {"validated": chosen.place}
    if json:
        print_json(facts if board is None else facts | {"leaderboard": board.to_dict()})
        return
    stdout().print(key_value_table(facts.items()))
    if board is not None:
        stdout().print(_leaderboard_table(board))


def _with_init_scores(data: Dataset, file: Path, path: Path) -> Dataset:
    from gainful.formats.scores import read_scores
    from gainful.inputs.arguments import add_init_scores

    return add_init_scores(data, read_scores(file, data.n_rows), str(path))


def _with_clicks(data: Dataset, position: Path | None, propensity: Path | None, path: Path) -> Dataset:
    from gainful.clicks.model_file import load_click_model
    from gainful.formats.scores import read_scores
    from gainful.inputs.arguments import add_clicks

    examined: Any = None
    if propensity is not None:
        is_model = propensity.suffix == ".json"
        examined = load_click_model(propensity) if is_model else read_scores(propensity, data.n_rows)
    return add_clicks(data, None if position is None else read_scores(position, data.n_rows), examined, str(path))


def predict(
    model: Model,
    data: options.DataOrShards,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the scores. Default: stdout.")] = None,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Write a TREC run with this tag instead of scores; the data needs document ids."
        ),
    ] = None,
    cluster: options.Cluster = None,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    memory_limit: options.MemoryLimit = None,
    json: options.Json = False,
) -> None:
    """Score every row of the data: one score per line, in the order of the rows; higher is better."""
    from gainful.cli.blockwise import runs_by_block, scores_by_block
    from gainful.cli.inputs import load_model, open_data, read_options
    from gainful.errors import ParameterError
    from gainful.errors.terminal import visible
    from gainful.formats.files import atomic_write, refuse_unwritable
    from gainful.formats.trec import run_lines

    if run is not None and json:
        raise ParameterError("--run writes TREC's lines and --json JSON; leave out one of them")
    if output is not None:
        refuse_unwritable(output)
    fitted = load_model(model)
    rows = open_data(data, read_options(format, merge, read, memory_limit), fitted, cluster)
    texts: Iterator[str]
    blocks = scores_by_block(fitted, rows)
    if run is not None:
        parts = runs_by_block(fitted, rows, run)
        texts = (text.decode() for part in parts for text in run_lines(part, run, output or "the run"))
    else:
        texts = _scores_as_json(blocks) if json else ("".join(f"{one!r}\n" for one in s.tolist()) for _, s in blocks)
    if output is None:
        for text in texts:
            sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
    else:
        with atomic_write(output) as file:
            for text in texts:
                file.write(text.encode())


def evaluate(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL|SCORES|RUN",
            help="Model file, or file with one score per row; with --qrels a TREC run. Also feature:NAME, scores:FILE, "
            "run:FILE and model:FILE, as in compare.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Argument(help="Data file, or a folder of shards; nothing with --qrels.", show_default=False),
    ] = None,
    pairs: options.Pairs = None,
    qrels: options.QrelsFile = None,
    metrics: options.Metrics = None,
    convention: options.Convention = None,
    relevant: options.Relevant = None,
    queries: options.Queries = "all",
    per_query: Annotated[bool, typer.Option("--per-query", help="Also show the value of every query.")] = False,
    per_query_csv: options.PerQueryFile = None,
    cluster: options.Cluster = None,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    memory_limit: options.MemoryLimit = None,
    json: options.Json = False,
) -> None:
    """Evaluate a model, or scores from any source, on data with grades; or a TREC run by qrels."""
    from gainful.cli.blockwise import values_of_model, values_of_scores
    from gainful.cli.compare import refuse_without_qrels
    from gainful.cli.console import say
    from gainful.cli.inputs import load_data, load_model, open_data, parse_metrics, read_options
    from gainful.comparison.baselines import KINDS
    from gainful.comparison.evaluate import scores_of_system
    from gainful.errors import ParameterError
    from gainful.foreign.loading import is_model
    from gainful.formats.files import refuse_unwritable
    from gainful.formats.scores import read_scores
    from gainful.metrics import headings
    from gainful.rankers.base import usual_metric

    if per_query_csv is not None:
        refuse_unwritable(per_query_csv)
    if qrels is not None:
        if data is not None:
            raise ParameterError(f"--qrels judges a run without other data; leave out {data}")
        _evaluate_run(model, qrels, metrics, convention, relevant, queries, per_query, per_query_csv, json)
        return
    refuse_without_qrels(queries)
    if data is None:
        raise ParameterError("DATA is missing; name a data file after the model, or judge a run by --qrels QRELS")
    measures = parse_metrics(metrics or options.DEFAULT_METRICS, convention, relevant)
    how, names = read_options(format, merge, read, memory_limit, pairs), headings(measures)
    kind = str(model).partition(":")[0]
    fitted = load_model(model) if kind not in KINDS and is_model(model) else None
    if kind in KINDS and cluster is not None:
        raise ParameterError(f"{kind}: is evaluated in this process; leave out --cluster")
    whole = load_data(data, how) if kind in KINDS else None
    rows: Dataset = open_data(data, how, fitted, cluster) if whole is None else whole
    if metrics is None and rows.has_pairs:
        names = headings([usual_metric(rows)])
    if whole is not None:
        scores, remarks = scores_of_system(str(model), whole)
        for line in remarks:
            say(f"note: {line}")
        found = [one.per_query(scores, whole) for one in names]
    elif fitted is not None:
        found = values_of_model(fitted, rows, list(names))
    else:
        found = values_of_scores(read_scores(model, rows.n_rows), rows, list(names))
    note = f"{rows.n_queries:,} queries, {rows.n_rows:,} documents"
    figures = _Figures(names, found, rows.query_ids, rows.query_weights, [note])
    figures.show(per_query, per_query_csv, json)


def _evaluate_run(
    path: Path,
    qrels: Path,
    metrics: str | None,
    convention: str | None,
    relevant: float | None,
    queries: str,
    per_query: bool,
    per_query_csv: Path | None,
    json: bool,
) -> None:
    """Evaluate a TREC run by qrels."""
    from gainful.cli.console import say, status
    from gainful.cli.inputs import parse_run_metrics
    from gainful.comparison.judged_runs import remarks
    from gainful.formats.trec import read_qrels, read_run
    from gainful.metrics import headings, metric
    from gainful.metrics.conventions import RUN_CONVENTION

    measures = parse_run_metrics(metrics, convention, relevant)
    with status(f"reading {path}"):
        run = read_run(path)
        judged = read_qrels(qrels).judge(run, queries=queries)
    for line in remarks({run.name: judged}, measures, convention or RUN_CONVENTION):
        say(f"note: {line}")
    counted = ["num-ret", "num-rel", "num-rel-ret"]
    totals = {name: int(metric(name).per_query(judged).sum()) for name in counted}
    note = (
        f"{run.name}: {judged.n_queries:,} queries, {totals['num-ret']:,} documents, {totals['num-rel']:,} relevant, "
        f"{totals['num-rel-ret']:,} of them in the run"
    )
    names = headings(measures)
    figures = _Figures(names, [m.per_query(judged) for m in names], judged.query_ids, None, [note])
    figures.show(per_query, per_query_csv, json)


class _Figures:
    """The values of metrics on every query, to be shown as a table, as JSON or in a CSV file."""

    def __init__(self, names: dict[Metric, str], values: Any, query_ids: Any, weights: Any, notes: list[str]):
        from gainful.metrics.value import mean_over_queries

        self.names, self.query_ids, self.notes = names, query_ids, notes
        self.values = dict(zip(names.values(), values, strict=True))
        self.means = {name: mean_over_queries(of_queries, weights) for name, of_queries in self.values.items()}

    def show(self, per_query: bool, csv: Path | None, json: bool) -> None:
        from gainful.cli.console import print_json, stdout
        from gainful.comparison.result import csv_text
        from gainful.formats.files import write_text

        if csv is not None:
            rows = zip(self.query_ids.tolist(), *(values.tolist() for values in self.values.values()), strict=True)
            write_text(csv, csv_text(["query", *self.values], rows))
        if not json:
            stdout().print(_metric_table(self, per_query))
            return
        result: dict[str, Any] = {
            "queries": len(self.query_ids),
            "means": self.means,
            "metrics": {self.names[m]: str(m) for m in self.names},
        }
        if per_query:
            result["per_query"] = {"qid": self.query_ids, **self.values}
        print_json(result)


def _budget(ranker: str, **given: float | None) -> list[str]:
    """The options --seconds and --trials as settings."""
    from gainful.errors import ParameterError
    from gainful.rankers.registry import RANKERS

    known = RANKERS[ranker].cls.parameters if ranker in RANKERS else given
    for name, value in given.items():
        if value is not None and name not in known:
            raise ParameterError(f"--{name} is for auto, which chooses rankers; {ranker} has no such budget")
    return [f"{name}={value}" for name, value in given.items() if value is not None]


def _leaderboard_table(board: Any) -> Any:
    from rich.console import Group
    from rich.text import Text

    from gainful.cli.console import headed_table

    head, *body = board.cells()
    table = headed_table(head, left=(0, len(head) - 1))
    for line in body:
        table.add_row(*(Text(cell) for cell in line))
    return Group(table, Text(board.sentence))


def _scores_as_json(blocks: Iterator[tuple[Array, Array]]) -> Iterator[str]:
    import numpy as np

    from gainful.cli.console import json_text

    ids, scores = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    yield json_text({"qid": ids, "score": scores}) + "\n"


def _model_to_continue(path: Path, ranker: str, settings: list[str]) -> Ranker:
    """A trained model of this ranker with changed settings, ready for more training."""
    from gainful.cli.inputs import load_model
    from gainful.comparison.contestants import ranker_with_settings
    from gainful.errors import ParameterError
    from gainful.parameters.constraints import parse_setting
    from gainful.rankers.registry import RANKERS

    named = ranker_with_settings(ranker, settings)
    model = load_model(path)
    if type(model) is not type(named):
        raise ParameterError(f"{path} holds a {type(model).__name__}, but {ranker} is a {type(named).__name__}")
    if "warm_start" not in model.parameters:
        raise ParameterError(f"{ranker} cannot continue from a model; only rankers of boosted trees can")
    given = dict(parse_setting(ranker, model.parameters, setting) for setting in settings)
    for name, value in RANKERS[ranker].params.items():
        if name not in given and getattr(model, name) != value:
            raise ParameterError(
                f"{path} was trained with {name}={getattr(model, name)!r}, but {ranker} means {name}={value!r}; name "
                f"the ranker it was trained as, or use --set {name}=…"
            )
    return model.set_params(**given, warm_start=True)


def _fit_with_bar(
    model: Ranker,
    data: Dataset,
    sets: dict[str, Dataset],
    name: str,
    checkpoint: Checkpoint | None,
    debias: str | None = None,
) -> None:
    from gainful.cli.console import progress_bars, say, training_bar, warn
    from gainful.cli.inputs import print_data_warnings
    from gainful.data.checks import skip_checks

    first = next(iter(sets.values()), None)
    print_data_warnings(data, first)
    with progress_bars() as bars, _warnings_as_notes(bars.console) as notes, skip_checks():
        if not bars.console.is_terminal:
            say(f"training {name} on {data.n_queries:,} queries")
        valid, show = sets if len(sets) > 1 else first, training_bar(bars, name)
        model.fit(data, eval_set=valid, progress=show, checkpoint=checkpoint, debias=debias)
    for note in notes:
        say(note)
    if (lost := model._note_on_validation()) is not None:
        warn(lost)


@contextmanager
def _warnings_as_notes(console: Console) -> Iterator[list[str]]:
    """Collect the texts of warnings, each once, for later. A checkpoint that cannot be written is reported at once."""
    from gainful.training.checkpoint import CheckpointWarning

    later: list[str] = []
    shown: list[str] = []

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text, at_once = f"note: {message}", issubclass(category, CheckpointWarning)
        if at_once and text not in shown:
            console.print(text, style="dim", soft_wrap=not console.is_terminal, markup=False)
        seen = shown if at_once else later
        if text not in seen:
            seen.append(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield later


def _validation_files(given: list[str] | None) -> dict[str, Path]:
    """The files of --valid by name: NAME=FILE, or the name of the file without its suffix."""
    from gainful.errors import ParameterError
    from gainful.formats import name_without_suffix

    found: dict[str, Path] = {}
    for text in given or []:
        name, equals, file = text.partition("=")
        if not equals or os.path.exists(text):
            name, file = name_without_suffix(text), text
        if not name or not file:
            raise ParameterError(f"--valid must be FILE or NAME=FILE, was {text!r}")
        if name in found:
            raise ParameterError(f"two files of --valid are called {name!r}; name them, as in --valid NAME={file}")
        found[name] = Path(file)
    return found


def _validation_facts(model: Ranker, names: list[str]) -> dict[str, float | None]:
    """The value of the model kept on the validation data, or on each of several sets."""
    metric, kept = _metric_name(model), model.training_["validation"]["iteration"]
    known = [row for row in model.history_ if row["validation"] is not None]
    row = max(known, key=lambda row: (row["iteration"] == kept, row["validation"]), default=None)
    if len(names) == 1 or row is None:
        return {f"validation {metric}": None if row is None else row["validation"]}
    return {f"validation {name} {metric}": row[f"validation {name}"] for name in names}


def _refuse_same_file(
    output: Path, checkpoint: Path | None, data: Path, held: dict[str, Path], start: Path | None
) -> None:
    """Raise if an output would overwrite a file that is still needed; --from may be overwritten."""
    several = len(held) > 1
    read: dict[str, Path | None] = {"DATA": data}
    read |= {f"--valid {path}" if several else "--valid": path for path in held.values()}
    written = {"--output": (output, read), "--checkpoint": (checkpoint, {"--output": output, "--from": start, **read})}
    for name, (path, others) in written.items():
        if path is not None:
            refuse_overwriting(name, path, others)


def refuse_overwriting(name: str, path: Path, others: dict[str, Path | None]) -> None:
    """Raise if ``path``, given as option ``name``, is one of the other files."""
    from gainful.errors import ParameterError

    for other, its_path in others.items():
        if its_path is not None and _is_same(path, its_path):
            raise ParameterError(f"{name} and {other} are the same file, {path}; give {name} another name")


def _is_same(one: Path, other: Path) -> bool:
    both_exist = one.exists() and other.exists()
    return os.path.realpath(one) == os.path.realpath(other) or (both_exist and one.samefile(other))


def _metric_table(figures: _Figures, per_query: bool) -> Any:
    from rich.console import Group
    from rich.text import Text

    from gainful.cli.console import headed_table

    values, means = figures.values, figures.means
    if per_query:
        table = headed_table(("query", *values))
        for q, query in enumerate(figures.query_ids):
            table.add_row(Text(str(query)), *(f"{values[name][q]:.4f}" for name in values))
        table.add_section()
        table.add_row("mean", *(f"{means[name]:.4f}" for name in values), style="bold")
    else:
        table = headed_table(("metric", "mean", "conventions"), left=(0, 2))
        for m, name in figures.names.items():
            table.add_row(name, f"{means[name]:.4f}", Text(str(m), style="dim"))
    return Group(table, *(Text(note, style="dim") for note in figures.notes))


def _metric_name(model: Ranker) -> str:
    from gainful.metrics import metric

    return metric(model.training_["validation"]["metric"]).name
