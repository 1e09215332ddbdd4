"""Training from a mapped file: memory of the process's own stays far below the file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gainful
from gainful.data.dataset import RankingData

N_QUERIES, N_DOCS, N_FEATURES = 1600, 100, 150  # 96 MB in float32

# RssAnon is what a process cannot give back; pages of the file are dropped when memory is wanted elsewhere.
SCRIPT = """
import json, sys, threading, warnings
import numpy as np
import gainful
from gainful.compute.memory import _resident

warnings.simplefilter("ignore")
path, names = sys.argv[1], sys.argv[2:]
settings = {"regression": {}, "structured-svm": {"max_iter": 6}, "ranknet": {"max_iter": 4}}
small = gainful.make_artificial(40, n_docs=20, n_features=10)
small = small.replace(X=small.X.astype(np.float32))
growth = {}
for name in names:
    params = settings.get(name, {"max_iter": 6})
    gainful.ranker(name, **params).fit(small)  # compiled code counts for nobody
    before, most, done = _resident("RssAnon"), [0], threading.Event()

    def watch():
        while not done.wait(0.002):
            most[0] = max(most[0], _resident("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    gainful.ranker(name, **params).fit(path)
    done.set()
    watcher.join()
    growth[name] = most[0] - before
print(json.dumps(growth))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    n = N_QUERIES * N_DOCS
    X = rng.random((n, N_FEATURES), dtype=np.float32)
    y = np.digitize(X[:, :3].sum(axis=1), [1.2, 1.8, 2.2]).astype(np.float64)
    path = tmp_path_factory.mktemp("large") / "large.gnf"
    gainful.write(RankingData(X, y, np.arange(N_QUERIES + 1) * N_DOCS, np.arange(N_QUERIES)), path)
    return path


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells RssAnon")
def test_linear_rankers_hold_little_beside_the_file(large):
    names = ["ranksvm", "ranknet", "structured-svm", "rankmm-1", "regression"]
    out = subprocess.run([sys.executable, "-c", SCRIPT, str(large), *names], check=True, capture_output=True, text=True)
    growth = json.loads(out.stdout.splitlines()[-1])
    size = 4 * N_QUERIES * N_DOCS * N_FEATURES
    # some 60 bytes a row, and blocks of 16 MiB for regression
    assert all(grown < 0.25 * size for name, grown in growth.items() if name != "regression"), growth
    assert growth["regression"] < 0.75 * size, growth
