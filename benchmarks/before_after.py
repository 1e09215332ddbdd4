"""The speed of two commits in one run, by turns: what an iteration, a score, a request, a first use and a pass cost.

    git worktree add ../before COMMIT
    python benchmarks/before_after.py --before ../before [--items iterations,scoring] [--page docs/results/speed.md]

Each figure is the least of several turns. Small scripts run in fresh processes with the package of either checkout, and
use only what both have. Beside them stand what the machine allows and the best peer, measured in the same run. On one
thread, and for requests and first uses, time is processor time; with two threads or processes it is that of the clock,
so the machine should be idle.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import bench_cold
import bench_scoring
import serve_peers

HERE = Path(__file__).resolve().parents[1]
TURNS = 2
LITSERVE = None  # a Python with litserve and lightgbm


@dataclass(frozen=True)
class Line:
    what: str
    unit: str
    before: float
    now: float
    limit: str = ""
    peer: str = ""


ITERATIONS = """
import json, sys, time, warnings
import numpy as np, gainful
warnings.simplefilter("ignore")
threads, queries = int(sys.argv[1]), int(sys.argv[2])
clock = time.process_time if threads == 1 else time.perf_counter
rng = np.random.default_rng(0)
X = rng.standard_normal((queries * 120, 136), dtype=np.float32)
signal = X @ rng.standard_normal(136).astype(np.float32) + rng.standard_normal(len(X)).astype(np.float32)
y = np.searchsorted(np.quantile(signal, np.cumsum([.5, .3, .13, .05])), signal).astype(float)
turned = np.linalg.qr(rng.standard_normal((136, 136)))[0] * np.logspace(0, -3, 136)  # or there are few iterations
X = X @ turned.astype(np.float32)
data = gainful.RankingData.from_rows(X, y, np.repeat(np.arange(queries), 120))
small = gainful.RankingData.from_rows(X[:2400], y[:2400], np.repeat(np.arange(20), 120))
w, g = rng.standard_normal(136).astype(np.float32), rng.standard_normal(len(X)).astype(np.float32)

def timed(call):
    start = clock()
    found = call()
    return clock() - start, found

def least(call):
    return min(timed(call)[0] for _ in range(9))

product, back = least(lambda: X @ w), least(lambda: g @ X)
print(json.dumps(["X @ w and g @ X", (product + back) / product]))
for name, few, many in (
    ("structured-svm", 5, 30), ("listnet", 3, 18), ("ranksvm", 3, 18), ("ranknet", 3, 18), ("lambdarank", 3, 18),
    ("softrank", 1, 4),
):
    own = gainful.RANKERS[name].create().get_params()
    as_given = {"scale": None} if "scale" in own else {}  # the same problem for both commits

    def fit(n, on=data):
        return gainful.ranker(name, max_iter=n, tol=1e-12, **as_given).fit(on)
    fit(2, small)
    turns = [(timed(lambda: fit(few)), timed(lambda: fit(many))) for _ in range(3)]
    short, long = (min(turn[i][0] for turn in turns) for i in (0, 1))
    n = turns[0][1][1].n_iter_ - turns[0][0][1].n_iter_
    if n > 0:
        print(json.dumps([name, (long - short) / n / product]))
"""

SCORING = """
import json, sys, time
import numpy as np, gainful
data = gainful.make_artificial(60, n_docs=50, n_features=136, seed=0)
model = gainful.LambdaMART(n_trees=500, n_leaves=31, n_jobs=1, early_stopping=None).fit(data)
X = np.random.default_rng(1).random((100_000, 136))
for _ in range(3):
    model.predict(X[:20_000])
for rows, calls in ((1, 400), (100, 60), (100_000, 1)):
    best = np.inf
    for turn in range(3):
        start = time.process_time()
        for i in range(calls):
            model.predict(X[i * rows : (i + 1) * rows])
        best = min(best, (time.process_time() - start) / calls)
    print(json.dumps([rows, 1e3 * best]))
