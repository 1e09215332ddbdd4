"""Warm fits, reading, metrics and inference of two source trees, alternating in one session: processor seconds, and new over old.

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

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GAINFUL_NUM_THREADS"), "1")


def cases() -> dict[str, Callable[[], object]]:
    import numpy as np

    import gainful
    from bench_structured import PATH, ohsumed
    from gainful.losses.structured import RankingProblem, violations

    _, train, valid, _ = ohsumed()

    # Features as given, if a tree has the setting; otherwise the trees would solve different problems.
    same = {"scale": None} if "scale" in gainful.StructuredSVM.parameters else {}

    def fit(name: str, **settings: object) -> Callable[[], object]:
        return lambda: gainful.ranker(name, **settings, **same).fit(train)

    def path(**settings: object) -> Callable[[], object]:
        return lambda: gainful.StructuredSVM(tol=1e-3, **settings, **same).fit_path(train, C=PATH, eval_set=valid)

    def infer(measure: str, n_docs: int, n_queries: int, *bound: str) -> Callable[[], object]:
        rng = np.random.default_rng(0)
        y = rng.choice(5, size=n_docs * n_queries, p=(0.5, 0.3, 0.13, 0.05, 0.02)).astype(float)
        offsets, scores = np.arange(n_queries + 1) * n_docs, rng.normal(size=len(y)) * 0.3
        if measure == "ndcg":
            problem = RankingProblem.ndcg(y, offsets, 10, position_weights=np.arange(10.0, 0.0, -1.0))
        else:
            problem = RankingProblem.average_precision(y, offsets)
        return lambda: violations(problem, scores, *bound, threads=1)

    def every_ranker() -> dict[str, Callable[[], object]]:
        """Each ranker of both trees with few trees and iterations, and its prediction."""
        few = {"n_trees": 20, "n_rounds": 20, "epochs": 3, "max_iter": 20, "n_starts": 1, "n_jobs": 1}
        found: dict[str, Callable[[], object]] = {}
        for name, entry in gainful.RANKERS.items():
            if name in ("blend", "auto"):
                continue
            settings = {key: value for key, value in few.items() if key in entry.cls.parameters}
            settings |= {"scale": None} if "scale" in entry.cls.parameters else {}
            found[f"train {name}"] = lambda name=name, settings=settings: gainful.ranker(name, **settings).fit(train)
        return found

    def others() -> dict[str, Callable[[], object]]:
        folder = tempfile.mkdtemp()
        text, binary = Path(folder, "rows.txt"), Path(folder, "rows.gnf")
        gainful.write(train, text)
        gainful.write(train, binary)
        model = gainful.ranker("lambdamart", n_trees=100).fit(train)
        scores = np.random.default_rng(0).normal(size=train.n_rows)
        ndcg, ap = gainful.metric("ndcg@10"), gainful.metric("map")
        return {
            "read LETOR": lambda: gainful.read(text),
            "read .gnf": lambda: gainful.read(binary),
            "ndcg@10": lambda: ndcg(scores, train),
            "map": lambda: ap(scores, train),
            "predict lambdamart, 100 trees": lambda: model.predict(train),
        }

    return (
        every_ranker()
        | others()
        | {
            "fit structured-svm": fit("structured-svm"),
            "fit structured-svm C=1e4": fit("structured-svm", C=1e4),
            "path structured-svm, ten C": path(),
            "path structured-svm-tight, ten C": path(bound="tight"),
            "fit structured-svm-tight": fit("structured-svm-tight"),
            "fit structured-svm-slack": fit("structured-svm-slack"),
            "fit structured-svm-kernel": fit("structured-svm-kernel"),
            "fit svmmap": fit("svmmap"),
            "fit ranksvm": fit("ranksvm", C=100.0),
            "infer NDCG, 2000 × 50": infer("ndcg", 50, 2000),
            "infer NDCG, 2000 × 150": infer("ndcg", 150, 2000),
            "infer NDCG, 60 × 150": infer("ndcg", 150, 60),
            "infer NDCG tight, 2000 × 150": infer("ndcg", 150, 2000, "tight"),
            "infer NDCG slack, 60 × 150": infer("ndcg", 150, 60, "slack"),
            "infer AP, 2000 × 150": infer("ap", 150, 2000),
            "infer AP, 60 × 150": infer("ap", 150, 60),
        }
    )


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
