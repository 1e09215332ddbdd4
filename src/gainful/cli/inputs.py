"""Read the arguments of commands: data files and folders, models, scores, metrics, settings."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gainful.cli.console import show_warnings_as_lines, status, warn, watch_compilation
from gainful.data.checks import check_data
from gainful.data.dataset import Dataset, RankingData
from gainful.errors import DataError, FormatError, ParameterError, option, shorten
from gainful.formats.files import check_readable, reason
from gainful.formats.shards import is_many, named_features, shard_files
from gainful.inputs.reading import read
from gainful.inputs.shards import open_many, open_shards
from gainful.metrics import Metric, metric
from gainful.metrics.conventions import RUN_CONVENTION, RUN_METRICS, TREC_METRICS
from gainful.parameters.constraints import split_outside_brackets

if TYPE_CHECKING:
    from gainful.rankers.base import Ranker


FROM_ZERO = ("LightGBM", "XGBoost")  # makers who count the features of text files from 0


def read_options(
    format: str | None,
    merge: bool,
    settings: list[str] | None,
    memory_limit: str | None = None,
    pairs: Path | None = None,
) -> dict[str, Any]:
    """Keywords for :func:`gainful.read` from the options of a command."""
    options = parse_format_options(settings)
    if pairs is not None:
        options["pairs"] = pairs
    if memory_limit is not None:
        options["max_bytes"] = memory_limit
    if merge:
        options["merge"] = True
    return options | ({"format": format} if format else {})


def parse_format_options(settings: list[str] | None) -> dict[str, Any]:
    """``["merge=true", "n_features=46", "features=bm25,clicks"]`` as keywords; the format checks their values."""
    words = {"true": True, "yes": True, "false": False, "no": False, "none": None}
    options: dict[str, Any] = {}
    for setting in settings or []:
        name, equals, text = (part.strip() for part in setting.partition("="))
        if not equals or not name:
            raise ParameterError(f"an option of the format must be NAME=VALUE, was {setting!r}")
        if name in ("features", "keep", "times") or ("," in text and name not in ("sep", "decimal")):
            options[name] = parse_names(text)
        elif text.lower() in words:
            options[name] = words[text.lower()]
        else:
            options[name] = int(text) if text.lstrip("-").isdecimal() else text
    return options


def load_data(path: Path, options: dict[str, Any], model: Ranker | None = None) -> RankingData:
    """Read a data file, for ``model`` if it is given.

    Of a table, then, just its features are read. Text without trailing zero features gets those of the model.
    """
    watch_compilation()
    with status(f"reading {path}"), show_warnings_as_lines():
        data = read(path, **options, **_features_of(model, path, options))
    if model is not None and data.feature_names is None and data.n_features < model.n_features_in_:
        maker = getattr(model, "maker", "")
        if maker.startswith(FROM_ZERO) and "zero_based" not in options:
            raise DataError(
                f"{path} has {data.n_features} features, but the model has {model.n_features_in_}: {maker} counts the "
                f"features of text from 0, whatever the file starts with; pass {option('zero_based', True)}"
            )
        data = data.with_n_features(model.n_features_in_)
    return data


def open_data(path: Path, options: dict[str, Any], model: Ranker | None = None, cluster: str | None = None) -> Dataset:
    """Read a data file with :func:`load_data`; open a folder of shards, or data on a cluster, as blocks."""
    if cluster is None and not is_many(path):
        return load_data(path, options, model)
    watch_compilation()
    more = {} if cluster is not None else _features_of(model, path, options)
    with status(f"opening {path}"), show_warnings_as_lines():
        if cluster is None:
            return open_many(path, **options, **more)
        return open_shards(path, cluster=cluster, **options)


def _features_of(model: Ranker | None, path: Path, options: dict[str, Any]) -> dict[str, Any]:
    """The option that reads the features of a model from a table."""
    if model is None:
        return {}
    format = options.get("format")
    return named_features(model._trained_names(), shard_files(path, format)[0], format, options)


def print_data_warnings(data: Dataset, valid: Dataset | None = None) -> None:
    """Print a line on stderr for each likely mistake in the data."""
    for finding in check_data(data, valid):
        warn(finding)


def load_model(path: Path) -> Ranker:
    from gainful.foreign.loading import load

    return load(path)


def read_csv_rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and row of a CSV file that has these columns."""
    check_readable(path)
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            names = rows.fieldnames or []
            if not set(columns) <= set(names):
                expected = f"{', '.join(columns[:-1])} and {columns[-1]}"
                raise FormatError(f"expected the columns {expected}, found {', '.join(names)}", path=path, line=1)
            for row in rows:
                yield rows.line_num, row
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"is not CSV text in UTF-8: {reason(error)}", path=path) from None


def read_segments(path: Path) -> dict[str, str]:
    """Query → segment, from a CSV file with these two columns."""
    found: dict[str, str] = {}
    for line, row in read_csv_rows(path, ("query", "segment")):
        query, name = row["query"], row["segment"]
        if not query or not name:
            raise FormatError("expected a query and its segment", path=path, line=line)
        if found.setdefault(query, name) != name:
            raise FormatError(f"query {shorten(query)} has two segments", path=path, line=line)
    return found


def parse_csv_number(row: dict[str, str], column: str, path: Path, line: int) -> float:
    """The finite number in a column of a row."""
    from gainful.formats.letor.lines import read_number

    found = read_number((row[column] or "").strip().encode())
    if found is None or not math.isfinite(found):
        raise FormatError(f"{column} must be a number, was {shorten(row[column])}", path=path, line=line)
    return found


def parse_metrics(text: str, convention: str | None, relevant: float | None = None) -> list[Metric]:
    """``"ndcg@10,map"`` as metrics."""
    found = [
        metric(spec, convention=convention, relevant=relevant if _is_binary(spec) else None)
        for spec in split_outside_brackets(text, ",")
        if spec
    ]
    if not found:
        raise ParameterError("no metric given; name at least one, as in ndcg@10,map")
    return found


def parse_run_metrics(text: str | None, convention: str | None, relevant: float | None = None) -> list[Metric]:
    """Metrics for TREC runs, by the conventions of trec_eval 9 unless others are named."""
    specs = RUN_METRICS if text is None else split_outside_brackets(text, ",")
    official = [one for spec in specs if spec for one in (TREC_METRICS if spec == "trec" else (spec,))]
    return parse_metrics(",".join(official), convention or RUN_CONVENTION, relevant)


def _is_binary(spec: str) -> bool:
    """Whether a metric uses binary relevance, so that --relevant applies."""
    return metric(spec).relevant is not None


def parse_numbers(text: str, what: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ParameterError(f"{what} must be comma-separated numbers, was {text!r}") from error


def parse_names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
