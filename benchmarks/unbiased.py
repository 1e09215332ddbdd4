"""Training on simulated clicks beside training on true grades: the tables of docs/clicks-training.md.

    python benchmarks/unbiased.py MQ2007_ROWS RESULTS.jsonl [--xgboost PYTHON] [--repeats 3]
    python benchmarks/unbiased.py MQ2007_ROWS --clipping

For each repeat: 60 % of the queries for training, 40 % for testing; a linear ranker trained on 1 % of the training
queries shows all documents of random training queries to PBM users (examination r^−η, 10 % noise); rankers are trained
on their clicks and tested by NDCG@10 on true grades. Every method gets the same aggregated clicks. XGBoost runs in the
interpreter that --xgboost names. RESULTS is appended to; what it holds is not computed again. --clipping compares ways
to lower the variance of small logs instead.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np

import gainful

ETAS = (1.0, 2.0)
SESSIONS = (1_000, 10_000, 100_000, 1_000_000)
AT_ONCE = 50_000  # sessions simulated at once: pages have some 35 documents
TREES = {"n_trees": 60, "n_leaves": 15, "learning_rate": 0.1, "min_docs_in_leaf": 20}
MODELS = {"linear": ("ranknet", {"C": 1000.0}), "trees": ("lambdamart-plain", TREES)}
METHODS = {
    "naive": "naive",
    "ipw, true propensities": "ipw",
    "em": "em",
    "pairwise": "pairwise",
}
CLIPPING = (
    "naive", "ipw(clip=0)", "ipw", "ipw(clip=0.1)", "ipw(self_normalise=true)", "em(clip=0.1)",
    "em(self_normalise=true)",
)  # fmt: skip
UNCLIPPED = "ipw(clip=0), true propensities"
PEER = Path(__file__).parent / "peers" / "unbiased_xgboost.py"


def simulate(train: gainful.RankingData, ranker: Any, eta: float, sessions: int, seed: int) -> gainful.RankingData:
    """Clicks of many sessions on pages in the order of the ranker, counted together."""
    longest = int(train.counts.max())
    users = gainful.make_click_model("pbm", train, eta=eta, depth=longest)
    total: Any = None
    for start in range(0, sessions, AT_ONCE):
        log = gainful.simulate_clicks(
            train, users, ranker=ranker, sessions=min(AT_ONCE, sessions - start), length=longest, seed=seed + start
        )
        part = log.to_data(train)
        key = {query: i for i, query in enumerate(train.query_ids.tolist())}
        place = np.argsort([key[query] for query in part.query_ids.tolist()], kind="stable")
        part = part[place]
        total = part if total is None else _add(total, part)
    return total


def _add(a: gainful.RankingData, b: gainful.RankingData) -> gainful.RankingData:
    """Both logs as one; pages are equal where both have the query."""
    only = [query for query in b.query_ids.tolist() if query not in set(a.query_ids.tolist())]
    a = gainful.RankingData.concatenate([a, b.select(only)]) if only else a
    both = set(b.query_ids.tolist()) - set(only)
    shown, clicks = np.array(a.row_weights), np.array(a.row_weights) * a.y
    if both:
        rows = {(q, d): i for i, (q, d) in enumerate(zip(a.qid.tolist(), a.doc_ids.tolist(), strict=True))}
        b = b.select([query for query in b.query_ids.tolist() if query in both])
        at = np.array([rows[pair] for pair in zip(b.qid.tolist(), b.doc_ids.tolist(), strict=True)])
        shown[at] += b.row_weights
        clicks[at] += b.row_weights * b.y
    return gainful.RankingData.from_rows(
        a.X, clicks / shown, a.qid, doc_ids=a.doc_ids, sample_weight=shown, position=a.positions,
        propensity=a.propensities,
    )  # fmt: skip


def counts_of(clicks: gainful.RankingData) -> np.ndarray:
    return np.rint(clicks.y * clicks.row_weights).astype(np.int64)


def train_gainful(model: str, method: str | None) -> Callable[[gainful.RankingData, gainful.RankingData], np.ndarray]:
    name, settings = MODELS[model]

    def run(clicks: gainful.RankingData, test: gainful.RankingData) -> np.ndarray:
        debias = None if method is None else METHODS.get(method, "ipw(clip=0)")
        return gainful.ranker(name, **settings).fit(clicks, debias=debias).predict(test)

    return run


def train_lightgbm(clicks: gainful.RankingData, test: gainful.RankingData, *, position: bool) -> np.ndarray:
    """LightGBM's lambdarank on numbers of clicks with linear gains, with or without its correction for positions."""
    counts = counts_of(clicks)
    data = lightgbm.Dataset(
        clicks.X, counts, group=clicks.counts, position=np.array(clicks.positions) - 1 if position else None
    )
    params = {
        "objective": "lambdarank", "num_leaves": TREES["n_leaves"], "learning_rate": TREES["learning_rate"],
        "min_data_in_leaf": TREES["min_docs_in_leaf"], "label_gain": list(range(int(counts.max()) + 2)), "verbose": -1,
        "num_threads": 1,
    }  # fmt: skip
    return np.asarray(lightgbm.train(params, data, TREES["n_trees"]).predict(test.X))


