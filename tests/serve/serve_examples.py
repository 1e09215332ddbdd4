"""What the tests of the server share: models in files, clients, a server in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

from starlette.testclient import TestClient

import gainful
from gainful.serve import Settings, create_app

NAMES = ("bm25", "clicks", "age", "length")
TOKEN = "a-token-for-tests-only"


def train_data(seed=0, names=NAMES):
    data = gainful.make_artificial(12, n_docs=10, n_features=len(names or NAMES), seed=seed)
    return data.replace(feature_names=names) if names else data


def client_of(path, **settings):
    """A client of an application in this process, closed by ``with``."""
    return TestClient(
        create_app(path, Settings(**{"watch": 0.0, **settings})),
        base_url="http://localhost",
        raise_server_exceptions=False,
    )


def documents(rows):
    return {"documents": [{"id": f"d{i}", "features": list(row)} for i, row in enumerate(rows)]}


@contextmanager
def server(path, *options):
    """``gainful serve`` on a free port: its process, its address, and the lines of its log so far."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gainful", "serve", str(path), "--port", "0", *options],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    lines: list[dict] = []
    reader = None
    try:
        while not lines or lines[-1]["event"] != "listening":
            line = process.stderr.readline()
            assert line, f"the server ended with {process.wait()}"
            lines.append(json.loads(line))
        url = lines[-1]["url"].rstrip("/")
        # a full pipe would stop the server
        reader = threading.Thread(target=lambda: lines.extend(map(json.loads, process.stderr)), daemon=True)
        reader.start()
        yield process, url, lines
    finally:
        if process.poll() is None:
            process.kill()
        if reader is not None:
            reader.join()
        process.wait()
        process.stderr.close()


def wait_until(holds, seconds=120.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.02)
