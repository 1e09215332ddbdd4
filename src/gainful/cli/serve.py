"""``gainful serve``: serve a model over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gainful.cli.models import Model


def serve(
    model: Model,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any other than localhost needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="GAINFUL_TOKEN",
            help="Token that requests must send. Prefer --token-file: other local users can see command lines.",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with the token.")] = None,
    max_body: Annotated[int, typer.Option(metavar="BYTES", help="Maximum request size.")] = 16 << 20,
    max_rows: Annotated[int, typer.Option(metavar="N", help="Maximum documents per request.")] = 10_000,
    max_requests: Annotated[int, typer.Option(metavar="N", help="Requests at once, per worker; more get a 503.")] = 128,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Maximum time per request.")] = 10.0,
    threads: Annotated[int, typer.Option(metavar="N", help="Requests computed in parallel, per worker.")] = 2,
    workers: Annotated[int, typer.Option(metavar="N", help="Server processes that share the model.")] = 1,
    watch: Annotated[
        float, typer.Option(metavar="SECONDS", help="How often to check for a new model file; 0 means never.")
    ] = 1.0,
    grace: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for running requests to finish at shutdown.")
    ] = 30.0,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    beside: Annotated[
        Path | None,
        typer.Option(metavar="OTHER", help="Second model; the page shows both side by side."),
    ] = None,
    interleave: Annotated[
        Path | None,
        typer.Option(metavar="OTHER", help="Second model; rankings interleave both. Needs --impressions."),
    ] = None,
    impressions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to append interleaved lists to, for interleave analyse."),
    ] = None,
    interleave_method: Annotated[
        str, typer.Option(metavar="NAME", help="team-draft, probabilistic or optimised.")
    ] = "team-draft",
    interleave_length: Annotated[
        int, typer.Option(metavar="N", help="Documents interleaved; those below are in the order of MODEL.")
    ] = 10,
) -> None:
    """Serve a model over HTTP: ranking, scores, explanations, a web page. Loads a new model file while it runs."""
    from gainful.errors import ParameterError
    from gainful.serve import Settings, run_server
    from gainful.serve.settings import read_token

    if token_file is not None:
        if token is not None:
            raise ParameterError("the token is given twice; use --token-file or --token (GAINFUL_TOKEN), not both")
        token = read_token(token_file)
    settings = Settings(
        host=host,
        port=port,
        token=token,
        max_body=max_body,
        max_rows=max_rows,
        max_requests=max_requests,
        timeout=timeout,
        threads=threads,
        workers=workers,
        watch=watch,
        grace=grace,
        log_level=log_level,
        beside=beside,
        interleave=interleave,
        impressions=impressions,
        interleave_method=interleave_method,
        interleave_length=interleave_length,
    )
    run_server(model, settings)
