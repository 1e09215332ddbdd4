"""``gainful serve``: a model behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gainful.cli.models import Model


def serve(
    model: Model,
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond this machine a token is needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="GAINFUL_TOKEN",
            help="Token that requests must carry. Other users of this machine see a command line: prefer --token-file.",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="File that holds the token.")] = None,
    max_body: Annotated[int, typer.Option(metavar="BYTES", help="Most bytes of a request.")] = 16 << 20,
    max_rows: Annotated[int, typer.Option(metavar="N", help="Most documents of a request.")] = 10_000,
    max_requests: Annotated[int, typer.Option(metavar="N", help="Most requests at once; more get 503.")] = 128,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Most seconds a request may take.")] = 10.0,
    threads: Annotated[int, typer.Option(metavar="N", help="Requests computed at once.")] = 2,
    watch: Annotated[
        float, typer.Option(metavar="SECONDS", help="Look so often whether the model file is new; 0 never.")
    ] = 1.0,
    grace: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for requests under way to finish at shutdown.")
    ] = 30.0,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve a model over HTTP: ranking, scores, explanations, a page. A new model file is taken up while it runs."""
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
        watch=watch,
        grace=grace,
        log_level=log_level,
    )
    run_server(model, settings)
