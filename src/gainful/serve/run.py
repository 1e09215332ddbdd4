"""The server process: it listens, reloads the model file on SIGHUP, and lets requests finish on SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from gainful.errors import GainfulError, ParameterError
from gainful.serve.app import App, create_app
from gainful.serve.monitoring import log_event, set_up_logs
from gainful.serve.settings import Settings
from gainful.serve.workers import Board, Place, run_workers

KEEP_ALIVE = 75  # seconds; longer than load balancers keep their connections
LAST_WAIT = 1.0  # seconds for threads to end after the grace period
LONGEST_HEAD = 64 << 10  # bytes
IDLE_CONNECTIONS = 512  # allowed beyond the requests at once


def run(model_path: str | Path, settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM, in one process or in several."""
    app = create_app(model_path, settings)
    listening = _listen(settings)
    set_up_logs(settings.log_level)
    if settings.workers == 1:
        _serve(app, listening)
        return
    board = Board(settings.workers)

    def serve(worker: int, reloaded: bool) -> None:
        app.take_place(Place(board, worker), reloaded)
        _serve(app, listening)

    if not run_workers(settings.workers, serve):
        raise GainfulError("the server's workers end as soon as they start; the log above says why")


def _serve(app: App, listening: socket.socket) -> None:
    settings = app.settings
    config = uvicorn.Config(
        app,
        http=connection_class(settings),
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
    if app.still_computing(LAST_WAIT):
        # Python would wait for the pool's threads, even those working on requests given up long ago.
        log_event("left requests unfinished", logging.WARNING)
        logging.shutdown()
        os._exit(0)


def connection_class(settings: Settings) -> type[asyncio.Protocol]:
    """uvicorn's connections, limited in number, and closed if a request head does not arrive or an answer is not read.

    Both have ``settings.timeout`` seconds; uvicorn itself waits forever.
    """
    base: Any = AutoHTTPProtocol
    most = settings.max_requests + IDLE_CONNECTIONS

    class Connection(base):  # type: ignore[misc]
        _head_size = 0
        _head_timer: asyncio.TimerHandle | None = None
        _answer_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=0)  # writing pauses as soon as the client does not keep up
            if len(self.connections) > most:
                transport.close()
            else:
                self._watch_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch_head()
            self._head_size = self._head_size + len(data) if self._head_is_open else 0
            if self._head_size > LONGEST_HEAD:  # httptools, unlike h11, would read on
                self.transport.close()

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._answer_timer is None:
                self._answer_timer = self.loop.call_later(settings.timeout, self._drop_answer)

        def resume_writing(self) -> None:
            self._forget_answer()
            super().resume_writing()

        def connection_lost(self, error: Exception | None) -> None:
            self._forget()
            self._forget_answer()
            super().connection_lost(error)

        def _watch_head(self) -> None:
            """On new bytes: either they complete a head, or the time for it runs from the first byte."""
            if not self._head_is_open:
                self._forget()
            elif self._head_timer is None:
                self._head_timer = self.loop.call_later(settings.timeout, self._give_up)

        def _give_up(self) -> None:
            self._head_timer = None
            if self._head_is_open:
                self.transport.close()

        @property
        def _head_is_open(self) -> bool:
            return self.cycle is None or bool(self.cycle.response_complete)

        def _forget(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _drop_answer(self) -> None:
            log_event("client did not read its answer", logging.WARNING, client=(self.client or ("",))[0])
            self.transport.abort()  # close would wait for the client to read

        def _forget_answer(self) -> None:
            if self._answer_timer is not None:
                self._answer_timer.cancel()
                self._answer_timer = None

    return Connection


class Server(uvicorn.Server):
    """uvicorn's server, with SIGHUP, and exit code 0 after a requested shutdown."""

    def __init__(self, config: uvicorn.Config, app: App):
        super().__init__(config)
        self._app = app
        self._reloads: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # workers start with it blocked
        for listening in sockets or ():
            host, port = listening.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            log_event("listening", url=f"http://{shown}:{port}/", token=self._app.settings.token is not None)

    def _reload(self) -> None:
        async def reload() -> None:
            with suppress(GainfulError):  # the log says why
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
    """A listening socket, bound before anything else starts, so that a port in use gives one line."""
    host = settings.host.strip("[]")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, settings.port, type=socket.SOCK_STREAM)[0]
        # If the protocol is given, asyncio turns off Nagle's algorithm, which would delay answers by 40 ms.
        listening = socket.socket(family, kind, protocol)
        try:
            # On Windows SO_REUSEADDR would let two servers share a port.
            alone = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
            listening.setsockopt(socket.SOL_SOCKET, alone, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise ParameterError(f"cannot listen on {settings.host}:{settings.port} ({error.strerror})") from error
    return listening
