"""How far the figures that are printed lie above the truth: on random grades, and on real data with test queries.

    python benchmarks/optimism.py [--draws 30] [--auto 10] [--tune 10] [--members A,B] [--mq2007 DIR] [--json FILE]

Random grades teach nothing, so every model is worth a random order. A row has the mean over draws of
what is printed less what it is true of, with the standard error of that mean; a figure that keeps to the rule is within
two of them, and at most .005. With ``--mq2007`` the same for real grades: printed less reached on the test queries.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gainful

MEMBERS = ("regression", "tree-regression", "listnet", "lambdamart", "boosted:loss=xendcg:init=listnet", "mcrank",
           "lambdarank", "ranksvm", "rsrank", "structured-svm-tight", "adarank-ndcg", "coordinate-ascent")  # fmt: skip
QUERIES, DOCUMENTS, FEATURES = 100, 15, 10
SHARES = (0.5, 0.2, 0.15, 0.1, 0.05)  # of the grades 0 to 4
NDCG = gainful.metric("ndcg@10")
MOST, TRIALS = 0.005, 30


def random_data(seed: int) -> gainful.RankingData:
    rng, n = np.random.default_rng(seed), QUERIES * DOCUMENTS
    y = rng.choice(len(SHARES), n, p=SHARES).astype(float)
    X = rng.standard_normal((n, FEATURES), dtype=np.float32)
    return gainful.RankingData.from_rows(X, y, np.repeat(np.arange(QUERIES), DOCUMENTS))


def value_of_chance(data: gainful.RankingData) -> float:
    """The mean over all orders of the documents, by equal scores; its mean over draws is the value on new queries."""
    return float(NDCG(np.zeros(data.n_rows), data.y, qid=data.qid))


def printed(kind: str, data: gainful.RankingData, seed: int, members: list[str]) -> dict[str, float]:
    """What is printed of one training, by what it is of."""
    if kind == "auto":
        return {
            kind: gainful.ranker("auto", trials=TRIALS, n_jobs=1, random_state=seed).fit(data).leaderboard_.blend.mean
        }
    if kind == "tune, best value (says so)":
        found = gainful.tune("lambdamart:n_trees=50", data, trials=8, refit=False, seed=seed)
        return {kind: found.best_value}
    board = gainful.Blend(members, n_jobs=1, weights="shrunk", random_state=seed).fit(data).leaderboard_
    best = {"best member (says so)": board.members[0].mean}
    return {"blend": board.blend.mean, **best, **{row.name: row.mean for row in board.members}}


def on_random_grades(draws: int, autos: int, tunes: int, members: list[str]) -> Iterator[dict[str, Any]]:
    found: dict[str, list[float]] = {}
    for kind, n in (("blend", draws), ("tune, best value (says so)", tunes), ("auto", autos)):
        for seed in range(n):
            began = time.perf_counter()
            data = random_data(seed)
            for name, value in printed(kind, data, seed, members).items():
                found.setdefault(name, []).append(value - value_of_chance(data))
            print(f"{kind}, draw {seed + 1} of {n}: {time.perf_counter() - began:.0f} s", flush=True)
    for name, differences in found.items():
        yield row(f"random grades: {name}", differences)


def on_mq2007(folder: Path, seconds: float) -> Iterator[dict[str, Any]]:
    """Five splits of the sample: the queries in five parts, each the test part once."""
    data = gainful.read(folder / "rows.txt.gz", format="letor")
    found: list[float] = []
    for fold, part in enumerate(gainful.folds(data, 5, seed=0)):
        tested = set(part.test.query_ids.tolist())
        train = data[np.array([query not in tested for query in data.query_ids.tolist()])]
        model = gainful.ranker("auto", seconds=seconds, n_jobs=1, random_state=fold).fit(train)
        reached = NDCG(model.predict(part.test), part.test.y, qid=part.test.qid)
        found.append(model.leaderboard_.blend.mean - reached)
        print(f"split {fold + 1}: printed {model.leaderboard_.blend.mean:.4f}, test {reached:.4f}", flush=True)
    yield row("mq2007: auto, printed less test", found)


def row(name: str, differences: list[float]) -> dict[str, Any]:
    n, mean = len(differences), float(np.mean(differences))
    error = float(np.std(differences, ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return {"figure": name, "draws": n, "mean": mean, "error": error, "holds": mean <= min(MOST, 2.0 * error)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--auto", type=int, default=10)
    parser.add_argument("--tune", type=int, default=10)
    parser.add_argument("--members", default=",".join(MEMBERS), help="of the blend")
    parser.add_argument("--mq2007", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0, help="of auto on each split of mq2007")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = list(on_random_grades(given.draws, given.auto, given.tune, given.members.split(",")))
    rows += list(on_mq2007(given.mq2007, given.seconds)) if given.mq2007 else []
    print("| figure | draws | printed − true | ± s.e. | within 2 s.e. and .005 |\n| --- | ---: | ---: | ---: | --- |")
    for one in rows:
        print(f"| {one['figure']} | {one['draws']} | {one['mean']:+.4f} | {one['error']:.4f} | "
              f"{'yes' if one['holds'] else 'no'} |")  # fmt: skip
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
