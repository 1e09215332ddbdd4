"""What wraps every request: access, the limit on requests at once, an answer in any case, metrics and a log line."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.requests import ClientDisconnect

from gainful.serve.monitoring import Metrics, log, log_event
from gainful.serve.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = {"/", "/docs", "/health", "/ready", "/openapi.json"}  # need no token: they reveal nothing about the model
PROBES = {"/health", "/ready", "/metrics"}  # answered however busy the server is; logged only at debug level
METHODS = {"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"}
HOST = re.compile(rb"(?:\[([0-9a-f:.]+)\]|([^][:/@\s]*))(?::[0-9]*)?")  # an IPv6 address in brackets, or a name
SAFE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
CLIENT_LEFT = 499  # nginx's code; nobody receives it
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
]


class Middleware:
    """An ASGI application that wraps another one."""

    def __init__(self, app: Application, settings: Settings, metrics: Metrics):
        self.app, self.settings, self.metrics = app, settings, metrics
        self._token = None if settings.token is None else _fingerprint(settings.token.encode())
        self._computing = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await Exchange(self, scope, receive, send).run()
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    def refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Status and line for a request that is not allowed."""
        hosts = sum(name == b"host" for name, _ in scope["headers"])
        if hosts > 1 or (hosts == 0 and scope["http_version"] == "1.1"):  # in version 1.0 there need be none
            return 400, f"the request has {hosts} Host headers; send one"
        if self._token is None:
            if not _names_this_machine(headers.get(b"host", b"")):
                return 403, "the Host header names another machine; to reach the server by name, start it with a token"
        elif scope["path"] not in OPEN and not self._knows_token(headers.get(b"authorization", b"")):
            return 401, "send the header Authorization: Bearer TOKEN with the server's token"
        if self._computing >= self.settings.max_requests and scope["path"] not in PROBES:
            return 503, f"the server is busy with {self._computing} requests; try again later"
        return None

    def _knows_token(self, header: bytes) -> bool:
        kind, _, given = header.partition(b" ")
        # Equal lengths on both sides, so that the time of the comparison reveals nothing about the token.
        return kind.lower() == b"bearer" and hmac.compare_digest(_fingerprint(given.strip()), self._token or b"")

    def enter(self, path: str) -> None:
        self.metrics.in_flight += 1
        self._computing += path not in PROBES

    def leave(self, path: str) -> None:
        self.metrics.in_flight -= 1
        self._computing -= path not in PROBES


class Exchange:
    """One request and its answer."""

    def __init__(self, middleware: Middleware, scope: Scope, receive: Receive, send: Send):
        self.middleware, self.scope, self.receive, self._send = middleware, scope, receive, send
        self.headers = dict(scope["headers"])
        given = self.headers.get(b"x-request-id", b"")
        self.id = given if SAFE_ID.fullmatch(given) else secrets.token_hex(8).encode()
        self.start = time.monotonic()
        self.status: int | None = None
        self.context: dict[str, Any] = {"start": self.start, "request": self.id.decode()}
        scope["gainful"] = self.context

    async def run(self) -> None:
        path = self.scope["path"]
        refusal = self.middleware.refusal(self.scope, self.headers)
        self.middleware.enter(path)
        try:
            if refusal is None:
                await self.middleware.app(self.scope, self.receive, self.send)
            else:
                await self.send_error(*refusal)
        except ClientDisconnect:
            self.status = self.status or CLIENT_LEFT
        except Exception:
            log.exception("failed", extra={"fields": {"request": self.id.decode(), "path": path}})
            if self.status is None:
                await self.send_error(500, f"internal error; see the server's log under {self.id.decode()}")
        finally:
            self.middleware.leave(path)
            self._finish(path)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *HEADERS, (b"x-request-id", self.id)]}
        await self._send(message)

    async def send_error(self, status: int, line: str) -> None:
        self.context["error"] = line
        content = json.dumps({"error": line}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if status == 503:
            headers.append((b"retry-after", b"1"))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": content})

    def _finish(self, path: str) -> None:
        seconds = time.monotonic() - self.start
        status = self.status or CLIENT_LEFT
        route = getattr(self.scope.get("route"), "path", "other")  # clients choose paths, and must not choose labels
        method = self.scope["method"] if route != "other" and self.scope["method"] in METHODS else "any"
        self.middleware.metrics.observe(method, route, status, seconds)
        level = logging.ERROR if status >= 500 and status != 503 else logging.WARNING if status >= 400 else logging.INFO
        if path in PROBES and status < 400:
            level = logging.DEBUG
        if log.isEnabledFor(level):
            fields = {name: value for name, value in self.context.items() if name != "start"}
            log_event(
                "request",
                level,
                method=self.scope["method"],
                path=path[:200],
                status=status,
                ms=round(1e3 * seconds, 3),
                client=(self.scope.get("client") or ("",))[0],
                **fields,
            )


def _fingerprint(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def _names_this_machine(host: bytes) -> bool:
    """Whether a Host header names loopback. Without a token this keeps out web pages whose name was pointed here."""
    found = HOST.fullmatch(host.lower())
    if found is None:
        return False
    name = (found[1] or found[2]).decode("latin-1")
    if name in ("", "localhost") or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