"""

JOBS = """
import json, sys, time, warnings
from pathlib import Path
import gainful
warnings.simplefilter("ignore")
folder, jobs = Path(sys.argv[1]), int(sys.argv[2])
names = ("train", "vali", "test")
folds = [gainful.Split(*(gainful.read(folder / f"Fold{k}" / f"{name}.txt") for name in names)) for k in range(1, 6)]
rankers = ["ranksvm", "ranknet", "structured-svm", "rankboost", "lambdamart-plain:n_trees=100:n_jobs=1",
           "mcrank:n_trees=30:n_jobs=1"]
def compare():
    gainful.compare(rankers, folds, n_jobs=jobs)
compare()
best = 1e9
for _ in range(3):
    start = time.perf_counter()
    compare()
    best = min(best, time.perf_counter() - start)
print(json.dumps(["seconds", best]))
"""


def run(checkout: Path, script: str, *arguments: object, threads: int = 1) -> dict[Any, float]:
    """What a script prints, as pairs in JSON."""
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")} | dict.fromkeys(limits, str(threads))
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return dict(map(json.loads, done.stdout.splitlines()))


def both(before: Path, measure: Callable[[Path], dict[Any, float]]) -> tuple[dict[Any, float], dict[Any, float]]:
    """The least of each figure, of both checkouts by turns."""
    found: tuple[dict[Any, float], dict[Any, float]] = ({}, {})
    for _ in range(TURNS):
        for kept, checkout in zip(found, (before, HERE), strict=True):
            for name, value in measure(checkout).items():
                kept[name] = min(value, kept.get(name, value))
    return found


def iterations(before: Path) -> Iterator[Line]:
    for threads in (1, 2):
        queries = 1_000 if threads == 1 else 4_000
        old, new = both(before, lambda at, t=threads, q=queries: run(at, ITERATIONS, t, q, threads=t))
        limit = new.pop("X @ w and g @ X")
        shape = f"{120 * queries:,} × 136, {threads} thread{'s' * (threads > 1)}"
        for name in [name for name in new if name in old]:
            shown = f"{limit:.1f}: `X @ w` and `g @ X` by BLAS"
            yield Line(f"an iteration of {name}, {shape}", "× `X @ w`", old[name], new[name], shown)


def scoring(before: Path) -> Iterator[Line]:
    old, new = both(before, lambda at: run(at, SCORING))
    peers: dict[int, list[tuple[float, str]]] = {}
    for row in bench_scoring.rows():
        if row.subject.startswith("score"):
            rows = int(row.subject.split()[1].replace(",", ""))
            peers.setdefault(rows, []).append((row.theirs, row.peer))
    for rows, now in new.items():
        value, name = min(peers[int(rows)])
        yield Line(
            f"`predict`, 500 trees × {int(rows):,} rows, 1 thread", "ms", old[rows], now, peer=f"{value:.3g}: {name}"
        )


def requests(before: Path) -> Iterator[Line]:
    found = {name: 1e3 * min(times) for name, times in serve_peers.measure(str(before / "src"), LITSERVE).items()}
    limit = f"{found['bare FastAPI, JSON']:.2f}: bare FastAPI, nothing scored"
    for model in ("linear", "500 trees"):
        peer = found.get(f"LitServe, {model}, JSON")
        shown = "" if peer is None else f"{peer:.2f}: LitServe and LightGBM"
        old = found[f"before, {model}, JSON"]
        yield Line(f"request of 100 × 136, {model}, JSON", "ms", old, found[f"gainful, {model}, JSON"], limit, shown)
        yield Line(f"the same as npy, {model}", "ms", old, found[f"gainful, {model}, npy"])


def first(before: Path) -> Iterator[Line]:
    names = ("ranksvm", "lambdarank", "structured-svm", "structured-svm-slack", "lambdamart-plain")

    def measure(checkout: Path) -> dict[Any, float]:
        os.environ["PYTHONPATH"] = str(checkout / "src")
        scripts = {name: bench_cold.DATA + bench_cold.FIT.format(name=name) for name in names}
        found = {name: bench_cold.processor_seconds("-c", script) for name, script in scripts.items()}
        return found | {"yardstick": bench_cold.processor_seconds("-c", bench_cold.YARDSTICK)}

    old, new = both(before, measure)
    for name in names:
        limit = f"{new['yardstick']:.1f}: scikit-learn, numba and one loop"
        yield Line(f"first use of {name}, no kernels on disk", "s", old[name], new[name], limit)


def jobs(before: Path) -> Iterator[Line]:
    folder = os.environ["GAINFUL_OHSUMED"]
    old, new = both(before, lambda at: {n: run(at, JOBS, folder, n)["seconds"] for n in (1, 2)})
    yield Line("six rankers compared on OHSUMED's five folds, one job", "s", old[1], new[1])
    yield Line("the same, two jobs", "s", old[2], new[2], f"{new[1] / 2:.2f}: half of one job")


def cluster(before: Path) -> Iterator[Line]:
    def measure(checkout: Path) -> dict[Any, float]:
        environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
        script = checkout / "benchmarks" / "bench_cluster.py"
        done = subprocess.run([sys.executable, script], env=environment, check=True, stdout=subprocess.PIPE, text=True)
        row = json.loads(done.stdout.splitlines()[0])
        return {"pass": row["ours"], "nothing": row["notes"]["a task that computes nothing, ms"], "here": row["theirs"]}

    old, new = both(before, measure)
    yield Line("a pass on two Dask workers that computes nothing", "ms", old["nothing"], new["nothing"])
    limit = f"{new['here'] / 2:.1f}: half of that in memory"
    yield Line("a pass, 100,000 × 136, mapped, two workers", "ms", old["pass"], new["pass"], limit)


ITEMS = {
    "iterations": iterations, "scoring": scoring, "requests": requests, "first": first, "jobs": jobs,
    "cluster": cluster,
}  # fmt: skip


HEAD = """# Two commits, one run

