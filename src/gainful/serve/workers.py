"""Several server processes on one socket, with one model in memory, and counters that add up.

The workers are forked after the model is loaded, so they share its memory until a new file is loaded. The parent passes
signals on, and replaces a worker that dies.
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import struct
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import msgspec

from gainful.serve.monitoring import Metrics, log_event

POST_EVERY = 0.5  # seconds
SLOT = 256 << 10  # bytes of each worker's counters
HEAD = struct.Struct("<QQ")  # length and checksum of what follows; another process may see writes in any order
SHORTEST_LIFE = 1.0  # seconds: a worker that dies sooner after its start will do so again
MOST_DEATHS = 5  # of such workers in a row


class Board:
    """Where each worker posts its counters, in memory that all of them share."""

    def __init__(self, n_workers: int):
        self.n_workers = n_workers
        self._memory = mmap.mmap(-1, n_workers * SLOT)

    def post(self, worker: int, metrics: Metrics) -> None:
        content = msgspec.json.encode(metrics.state())
        if len(content) > SLOT - HEAD.size:  # thousands of different routes and statuses: not from our own routes
            return
        start = worker * SLOT
        self._memory[start + HEAD.size : start + HEAD.size + len(content)] = content
        HEAD.pack_into(self._memory, start, len(content), zlib.crc32(content))

    def read(self, worker: int) -> dict[str, Any] | None:
        """What a worker posted last; None if nothing, or if it died in the middle of posting."""
        start = worker * SLOT
        for _ in range(100):
            size, checksum = HEAD.unpack_from(self._memory, start)
            content = self._memory[start + HEAD.size : start + HEAD.size + size]
            if zlib.crc32(content) == checksum:
                return dict(msgspec.json.decode(content)) if size else None
            time.sleep(0.001)
        return None


@dataclass(frozen=True)
class Place:
    """One worker's place among the others."""

    board: Board
    worker: int
    parent: int = field(default_factory=os.getppid)

    def has_parent(self) -> bool:
        return os.getppid() == self.parent

    def resume(self, metrics: Metrics) -> None:
        """Go on counting where a worker in this place left off."""
        before = self.board.read(self.worker)
        if before is not None:
            metrics.loads["ok"] = 0
            metrics.add(before | {"in_flight": 0})
        elif self.worker > 0:
            metrics.loads["ok"] = 0  # the model was loaded once, before the fork

    def post(self, metrics: Metrics) -> None:
        self.board.post(self.worker, metrics)

    def total(self, own: Metrics) -> Metrics:
        """The counters of all workers: what the others posted last, and ``own`` as they are."""
        found = Metrics()
        found.add(own.state())
        for other in range(self.board.n_workers):
            state = self.board.read(other) if other != self.worker else None
            if state is not None:
                found.add(state)
        return found

    def reload_all(self) -> None:
        """Let every worker load the model file again."""
        os.kill(self.parent, signal.SIGHUP)


def run_workers(n_workers: int, serve: Callable[[int, bool], None]) -> bool:
    """Run ``serve(i, reloaded)`` in child processes until SIGINT or SIGTERM; False if they would not stay alive.

    A child that dies is started again; ``reloaded`` says whether there has been a SIGHUP by then, which goes on to all
    children. SIGINT and SIGTERM end them. SIGHUP stays blocked in a child until ``serve`` unblocks it, so that one
    that comes before its handler is set waits for it.
    """
    children: dict[int, tuple[int, float]] = {}  # process id → worker and start
    stopping = reloaded = False

    def pass_on(number: int) -> None:
        for pid in list(children):
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, number)

    def reload(number: int, frame: FrameType | None) -> None:
        nonlocal reloaded
        reloaded = True
        pass_on(number)

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        pass_on(signal.SIGTERM)

    def start(worker: int) -> None:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for number in handlers:
                    signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, before | {signal.SIGHUP})
                serve(worker, reloaded)
                code = 0
            except BaseException:
                logging.getLogger("gainful.serve").exception("worker failed")
            finally:
                logging.shutdown()
                os._exit(code)
        children[pid] = worker, time.monotonic()
        if stopping:  # a signal that came in another thread, between the fork and the note
            os.kill(pid, signal.SIGTERM)

    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
    old = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    # No signal may come between a fork and the note of its id.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handlers)
    deaths = 0
    try:
        for worker in range(n_workers):
            start(worker)
        while children:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            pid, status = os.wait()
            signal.pthread_sigmask(signal.SIG_BLOCK, handlers)
            ended = children.pop(pid, None)
            if stopping or ended is None:  # the first process of a container also gets children of others
                continue
            worker, began = ended
            deaths = deaths + 1 if time.monotonic() - began < SHORTEST_LIFE else 0
            log_event("worker ended", logging.ERROR, worker=worker, code=os.waitstatus_to_exitcode(status))
            if deaths >= MOST_DEATHS:
                stopping = True
                pass_on(signal.SIGTERM)
            else:
                start(worker)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in old.items():
            signal.signal(number, handler)
    return deaths < MOST_DEATHS
