"""Requests to the server: bodies from its own OpenAPI description, then damaged, and HTTP that is no HTTP.

The server is a process of its own, started by the worker that sends the requests. Any status below 500 is an answer,
and so is 503. Connections may be closed without an answer only where the request was not whole.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import io
import json
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy

import gainful
from fuzz.cases import Input, Random, Target, Wholes, expect
from fuzz.damage import VALUES, below, damage_bytes, damage_json, insert_pieces, pick

HUNG_UP = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)  # the server stops reading what is too long
N_FEATURES = 3
WAIT = 20.0  # seconds for an answer; the server itself gives up after TIMEOUT
TIMEOUT = 2.0
LIMITS = ("--max-rows", "200", "--max-body", "200000", "--timeout", str(TIMEOUT))
MEMORY = 8 << 30  # of the server's address space
BAD_BODIES = [b"", b"{", b"null", b"[]", b"[" * 40_000, b'{"a":' * 20_000, b"NaN", b"\xff\xfe", b" " * 210_000,
              b"1e999", b'{"rows": [[1e308, 1e308, 1e308]]}', b'{"rows": [["1", 2, 3]]}', b'{"rows": [[]]}',
              b'{"rows": []}', b'{"documents": [], "queries": []}', b'"' + b"a" * 100_000, b"9" * 50_000,
              b'{"\\ud800": 1}']  # fmt: skip
HEADERS = ["", "", "", "", "Host: evil.example\r\n", "Host: [::1].evil.com\r\n", "Host: \r\n", "Host: a\r\nHost: b\r\n",
           "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Expect: 100-continue\r\n",
           "Content-Length: -1\r\n", "Content-Length: 99999999999999999999\r\n", "Content-Length: 5\r\n",
           "Content-Encoding: gzip\r\n", "Upgrade: websocket\r\nConnection: Upgrade\r\n", "Upgrade: h2c\r\n",
           "Authorization: Bearer \u00e9\r\n", "Origin: null\r\n", "Cookie: " + "a" * 9000 + "\r\n",
           "X: " + "y" * 70_000 + "\r\n",
           "Content-Type: text/plain\r\n", "Content-Type: application/json; charset=utf-16\r\n", "Range: bytes=0-\r\n",
           "Accept: */*;q=nan\r\n", "\x00: 1\r\n", ": 1\r\n", " folded\r\n", "X-Request-Id: a\\nb\r\n"]  # fmt: skip
METHODS = [
    "POST",
    "POST",
    "POST",
    "GET",
    "HEAD",
    "PUT",
    "DELETE",
    "OPTIONS",
    "PATCH",
    "TRACE",
    "CONNECT",
    "PRI",
    "G\u00cbT",
    "",
]
PATHS = ["/nobody", "/rank/", "//rank", "/../etc/passwd", "/%2e%2e/", "/rank?top=1", "/rank%00", "*", "http://evil/rank",
         "", "/" + "a" * 70_000, "/\u00e9", "/%ff", "/static/../x", "/rank#x"]  # fmt: skip
PIECES = [b"\r\n", b"\n", b"\r", b"\0", b" ", b":", b"HTTP/9.9", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"\xff", b"-1"]


# -- requests ----------------------------------------------------------------------------------------------------------


def prepare(folder: Path) -> Mapping[str, bytes]:
    """The server's description of itself, which the bodies are made from."""
    from gainful.serve.app import create_app
    from gainful.serve.settings import Settings

    described = create_app(model_file(folder), Settings()).api.openapi()
    return {"openapi": json.dumps(described).encode()}


@functools.lru_cache(maxsize=1)
def described(openapi: bytes) -> Any:
    return json.loads(openapi)


