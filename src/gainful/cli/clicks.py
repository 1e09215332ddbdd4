"""``gainful clicks info``, ``fit``, ``report``, ``judge``, ``simulate`` and ``evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gainful.cli import options

if TYPE_CHECKING:
    from gainful.clicks.log import ClickLog
    from gainful.clicks.models import ClickModel

app = typer.Typer(
    no_args_is_help=True, help="Learn from clicks: describe logs, fit click models, report, judge, simulate, value."
)

Log = Annotated[
    Path, typer.Argument(help="Click log: CSV, TSV, Parquet, JSON Lines or text of pages.", show_default=False)
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Format: csv, tsv, parquet, jsonl, serps or lists. Default: by suffix, or the first line of text.",
    ),
]
LogRead = Annotated[
    list[str] | None,
    typer.Option(
        "--read", metavar="NAME=VALUE", help="How to read the log, such as document=sku or holes=drop. Repeatable."
    ),
]
ModelFile = Annotated[Path, typer.Argument(help="Click model that clicks fit wrote.", show_default=False)]


def _load_log(path: Path, format: str | None, read: list[str] | None, memory_limit: str | None) -> ClickLog:
    from gainful.cli.console import show_warnings_as_lines, status, watch_compilation
    from gainful.cli.inputs import parse_format_options
    from gainful.clicks.reading import read_clicks
    from gainful.errors.keywords import explain_keywords

    how: dict[str, Any] = parse_format_options(read)
    if isinstance(how.get("features"), str):
        how["features"] = [how["features"]]
    if memory_limit is not None:
        how["max_bytes"] = memory_limit
    watch_compilation()
    with status(f"reading {path}"), show_warnings_as_lines():
        return explain_keywords(read_clicks)(path, format, **how)


@app.command("info")
def info(
    log: Log,
    format: LogFormat = None,
    read: LogRead = None,
    memory_limit: options.MemoryLimit = None,
    json: options.Json = False,
) -> None:
    """Describe a click log: pages, queries, clicks by position, and what was dropped or mended."""
    from gainful.cli.console import key_value_table, plain_table, print_json, stdout
    from gainful.clicks.index import moving_share

    found = _load_log(log, format, read, memory_limit)
    facts = found.describe() | {"moving_share": moving_share(found)}
    if json:
        print_json(facts)
        return
    plain = {name: value for name, value in facts.items() if not isinstance(value, (list, dict))}
    share = plain.pop("moving_share")
    rows = [(name.replace("_", " "), _figure(value)) for name, value in plain.items()]
    rows.append(("pairs in 2+ positions", f"{share:.1%}"))
    if facts["columns"]:
        rows.append(("columns", ", ".join(facts["columns"])))
    rows += [("mended", line) for line in found.mended.lines()]
    stdout().print(key_value_table(rows))
    stdout().print("")
    places = [
        (str(one["position"]), f"{one['shown']:,}", f"{one['clicks']:,}", f"{one['rate']:.4f}")
        for one in facts["positions"]
    ]
    stdout().print(plain_table(("position", "shown", "clicks", "rate"), places[:20]))


def _figure(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


@app.command("fit")
def fit(
    model: Annotated[str, typer.Argument(help="Name of the click model, or all to compare them.", show_default=False)],
    log: Log,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write the model to, as JSON.", show_default=False)
    ] = None,
    test: Annotated[
        Path | None, typer.Option("--test", metavar="LOG", help="Evaluate on this log. Default: the one fitted.")
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set a parameter, such as smoothing=2. Repeatable."),
    ] = None,
    format: LogFormat = None,
    read: LogRead = None,
    memory_limit: options.MemoryLimit = None,
    json: options.Json = False,
) -> None:
    """Fit a click model and say how well it predicts the clicks of a log.

    The models: ctr, rank-ctr, document-ctr, coec, pbm, cascade, dcm, sdbn, dbn, ubm.
    """
    from gainful.cli.console import plain_table, print_json, say, show_warnings_as_lines, status, stdout
    from gainful.clicks.registry import CLICK_MODELS, click_model
    from gainful.errors import ParameterError
    from gainful.formats.files import refuse_unwritable
    from gainful.parameters.constraints import parse_setting

    names = list(CLICK_MODELS) if model == "all" else [model]
    if model == "all" and output is not None:
        raise ParameterError("--output takes one click model; name it instead of all")
    unfitted = []
    for name in names:
        table = click_model(name).parameters
        unfitted.append(click_model(name, **dict(parse_setting(name, table, one) for one in set or [])))
    if output is not None:
        refuse_unwritable(output)
    pages = _load_log(log, format, read, memory_limit)
    held = pages if test is None else _load_log(test, format, read, memory_limit)
    found = {}
    with show_warnings_as_lines():
        for one in unfitted:
            with status(f"fitting {one.name}"):
                found[one.name] = _fit_facts(one.fit(pages), held)
    if output is not None:
        unfitted[0].save(output)
        say(f"{output}: {unfitted[0].name} of {len(unfitted[0].pairs_):,} query-document pairs")
    if json:
        print_json(found if model == "all" else found[model])
        return
    titles = ("model", "log-likelihood", "perplexity", "conditional", "steps", "examination of positions 1 to 5")
    rows = [
        (
            name,
            f"{one['log_likelihood']:.4f}",
            f"{one['perplexity']:.4f}",
            f"{one['conditional_perplexity']:.4f}",
            str(one["steps"]),
            " ".join(f"{value:.3f}" for value in one["examination"][:5]),
        )
        for name, one in found.items()
    ]
    stdout().print(plain_table(titles, rows))


def _fit_facts(fitted: ClickModel, held: ClickLog) -> dict[str, Any]:
    more = {"continuation": fitted.theta_["continuation"][0]} if "continuation" in fitted.theta_ else {}
    return {
        **fitted.evaluate(held).to_dict(),
        "steps": fitted.n_iter_,
        "converged": fitted.converged_,
        "examination": fitted.examination_.tolist(),
        "pairs": len(fitted.pairs_),
        **more,
    }


@app.command("report")
def report(
    log: Log,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.", show_default=False)],
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="Click model to fit. Repeatable. Default: rank-ctr, pbm, cascade, dcm, dbn and ubm.",
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option("--test", metavar="LOG", help="Evaluate on this log. Default: sessions held out of LOG."),
    ] = None,
    held_out: Annotated[float, typer.Option("--held-out", help="Share of the sessions to hold out.")] = 0.2,
    resamples: Annotated[
        int, typer.Option("--resamples", help="Fits to resampled sessions, for intervals of examination; 0 for none.")
    ] = 20,
    level: Annotated[float, typer.Option("--level", help="Level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sessions held out and of the resamples.")] = 0,
    format: LogFormat = None,
    read: LogRead = None,
    memory_limit: options.MemoryLimit = None,
) -> None:
    """Write a page about a click log: clicks by position, examination, perplexity, calibration."""
    from gainful.cli.console import say, show_warnings_as_lines, status
    from gainful.clicks.registry import click_model
    from gainful.clicks.report import MODELS, report_clicks
    from gainful.formats.files import refuse_unwritable

    names = tuple(dict.fromkeys(model or MODELS))
    for name in names:
        click_model(name)  # refuse an unknown one before reading
    refuse_unwritable(output)
    pages = _load_log(log, format, read, memory_limit)
    held = None if test is None else _load_log(test, format, read, memory_limit)
    with status("fitting click models"), show_warnings_as_lines():
        found = report_clicks(pages, names, test=held, held_out=held_out, resamples=resamples, level=level, seed=seed)
    found.to_html(output)
    best = "" if found.best is None else f"; best model {found.best.name}"
    say(f"{output}: {found.facts['pages']:,} pages, {found.facts['clicks']:,} clicks{best}")


@app.command("judge")
def judge(
    model: ModelFile,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="File to write: .csv with confidences, otherwise TREC qrels, whose ids have no blanks.",
            show_default=False,
        ),
    ],
    log: Annotated[
        Path | None, typer.Option("--log", help="Judge the pairs of this log. Default: those of the log fitted.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FILE", help="Also write ranking data, with the features of --log."),
    ] = None,
    grades: Annotated[int, typer.Option("--grades", help="Number of grades.")] = 5,
    confidence: Annotated[float, typer.Option("--confidence", help="Leave out judgments of less confidence.")] = 0.0,
    format: LogFormat = None,
    read: LogRead = None,
    memory_limit: options.MemoryLimit = None,
) -> None:
    """Turn a click model into graded judgments, each with a confidence."""
    from gainful.cli.console import say, watch_compilation
    from gainful.clicks.model_file import load_click_model
    from gainful.clicks.writing import check_judgments_path, write_judgments
    from gainful.errors import ParameterError
    from gainful.formats import check_format
    from gainful.formats import write as write_data
    from gainful.formats.files import refuse_unwritable

    if data is not None:
        if log is None:
            raise ParameterError("--data needs features; give a log that has them with --log and --read features=…")
        check_format(data)
    for path in filter(None, (output, data)):
        refuse_unwritable(path)
    watch_compilation()
    fitted = load_click_model(model)
    if log is None:
        check_judgments_path(output, fitted.pairs_.query_ids, fitted.pairs_.document_ids)
    pages = None if log is None else _load_log(log, format, read, memory_limit)
    judged = fitted.judge(pages, grades).confident(confidence)
    write_judgments(judged, output)
    say(f"{output}: {len(judged):,} judgments, mean confidence {judged.confidence.mean():.2f}")
    if data is not None and pages is not None:
        rows = judged.to_data(pages)
        write_data(rows, data)
        say(f"{data}: {rows.n_queries:,} queries, {rows.n_rows:,} documents, {rows.n_features:,} features")


@app.command("data")
def data(
    log: Log,
    output: Annotated[Path, typer.Option("--output", "-o", help="Ranking data to write.", show_default=False)],
    features: Annotated[
        Path | None,
        typer.Option(
            "--features",
            metavar="DATA",
            help="Ranking data with features, by query and document id. Default: those of the log.",
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="FILE", help="Propensities of this click model.")
    ] = None,
    positions: Annotated[
        bool, typer.Option("--positions", help="Leave out the log's propensities, for training that learns its own.")
    ] = False,
    format: LogFormat = None,
    read: LogRead = None,
    memory_limit: options.MemoryLimit = None,
) -> None:
    """Turn a click log into data to train on: clicks, and where they happened."""
    from gainful.cli.console import say, show_warnings_as_lines
    from gainful.cli.inputs import load_data, read_options
    from gainful.clicks.model_file import load_click_model
    from gainful.errors import ParameterError
    from gainful.formats import check_format
    from gainful.formats import write as write_data

    if model is not None and positions:
        raise ParameterError("--model gives propensities and --positions leaves them out; give one of them")
    check_format(output)
    pages = _load_log(log, format, read, memory_limit)
    source = None if features is None else load_data(features, read_options(None, False, None, None), None)
    users = None if model is None else load_click_model(model)
    with show_warnings_as_lines():
        found = pages.to_data(source, propensity=False if positions else users)
    write_data(found, output)
    held = "probabilities of examination" if found.has_propensities else "positions"
    say(f"{output}: {found.n_queries:,} lists, {found.n_rows:,} documents, with {held}")


@app.command("simulate")
def simulate(
    data: options.Data,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Click log to write: .csv, .parquet or .jsonl.", show_default=False),
    ],
    model: Annotated[
        str, typer.Option("--model", help="Name of a click model, or a file that clicks fit wrote.")
    ] = "pbm",
    ranker: Annotated[
        Path | None, typer.Option("--ranker", metavar="MODEL", help="Model that ranks. Default: the order of DATA.")
    ] = None,
    sessions: Annotated[int, typer.Option("--sessions", help="Number of pages.")] = 1000,
    length: Annotated[int, typer.Option("--length", help="Documents on a page.")] = 10,
    eta: Annotated[float, typer.Option("--eta", help="Position bias: position r is examined with r^-eta.")] = 1.0,
    noise: Annotated[
        float | None,
        typer.Option("--noise", help="Probability that a document nobody wants is clicked.", show_default="0.1"),
    ] = None,
    trust: Annotated[float, typer.Option("--trust", help="Trust in high positions, from 0 to 1.")] = 0.0,
    temperature: Annotated[float, typer.Option("--temperature", help="Randomness of the pages.")] = 0.0,
    features: Annotated[bool, typer.Option("--features", help="Write the features too.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed; the same seed gives the same log.")] = 0,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    memory_limit: options.MemoryLimit = None,
) -> None:
    """Simulate users who click: pages of DATA ranked by a model, clicks by a click model."""
    from gainful.cli.console import say, status, watch_compilation
    from gainful.cli.inputs import load_data, load_model, read_options
    from gainful.clicks.model_file import load_click_model
    from gainful.clicks.registry import CLICK_MODELS
    from gainful.clicks.simulation import simulate_clicks
    from gainful.clicks.writing import check_clicks_path, write_clicks
    from gainful.formats.files import refuse_unwritable

    check_clicks_path(output)
    refuse_unwritable(output)
    watch_compilation()
    is_file = model not in CLICK_MODELS and Path(model).exists()
    users = load_click_model(model) if is_file else model
    ranking = None if ranker is None else load_model(ranker)
    rows = load_data(data, read_options(format, merge, read, memory_limit), ranking)
    with status("simulating"):
        log = simulate_clicks(
            rows,
            users,
            ranker=ranking,
            sessions=sessions,
            length=length,
            eta=eta,
            noise=noise,
            trust=trust,
            temperature=temperature,
            features=features,
            seed=seed,
        )
        write_clicks(log, output)
    say(f"{output}: {log.n_pages:,} pages, {log.n_rows:,} documents shown, {log.n_clicks:,} clicks")


@app.command("evaluate")
def evaluate(
    log: Log,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="CSV", help="Policy to value: columns document and probability."),
    ] = None,
    ranker: Annotated[
        Path | None, typer.Option("--ranker", metavar="MODEL", help="Model to value, instead of --policy.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="All candidates of the queries, which --ranker ranks.")
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", help="Randomness of the models' pages.")] = 1.0,
    logged: Annotated[
        Path | None,
        typer.Option("--logged", metavar="MODEL", help="Model that ranked the log. Default: the log's propensity."),
    ] = None,
    method: Annotated[str, typer.Option("--method", help="Estimate: ips, clipped, snips or dr.")] = "snips",
    assumption: Annotated[
        str | None,
        typer.Option(
            "--assumption",
            help="What a click depends on: independent, cascade or list.",
            show_default="cascade with --ranker, else independent",
        ),
    ] = None,
    clip: Annotated[float | None, typer.Option("--clip", help="The highest weight.")] = None,
    interval: Annotated[str, typer.Option("--interval", help="Interval: bootstrap or normal.")] = "bootstrap",
    level: Annotated[float, typer.Option("--level", help="Level of the interval.")] = 0.95,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    format: LogFormat = None,
    read: LogRead = None,
    memory_limit: options.MemoryLimit = None,
    json: options.Json = False,
) -> None:
    """Estimate the clicks per page of a policy or model from the log of another."""
    from gainful.cli.console import key_value_table, print_json, show_warnings_as_lines, stdout
    from gainful.clicks.off_policy import estimate_value
    from gainful.errors import ParameterError

    if (policy is None) == (ranker is None):
        raise ParameterError("give what to value: either --policy CSV, or --ranker MODEL with --data DATA")
    if (ranker is not None or logged is not None) and data is None:
        raise ParameterError("--ranker and --logged need --data, all candidates of the queries of the log")
    chances = None if policy is None else _read_policy(policy)
    pages = _load_log(log, format, read, memory_limit)
    shown = None if logged is None else _model_probabilities(pages, data, logged, temperature)
    if chances is not None:
        wanted: Any = {name: chances.get(str(name), 0.0) for name in pages.document_ids.tolist()}
    else:
        wanted = _model_probabilities(pages, data, ranker, temperature, every=method == "dr")
    with show_warnings_as_lines():
        found = estimate_value(
            pages,
            wanted,
            method,
            assumption=assumption or ("independent" if ranker is None else "cascade"),
            propensity=shown,
            clip=clip,
            interval=interval,
            level=level,
            seed=seed,
        )
    own = pages.n_clicks / pages.n_pages
    if json:
        print_json(found.to_dict() | {"logged_value": own})
        return
    rows = [
        ("clicks per page", f"{found.value:.5g}"),
        (f"{found.level:.0%} interval", f"{found.low:.5g} to {found.high:.5g} ({found.interval})"),
        ("clicks per page of the log", f"{own:.5g}"),
        ("pages", f"{found.pages:,}"),
        ("effective pages", f"{found.effective:,.0f}"),
        ("mean weight", f"{found.mean_weight:.3f}"),
        ("largest weight", f"{found.largest_weight:.4g}"),
        ("method", f"{found.method}, {found.assumption}"),
    ]
    stdout().print(key_value_table(rows))


def _read_policy(path: Path) -> dict[str, float]:
    """Document → probability."""
    from gainful.cli.inputs import parse_csv_number, read_csv_rows

    rows = read_csv_rows(path, ("document", "probability"))
    return {row["document"]: parse_csv_number(row, "probability", path, line) for line, row in rows}


def _model_probabilities(
    pages: ClickLog, data: Path | None, model: Path | None, temperature: float, *, every: bool = False
) -> Any:
    from gainful.cli.inputs import load_data, load_model, read_options
    from gainful.clicks.policies import ranking_probabilities

    assert data is not None
    assert model is not None
    loaded = load_model(model)
    rows = load_data(data, read_options(None, False, None, None), loaded)
    return ranking_probabilities(pages, rows, loaded, temperature=temperature, every=every)
