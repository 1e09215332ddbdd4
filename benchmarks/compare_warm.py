"""Warm fits, reading and metrics of two source trees, by turns in one session: processor seconds, and new over old.

``python benchmarks/compare_warm.py OLD NEW [--cases WORD,WORD] [--rounds N]``, where OLD and NEW are checkouts. Each
tree runs in its own process with its own kernel cache; the first round compiles and does not count. Uses OHSUMED itself
if ``GAINFUL_OHSUMED`` names its folder, otherwise artificial data of that shape.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GAINFUL_NUM_THREADS"), "1")


FEW = {"n_trees": 20, "n_rounds": 20, "epochs": 3, "max_iter": 20, "n_starts": 1, "n_jobs": 1}
PATH = [10.0**power for power in (-2, -1, 0, 1, 2, 3, 4)]


def training_data() -> tuple[Any, Any]:
    """Training and validation data, with the public names alone: they are the same in both trees."""
    import gainful

    folder = os.environ.get("GAINFUL_OHSUMED")
    if folder:
        return tuple(gainful.read(Path(folder, "Fold1", name)) for name in ("train.txt", "vali.txt"))
    return tuple(gainful.make_artificial(60, n_docs=150, n_features=45, seed=seed) for seed in (0, 1))


def cases() -> dict[str, Callable[[], object]]:
    import numpy as np

    import gainful

    train, valid = training_data()

    def settings(cls: Any, given: dict[str, Any]) -> dict[str, Any]:
        """Features as given, if a tree of sources has the setting; otherwise the two would solve different problems."""
        known = {name: value for name, value in given.items() if name in cls.parameters}
        return known | ({"scale": None} if getattr(cls(), "scale", None) == "standard" else {})

    def fit(name: str, given: dict[str, Any]) -> Callable[[], object]:
        chosen = settings(gainful.RANKERS[name].cls, given)
        return lambda: gainful.ranker(name, **chosen).fit(train)

    def path(bound: str) -> Callable[[], object]:
        svm = gainful.StructuredSVM
        return lambda: svm(tol=1e-3, bound=bound, **settings(svm, {})).fit_path(train, C=PATH, eval_set=valid)

    folder = tempfile.mkdtemp()
    text, binary = Path(folder, "rows.txt"), Path(folder, "rows.gnf")
    gainful.write(train, text)
    gainful.write(train, binary)
    model = gainful.ranker("lambdamart", n_trees=100).fit(train)
    scores = np.random.default_rng(0).normal(size=train.n_rows)
    names = [name for name in gainful.RANKERS if name not in ("blend", "auto")]
    return {f"few steps of {name}": fit(name, FEW) for name in names} | {
        "structured-svm, C=1e4": fit("structured-svm", {"C": 1e4}),
        "ranksvm, C=100": fit("ranksvm", {"C": 100.0}),
        "path structured-svm": path("convex"),
        "path structured-svm-tight": path("tight"),
        "read LETOR": lambda: gainful.read(text),
        "read .gnf": lambda: gainful.read(binary),
        "ndcg@10": lambda: gainful.metric("ndcg@10")(scores, train),
        "map": lambda: gainful.metric("map")(scores, train),
        "predict lambdamart, 100 trees": lambda: model.predict(train),
    }


def serve() -> None:
    """Runs the case named on each line of input and prints its processor seconds."""
    warnings.simplefilter("ignore")
    known = cases()
    print("|".join(known), flush=True)
    for line in sys.stdin:
        run = known[line.strip()]
        start = time.process_time()
        run()
        taken = time.process_time() - start
        times = 1
        while taken < 0.02:  # several at once if one is too short to measure
            times *= 4
            start = time.process_time()
            for _ in range(times):
                run()
            taken = time.process_time() - start
        print(taken / times, flush=True)


def worker(tree: str, cache: str) -> subprocess.Popen[str]:
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": str(Path(tree, "src").resolve()), "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
    return subprocess.Popen(
        command, env=environment, cwd=tree, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def ask(process: subprocess.Popen[str], line: str | None = None) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    if line is not None:
        print(line, file=process.stdin, flush=True)
    answer = process.stdout.readline().strip()
    if not answer:
        raise SystemExit(f"the process stopped at {line!r}")
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", help="OLD and NEW")
    parser.add_argument("--cases", default="", help="comma-separated words: only the cases that contain one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cache", help="folder in which to keep the kernel caches; default: a temporary one")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve()
        return
    with tempfile.TemporaryDirectory() as folder:
        workers = [worker(tree, str(Path(chosen.cache or folder, str(i)))) for i, tree in enumerate(chosen.trees)]
        old_names, new_names = (ask(process).split("|") for process in workers)
        names = [name for name in new_names if name in old_names]
        print(f"{'':36s} {'old, ms':>9s} {'new, ms':>9s} {'new/old':>8s}")
        for name in names:
            if not any(word in name for word in chosen.cases.split(",")):
                continue
            rounds = [[float(ask(process, name)) for process in workers] for _ in range(chosen.rounds + 1)][1:]
            old, new = (min(seconds) for seconds in zip(*rounds, strict=True))
            print(f"{name:36s} {1e3 * old:9.3f} {1e3 * new:9.3f} {new / old:8.2f}", flush=True)
        for process in workers:
            process.communicate()


if __name__ == "__main__":
    main()
