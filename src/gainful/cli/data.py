"""``gainful data info``, ``convert`` and ``generate``."""

from __future__ import annotations

from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gainful.cli import options

app = typer.Typer(no_args_is_help=True, help="Describe data, convert it, generate artificial data.")

SPLIT_NAMES = ("train", "valid", "test")


@app.command("info")
def info(
    data: options.Data,
    pairs: options.Pairs = None,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    memory_limit: options.MemoryLimit = None,
    json: options.Json = False,
) -> None:
    """Describe a data file: queries, documents, grades, features, missing values, likely mistakes."""
    from gainful.cli.console import key_value_table, plain_table, print_json, stdout
    from gainful.cli.inputs import load_data, read_options
    from gainful.data.checks import check_data
    from gainful.inputs.parts import columns_of_first

    how = read_options(format, merge, read, memory_limit, pairs)
    rows = load_data(data, how)
    description, findings, columns = rows.describe(), check_data(rows), columns_of_first(data, how)
    beside = _files_beside(data, how)
    if json:
        print_json(
            description.to_dict()
            | {
                "files_beside": beside,
                "columns": None if columns is None else [asdict(column) for column in columns],
                "findings": [finding.to_dict() for finding in findings],
            }
        )
        return
    facts = description.rows() + [("file beside it", f"{name}: {held}") for name, held in beside.items()]
    facts += [("warning", str(finding)) for finding in findings]
    stdout().print(key_value_table(facts))
    if columns is not None:
        stdout().print("")
        stdout().print(plain_table(("column", "role", "why"), [astuple(column) for column in _shorten(columns)]))


def _files_beside(path: Path, how: dict[str, Any]) -> dict[str, str]:
    """The files with sizes, weights or scores beside the data, or beside the first of many: name → what it holds."""
    from gainful.formats import format_of
    from gainful.formats.shards import shard_files
    from gainful.formats.sidecars import files_beside

    first = shard_files(path, how.get("format"))[0]
    if how.get("sidecars") is False or not format_of(first, how.get("format")).compressible:  # text has them
        return {}
    return {file.name: held for file, held in files_beside(first).items()}


def _shorten(columns: list[Any], most: int = 100) -> list[Any]:
    """All columns that are not plain features, and the first of the features."""
    more = len(columns) - most
    if more <= 0:
        return columns
    features = [column for column in columns if column.role == "feature"]
    hidden = {column.name for column in features[len(features) - more :]}
    kept = [column for column in columns if column.name not in hidden]
    return [*kept, replace(features[-1], name=f"… and {len(hidden):,} more")]


@app.command("convert")
def convert(
    source: Annotated[Path, typer.Argument(help="Data file to read, or a folder of data files.", show_default=False)],
    target: Annotated[
        Path,
        typer.Argument(
            help="Data file to write, in the format of its suffix. With --shard-rows, a new folder.", show_default=False
        ),
    ],
    format: options.Format = None,
    to: Annotated[str | None, typer.Option("--to", help="Format to write. Default: by suffix.")] = None,
    merge: options.Merge = False,
    read: options.Read = None,
    memory_limit: options.MemoryLimit = None,
    write: Annotated[
        list[str] | None,
        typer.Option("--write", metavar="NAME=VALUE", help="Option of the format to write. Repeatable."),
    ] = None,
    shard_rows: Annotated[
        int | None,
        typer.Option(
            "--shard-rows", metavar="N", help="Write files part-00000.gnf, … with whole queries and about N rows each."
        ),
    ] = None,
) -> None:
    """Convert between LETOR text, Parquet, Arrow, CSV and gainful's memory-mapped binary format.

    Rows are streamed, so the data may be larger than memory.
    """
    from gainful.cli.console import count_status, say, show_warnings_as_lines, watch_compilation
    from gainful.cli.inputs import parse_format_options, read_options
    from gainful.formats.convert import convert as convert_data

    reading = read_options(format, merge, read, memory_limit)
    how = parse_format_options(write)
    reading.pop("format", None)
    watch_compilation()
    with count_status(f"converting {source}", "rows") as progress, show_warnings_as_lines():
        done = convert_data(
            source,
            target,
            format=format,
            to=to,
            shard_rows=shard_rows,
            read_options=reading,
            write_options=how,
            progress=progress,
        )
    shards = "" if shard_rows is None else f"{len(done.paths):,} shards, "
    say(f"{target}: {shards}{done.n_queries:,} queries, {done.n_rows:,} documents, {done.n_features:,} features")


@app.command("generate")
def generate(
    target: Annotated[Path, typer.Argument(help="File to write; with --split, a folder.", show_default=False)],
    queries: Annotated[int, typer.Option(help="Number of queries.")] = 1000,
    docs: Annotated[int, typer.Option(help="Documents per query.")] = 50,
    features: Annotated[int, typer.Option(help="Number of features.")] = 50,
    grades: Annotated[int, typer.Option(help="Number of grades.")] = 5,
    grade_shares: Annotated[
        str | None, typer.Option(help="Share of each grade, lowest first. Default: all equal.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed; the same seed gives the same data.")] = 0,
    split: Annotated[
        str | None,
        typer.Option(help="Shares of training, validation and test queries; writes train, valid and test files."),
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", help="Format to write. Default: by suffix, or letor with --split.")
    ] = None,
) -> None:
    """Generate artificial data with a known target (linear, quadratic and cubic part), as in the McRank paper."""
    from gainful.cli.console import say, status, watch_compilation
    from gainful.cli.inputs import parse_numbers
    from gainful.data.splits import split as split_queries
    from gainful.data.synthetic import make_artificial
    from gainful.errors import ParameterError
    from gainful.formats import FORMATS, check_format
    from gainful.formats import write as write_data
    from gainful.formats.files import refuse_unwritable

    shares = None if grade_shares is None else parse_numbers(grade_shares, "--grade-shares")
    parts = None if split is None else parse_numbers(split, "--split")
    if parts is not None and len(parts) not in (2, 3):
        raise ParameterError(f"--split must be two or three shares (training, [validation,] test), was {split!r}")
    if parts is None:
        check_format(target, format)
        refuse_unwritable(target)
    else:
        check_format(target, format or "letor")
    watch_compilation()
    with status("generating data"):
        data = make_artificial(
            queries, n_docs=docs, n_features=features, n_grades=grades, seed=seed, grade_shares=shares
        )
    if parts is None:
        files = {target: data}
    else:
        names = SPLIT_NAMES if len(parts) == 3 else ("train", "test")
        suffix = FORMATS[format or "letor"].suffixes[0]
        files = {
            target / f"{name}{suffix}": part
            for name, part in zip(names, split_queries(data, parts, seed=seed), strict=True)
        }
    if parts is not None:
        target.mkdir(parents=True, exist_ok=True)
    for path, part in files.items():
        with status(f"writing {path}"):
            write_data(part, path, format=format)
        say(f"{path}: {part.n_queries:,} queries, {part.n_rows:,} documents, {part.n_features:,} features")
