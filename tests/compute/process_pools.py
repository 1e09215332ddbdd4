"""Fits and predicts in this process, then in a child started in each WAY; compares the scores.

``process_pools.py WAY=RANKER,RANKER…`` prints a line per way: the largest difference for each ranker.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys

import numpy as np

import gainful

MODELS = {
    "trees": lambda: gainful.LambdaMART(n_trees=4, n_leaves=4, n_jobs=2),
    "classes": lambda: gainful.McRank(n_trees=2, n_leaves=4, n_jobs=2),
    "linear": lambda: gainful.ranker("ranknet", max_iter=5),
    "net": lambda: gainful.ranker("neural", hidden=(256,), epochs=1, batch_queries=60),
}


def fit_and_predict(names: list[str]) -> np.ndarray:
    """Scores by each ranker, and the contributions of some."""
    if hasattr(signal, "alarm"):
        signal.alarm(300)  # ends a process that hangs
    return np.array([_fit_and_predict(name) for name in names])


def _fit_and_predict(name: str) -> np.ndarray:
    if name == "net":
        import torch

        torch.set_num_threads(2)  # left to itself, gainful uses one on a machine of two cores
    data = gainful.make_artificial(60, n_docs=50, n_features=8)  # 3,000 rows: enough for two threads
    model = MODELS[name]().fit(data)
    return model.contributions(data.X).sum(axis=1) if name == "trees" else model.predict(data)


def in_child(way: str, names: list[str]) -> np.ndarray:
    if way == "joblib":
        import joblib

        with joblib.parallel_config("loky"):
            return joblib.Parallel(n_jobs=2)([joblib.delayed(fit_and_predict)(names)])[0]
    if way == "os.fork":
        return _in_forked_child(names)
    with multiprocessing.get_context(way).Pool(1) as pool:
        return pool.apply(fit_and_predict, (names,))


def _in_forked_child(names: list[str]) -> np.ndarray:
    reads, writes = os.pipe()
    if os.fork() == 0:
        with os.fdopen(writes, "wb") as file:
            file.write(fit_and_predict(names).tobytes())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as file:
        return np.frombuffer(file.read()).reshape(len(names), -1)


if __name__ == "__main__":
    asked = {way: names.split(",") for way, names in (word.split("=") for word in sys.argv[1:])}
    here = {name: fit_and_predict([name])[0] for name in sorted({one for names in asked.values() for one in names})}
    for way, names in asked.items():
        found = zip(names, in_child(way, names), strict=True)
        print(way, *(np.abs(scores - here[name]).max() for name, scores in found), flush=True)
