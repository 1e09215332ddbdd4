"""Processor time per request of 100 documents × 136 features: gainful's server beside others, by turns.

python benchmarks/serve_peers.py [--before SRC] [--litserve PYTHON]

``--before`` is the src folder of another checkout; ``--litserve`` a Python that has litserve and lightgbm. The bare
FastAPI application parses the body and returns a number.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from serving import Connection, free_port, request_bytes, tree_cpu_seconds

DOCUMENTS, FEATURES, REQUESTS, TURNS = 100, 136, 200, 7

ECHO = """
import sys, uvicorn
from fastapi import FastAPI, Request
app = FastAPI()
@app.post("/rank")
async def rank(request: Request):
    body = await request.json()
    return {"documents": len(body["documents"])}
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
"""

LITSERVE = """
import sys, lightgbm, litserve, numpy as np
class Ranker(litserve.LitAPI):
    def setup(self, device):
        self.model = lightgbm.Booster(model_file=sys.argv[2])
    def decode_request(self, request):
        return np.array([document["features"] for document in request["documents"]])
    def predict(self, X):
        return self.model.predict(X, num_threads=1)
    def encode_response(self, scores):
        return {"scores": scores.tolist()}
if __name__ == "__main__":
    server = litserve.LitServer(Ranker(api_path="/rank"), accelerator="cpu")
    server.run(port=int(sys.argv[1]), generate_client_file=False, log_level="warning")
"""


MODELS = """
import sys
from pathlib import Path
import gainful
data = gainful.make_artificial(60, n_docs=50, n_features=int(sys.argv[2]), seed=0)
trees = gainful.LambdaMART(n_trees=500, n_leaves=31, n_jobs=1, early_stopping=None)
for name, model in {"linear": gainful.RegressionRanker(), "500 trees": trees}.items():
    gainful.save(model.fit(data), Path(sys.argv[1], f"{name}.gainful"))
trees.booster_.save_model(Path(sys.argv[1], "trees.txt"))
"""
NAMES = ("linear", "500 trees")


def make_models(folder: Path, source: str | None = None) -> Path:
    """Models in files, made by the code that will serve them."""
    folder.mkdir()
    environment = os.environ | ({} if source is None else {"PYTHONPATH": source})
    subprocess.run([sys.executable, "-c", MODELS, str(folder), str(FEATURES)], env=environment, check=True)
    return folder


@contextmanager
def started(command: list[str], port: int, source: str | None = None) -> Iterator[tuple[int, int]]:
    """Process id and port of a server, once it accepts connections."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | ({} if source is None else {"PYTHONPATH": source})
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        asyncio.run(wait_for(port, process))
        yield process.pid, port
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # its workers, too
        process.wait(timeout=60)


async def wait_for(port: int, process: subprocess.Popen) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.2)
        else:
            writer.close()
            return
    raise RuntimeError("the server does not listen")


async def ask(port: int, request: bytes, times: int) -> None:
    connection = Connection("127.0.0.1", port)
    for _ in range(times):
        status, _ = await connection.ask(request)
        assert status == 200
    connection.close()


def requests() -> dict[str, bytes]:
    X = np.round(np.random.default_rng(1).random((DOCUMENTS, FEATURES)), 6)
    file = io.BytesIO()
    np.save(file, X)
    documents = [{"id": f"d{i}", "features": row} for i, row in enumerate(X.tolist())]
    kind = "content-type: application/x-npy\r\n"
    return {
        "JSON": request_bytes("POST", "/rank", {"documents": documents}),
        "npy": request_bytes("POST", "/rank", file.getvalue(), kind),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", help="src folder of another checkout")
    parser.add_argument("--litserve", help="a Python with litserve and lightgbm")
    given = parser.parse_args()
    for name, found in measure(given.before, given.litserve).items():
        print(f"{name:24} {1e3 * min(found):6.2f} {1e3 * statistics.median(found):6.2f} ms  (least, median)")


def measure(before: str | None, litserve: str | None) -> dict[str, list[float]]:
    """Processor seconds per request of each server, one figure per turn."""
    bodies = requests()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ours = make_models(Path(folder, "now"))
        theirs = make_models(Path(folder, "before"), before) if before else None
        cases: dict[str, tuple[int, int, bytes]] = {}

        def start(name: str, command: list[str], formats: tuple[str, ...] = ("JSON",), source: str | None = None):
            port = free_port()
            pid, _ = stack.enter_context(started([one.replace("PORT", str(port)) for one in command], port, source))
            for kind in formats:
                cases[f"{name}, {kind}"] = pid, port, bodies[kind]

        for name in NAMES:
            for title, made, source in (("gainful", ours, None), ("before", theirs, before)):
                if made is not None:
                    path = str(made / f"{name}.gainful")
                    serve = [sys.executable, "-m", "gainful", "serve", path, "--port", "PORT", "--log-level", "warning"]
                    start(f"{title}, {name}", serve, ("JSON", "npy") if source is None else ("JSON",), source)
        start("bare FastAPI", [sys.executable, "-c", ECHO, "PORT"])
        if litserve:
            script = Path(folder, "litserve_app.py")
            script.write_text(LITSERVE)
            start("LitServe, 500 trees", [litserve, str(script), "PORT", str(ours / "trees.txt")])
            time.sleep(5)  # its worker loads the model after the port opens
        seconds: dict[str, list[float]] = {name: [] for name in cases}
        for turn in range(TURNS):
            for name, (pid, port, request) in cases.items():
                used = tree_cpu_seconds(pid)
                asyncio.run(ask(port, request, REQUESTS))
                if turn:  # the first turn warms up
                    seconds[name].append((tree_cpu_seconds(pid) - used) / REQUESTS)
        return seconds


if __name__ == "__main__":
    main()
