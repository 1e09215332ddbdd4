"""The commands of ``python -m fuzz``."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fuzz.cases import Case, find_target
from fuzz.outcomes import FAILURES, FINE
from fuzz.pool import Pool, Result, open_pool, run_one
from fuzz.targets import TARGETS

BATCH = 20  # cases given to a worker at once
MOST_PER_CAUSE = 2  # files kept
DEFAULT_MINUTES = 1.0


# -- run ---------------------------------------------------------------------------------------------------------------


@dataclass
class Cause:
    """Failures that look alike."""

    target: str
    kind: str
    cause: str
    detail: str
    count: int = 0
    kept: list[Path] = field(default_factory=list)


class Tally:
    """The outcomes of a run, and the failures kept in a folder."""

    def __init__(self, names: list[str], found: Path):
        self.found = found
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in names}
        self.seconds: Counter[str] = Counter()
        self.causes: dict[tuple[str, str, str], Cause] = {}

    def add(self, result: Result) -> None:
        outcome = result.outcome
        self.counts[result.target][outcome.kind] += 1
        self.seconds[result.target] += result.seconds  # type: ignore[assignment]
        if outcome.fails and result.case is not None:
            key = result.target, outcome.kind, outcome.cause
            cause = self.causes.setdefault(key, Cause(*key, outcome.detail))
            cause.count += 1
            if len(cause.kept) < MOST_PER_CAUSE:
                cause.kept.append(self._keep(result.case, result))

    def _keep(self, case: Case, result: Result) -> Path:
        self.found.mkdir(parents=True, exist_ok=True)
        path = self.found / f"{case.name}.case"
        facts = {"outcome": str(result.outcome), "replay": f"python -m fuzz replay {path.name}"}
        path.write_bytes(case.to_bytes(**facts))
        return path

    @property
    def failures(self) -> int:
        return sum(counts[kind] for counts in self.counts.values() for kind in FAILURES)

    def table(self) -> str:
        kinds = [kind for kind in FAILURES if any(counts[kind] for counts in self.counts.values())]
        head = ["format", "cases", *FINE, "failures", *kinds, "ms per case"]
        rows = [head]
        for name, counts in self.counts.items():
            failures = sum(counts[kind] for kind in FAILURES)
            numbers = [counts.total(), *(counts[kind] for kind in FINE), failures, *(counts[kind] for kind in kinds)]
            each = 1000 * self.seconds[name] / max(1, counts.total())
            rows.append([name, *map(str, numbers), f"{each:.1f}"])
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        return "\n".join(
            "  ".join(
                cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        )

    def describe_causes(self) -> Iterator[str]:
        for cause in sorted(self.causes.values(), key=lambda one: (one.target, -one.count)):
            yield f"{cause.target}: {cause.count} × {cause.kind}: {cause.cause}"
            yield f"    {cause.detail}"
            yield f"    python -m fuzz replay {_shown(cause.kept[0])}"


def _shown(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def run(names: list[str] | None, seed: int, cases: int | None, minutes: float | None, jobs: int, found: Path) -> int:
    """Run ``cases`` cases of each format, or as many as fit into the minutes."""
    chosen = list(TARGETS) if names is None else names
    for name in chosen:
        if name not in TARGETS:
            print(f"there is no format {name!r}; choose from {', '.join(TARGETS)}")
            return 2
    tally = Tally(chosen, found)
    with open_pool(jobs) as pool:
        pool.prepare(chosen)
        schedule = Schedule(chosen, seed, tally)
        end = time.monotonic() + 60 * (minutes or DEFAULT_MINUTES)
        next_task = (lambda: schedule.by_number(cases)) if cases is not None else (lambda: schedule.by_time(end))
        try:
            for result in pool.run(next_task):
                tally.add(result)
        except KeyboardInterrupt:
            print("interrupted; the figures so far:")
    print(tally.table())
    for line in tally.describe_causes():
        print(line)
    print(f"seed {seed}: {tally.failures} failures" + (f", kept in {_shown(found)}" if tally.failures else ""))
    return 1 if tally.failures else 0


class Schedule:
    """Which cases run next."""

    def __init__(self, names: list[str], seed: int, tally: Tally):
        self.names, self.seed, self.tally = names, seed, tally
        self.given: Counter[str] = Counter()

    def by_number(self, cases: int) -> Any:
        """The first format that has not had all its cases."""
        for name in self.names:
            if self.given[name] < cases:
                return self._batch(name, min(BATCH, cases - self.given[name]))
        return None

    def by_time(self, end: float) -> Any:
        """The format that has had the least time."""
        if time.monotonic() >= end:
            return None
        name = min(self.names, key=lambda one: (self.tally.seconds[one], self.given[one]))
        return self._batch(name, BATCH)

    def _batch(self, name: str, size: int) -> tuple[str, int, list[int]]:
        start = self.given[name]
        self.given[name] += size
        return name, self.seed, list(range(start, start + size))


# -- what was kept -----------------------------------------------------------------------------------------------------


def read_case(file: Path) -> Case:
    try:
        return Case.from_bytes(file.read_bytes())
    except (OSError, ValueError, LookupError) as error:
        raise SystemExit(f"{file} does not hold a case: {error}") from None


def replay(files: list[Path], here: bool) -> int:
    """Run kept cases again."""
    cases = [(file, read_case(file)) for file in files]
    if here:
        for file, case in cases:
            print(file)
            _use_here(case)
        return 0
    failed = 0
    with open_pool(1) as pool:
        for file, case in cases:
            outcome = run_one(pool, case).outcome
            failed += outcome.fails
            print(f"{file}: {outcome}")
    return 1 if failed else 0


def _use_here(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"case{case.input.suffix}"
        path.write_bytes(case.input.content)
        print(f"{case.target}, {case.input.options}")
        try:
            find_target(case.target).use(path, case.input.options)
            print("accepted")
        except Exception:
            print(traceback.format_exc())


def extract(file: Path, output: Path) -> int:
    """Write the input of a kept case."""
    case = read_case(file)
    output.write_bytes(case.input.content)
    print(f"{output}: {len(case.input.content)} bytes, options {case.input.options}")
    return 0


def cut(file: Path) -> int:
    """Remove halves, quarters, … of the input, as long as it fails for the same cause."""
    case = read_case(file)
    with open_pool(1) as pool:
        wanted = run_one(pool, case).outcome
        if not wanted.fails:
            print(f"{file} does not fail: {wanted}")
            return 1
        content = shrink(case.input.content, lambda raw: _fails_like(pool, case, raw, wanted.cause))
    smaller = replace(case, input=replace(case.input, content=content))
    target = file.with_name(f"{file.name}.cut")
    target.write_bytes(smaller.to_bytes(outcome=str(wanted)))
    print(f"{target}: {len(case.input.content)} bytes cut to {len(content)}: {wanted}")
    return 0


def _fails_like(pool: Pool, case: Case, raw: bytes, cause: str) -> bool:
    trial = replace(case, input=replace(case.input, content=raw))
    outcome = run_one(pool, trial).outcome
    return outcome.fails and outcome.cause == cause


def shrink(raw: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """Remove ever smaller pieces that the failure does not need."""
    size = len(raw) // 2
    while size >= 1:
        at = 0
        while at < len(raw):
            shorter = raw[:at] + raw[at + size :]
            if fails(shorter):
                raw = shorter
            else:
                at += size
        size //= 2
    return raw
