"""Shared by the two server scripts: a server in its own process, and a fast client."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def served(path: Path, *options: str) -> Iterator[tuple[subprocess.Popen, str, int]]:
    """``gainful serve`` on a free port: process, host, port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gainful", "serve", str(path), "--port", "0", "--log-level", "warning", *options],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    try:
        host, port = "127.0.0.1", _port_of(process)
        yield process, host, port
    finally:
        process.terminate()
        process.wait(timeout=60)


def _port_of(process: subprocess.Popen) -> int:
    """The port a process listens on, from Linux's tables, since its log is switched off."""
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        mine = {os.readlink(f) for f in Path(f"/proc/{process.pid}/fd").iterdir() if f.is_symlink()}
        for line in Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in mine:
                return int(fields[1].split(":")[1], 16)
        time.sleep(0.1)
    raise RuntimeError("the server does not listen")


def cpu_seconds(process: subprocess.Popen) -> float:
    """Processor time a process has used; unlike wall-clock time, it means something on a busy machine."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def tree_cpu_seconds(pid: int) -> float:
    """Processor time of a process and of those it started, in nanoseconds' precision, without threads that ended."""
    total = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            total += int((task / "schedstat").read_text().split()[0]) / 1e9
            total += sum(map(tree_cpu_seconds, map(int, (task / "children").read_text().split())))
    return total


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def request_bytes(method: str, path: str, body: object = None, headers: str = "") -> bytes:
    """A whole HTTP/1.1 request."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "" if body is None or "content-type" in headers else "content-type: application/json\r\n"
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{kind}{headers}content-length: {len(content)}\r\n\r\n"
    return head.encode() + content


class Connection:
    """One connection, kept open; the cheapest client that reads whole answers."""

    def __init__(self, host: str, port: int):
        self.host, self.port = host, port
        self.reader: asyncio.StreamReader | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body."""
        if self.reader is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port, limit=1 << 24)
        self.writer.write(request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        body = await self.reader.readexactly(length)
        if b"connection: close" in head:
            self.close()
        return int(head[9:12]), body

    def close(self) -> None:
        if self.reader is not None:
            self.writer.close()
            self.reader = None