def train_xgboost(python: str, clicks: gainful.RankingData, test: gainful.RankingData) -> np.ndarray:
    """XGBoost's rank:ndcg with lambdarank_unbiased; rows must be in the order shown."""
    order = np.lexsort((clicks.positions, np.repeat(np.arange(clicks.n_queries), clicks.counts)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clicks.npz"
        np.savez(path, X=clicks.X[order], y=counts_of(clicks)[order], group=clicks.counts, test=test.X)
        subprocess.run([python, str(PEER), str(path), json.dumps(TREES)], check=True)
        return np.load(f"{path}.scores.npy")


def contestants(python: str | None, eta: float) -> Iterator[tuple[str, str, Callable[..., np.ndarray]]]:
    for model in MODELS:
        for method in METHODS:
            yield model, method, train_gainful(model, method)
        if eta > 1.0:  # where many positions are examined less often than clip=0.01
            yield model, UNCLIPPED, train_gainful(model, UNCLIPPED)
    yield "LightGBM", "naive", lambda a, b: train_lightgbm(a, b, position=False)
    yield "LightGBM", "position", lambda a, b: train_lightgbm(a, b, position=True)
    if python:
        yield "XGBoost", "lambdarank_unbiased", lambda a, b: train_xgboost(python, a, b)


def parts_of(data: gainful.RankingData, repeat: int) -> tuple[gainful.RankingData, gainful.RankingData, Any]:
    """Training and test queries, and the ranker that shows the pages."""
    parts = np.random.default_rng(repeat).permutation(data.n_queries)
    cut = int(0.6 * data.n_queries)
    train, test = data[np.sort(parts[:cut])], data[np.sort(parts[cut:])]
    few = train[np.random.default_rng(100 + repeat).choice(train.n_queries, train.n_queries // 100, replace=False)]
    return train, test, gainful.ranker("ranknet").fit(few)


def compare_clipping(data: gainful.RankingData, repeats: int) -> None:
    """Linear rankers on small logs, by clipping and self-normalisation."""
    name, settings = MODELS["linear"]
    found: dict[str, dict[str, list[float]]] = {how: {} for how in CLIPPING}
    for repeat in range(repeats):
        train, test, logging = parts_of(data, repeat)
        for eta in ETAS:
            for sessions in SESSIONS[:2]:
                clicks = simulate(train, logging, eta, sessions, 1000 * repeat)
                for how, values in found.items():
                    score = gainful.ranker(name, **settings).fit(clicks, debias=how).score(test)
                    values.setdefault(f"η = {eta:g}, {sessions:,}", []).append(score)
    print("| | " + " | ".join(found["naive"]) + " |")
    for how, values in found.items():
        print(f"| {how} | " + " | ".join(f"{np.mean(one):.4f}" for one in values.values()) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("--clipping", action="store_true")
    parser.add_argument("--xgboost")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    data = gainful.read(given.data)
    warnings.simplefilter("ignore")
    if given.clipping:
        compare_clipping(data, given.repeats)
        return
    if given.results is None:
        parser.error("name a file of RESULTS, or --clipping")
    known = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    done = {(r["repeat"], r["eta"], r["sessions"], r["model"], r["method"]) for r in known}
    measure = gainful.metric("ndcg@10")

    def record(key: tuple[Any, ...], run: Callable[..., np.ndarray], clicks: Any, test: gainful.RankingData) -> None:
        begin = time.process_time()
        value = measure(run(clicks, test), test)
        row = dict(zip(("repeat", "eta", "sessions", "model", "method"), key, strict=True))
        row |= {"ndcg": value, "seconds": time.process_time() - begin}
        with given.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)

    for repeat in range(given.repeats):
        train, test, logging = parts_of(data, repeat)
        key = (repeat, 0.0, 0, "logging", "1 % of the queries")
        if key not in done:
            record(key, lambda ranker, test: ranker.predict(test), logging, test)
        for model in MODELS:
            key = (repeat, 0.0, 0, model, "true grades")
            if key not in done:
                record(key, train_gainful(model, None), train, test)
        for eta in ETAS:
            for sessions in SESSIONS:
                left = [
                    (model, method, fit)
                    for model, method, fit in contestants(given.xgboost, eta)
                    if (repeat, eta, sessions, model, method) not in done
                ]
                clicks = simulate(train, logging, eta, sessions, 1000 * repeat) if left else None
                for model, method, fit in left:
                    record((repeat, eta, sessions, model, method), fit, clicks, test)
    print_table([json.loads(line) for line in given.results.read_text().splitlines()])


def print_table(rows: list[dict[str, Any]]) -> None:
    """Mean NDCG@10 and its standard error over the repeats, as Markdown."""
    names = ("repeat", "eta", "sessions", "model", "method")
    rows = list({tuple(row[name] for name in names): row for row in rows}.values())  # two runs may have overlapped

    def cell(chosen: list[dict[str, Any]]) -> str:
        values = np.array([row["ndcg"] for row in chosen])
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
        return f"{values.mean():.4f} ± {error:.4f}"

    for model, method in dict.fromkeys((r["model"], r["method"]) for r in rows if r["sessions"] == 0):
        print(f"{model}, {method}: {cell([r for r in rows if (r['model'], r['method']) == (model, method)])}")
    for eta in ETAS:
        print(f"\n| η = {eta:g} | " + " | ".join(f"{n:,}" for n in SESSIONS) + " |")
        print("| --- |" + " --- |" * len(SESSIONS))
        here = [r for r in rows if r["eta"] == eta]
        for key in dict.fromkeys((r["model"], r["method"]) for r in here):
            mine = [[r for r in here if (r["model"], r["method"]) == key and r["sessions"] == n] for n in SESSIONS]
            print(f"| {key[0]}, {key[1]} | " + " | ".join(cell(one) if one else "–" for one in mine) + " |")


if __name__ == "__main__":
    main()
