"""Minutes of good and bad requests against one server while its model file is swapped: nothing lost, no 5xx, no leak.

``python benchmarks/serve_soak.py --minutes 10`` prints one JSON object and exits with 1 if the server fails:
a status of 500 or above other than the documented 503, an answer that does not fit its request, a connection closed
without an answer, a swap that did not happen, memory that keeps growing. With ``--schemathesis`` that tool also attacks
the server for the same time, guided by its OpenAPI description.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import gainful
from serving import Connection, request_bytes, served

FEATURES = 12
BROKEN = [b"", b"no model at all", b"PK\x03\x04 and so on"]
JSON_TYPE = "content-type: application/json\r\n"


def train() -> list[gainful.Ranker]:
    data = gainful.make_artificial(40, n_docs=20, n_features=FEATURES, seed=0)
    return [
        gainful.RegressionRanker().fit(data),
        gainful.LambdaMART(n_trees=60, n_leaves=15, n_jobs=1, early_stopping=None).fit(data),
    ]


# -- requests ----------------------------------------------------------------------------------------------------------


def good(draw: random.Random) -> tuple[bytes, set[int]]:
    """A request that should get 200."""
    rows = [[round(draw.random(), 4) for _ in range(FEATURES)] for _ in range(draw.choice([0, 1, 5, 50, 200]))]
    documents = [{"id": f"d{i}", "features": row} for i, row in enumerate(rows)]
    kind = draw.randrange(6)
    if kind == 0:
        return request_bytes("POST", "/rank", {"documents": documents}), {200}
    if kind == 1:
        queries = [{"id": q, "documents": documents[:20]} for q in range(draw.randrange(5))]
        return request_bytes("POST", "/rank", {"queries": queries, "top": 3}), {200}
    if kind == 2:
        body = {"documents": documents[:20], "contributions": True, "top": 2, "top_features": 3}
        return request_bytes("POST", "/rank", body), {200}
    if kind == 3:
        named = [{f"f{j + 1}": value for j, value in enumerate(row)} for row in rows]
        return request_bytes("POST", "/score", {"rows": named}), {200}
    if kind == 4:
        pair = [[draw.random() for _ in range(FEATURES)] for _ in "ab"]
        return request_bytes("POST", "/pair", dict(zip("ab", pair, strict=True))), {200}
    return request_bytes("GET", draw.choice(["/", "/model", "/health", "/ready", "/metrics", "/openapi.json"])), {200}


def bad(draw: random.Random) -> tuple[bytes, set[int]]:
    """A request that should be refused."""
    kind = draw.randrange(9)
    if kind == 0:
        return request_bytes("POST", "/rank", draw.randbytes(draw.randrange(300))), {400, 422}
    if kind == 1:
        whole = json.dumps({"documents": [{"features": [1.0] * FEATURES}]}).encode()
        return request_bytes("POST", "/rank", whole[: draw.randrange(len(whole))]), {400}
    if kind == 2:
        wrong = draw.choice([[1.0], ["a"] * FEATURES, {"nobody": 1.0}, 7, None, [True] * FEATURES])
        return request_bytes("POST", "/score", {"rows": [wrong]}), {422}
    if kind == 3:
        return request_bytes("POST", "/rank", b"[" * draw.randrange(1, 50_000)), {400}
    if kind == 4:
        return request_bytes("POST", "/score", {"rows": [[0.0] * FEATURES] * 1001}), {413}
    if kind == 5:
        return request_bytes("POST", "/score", b" " * 600_000), {413}
    if kind == 6:
        return request_bytes(draw.choice(["GET", "DELETE", "PUT"]), "/rank"), {405}
    if kind == 7:
        return request_bytes("GET", f"/{draw.randrange(10**9)}"), {404}
    return request_bytes("POST", "/score", {"rows": [[1e308] * FEATURES]}), {200, 422}


def rude(draw: random.Random) -> bytes:
    """An aborted request: the part that was sent before the client left."""
    whole, _ = good(draw)
    return whole[: draw.randrange(1, len(whole))]


# -- the run -----------------------------------------------------------------------------------------------------------


class Soak:
    """Clients, swaps and memory readings, until the time is up."""

    def __init__(self, host: str, port: int, pid: int, path: Path, end: float):
        self.host, self.port, self.pid, self.path, self.end = host, port, pid, path, end
        self.statuses: Counter[int] = Counter()
        self.wrong: list[str] = []
        self.lost = self.left = self.swaps = self.refused = 0
        self.memory: list[float] = []

    async def client(self, seed: int) -> None:
        draw, connection = random.Random(seed), Connection(self.host, self.port)
        while time.monotonic() < self.end:
            if draw.random() < 0.05:
                await self.leave_early(rude(draw))
                continue
            request, deserved = (good if draw.random() < 0.6 else bad)(draw)
            try:
                status, body = await asyncio.wait_for(connection.ask(request), 30)
            except (OSError, EOFError, TimeoutError) as error:
                connection.close()
                if 413 in deserved and len(request) > 500_000:
                    self.statuses[413] += 1  # the server stopped reading, perhaps before we could read its answer
                else:
                    self.lost += 1
                    self.wrong.append(f"{error!r} for {request[:80]!r}")
                continue
            self.statuses[status] += 1
            if status not in deserved and status != 503:
                self.wrong.append(f"{status} {body[:200]!r} for {request[:120]!r}")
            if status == 413:
                connection.close()
        connection.close()

    async def leave_early(self, part: bytes) -> None:
        _, writer = await asyncio.open_connection(self.host, self.port)
        writer.write(part)
        await asyncio.sleep(0.01)
        writer.close()
        self.left += 1

    async def swap(self, files: list[Path]) -> None:
        connection, n = Connection(self.host, self.port), 0
        while time.monotonic() < self.end - 3:
            n += 1
            if n % 4 == 0:
                self.path.write_bytes(random.choice(BROKEN))
                if await self.until(connection, lambda model: model["refused"] is not None):
                    self.refused += 1
                continue
            beside, wanted = self.path.with_suffix(".new"), files[n % 2]
            version = hashlib.sha256(wanted.read_bytes()).hexdigest()[:16]
            shutil.copy(wanted, beside)
            beside.replace(self.path)
            if await self.until(connection, lambda model, version=version: model["model_version"] == version):
                self.swaps += 1
            await asyncio.sleep(0.5)

    async def model(self, connection: Connection) -> dict:
        while True:
            status, body = await connection.ask(request_bytes("GET", "/model"))
            if status == 200:
                return json.loads(body)
            await asyncio.sleep(0.05)

    async def until(self, connection: Connection, holds) -> bool:
        start = time.monotonic()
        while time.monotonic() < start + 20:
            if holds(await self.model(connection)):
                return True
            await asyncio.sleep(0.1)
        self.wrong.append("a new model file was not loaded within 20 s")
        return False

    async def watch_memory(self) -> None:
        while time.monotonic() < self.end:
            text = Path(f"/proc/{self.pid}/status").read_text()
            self.memory.append(int(text.split("VmRSS:")[1].split()[0]) / 1024)
            await asyncio.sleep(1)

    async def run(self, files: list[Path], clients: int) -> None:
        await asyncio.gather(*(self.client(seed) for seed in range(clients)), self.swap(files), self.watch_memory())

    def report(self) -> dict:
        quarter = max(1, len(self.memory) // 4)
        return {
            "requests": sum(self.statuses.values()),
            "statuses": dict(sorted(self.statuses.items())),
            "clients that left": self.left,
            "lost": self.lost,
            "swaps": self.swaps,
            "broken files refused": self.refused,
            "memory MiB, first to last quarter": [
                round(float(np.median(part)), 1)
                for part in (self.memory[i * quarter : (i + 1) * quarter] for i in range(4))
            ],
            "wrong": self.wrong[:10],
        }


def attack(host: str, port: int, seconds: float) -> subprocess.Popen:
    """Schemathesis on the server's own description; only 5xx failures count, the others are its opinion."""
    tool = Path(sys.executable).with_name("schemathesis")
    if not tool.is_file():
        sys.exit("schemathesis is not installed; run: pip install '.[soak]'")
    command = [
        str(tool), "run", f"http://{host}:{port}/openapi.json",
        "--checks", "not_a_server_error", "--max-time", str(int(seconds)), "--phases", "coverage,fuzzing",
        "--continue-on-failure", "--no-color", "--generation-database", "none",
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--clients", type=int, default=8)
    options.add_argument("--schemathesis", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{i}.gainful") for i in range(2)]
        for file, model in zip(files, train(), strict=True):
            gainful.save(model, file)
        path = Path(folder, "model.gainful")
        shutil.copy(files[0], path)
        limits = ("--watch", "0.2", "--max-rows", "1000", "--max-body", "500000")
        with served(path, *limits) as (process, host, port):
            soak = Soak(host, port, process.pid, path, time.monotonic() + 60 * given.minutes)
            attacker = attack(host, port, 60 * given.minutes - 5) if given.schemathesis else None
            asyncio.run(soak.run(files, given.clients))
            figures = soak.report()
            if attacker is not None:
                out, _ = attacker.communicate(timeout=120)
                figures["schemathesis"] = {"exit": attacker.returncode, "tail": out.strip().splitlines()[-6:]}
        figures["exit code after SIGTERM"] = process.returncode
    print(json.dumps(figures, indent=1))
    memory = figures["memory MiB, first to last quarter"]
    failed = [status for status in soak.statuses if status >= 500 and status != 503]
    leak = memory[3] > 1.1 * memory[1] + 5
    return 1 if failed or soak.wrong or soak.lost or leak or process.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
