"""Whether a change made anything slower: the processor time of each path, of two commits by turns.

    git worktree add ../before COMMIT
    python benchmarks/alternating.py --before ../before [--turns 15] [--only fit,/rank] [--json FILE]

A turn is a fresh process of either checkout, on one thread, that takes the least of some repetitions of every path. A
row has the median over turns of now/before, and the interval that holds the median in 95 of 100 such runs (of 15 turns:
the fourth to the twelfth ratio). A path that one commit lacks is left out. Other work on the machine disturbs both
alike.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median

from scipy import stats

from before_after import HERE, run

PATHS = r"""
import asyncio, json, sys, tempfile, time, warnings
from pathlib import Path
import numpy as np
import gainful
warnings.simplefilter("ignore")
only = [part for part in sys.argv[1].split(",") if part]
folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)

def made(queries, documents, features):
    X = rng.standard_normal((queries * documents, features), dtype=np.float32)
    signal = X[:, :5].sum(axis=1) + 2 * rng.standard_normal(len(X))
    y = np.searchsorted(np.quantile(signal, [.5, .8, .93, .98]), signal).astype(float)
    return gainful.RankingData.from_rows(X, y, np.repeat(np.arange(queries), documents))

def path(name, call, repetitions=5):
    if only and not any(part in name for part in only):
        return
    try:
        call()
    except (gainful.errors.GainfulError, TypeError):
        return
    best = 1e9
    for _ in range(repetitions):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    print(json.dumps([name, best]))

data, small = made(2000, 60, 10), made(150, 30, 20)
scores = rng.standard_normal(data.n_rows)
tied = np.round(scores, 1)
for name in ("ndcg@10", "map", "mrr", "err@10", "infap", "p@10", "rbp(0.8)"):
    measure = gainful.metric(name)
    path(f"metric {name}", lambda: [measure.per_query(scores, data) for _ in range(10)])
    path(f"metric {name}, ties", lambda: [measure.per_query(tied, data) for _ in range(10)])
for loss in ("ranknet", "listnet", "lambda", "lambdaloss", "listmle", "squared", "pairwise-hinge", "sdcg"):
    of_queries = gainful.loss(loss).of_queries
    path(f"loss {loss}, with gradient", lambda: [of_queries(scores, data.y, data.offsets) for _ in range(5)])
    path(f"loss {loss}, with gradient, ties", lambda: [of_queries(tied, data.y, data.offsets) for _ in range(5)])
for name, settings in (
    ("ranknet", dict(max_iter=30)), ("listnet", dict(max_iter=30)), ("lambdarank", dict(max_iter=30)),
    ("listmle", dict(max_iter=30)), ("regression", {}), ("ranksvm", {}), ("softrank", dict(max_iter=5)),
    ("adarank-ndcg", dict(n_iterations=20)), ("rankboost", dict(n_iterations=20)),
    ("structured-svm", dict(max_iter=30)), ("lambdamart", dict(n_trees=30, n_jobs=1)),
    ("mcrank", dict(n_trees=10, n_jobs=1)),
    ("boosted", dict(loss="xendcg", n_trees=20, n_jobs=1)), ("boosted", dict(loss="lambdaloss", n_trees=20, n_jobs=1)),
):
    if name not in gainful.RANKERS:
        continue
    own = gainful.RANKERS[name].create().get_params()
    settings = {key: value for key, value in settings.items() if key in own}
    path(f"fit {name} {settings.get('loss', '')}".strip(), lambda: gainful.ranker(name, **settings).fit(small), 3)

run, qrels = folder / "a.run", folder / "a.qrels"
rows = [(q, f"doc{d}", i + 1, 1000 - i) for q in range(300) for i, d in enumerate(rng.permutation(5000)[:200])]
run.write_text("".join(f"{q} Q0 {d} {i} {s} tag\n" for q, d, i, s in rows))
qrels.write_text("".join(f"{q} 0 {d} {i % 3}\n" for q, d, i, s in rows))
path("read a run of 60,000 lines", lambda: gainful.read_run(run))
path("read qrels of 60,000 lines", lambda: gainful.read_qrels(qrels))

model = gainful.ranker("lambdamart", n_trees=100, n_jobs=1).fit(small)
path("predict one row", lambda: [model.predict(small.X[:1]) for _ in range(200)])
path("predict 120,000 rows", lambda: gainful.ranker("listnet", max_iter=2).fit(made(2, 9, 10)).predict(data))
gainful.save(model, folder / "m.gainful")

from gainful.serve import create_app
documents = [{"id": str(i), "features": row} for i, row in enumerate(small.X[:30].tolist())]
body = json.dumps({"documents": documents}).encode()
app = create_app(folder / "m.gainful")
sent = []
async def receive():
    return {"type": "http.request", "body": body, "more_body": False}
async def send(message):
    sent.append(message)
headers = {"content-type": "application/json", "content-length": str(len(body)), "host": "localhost"}
scope = {
    "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": "/rank",
    "root_path": "", "raw_path": b"/rank", "query_string": b"", "scheme": "http", "client": ("127.0.0.1", 1),
    "server": ("127.0.0.1", 80), "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
}
async def requests():
    for _ in range(300):
        await app(dict(scope), receive, send)
path("/rank of 30 documents", lambda: asyncio.run(requests()))
assert not sent or sent[0]["status"] == 200, sent[:2]
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--only", default="", help="parts of the names of paths, with commas")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    checkouts = {"before": options.before.resolve(), "now": HERE}
    for checkout in checkouts.values():  # kernels compile
        run(checkout, PATHS, options.only)
    turns: list[dict[str, dict[str, float]]] = []
    for i in range(options.turns):
        order = list(checkouts) if i % 2 else list(checkouts)[::-1]
        turns.append({name: run(checkouts[name], PATHS, options.only) for name in order})
        print(f"turn {i + 1} of {options.turns}", file=sys.stderr, flush=True)
    low = max(0, int(stats.binom.ppf(0.025, options.turns, 0.5)) - 1)
    print("| path | now / before | 95 % | before, ms |\n| --- | ---: | --- | ---: |")
    table = []
    for path in turns[0]["now"]:
        if all(path in turn[name] for turn in turns for name in turn):
            ratios = sorted(turn["now"][path] / turn["before"][path] for turn in turns)
            row = (path, median(ratios), ratios[low], ratios[-1 - low])
            time_before = 1000 * median(turn["before"][path] for turn in turns)
            slower = " **slower**" if row[1] > 1.05 and row[2] > 1.0 else ""
            print(f"| {path} | {row[1]:.3f}{slower} | {row[2]:.3f}–{row[3]:.3f} | {time_before:.1f} |", flush=True)
            table.append(row)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
