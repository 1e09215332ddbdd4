"""``gainful export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gainful.cli import options
from gainful.cli.models import Model


def export(
    model: Model,
    to: Annotated[
        str,
        typer.Option(
            "--to", help="onnx, elasticsearch, opensearch, solr, json, lightgbm, xgboost or c.", show_default=False
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.", show_default=False)],
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Format of trees for elasticsearch and opensearch: xgboost or ranklib. Default: the one that is right "
            "in --engine-version, or xgboost.",
        ),
    ] = None,
    check: Annotated[
        Path | None, typer.Option("--check", metavar="DATA", help="Also check the export on this data.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the model in the engine.")] = "gainful",
    feature_set: Annotated[
        str | None,
        typer.Option("--feature-set", help="Feature set in elasticsearch and opensearch. Default: features."),
    ] = None,
    store: Annotated[str | None, typer.Option("--store", help="Feature store in solr.")] = None,
    missing: Annotated[
        str, typer.Option("--missing", help="Missing values: model (as the model handles them), or zero.")
    ] = "model",
    engine_version: Annotated[
        str | None,
        typer.Option(
            "--engine-version",
            help="Version of elasticsearch, opensearch or solr, such as 3.5: versions differ in what they do with "
            "missing values.",
        ),
    ] = None,
    read: options.Read = None,
    memory_limit: options.MemoryLimit = None,
    json: options.Json = False,
) -> None:
    """Write a model for a search engine or runtime, after checking that its scores are the same."""
    from gainful.cli.console import key_value_table, print_json, say, stdout
    from gainful.cli.inputs import load_data, load_model, read_options
    from gainful.exports import export as write

    fitted = load_model(model)
    how = read_options(None, False, read, memory_limit)
    rows = None if check is None else load_data(check, how, fitted)
    done = write(
        fitted, output, to=to, format=format, check_on=rows, name=name, feature_set=feature_set, store=store,
        missing=missing, engine_version=engine_version,
    )  # fmt: skip
    if json:
        print_json(
            {
                "to": done.to,
                "format": done.format,
                "files": [str(file) for file in done.files],
                "features": len(done.features),
                "largest_difference": done.largest_difference,
                "checks": {what: vars(found) for what, found in done.checks.items()},
                "constant": done.constant,
                "notes": list(done.notes),
            }
        )
        return
    facts: list[tuple[str, Any]] = [("written", ", ".join(str(file) for file in done.files))]
    facts += [(f"check, {what} rows", str(found)) for what, found in done.checks.items()]
    stdout().print(key_value_table(facts))
    for note in done.notes:
        say(f"note: {note}")
