"""A process that serves: it listens, takes up new model files on SIGHUP, and lets requests finish on SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from gainful.errors import GainfulError, ParameterError
from gainful.serve.app import App, create_app
from gainful.serve.monitoring import set_up_logs, tell
from gainful.serve.settings import Settings

KEEP_ALIVE = 75  # seconds; longer than the balancers in front of it keep theirs


def run(model_path: str | Path, settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM."""
    app = create_app(model_path, settings)
    listening = _listen(settings)
    set_up_logs(settings.log_level)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(settings.grace)),
    )
    Server(config, app).run(sockets=[listening])


class Server(uvicorn.Server):
    """uvicorn's, with SIGHUP, and an exit code of 0 after a shutdown that was asked for."""

    def __init__(self, config: uvicorn.Config, app: App):
        super().__init__(config)
        self._app = app
        self._reloads: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)
        for listening in sockets or ():
            host, port = listening.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            tell("listening", url=f"http://{shown}:{port}/", token=self._app.settings.token is not None)

    def _reload(self) -> None:
        async def reload() -> None:
            with suppress(GainfulError):  # told in the log
                await self._app.reload()

        task = asyncio.get_running_loop().create_task(reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.draining = True
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before: dict[int, Any] = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _listen(settings: Settings) -> socket.socket:
    """A listening socket; bound before anything else starts, so that a port in use is one line."""
    host = settings.host.strip("[]")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, settings.port, type=socket.SOCK_STREAM)[0]
        # With the protocol named, asyncio switches Nagle's algorithm off, which would hold answers back for 40 ms.
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise ParameterError(f"cannot listen on {settings.host}:{settings.port} ({error.strerror})") from error
    return listening
