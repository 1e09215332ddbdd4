"""Default training against training on one thread and on two, on an idle machine and beside busy processes.

This script starts and ends the busy processes. Each way of training runs in its own warmed-up process, and each round
visits all of them, so that other load affects all equally. Seconds are medians of wall-clock time.
``python benchmarks/bench_busy.py --busy 4 --rounds 5 --rankers lambdamart,mcrank``
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from harness import Row, main

RANKERS = {
    "lambdamart": {"n_trees": 100, "early_stopping": None},
    "mcrank": {"n_trees": 20, "early_stopping": None},
    "ranknet": {},
    "ranknet-net": {"epochs": 10},
}
WAYS = {"default": None, "one thread": 1, "two threads": 2}
WANTED = 1 / 1.2  # the default may take 1.2 times the better of one and two threads

# Fits once per line of standard input and prints the seconds it took.
WORKER = """
import sys, time, warnings
warnings.simplefilter("ignore")
import gainful
name, settings = {name!r}, {settings!r}
data = gainful.make_artificial(300)
train, valid, test = gainful.split(data, (0.6, 0.2, 0.2))
if "n_jobs" in settings and "n_jobs" not in gainful.RANKERS[name].cls.parameters:
    threads = settings.pop("n_jobs")
    import numba
    numba.set_num_threads(threads)
    if "epochs" in settings:
        import torch
        torch.set_num_threads(threads)
model = gainful.ranker(name, **settings)
model.fit(train, eval_set=valid)
print("ready", flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    model.fit(train.X, train.y, qid=train.qid, eval_set=valid)
    model.predict(test.X)
    print(time.perf_counter() - start, flush=True)
"""


@contextmanager
def processes(codes: list[str], **how: object) -> Iterator[list[subprocess.Popen[str]]]:
    started = [subprocess.Popen([sys.executable, "-c", code], text=True, **how) for code in codes]  # type: ignore[call-overload]
    try:
        yield started
    finally:
        for one in started:
            one.kill()
            one.wait()


def seconds(worker: subprocess.Popen[str]) -> float:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def medians(workers: list[subprocess.Popen[str]], n_rounds: int) -> list[float]:
    rounds = [[seconds(worker) for worker in workers] for _ in range(n_rounds)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def rows() -> Iterator[Row]:
    options = arguments()
    for name in options.rankers.split(","):
        settings = [RANKERS[name] | ({} if n is None else {"n_jobs": n}) for n in WAYS.values()]
        codes = [WORKER.format(name=name, settings=one) for one in settings]
        with processes(codes, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as workers:
            for worker in workers:
                assert worker.stdout is not None
                worker.stdout.readline()
            for n_busy in (0, options.busy):
                with processes(["while True: pass"] * n_busy):
                    found = dict(zip(WAYS, medians(workers, options.rounds), strict=True))
                default = found.pop("default")
                best = min(found, key=found.__getitem__)
                subject = f"{name}, {n_busy} busy processes on {os.cpu_count()} cores"
                notes = {way: round(time, 3) for way, time in found.items()}
                yield Row(subject, "time", default, f"best: {best}", found[best], "s", WANTED, notes=notes)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--busy", type=int, default=4, help="busy processes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rankers", default=",".join(RANKERS))
    return parser.parse_args()


if __name__ == "__main__":
    main(rows)
