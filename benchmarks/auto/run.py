"""``auto`` beside tuned gradient boosters: the same data, the same seconds, the same queries.

    python benchmarks/auto/run.py --shared DIR --data ohsumed,mq2007,clueweb09,artificial,mslr --seconds 60

``DIR`` holds ``ohsumed/Fold1 …``, ``mq2007/rows.txt.gz`` and ``clueweb09/S1.txt.gz …``; sets that are absent are left
out. Every peer draws settings at random (the first ones are good guesses), stops early on the validation queries, takes
the settings with the best NDCG@10 there, and is refitted with them on training and validation queries together; the
refit is not counted. ``auto`` gets the same queries and seconds. With ``--clock cpu`` the seconds are processor time
divided by the number of threads. With ``--threads 1`` other work on the machine then takes nothing from anyone; with
more, threads that wait for one another spend their time spinning. Results are kept in
benchmarks/results/auto, one file per cell, so that a stopped run resumes, and the tables are printed at the end.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HOME = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(HOME)

import gainful  # noqa: E402
from auto.peers import FIRST, PEERS, SPACE, TREES, Peer  # noqa: E402
from gainful.blending.folds import Clock  # noqa: E402
from gainful.formats.layout import read_splits  # noqa: E402
from peers.datasets import data_set  # noqa: E402

NDCG = gainful.metric("ndcg@10")
Parts = tuple[gainful.RankingData, gainful.RankingData, gainful.RankingData]
REAL = ("ohsumed", "mq2007", "clueweb09")
MADE = ("artificial", "mslr")


def folds_of(name: str, shared: Path | None) -> Iterator[Parts]:
    """Training, validation and test queries of each fold."""
    if name in MADE:
        parts = data_set("usual", name).parts()
        yield parts.train, parts.valid, parts.test
        return
    assert shared is not None
    if name == "ohsumed":
        for one in read_splits(shared / name):
            assert one.valid is not None
            yield one.train, one.valid, one.test
    elif name == "mq2007":
        for one in gainful.folds(gainful.read(shared / name / "rows.txt.gz"), 5, seed=0):
            assert one.valid is not None
            yield one.train, one.valid, one.test
    else:
        sets = [gainful.read(shared / name / f"S{i}.txt.gz") for i in range(1, 6)]
        for i in range(5):
            train = gainful.RankingData.concatenate([sets[(i + j) % 5] for j in range(3)])
            yield train, sets[(i + 3) % 5], sets[(i + 4) % 5]


@dataclass(frozen=True)
class Budget:
    """Seconds on the clock on the wall, or of processor time, divided by the threads that share it."""

    seconds: float
    threads: int
    clock: str

    def now(self) -> float:
        return time.perf_counter() if self.clock == "wall" else time.process_time() / self.threads


class TimedAuto(gainful.Auto):
    """``auto`` by the clock of a budget."""

    def _clock(self, monitor: Any) -> Clock:
        return Clock(self.budget.now() + self.budget.seconds, now=self.budget.now)


def run_peer(peer: Peer, parts: Parts, budget: Budget, seed: int) -> dict[str, Any]:
    train, valid, test = parts
    generator, until, threads = np.random.default_rng(seed), budget.now() + budget.seconds, budget.threads
    best: tuple[float, dict[str, Any], int] | None = None
    trials = 0
    while best is None or budget.now() < until:
        drawn = {name: dimension.at(float(generator.random())) for name, dimension in SPACE.items()}
        settings = {**(FIRST if trials == 0 else drawn), "seed": seed}
        predict, n = peer.train(peer.objective, settings, train, valid, TREES, threads)
        value = NDCG(predict(valid.X), valid)
        trials += 1
        if best is None or value > best[0]:
            best = value, settings, n
    together = gainful.RankingData.concatenate([train, valid])
    predict, _ = peer.train(peer.objective, best[1], together, None, max(1, best[2]), threads)
    return {"values": NDCG.per_query(predict(test.X), test).tolist(), "trials": trials, "valid": best[0]}


def run_auto(parts: Parts, budget: Budget, seed: int) -> dict[str, Any]:
    train, valid, test = parts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = TimedAuto(seconds=budget.seconds, n_jobs=budget.threads, random_state=seed)
        model.budget = budget
        model.fit(train, eval_set=valid)
        values = NDCG.per_query(model.predict(test), test)
    board = model.leaderboard_
    members = [(row.name, row.mean, row.weight, row.seconds, row.note) for row in board.members]
    return {"values": values.tolist(), "trials": len(members), "models": board.blend.models,
            "valid": board.blend.mean, "members": members}  # fmt: skip


def main() -> None:
    given = _arguments()
    budget = Budget(given.seconds, given.threads, given.clock)
    kept = given.kept / given.clock / f"{given.seconds:g}s"
    kept.mkdir(parents=True, exist_ok=True)
    names = [n for n in given.data.split(",") if n in MADE or (given.shared and (given.shared / n).exists())]
    systems = ["auto", *(p.name for p in PEERS)] if not given.only else given.only.split(",")
    for name in names:
        for i, parts in enumerate(folds_of(name, given.shared)):
            for system in systems:
                file = cell_file(kept, name, i, system)
                if file.exists() and not given.fresh:
                    continue  # whatever the seed and the number of threads were; --kept DIR keeps others apart
                began = time.perf_counter()
                if system == "auto":
                    found = run_auto(parts, budget, given.seed)
                else:
                    peer = next(p for p in PEERS if p.name == system)
                    found = run_peer(peer, parts, budget, given.seed)
                found["seconds"] = time.perf_counter() - began
                file.write_text(json.dumps(found))
                print(f"{name} fold {i + 1}: {system}: {np.mean(found['values']):.4f}, {found['trials']} trials, "
                      f"{found['seconds']:.0f} s", flush=True)  # fmt: skip
    tables = all_tables(given.kept / given.clock)
    if given.page is not None:
        known = read_tables(given.page.read_text()) if given.page.exists() else {}
        given.page.write_text("\n".join([HEAD, *in_order({**known, **tables}).values()]))
    print("\n".join(tables.values()))


HEAD = """# `auto` beside tuned boosters

