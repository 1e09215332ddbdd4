"""Training from a file several times larger than the process's memory limit, against the disk's own speed.

    python benchmarks/bench_out_of_core.py                       # 1 GB under 0.4 GB: part of make bench
    python benchmarks/bench_out_of_core.py --gb 20 --limit 4     # needs the disk space; --folder sets where

Child processes under the limit make the file and train the rankers. Where control groups can be created (as root), the
limit covers all memory including cached pages of the file, so every pass reads from the disk. Elsewhere it
covers only the memory the process itself allocates (RLIMIT_DATA), and the pages of the file are dropped before each
run. The disk's speed is measured by reading the file from start to end with its pages dropped, by one thread or by one
per core: the better of one run before training and one after it, the latter in the training process, under its limit.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from harness import Row

GB = 10**9
FEATURES, DOCS = 136, 120
PIECE_QUERIES = 500
GROUPS = Path("/sys/fs/cgroup")

# name → settings, which fix the number of passes
RANKERS: dict[str, dict[str, object]] = {
    "regression": {},
    "ranknet": {"max_iter": 6, "early_stopping": None},
    "ranksvm": {"max_iter": 8},
    "structured-svm": {"max_iter": 8},
    "rankmm-1": {"max_iter": 8},
    "lambdamart": {"n_trees": 20, "n_leaves": 31},
}


def make_file(path: str, n_bytes: float) -> None:
    """A .gnf of about this many bytes, with grades that a linear target explains in part."""
    import numpy as np

    from gainful.data.dataset import RankingData
    from gainful.formats.binary.reader import Writer

    rng = np.random.default_rng(0)
    target = rng.normal(size=FEATURES).astype(np.float32)
    n_queries = max(2, int(n_bytes / (4 * FEATURES * DOCS)))
    noise = rng.normal(size=(1 << 20,)).astype(np.float32)
    with Writer(path, FEATURES, dtype="float32") as out:
        for first in range(0, n_queries, PIECE_QUERIES):
            m = min(PIECE_QUERIES, n_queries - first)
            X = rng.random((m * DOCS, FEATURES), dtype=np.float32)
            score = X @ target + 2.0 * noise[rng.integers(0, len(noise) - m * DOCS) :][: m * DOCS]
            y = np.digitize(score - target.sum() / 2, [0.0, 2.0, 4.0, 6.0]).astype(np.float64)
            ids = np.arange(first, first + m)
            out.append(RankingData(X, y, np.arange(m + 1) * DOCS, ids))


def train(path: str, name: str) -> None:
    import gainful

    steps: list[float] = []
    gainful.ranker(name, **RANKERS[name]).fit(gainful.make_artificial(30, n_docs=10))  # compile
    shards = gainful.open_shards(path) if name != "lambdamart" else gainful.read(path)
    model = gainful.ranker(name, **RANKERS[name])
    began = time.perf_counter()
    import warnings

    warnings.simplefilter("ignore")
    model.fit(shards, progress=lambda event: steps.append(time.perf_counter()))
    seconds = time.perf_counter() - began
    passes = [b - a for a, b in pairwise(steps)]
    with open("/proc/self/status") as status:
        own = next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
    facts = {"seconds": seconds, "rows": shards.n_rows, "passes": passes, "anonymous": own * 1024}
    del shards, model  # mapped pages would not be dropped
    gc.collect()
    print(json.dumps(facts | {"read": read_speed(path)}))


def read_speed(path: str) -> float:
    """Bytes per second of reading the file uncached, by one thread or by as many as train, whichever is faster."""
    size, found = os.path.getsize(path), []
    for threads in {1, os.cpu_count() or 1}:
        drop_pages(path)
        cuts = [size * i // threads for i in range(threads + 1)]
        began = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(read_part, [path] * threads, cuts[:-1], cuts[1:]))
        found.append(size / (time.perf_counter() - began))
    return max(found)


def read_part(path: str, start: int, stop: int) -> None:
    buffer = bytearray(8 << 20)
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        while start < stop:
            start += file.readinto(buffer)


def drop_pages(path: str) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# -- limits ------------------------------------------------------------------------------------------------------------


@contextmanager
def control_group(limit: int) -> Iterator[tuple[Path, Path] | None]:
    """A control group with this memory limit: where to put a process and read its peak; None if not permitted."""
    for folder, ceiling, peak in (
        (GROUPS / "memory" / f"gainful-{os.getpid()}", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
        (GROUPS / f"gainful-{os.getpid()}", "memory.max", "memory.peak"),
    ):
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / ceiling).write_text(str(limit))
        except OSError:
            folder.rmdir()
            continue
        try:
            yield folder / "cgroup.procs", folder / peak
        finally:
            folder.rmdir()
        return
    yield None


def under(limit: int, *arguments: str) -> tuple[str, int | None, str]:
    """The output of this script under the limit, its peak memory if known, and the kind of limit."""
    with control_group(limit) as group:

        def enter() -> None:
            if group is None:
                resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            else:
                group[0].write_text(str(os.getpid()))

        done = subprocess.run(
            [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, preexec_fn=enter
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode} under a limit of {limit / GB:g} GB")
        peak = int(group[1].read_text()) if group is not None and group[1].exists() else None
        return done.stdout, peak, "RLIMIT_DATA" if group is None else "control group"


def rows(
    gb: float = 1.0, limit: float = 0.4, folder: str | None = None, names: Sequence[str] = tuple(RANKERS)
) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(dir=folder) as made:
        path = str(Path(made) / "large.gnf")
        under(int(limit * GB), "--make", path, str(gb * GB))
        size = Path(path).stat().st_size
        for name in names:
            before = read_speed(path)
            drop_pages(path)
            out, peak, by = under(int(limit * GB), "--train", path, name)
            facts = json.loads(out.splitlines()[-1])
            speed = max(before, facts["read"])  # layers below the disk may cache pages too
            rate = facts["rows"] / facts["seconds"]
            passes = sorted(facts["passes"])
            notes: dict[str, float | str] = {
                "seconds of fit": round(facts["seconds"], 1),
                "rows per second of fit": round(rate),
                "X": f"{size / GB:.1f} GB",
                "limit": f"{limit:g} GB, {by}",
                "own memory at the end, MB": round(facts["anonymous"] / 1e6),
            }
            if peak is not None:
                notes["peak with cached pages, GB"] = round(peak / GB, 2)
            if name == "lambdamart":  # its passes read the binned data, in memory
                yield Row(f"{name} from a file, {gb:g} GB", "bytes per second of fit", size / facts["seconds"] / 1e6,
                          "reading the file", speed / 1e6, "MB/s", larger_is_better=True, notes=notes)  # fmt: skip
                continue
            one = passes[len(passes) // 2] if passes else facts["seconds"] / 2  # regression reads it twice
            notes["rows per second of a pass"] = round(facts["rows"] / one)
            yield Row(f"{name} from a file, {gb:g} GB", "bytes per second of a pass", size / one / 1e6,
                      "reading the file", speed / 1e6, "MB/s", larger_is_better=True, notes=notes)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gb", type=float, default=1.0, help="size of the file")
    parser.add_argument("--limit", type=float, default=0.4, help="memory limit of training, GB")
    parser.add_argument("--folder", help="folder for the file; default: the one for temporary files")
    parser.add_argument("--rankers", default=",".join(RANKERS))
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--train", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make:
        make_file(given.make[0], float(given.make[1]))
    elif given.train:
        train(*given.train)
    else:
        for row in rows(given.gb, given.limit, given.folder, given.rankers.split(",")):
            print(json.dumps(row.to_dict()), flush=True)


if __name__ == "__main__":
    main()
