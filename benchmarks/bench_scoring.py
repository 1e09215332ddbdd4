"""``predict`` of 500 trees beside LightGBM's own, treelite's compiled and interpreted models, and ONNX Runtime.

One thread each, 1, 100 and 100,000 rows × 136 features, different rows at every call: a row scored twice finds the
processor's predictions of its branches. Processor time, so that other work on the machine matters less. The peers get
rows in the type that they compute with, and are warm. Peers that are not installed are left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

import numpy as np

import gainful
from gainful.rankers.scorers import prepare
from harness import Row, main

TREES, LEAVES, FEATURES, MANY = 500, 31, 136, 100_000
SIZES = {1: (400, None), 100: (60, 2.0), MANY: (1, 2.0)}  # rows: calls in a turn, and the ratio to LightGBM we want
TURNS = 3
Score = Callable[[np.ndarray], np.ndarray]


def grown() -> gainful.LambdaMART:
    data = gainful.make_artificial(60, n_docs=50, n_features=FEATURES, seed=0)
    settings = {"n_trees": TREES, "n_leaves": LEAVES, "n_jobs": 1, "early_stopping": None}
    return gainful.LambdaMART(**settings).fit(data)


def lightgbm(model: gainful.LambdaMART, _: Path) -> tuple[Score, type]:
    return lambda X: np.asarray(model.booster_.predict(X, num_threads=1)), np.float64


def onnx(model: gainful.LambdaMART, folder: Path) -> tuple[Score, type]:
    import onnxruntime

    path = folder / "model.onnx"
    gainful.export(model, path, to="onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    return lambda X: session.run(["scores"], {"features": X})[0], np.float32


def treelite(model: gainful.LambdaMART, folder: Path) -> tuple[Score, type]:
    import treelite

    loaded = treelite.frontend.load_lightgbm_model(as_text(model, folder))
    return lambda X: treelite.gtil.predict(loaded, X, nthread=1).ravel(), np.float64


def tl2cgen(model: gainful.LambdaMART, folder: Path) -> tuple[Score, type]:
    import tl2cgen
    import treelite

    library = folder / "model.so"
    loaded = treelite.frontend.load_lightgbm_model(as_text(model, folder))
    tl2cgen.export_lib(loaded, toolchain="gcc", libpath=library, params={"parallel_comp": 16}, verbose=False)
    predictor = tl2cgen.Predictor(library, nthread=1)
    return lambda X: predictor.predict(tl2cgen.DMatrix(X)).ravel(), np.float64


def as_text(model: gainful.LambdaMART, folder: Path) -> Path:
    path = folder / "model.txt"
    path.write_text(model.booster_.model_to_string())
    return path


PEERS = {
    "LightGBM": ("lightgbm", lightgbm),
    "ONNX Runtime": ("onnxruntime", onnx),
    "treelite, interpreted": ("treelite", treelite),
    "treelite, compiled by tl2cgen": ("tl2cgen", tl2cgen),
}


def seconds_a_call(score: Score, X: np.ndarray, n: int, calls: int) -> float:
    starts = cycle(range(0, len(X) - n + 1, n))
    begun = time.process_time()
    for _ in range(calls):
        first = next(starts)
        score(X[first : first + n])
    return (time.process_time() - begun) / calls


COLD = """
import sys, time, numpy as np, gainful
model = gainful.load(sys.argv[1])
X = np.random.default_rng(0).random((100, 136))
start = time.perf_counter()
model.predict(X) if sys.argv[2] == "ours" else model.booster_.predict(X, num_threads=1)
print(time.perf_counter() - start)
"""


def cold(path: Path, who: str) -> float:
    """Seconds of the first prediction of 100 rows in a fresh process; the least of some."""
    command = [sys.executable, "-c", COLD, str(path), who]
    runs = (subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(TURNS))
    return min(float(out) for out in runs)


def rows() -> Iterator[Row]:
    model = grown()
    rng = np.random.default_rng(1)
    X = rng.random((MANY, FEATURES))
    X[rng.random(X.shape) < 0.02] = np.nan
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        gainful.save(model, folder / "model.gainful")
        prepare(model._scorer())
        assert np.array_equal(model.predict(X[:5000]), model.booster_.predict(X[:5000])), "not LightGBM's scores"
        shape = f"{TREES} trees of {LEAVES} leaves, {FEATURES} features"
        for peer, (package, build) in PEERS.items():
            if find_spec(package) is None:
                continue
            score, kind = build(model, folder)
            given = X.astype(kind)
            score(given[:100])
            for n, (calls, wanted) in SIZES.items():
                ours, theirs = [], []
                for _ in range(TURNS):
                    ours.append(seconds_a_call(model.predict, X, n, calls))
                    theirs.append(seconds_a_call(score, given, n, calls))
                target = wanted if peer == "LightGBM" else None
                subject = f"score {n:,} rows, {shape}"
                yield Row(subject, "processor time", 1e3 * min(ours), peer, 1e3 * min(theirs), "ms", wanted=target)
        ours, theirs = (1e3 * cold(folder / "model.gainful", who) for who in ("ours", "lightgbm"))
        yield Row(f"first 100 rows of a process, {shape}", "time", ours, "LightGBM", theirs, "ms", wanted=0.8)


if __name__ == "__main__":
    main(rows)
