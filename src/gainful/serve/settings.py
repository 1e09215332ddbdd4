"""The server's limits, address and token."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from gainful.clicks.interleaving import LONGEST_OPTIMISED, METHODS
from gainful.errors import FormatError, ParameterError
from gainful.formats.files import check_readable

SHORTEST_TOKEN = 16
MIB = 1 << 20
LONGEST = 1_000_000  # seconds: eleven days
LONGEST_LIST = 1000
LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class Settings:
    """Limits and address of a server. Any address but loopback needs a token.

    Parameters
    ----------
    host, port : address to listen on; port 0 takes a free one
    token : expected in ``Authorization: Bearer …``; None allows every request from this machine
    max_body : maximum request size in bytes
    max_rows : maximum number of documents per request
    max_requests : maximum number of requests at once, per worker; more are answered with 503
    timeout : seconds a request may take; its answer must be read within as many seconds again
    threads : requests computed at once, per worker
    workers : server processes on the same address; they share the model's memory
    watch : seconds between checks of the model file; 0 never checks
    grace : seconds that requests in progress have at shutdown
    log_level : "debug", "info", "warning" or "error"
    beside : a second model file, to compare with the first on the page; both also answer alone, under ``/a`` and ``/b``
    interleave : a second model file; answers of ``/rank`` interleave both models
    impressions : file to which the lists shown are appended, as JSON Lines; goes with ``interleave``
    interleave_method, interleave_length : as in :func:`gainful.interleave`
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = field(default=None, repr=False)
    max_body: int = 16 * MIB
    max_rows: int = 10_000
    max_requests: int = 128
    timeout: float = 10.0
    threads: int = 2
    workers: int = 1
    watch: float = 1.0
    grace: float = 30.0
    log_level: str = "info"
    beside: str | Path | None = None
    interleave: str | Path | None = None
    impressions: str | Path | None = None
    interleave_method: str = "team-draft"
    interleave_length: int = 10

    def __post_init__(self) -> None:
        for name in ("max_body", "max_rows", "max_requests", "threads", "workers"):
            if getattr(self, name) < 1:
                raise ParameterError.of("serve", name, "at least 1", getattr(self, name))
        if not 0 <= self.port <= 65_535:
            raise ParameterError.of("serve", "port", "0 … 65535", self.port)
        if not 0 < self.timeout <= LONGEST:
            raise ParameterError.of("serve", "timeout", f"above 0 and at most {LONGEST:,} seconds", self.timeout)
        for name in ("watch", "grace"):
            if not 0 <= getattr(self, name) <= LONGEST:
                raise ParameterError.of("serve", name, f"from 0 to {LONGEST:,} seconds", getattr(self, name))
        if self.log_level not in LEVELS:
            raise ParameterError.of("serve", "log_level", f"one of {', '.join(LEVELS)}", self.log_level)
        self._check_workers()
        self._check_interleaving()
        self._check_token()

    def _check_workers(self) -> None:
        # macOS forks, but BLAS and OpenMP, which have computed before, may crash in the child.
        if self.workers > 1 and (not hasattr(os, "fork") or sys.platform == "darwin"):
            raise ParameterError("several workers need a safe fork (not Windows, nor macOS); leave out workers")
        if self.workers > 1 and self.interleave is not None:
            raise ParameterError("interleave needs one worker, which writes the impressions; leave out workers")

    def _check_interleaving(self) -> None:
        if (self.interleave is None) != (self.impressions is None):
            raise ParameterError(
                "interleave and impressions go together: a second model, and the file that records what was shown"
            )
        if self.interleave is not None and self.beside is not None:
            raise ParameterError(
                "give beside or interleave, not both: models that are interleaved are also shown beside"
            )
        if self.interleave_method not in METHODS:
            raise ParameterError.of(
                "serve", "interleave_method", f"one of {', '.join(METHODS)}", self.interleave_method
            )
        most = LONGEST_OPTIMISED if self.interleave_method == "optimised" else LONGEST_LIST
        if not 1 <= self.interleave_length <= most:
            raise ParameterError.of("serve", "interleave_length", f"from 1 to {most:,}", self.interleave_length)

    def _check_token(self) -> None:
        if self.token is None:
            if not is_loopback(self.host):
                raise ParameterError(
                    f"host {self.host} can be reached from other machines, so a token is needed: give --token-file (or "
                    "--token), or listen on 127.0.0.1"
                )
            return
        if len(self.token) < SHORTEST_TOKEN or not all("!" <= letter <= "~" for letter in self.token):
            # The message must not show the token in a terminal or a log.
            raise ParameterError(f"token of serve must be {SHORTEST_TOKEN} or more visible ASCII characters, no spaces")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        pass
    if not host:
        return False
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(str(address).partition("%")[0]).is_loopback for address in found)


def read_token(path: str | Path) -> str:
    """The token on the first line of a file."""
    check_readable(path)
    try:
        lines = Path(path).read_text("utf-8-sig").strip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError("not a text file with a token", path=path) from error
    if len(lines) != 1:
        raise FormatError(f"expected one line with the token, found {len(lines)}", path=path)
    return lines[0].strip()
