"""How far the figures that are printed lie above the truth: on random grades, and on real data with test queries.

    python benchmarks/optimism.py [--draws 100] [--auto 10] [--tune 10] [--distill 10] [--compare 10] [--members A,B]
                                  [--folds K] [--mq2007 DIR] [--jobs N] [--json FILE]

Each of the first five is a number of draws, of a blend by ``--draws``; what is not asked for is left out.

Random grades teach nothing, so every model is worth a random order. A row has the mean over draws of what is printed
less what it is true of, with the standard error of that mean, and what the words beside the figure say of its queries.
A figure without such words keeps to the rule if it is within two standard errors, and at most .005. With ``--mq2007``
the same for ``auto`` and real grades: printed less reached on the test queries.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

import gainful

MEMBERS = ("regression", "tree-regression", "listnet", "lambdamart", "boosted:loss=xendcg:init=listnet", "mcrank",
           "lambdarank", "ranksvm", "rsrank", "structured-svm-tight", "adarank-ndcg", "coordinate-ascent")  # fmt: skip
QUERIES, DOCUMENTS, FEATURES = 100, 15, 10
SHARES = (0.5, 0.2, 0.15, 0.1, 0.05)  # of the grades 0 to 4
NDCG = gainful.metric("ndcg@10")
MOST, TRIALS, SPLITS = 0.005, 30, 5
SMALL = "lambdamart:n_trees=50"
Figures = dict[str, tuple[float, str]]  # what is printed, and what its queries were used for, by what it is of


def random_data(seed: int) -> gainful.RankingData:
    rng, n = np.random.default_rng(seed), QUERIES * DOCUMENTS
    y = rng.choice(len(SHARES), n, p=SHARES).astype(float)
    X = rng.standard_normal((n, FEATURES), dtype=np.float32)
    return gainful.RankingData.from_rows(X, y, np.repeat(np.arange(QUERIES), DOCUMENTS))


def value_of_chance(data: gainful.RankingData) -> float:
    """The mean over all orders of the documents, by equal scores; its mean over draws is the value on new queries."""
    return float(NDCG(np.zeros(data.n_rows), data.y, qid=data.qid))


def of_blend(data: gainful.RankingData, seed: int, given: argparse.Namespace) -> Figures:
    members = given.members.split(",")
    blend = gainful.Blend(members, folds=given.folds, n_jobs=1, weights="shrunk", random_state=seed)
    board = blend.fit(data).leaderboard_
    best = {"blend: best member": (board.members[0].mean, f"being chosen from {len(members)}")} if members[1:] else {}
    rows = {f"blend: {row.name}": (row.mean, board.used_for) for row in board.members}
    return {"blend": (board.blend.mean, board.used_for), **best, **rows}


def of_auto(data: gainful.RankingData, seed: int, given: argparse.Namespace) -> Figures:
    auto = gainful.ranker("auto", trials=TRIALS, folds=given.folds, n_jobs=1, random_state=seed)
    board = auto.fit(data).leaderboard_
    return {"auto": (board.blend.mean, board.used_for)}


def of_tune(data: gainful.RankingData, seed: int, _: argparse.Namespace) -> Figures:
    result = gainful.tune(SMALL, data, trials=8, refit=False, seed=seed)
    return {"tune: best value": (result.best_value, result.quality.used_for)}


def of_distill(data: gainful.RankingData, _: int, __: argparse.Namespace) -> Figures:
    small = gainful.distill(gainful.ranker("listnet").fit(data), data, SMALL)
    return {"distill without test queries": (small.student, small.used_for)}


def of_compare(data: gainful.RankingData, seed: int, _: argparse.Namespace) -> Figures:
    found = gainful.compare(SMALL, data, folds=3, tune=4, seed=seed)
    return {"compare with tuning": (float(found.mean(found.labels[0], NDCG)), "")}


KINDS: dict[str, Callable[[gainful.RankingData, int, argparse.Namespace], Figures]] = {
    "blend": of_blend, "auto": of_auto, "tune": of_tune, "distill": of_distill, "compare": of_compare
}  # fmt: skip


def draw(kind: str, seed: int, given: argparse.Namespace) -> tuple[Figures, float, float]:
    """What is printed of one training, the truth, and the seconds it took."""
    warnings.simplefilter("ignore")
    began, data = time.perf_counter(), random_data(seed)
    return KINDS[kind](data, seed, given), value_of_chance(data), time.perf_counter() - began


def on_random_grades(given: argparse.Namespace, pool: ProcessPoolExecutor) -> Iterator[dict[str, Any]]:
    for kind in KINDS:
        jobs = {pool.submit(draw, kind, seed, given): seed for seed in range(getattr(given, kind))}
        differences: dict[str, list[float]] = {}
        words: dict[str, str] = {}
        for job in as_completed(jobs):
            figures, truth, seconds = job.result()
            for name, (value, used_for) in figures.items():
                differences.setdefault(name, []).append(value - truth)
                words[name] = used_for
            first = next(iter(figures.values()))[0] - truth
            print(f"{kind}, draw {jobs[job]}: {first:+.4f}, {seconds:.0f} s", flush=True)
        for name, values in differences.items():
            yield row(f"random grades: {name}", values, words[name])


def on_split(split: int, given: argparse.Namespace) -> tuple[float, float, float, float, str]:
    """The value that ``auto`` prints and its error, the value on test queries and its error, and the words."""
    warnings.simplefilter("ignore")
    data = gainful.read(given.mq2007 / "rows.txt.gz", format="letor")
    test = gainful.folds(data, SPLITS, seed=0)[split].test
    train = data[~np.isin(data.query_ids, test.query_ids)]
    model = gainful.ranker("auto", seconds=given.seconds, folds=given.folds, n_jobs=1, random_state=split).fit(train)
    values, board = NDCG.per_query(model.predict(test), test), model.leaderboard_
    error = float(values.std(ddof=1) / math.sqrt(len(values)))
    return board.blend.mean, board.blend.error, float(values.mean()), error, board.used_for


def on_mq2007(given: argparse.Namespace, pool: ProcessPoolExecutor) -> Iterator[dict[str, Any]]:
    """Five splits of the sample: the queries in five parts, each the test part once."""
    jobs, differences, used_for = [pool.submit(on_split, k, given) for k in range(SPLITS)], [], ""
    for split, job in enumerate(jobs, start=1):
        printed, its_error, reached, error, used_for = job.result()
        differences.append(printed - reached)
        print(f"mq2007, split {split}: printed {printed:.4f} ± {its_error:.4f}, test {reached:.4f} ± {error:.4f}, "
              f"{differences[-1]:+.4f}", flush=True)  # fmt: skip
    yield row("mq2007: auto, printed less test", differences, used_for)


def row(name: str, differences: list[float], used_for: str) -> dict[str, Any]:
    n, mean = len(differences), float(np.mean(differences))
    error = float(np.std(differences, ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    holds = mean <= min(MOST, 2.0 * error)
    return {"figure": name, "draws": n, "mean": mean, "error": error, "holds": holds, "used_for": used_for}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind in KINDS:
        names = ("--draws", "--blend") if kind == "blend" else (f"--{kind}",)
        parser.add_argument(*names, dest=kind, type=int, default=0, metavar="DRAWS")
    parser.add_argument("--members", default=",".join(MEMBERS), help="of the blend")
    parser.add_argument("--folds", type=int, default=gainful.Blend().folds, help="of the blend and of auto")
    parser.add_argument("--mq2007", type=Path, metavar="DIR")
    parser.add_argument("--seconds", type=float, default=60.0, help="of auto on each split of mq2007")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each of which trains on one core")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.mq2007 is None and not any(getattr(given, kind) for kind in KINDS):
        parser.error("nothing to measure; give a number of draws, such as --draws 30, or --mq2007 DIR")
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn")) as pool:
        rows = list(on_random_grades(given, pool))
        rows += list(on_mq2007(given, pool)) if given.mq2007 else []
    print("| figure | draws | printed − true | ± s.e. | within 2 s.e. and .005 | its words: also used for |\n"
          "| --- | ---: | ---: | ---: | --- | --- |")  # fmt: skip
    for figure in rows:
        print(f"| {figure['figure']} | {figure['draws']} | {figure['mean']:+.4f} | {figure['error']:.4f} | "
              f"{'yes' if figure['holds'] else 'no'} | {figure['used_for']} |")  # fmt: skip
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
