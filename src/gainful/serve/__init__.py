"""A model behind HTTP: rank documents, score rows, explain scores, monitor, and swap the model while running.

Needs the extra ``serve``: FastAPI, uvicorn and msgspec, loaded on first use.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gainful.serve.settings import Settings

if TYPE_CHECKING:
    from gainful.serve.app import App

__all__ = ["Settings", "create_app", "run_server"]


def create_app(model_path: str | Path, settings: Settings | None = None) -> App:
    """The ASGI application that serves a model file."""
    _require_extra()
    from gainful.serve.app import create_app as create

    return create(model_path, settings or Settings())


def run_server(model_path: str | Path, settings: Settings | None = None) -> None:
    """Serve a model file until SIGINT or SIGTERM; requests in progress finish first."""
    _require_extra()
    from gainful.serve.run import run

    run(model_path, settings or Settings())


def _require_extra() -> None:
    from importlib.util import find_spec

    from gainful.errors import MissingExtraError

    for module, package in (("fastapi", "FastAPI"), ("uvicorn", "uvicorn"), ("msgspec", "msgspec")):
        if find_spec(module) is None:
            raise MissingExtraError.of("the server", package, "serve")