def make(rng: Random, wholes: Wholes, whole: bool) -> Input:
    api = described(wholes["openapi"])
    posts = [path for path, kinds in api["paths"].items() if "post" in kinds and "requestBody" in kinds["post"]]
    gets = [path for path, kinds in api["paths"].items() if "get" in kinds]
    if whole and rng.random() < 0.3:
        return Input(request("GET", pick(rng, gets), None, ""), "", {"whole": True, "statuses": [200]})
    path = pick(rng, posts)
    schema = api["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    body = json.dumps(value_of(rng, api, schema, 0)).encode()
    if whole:
        return Input(request("POST", path, body, ""), "", {"whole": True, "statuses": [200, 422]})
    draw = rng.random()
    if draw < 0.30:
        return Input(request("POST", path, damage_json(body, rng), ""), "", {"whole": True})
    if draw < 0.35:
        matrix = damage_bytes(npy(rng.normal(size=(3, N_FEATURES))), rng)
        return Input(request("POST", path, matrix, "content-type: application/x-npy\r\n"), "", {"whole": True})
    if draw < 0.45:
        return Input(request("POST", path, damage_bytes(body, rng), ""), "", {"whole": True})
    if draw < 0.55:
        return Input(request("POST", path, pick(rng, BAD_BODIES), ""), "", {"whole": True})
    if draw < 0.75:
        path = path if rng.random() < 0.5 else pick(rng, PATHS)
        return Input(request(pick(rng, METHODS), path, body, pick(rng, HEADERS)), "", {"whole": False})
    raw = request("POST", path, body, "")
    if draw < 0.85:
        return Input(insert_pieces(raw, rng, PIECES), "", {"whole": False})
    if draw < 0.95:
        return Input(damage_bytes(raw, rng), "", {"whole": False})
    return Input(raw * int(rng.integers(2, 40)) + raw[: below(rng, len(raw))], "", {"whole": False})


def npy(matrix: Any) -> bytes:
    file = io.BytesIO()
    numpy.save(file, matrix)
    return file.getvalue()


def request(method: str, path: str, body: bytes | None, headers: str) -> bytes:
    host = "" if "host:" in headers.lower() else "host: localhost\r\n"
    kind = "" if body is None or "content-type" in headers.lower() else "content-type: application/json\r\n"
    length = "" if body is None or "content-length" in headers.lower() else f"content-length: {len(body)}\r\n"
    head = f"{method} {path} HTTP/1.1\r\n{host}{kind}{length}{headers}\r\n"
    return head.encode("utf-8", "replace") + (body or b"")


def value_of(rng: Random, api: Any, schema: Any, depth: int) -> Any:
    """A value that fits a schema of OpenAPI, or nearly."""
    if "$ref" in schema:
        return value_of(rng, api, api["components"]["schemas"][schema["$ref"].rpartition("/")[2]], depth)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema and "properties" not in schema:
            return value_of(rng, api, pick(rng, schema[several]), depth)
    kind = schema.get("type")
    if kind == "array":
        n = N_FEATURES if schema.get("items", {}).get("anyOf") else int(rng.integers(0, 4))
        return [value_of(rng, api, schema.get("items", {}), depth + 1) for _ in range(n)]
    if kind == "object":
        return _object(rng, api, schema, depth)
    values: dict[str, list[Any]] = {
        "number": [0, 1.5, -2, 1e300, round(float(rng.normal()), 3)],
        "integer": [1, 2, 3, 2**40],
        "string": ["d1", "é", "", "\x1b[31m", "a" * 999],
        "boolean": [True, False],
        "null": [None],
    }
    return pick(rng, values.get(str(kind), VALUES))


def _object(rng: Random, api: Any, schema: Any, depth: int) -> Any:
    if "properties" not in schema:  # features by name
        return {f"f{j + 1}": pick(rng, [0.5, -1, None]) for j in range(N_FEATURES)}
    required = schema.get("required", [])
    alternatives = [one["required"] for one in schema.get("oneOf", []) if "required" in one]
    chosen = [*required, *(pick(rng, alternatives) if alternatives else [])]
    others = [name for alternative in alternatives for name in alternative]
    chosen += [name for name in schema["properties"] if name not in (*chosen, *others) and rng.random() < 0.3]
    return {name: value_of(rng, api, schema["properties"][name], depth + 1) for name in chosen}


# -- the server --------------------------------------------------------------------------------------------------------


def model_file(folder: Path) -> Path:
    path = folder / "model.gainful"
    data = gainful.make_artificial(10, n_docs=5, n_features=N_FEATURES, seed=0)
    gainful.save(gainful.RegressionRanker().fit(data), path)
    return path


class RunningServer:
    """``gainful serve`` in a process that ends with this one."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.log = Path(self.folder.name) / "log"
        command = [sys.executable, "-m", "gainful", "serve", str(model_file(Path(self.folder.name)))]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*command, "--port", "0", *LIMITS], stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=_limit
            )
        self.address = self._wait()
        self.seen = self.log.stat().st_size

    def _wait(self) -> tuple[str, int]:
        for _ in range(1200):
            for line in self.log.read_text().splitlines():
                if '"listening"' in line and "http://" in line:
                    host, _, port = line.partition("http://")[2].partition("/")[0].rpartition(":")
                    return host, int(port)
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"the server did not start: {self.log.read_text()[-500:]}")

    def news(self) -> str:
        """What was logged since the last call."""
        with open(self.log, "rb") as log:
            log.seek(self.seen)
            new = log.read()
        self.seen += len(new)
        return new.decode(errors="replace")


def _limit() -> None:
    """In the server's process: die with the worker, and have a limit of memory of one's own."""
    die_with_parent = 1
    ctypes.CDLL(None).prctl(die_with_parent, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


class Servers:
    """The one server of this process; a new one if it has died."""

    running: RunningServer | None = None

    @classmethod
    def get(cls) -> RunningServer:
        if cls.running is None or cls.running.process.poll() is not None:
            cls.running = RunningServer()
        return cls.running


class ServerDiedError(Exception):
    """The process of the server ended."""


def use(path: Path, options: Mapping[str, Any]) -> None:
    server = Servers.get()
    answer = _exchange(server.address, path.read_bytes(), bool(options["whole"]))
    if server.process.poll() is not None:
        raise ServerDiedError(f"with {server.process.returncode}: {server.news()[-300:]}")
    news = server.news()
    expect("Traceback" not in news, f"a traceback in the log: {news.strip()[-300:]}")
    statuses = _statuses(answer)
    expect(all(status < 500 or status == 503 for status in statuses), f"status {statuses}: {answer[-200:]!r}")
    expect(bool(statuses) or not options["whole"], "no answer to a whole request")
    wanted = options.get("statuses")
    expect(wanted is None or statuses[0] in wanted, f"status {statuses} of a request as described: {answer[-200:]!r}")
    if wanted is None and any(status >= 400 for status in statuses):
        raise gainful.GainfulError(_error(answer))


def _exchange(address: tuple[str, int], raw: bytes, whole: bool) -> bytes:
    """All that the server answers until it closes the connection, or has answered a whole request."""
    received = b""
    with socket.create_connection(address, timeout=WAIT) as connection:
        try:
            connection.sendall(raw)
            if not whole:
                connection.shutdown(socket.SHUT_WR)
        except OSError as error:
            if error.errno not in (
                errno.EPIPE,
                errno.ECONNRESET,
                errno.ENOTCONN,
            ):  # it may stop reading what is too long
                raise
        with contextlib.suppress(ConnectionResetError):
            while not (whole and _is_complete(received)):
                part = connection.recv(1 << 16)
                if not part:
                    break
                received += part
    return received


def _is_complete(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(end) and bool(length) and len(body) >= int(length[0].partition(b":")[2])


def _statuses(answer: bytes) -> list[int]:
    parts = answer.split(b"HTTP/1.1 ")[1:]
    return [int(part[:3]) for part in parts if part[:3].isdigit()]


def _error(answer: bytes) -> str:
    """The line of the last refusal, as the client reads it."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(answer.rpartition(b"\r\n\r\n")[2])["error"])
    return "refused by the HTTP parser"


def warm() -> None:
    Servers.get()


TARGET = Target(make, use, prepare, warm, seconds=60)