`python benchmarks/before_after.py --before CHECKOUT --page docs/results/speed.md`

*Before* is 0cfd0f6, *now* the commit that the row came with. Both take turns in one run per kind of row (`--items`);
each figure is the least of two or more. One thread: processor time. Two threads or processes: the clock's. Rows that
gained least come first. GPUs have [a table of their own](../nets.md#measured-speed), and so have
[kernels](../decisions/0062-pair-kernels.md).
"""


def table(lines: Iterable[Line]) -> str:
    """Those that became slower, or gained least, first."""
    head = [
        "| | before | now | gain | what the machine allows | best peer |",
        "| --- | ---: | ---: | ---: | --- | --- |",
    ]
    rows = (
        f"| {line.what}, {line.unit} | {line.before:.3g} | {line.now:.3g} | {line.before / line.now:.2g}× | "
        f"{line.limit} | {line.peer} |"
        for line in sorted(lines, key=lambda one: one.before / one.now)
    )
    return "\n".join([*head, *rows])


def write_page(page: Path, found: list[Line]) -> None:
    """These lines and the others that the page had; the figures are kept beside it."""
    figures = page.with_suffix(".json")
    kept = {line["what"]: Line(**line) for line in json.loads(figures.read_text())} if figures.exists() else {}
    kept |= {line.what: line for line in found}
    figures.write_text(json.dumps([asdict(line) for line in kept.values()], indent=1) + "\n")
    page.write_text(f"{HEAD}\n{table(kept.values())}\n")


def main() -> None:
    global LITSERVE
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--items", default=",".join(ITEMS))
    parser.add_argument("--litserve", help="a Python with litserve and lightgbm")
    parser.add_argument("--page", type=Path, help="put the table into this file, and its figures beside it")
    given = parser.parse_args()
    LITSERVE = given.litserve
    for name in given.items.split(","):
        lines = list(ITEMS[name](given.before.resolve()))
        print(table(lines) + "\n", flush=True)
        if given.page is not None:
            write_page(given.page, lines)


if __name__ == "__main__":
    main()
