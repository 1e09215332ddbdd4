"""What every ranker costs by rows, features, documents per query and cores: the measurements behind docs/costs.md.

``python benchmarks/bench_cost.py --resume FILE`` takes all of them (about a quarter of an hour on a quiet machine; one
thread per fit, and at the end one fit of each ranker on two), appends each to FILE, and writes docs/results/costs.md,
.json and .svg and the constants of ``gainful.estimate``. A killed run resumes from FILE. A fit expected to take more
than ``--limit`` seconds is skipped, with a message. ``--rankers`` and ``--max-rows`` measure fewer; then only FILE and
a table are written. ``make bench BENCH=cost`` is a short form: a few rankers up to 10⁵ rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cost_fits import STOPS_BY_ITSELF, WORK, Shape, environment
from harness import Row

HERE = Path(__file__).parent
ROWS = (10_000, 100_000, 1_000_000)
FEATURES = (10, 50, 250)
DOCS = (10, 100, 1_000, 10_000)
FIXED_ROWS = 100_000  # of the other sweeps, and of fits on two threads
BY_DEFAULT = Shape(10_000, 50, 50)
UNSEEN = (Shape(100_000, 136, 120), Shape(16_000, 45, 152))  # no constant is fitted to these
POINTWISE = ("regression", "mcrank", "mcrank-ordinal", "mcrank-regression", "tree-regression")  # do not see queries
SHORT = ("regression", "ranksvm", "listnet", "structured-svm", "rankmm-1", "lambdamart", "gbrank")

Measurement = dict[str, Any]
KEY = ("ranker", "work", "rows", "features", "docs", "threads")


def key_of(measurement: Measurement) -> tuple[Any, ...]:
    return tuple(measurement[name] for name in KEY)


@dataclass
class Budget:
    """Skips what would take too long, judging by the previous measurement in the same sweep."""

    seconds: float
    last: tuple[float, float] | None = None  # size, seconds

    def allows(self, size: float) -> bool:
        if self.last is None:
            return True
        before, seconds = self.last
        return seconds * (size / before) <= self.seconds

    def spent(self, size: float, seconds: float) -> None:
        self.last = (size, seconds)


class Child:
    """A process that fits rankers on request; it starts with the first request."""

    def __init__(self, threads: int):
        self.threads = threads
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process is not None:
            self.process.communicate(timeout=60)

    def measure(self, name: str, shape: Shape, work: str = "fixed") -> Measurement:
        if self.process is None:
            command = [sys.executable, str(HERE / "cost_fits.py")]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE,
                env=os.environ | environment(self.threads),
            )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"ranker": name, "work": work, **asdict(shape)}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} failed at {shape}")
        answer: Measurement = json.loads(line)
        return answer


def sweeps(name: str, max_rows: int) -> Iterator[list[tuple[float, Shape]]]:
    """Lists of (size, shape), each by increasing cost."""
    yield [(n, Shape(n)) for n in ROWS if n <= max_rows]
    if max_rows >= FIXED_ROWS:
        yield [(d, Shape(FIXED_ROWS, features=d)) for d in FEATURES]
        if name not in POINTWISE:
            yield [(q, Shape(FIXED_ROWS, docs=q)) for q in DOCS]
    yield [(shape.rows * shape.features, shape) for shape in reversed(UNSEEN) if shape.rows <= max_rows]


def measurements(
    names: list[str], max_rows: int, limit: float, known: dict[tuple[Any, ...], Measurement], cores: bool = True
) -> Iterator[Measurement]:
    """The measurements not known yet; ``cores``: also a fit on two threads, which is meaningless on a busy machine."""
    for name in names:
        with Child(1) as child:  # a new process, so that the peak memory is this ranker's
            for sweep in sweeps(name, max_rows):
                budget = Budget(limit)
                for size, shape in sweep:
                    found = known.get((name, "fixed", *asdict(shape).values()))
                    if found is None:
                        if not budget.allows(size):
                            print(f"skipped: {name} at {shape} and beyond, over --limit", file=sys.stderr)
                            break
                        found = child.measure(name, shape)
                        yield found
                    budget.spent(size, found["seconds"])
            if name in STOPS_BY_ITSELF and (name, "default", *asdict(BY_DEFAULT).values()) not in known:
                yield child.measure(name, BY_DEFAULT, "default")
    shape = Shape(max(n for n in ROWS if n <= min(max_rows, FIXED_ROWS)), threads=2)
    with Child(2) as child:
        for name in names if cores else ():
            if (name, "fixed", *asdict(shape).values()) not in known:
                yield child.measure(name, shape)


def read_known(path: Path | None) -> dict[tuple[Any, ...], Measurement]:
    if path is None or not path.exists():
        return {}
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:  # killed while writing: that line is measured again
        path.write_text(whole)
    return {key_of(m): m for m in map(json.loads, whole.splitlines())}


def keep(path: Path | None, measurement: Measurement) -> None:
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(measurement) + "\n")


def rows() -> Iterator[Row]:
    """The short form: ten times the rows in at most 10^1.1 times the time."""
    for name in SHORT:
        with Child(1) as child:
            small, large = (child.measure(name, Shape(n)) for n in (10_000, 100_000))
        yield Row(
            f"{name}, a fit, 100,000 × 50 float32", "time", large["seconds"],
            "10^1.1 times that of 10,000 rows", 10**1.1 * small["seconds"], "s", wanted=0.8,
        )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rankers", help="comma-separated names; default: all in WORK")
    parser.add_argument("--max-rows", type=int, default=ROWS[-1])
    parser.add_argument("--limit", type=float, default=60.0, help="longest expected seconds of a fit")
    parser.add_argument("--one-core", action="store_true", help="skip the fits on two threads")
    parser.add_argument("--resume", type=Path, help="JSON lines: known measurements; new ones are appended")
    parser.add_argument("--report", action="store_true", help="only write the report on FILE")
    given = parser.parse_args()
    names = given.rankers.split(",") if given.rankers else list(WORK)
    unknown = [name for name in names if name not in WORK]
    if unknown:
        parser.error(f"WORK in cost_fits.py has no entry for {', '.join(unknown)}; add one, and its terms to FAMILIES")

    import cost_report

    known, began = read_known(given.resume), time.perf_counter()
    if not given.report:
        for measurement in measurements(names, given.max_rows, given.limit, known, not given.one_core):
            known[key_of(measurement)] = measurement
            keep(given.resume, measurement)
            place = "{ranker} {rows} × {features}, {docs} per query, {threads} thread(s)".format(**measurement)
            print(f"{time.perf_counter() - began:6.0f} s  {place}: {measurement['seconds']:.3g} s", file=sys.stderr)
    found = [m for m in known.values() if m["ranker"] in names]
    print(cost_report.exponent_table(found))
    if not given.rankers and given.max_rows >= ROWS[-1]:
        cost_report.write(found)
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main())
    import harness

    harness.main(rows)
