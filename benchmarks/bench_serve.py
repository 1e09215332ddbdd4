"""The server against a bare ``predict`` call: 100 documents × 136 features, a linear model and 500 trees."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import gainful
from harness import Row, best_time, main
from serving import Connection, cpu_seconds, request_bytes, served

DOCUMENTS, FEATURES = 100, 136
CONNECTIONS = (1, 4, 16, 64)
SECONDS = 3.0


def models() -> dict[str, gainful.Ranker]:
    data = gainful.make_artificial(60, n_docs=50, n_features=FEATURES, seed=0)
    return {
        "linear": gainful.RegressionRanker().fit(data),
        "500 trees": gainful.LambdaMART(n_trees=500, n_leaves=31, n_jobs=1, early_stopping=None).fit(data),
    }


async def load(host: str, port: int, request: bytes, connections: int, seconds: float) -> list[float]:
    """The seconds each answered request took."""
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def worker() -> None:
        connection = Connection(host, port)
        while (start := time.perf_counter()) < end:
            status, _ = await connection.ask(request)
            assert status == 200
            times.append(time.perf_counter() - start)
        connection.close()

    await asyncio.gather(*(worker() for _ in range(connections)))
    return times


def rows() -> Iterator[Row]:
    X = np.round(np.random.default_rng(1).random((DOCUMENTS, FEATURES)), 6)
    request = request_bytes(
        "POST", "/rank", {"documents": [{"id": f"d{i}", "features": row} for i, row in enumerate(X.tolist())]}
    )
    for name, model in models().items():
        model.predict(X)
        bare = best_time(lambda model=model: model.predict(X), repeat=30)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.gainful")
            gainful.save(model, path)
            with served(path) as (process, host, port):
                asyncio.run(load(host, port, request, 1, 1.0))
                for connections in CONNECTIONS:
                    before, start = cpu_seconds(process), time.perf_counter()
                    times = asyncio.run(load(host, port, request, connections, SECONDS))
                    rate = len(times) / (time.perf_counter() - start)
                    cpu = (cpu_seconds(process) - before) / len(times)
                    p50, p99 = (1e3 * float(np.percentile(times, p)) for p in (50, 99))
                    subject = f"rank {DOCUMENTS} × {FEATURES}, {name}, {connections} connections"
                    notes = {"p50_ms": round(p50, 2), "p99_ms": round(p99, 2)}
                    yield Row(subject, "server CPU per request", 1e3 * cpu, "predict", 1e3 * bare, "ms", notes=notes)
                    yield Row(subject, "p50", p50, "predict", 1e3 * bare, "ms", notes=notes)
                    yield Row(subject, "requests", rate, "predict", 1 / bare, "/s", larger_is_better=True, notes=notes)


if __name__ == "__main__":
    main(rows)