`make bench-auto DATA=DIR BENCH='--clock cpu --threads 1 --seconds 120 --page docs/results/auto.md'`

Every system gets the same queries and the same seconds of processor time on one thread, compilation included: two
minutes are what two cores do in one, and no thread waits for another. Each peer spends them on a
random search that stops early on the validation queries, and is then refitted with its best settings on training and
validation queries together; the refit is not counted. NDCG@10 over the test queries of all folds that every system of
the table has been run on; *auto − it* is paired by query. Differences above two standard errors are **bold**; those in
which `auto` does worst come first.
"""


TITLE = re.compile(r"^## (?P<data>\w+): .*?, (?P<seconds>[\d.]+) s per fold$", re.MULTILINE)
Title = tuple[str, float]  # data set, seconds


def all_tables(kept: Path) -> dict[Title, str]:
    """The tables of all budgets."""
    folders = sorted(kept.glob("*s"))
    found = {(name, float(folder.name[:-1])): table(name, folder) for name in (*REAL, *MADE) for folder in folders}
    return in_order({title: text for title, text in found.items() if text})


def read_tables(page: str) -> dict[Title, str]:
    """The tables of a page that was written earlier, so that those measured elsewhere stay."""
    titles = list(TITLE.finditer(page))
    ends = [*(title.start() for title in titles[1:]), len(page)]
    return {(title["data"], float(title["seconds"])): page[title.start() : end].strip() + "\n"
            for title, end in zip(titles, ends, strict=True)}  # fmt: skip


def in_order(tables: dict[Title, str]) -> dict[Title, str]:
    names = (*REAL, *MADE)
    return dict(sorted(tables.items(), key=lambda one: (names.index(one[0][0]), one[0][1])))


def table(name: str, kept: Path) -> str:
    """NDCG@10 of each system, and ``auto`` less it; nothing if ``auto`` or all others have not been run."""
    cells: dict[str, dict[int, list[float]]] = {}
    for system in ("auto", *(p.name for p in PEERS)):
        files = {i: cell_file(kept, name, i, system) for i in range(5)}
        found = {i: json.loads(file.read_text())["values"] for i, file in files.items() if file.exists()}
        if found:
            cells[system] = found
    common = sorted(set.intersection(*map(set, cells.values()))) if cells else []
    if "auto" not in cells or len(cells) < 2 or not common:
        return ""
    values = {s: np.concatenate([found[i] for i in common]) for s, found in cells.items()}
    ours = values.pop("auto")
    rows = []
    for system, theirs in values.items():
        d = ours - theirs
        rows.append((d.mean() / (d.std(ddof=1) / np.sqrt(len(d))), system, theirs.mean(), d.mean()))
    folds = f"{len(common)} of {1 if name in MADE else 5} folds"
    lines = [f"## {name}: {len(ours):,} test queries, {folds}, {kept.name[:-1]} s per fold", ""]
    lines += ["| | NDCG@10 | auto − it | ± s.e. |", "| --- | ---: | ---: | ---: |"]
    for ratio, system, mean, gap in sorted(rows):
        shown = f"**{gap:+.4f}**" if abs(ratio) > 2 else f"{gap:+.4f}"
        lines.append(f"| {system} | {mean:.4f} | {shown} | {gap / ratio:.4f} |")
    return "\n".join([*lines, f"| auto | {ours.mean():.4f} | | |", ""])


def cell_file(kept: Path, name: str, fold: int, system: str) -> Path:
    return kept / f"{name}-{fold}-{system.replace(' ', '_').replace(':', '_')}.json"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, help="folder of the real collections")
    parser.add_argument("--data", default=",".join((*REAL, *MADE)))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="systems, with commas between them")
    parser.add_argument("--kept", type=Path, default=HOME / "results" / "auto")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--page", type=Path, help="put the tables into this file; others there stay")
    return parser.parse_args()


if __name__ == "__main__":
    main()
