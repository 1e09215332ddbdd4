"""``auto`` beside tuned gradient boosters: the same data, the same seconds, the same queries.

    python benchmarks/auto/run.py --shared DIR --data ohsumed,mq2007,clueweb09,artificial,mslr --seconds 60

``DIR`` holds ``ohsumed/Fold1 …``, ``mq2007/rows.txt.gz`` and ``clueweb09/S1.txt.gz …``; sets that are absent are left
out. Every peer draws settings at random (the first ones are good guesses), stops early on the validation queries, takes
the settings with the best NDCG@10 there, and is refitted with them on training and validation queries together; the
refit is not counted. The end of the time ends the last training, of a peer as of ``auto``, which gets the same queries
and seconds. With ``--clock cpu`` the seconds are processor time
divided by the number of threads. With ``--threads 1`` other work on the machine then takes nothing from anyone; with
more, threads that wait for one another spend their time spinning. Results are kept in
benchmarks/results/auto, one file per cell, so that a stopped run resumes, and the tables are printed at the end.
"""

from __future__ import annotations

import argparse
import json
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
from gainful.blending.members import Member  # noqa: E402
from gainful.data.rows import Array  # noqa: E402
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
    """``auto`` by the clock of a budget; it keeps all its members, in the order of trial."""

    def _clock(self, monitor: Any) -> Clock:
        return Clock(self.budget.now() + self.budget.seconds, now=self.budget.now)

    def _finish(self, folds: Any, members: list[Member], monitor: Any, clock: Any) -> Array:
        self.tried = [member for member in members if not member.dropped]
        return super()._finish(folds, members, monitor, clock)


def run_peer(peer: Peer, parts: Parts, budget: Budget, seed: int) -> dict[str, Any]:
    train, valid, test = parts
    generator, until, threads = np.random.default_rng(seed), budget.now() + budget.seconds, budget.threads
    best: tuple[float, dict[str, Any], int] | None = None
    trials = 0
    while best is None or budget.now() < until:
        drawn = {name: dimension.at(float(generator.random())) for name, dimension in SPACE.items()}
        settings = {**(FIRST if trials == 0 else drawn), "seed": seed}
        predict, n = peer.train(peer.objective, settings, train, valid, TREES, threads, lambda: budget.now() >= until)
        value = NDCG(predict(valid.X), valid)
        trials += 1
        if best is None or value > best[0]:
            best = value, settings, n
    together = gainful.RankingData.concatenate([train, valid])
    predict, _ = peer.train(peer.objective, best[1], together, None, max(1, best[2]), threads, lambda: False)
    return {"values": NDCG.per_query(predict(test.X), test).tolist(), "trials": trials, "valid": best[0]}


def run_auto(parts: Parts, budget: Budget, seed: int) -> dict[str, Any]:
    return auto_cell(train_auto(parts, budget, seed), parts[2])


def train_auto(parts: Parts, budget: Budget, seed: int) -> TimedAuto:
    train, valid, _ = parts
    model = TimedAuto(seconds=budget.seconds, n_jobs=budget.threads, random_state=seed)
    model.budget = budget
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(train, eval_set=valid)
    return model


def auto_cell(model: TimedAuto, test: gainful.RankingData) -> dict[str, Any]:
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
    chosen = {int(fold) for fold in given.folds.split(",") if fold}
    for name in names:
        for i, parts in enumerate(folds_of(name, given.shared)):
            for system in systems if not chosen or i + 1 in chosen else ():
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
    found = results_of(given.kept / given.clock)
    if given.page is not None:
        found = write_page(given.page, HEAD, found, means_of_auto(given.kept / given.clock))
    print("\n".join(tables(found)))


def write_page(page: Path, head: str, found: Results, ours: Means | None = None) -> Results:
    """The tables of these figures and of those that the page had; the figures are kept beside it.

    ``ours``: what ``auto`` has now, also where the peer was measured beside an earlier one.
    """
    figures = page.with_suffix(".json")
    if figures.exists():
        found = merge(renew(json.loads(figures.read_text()), ours or {}), found)
    figures.write_text(json.dumps(found, indent=1) + "\n")
    page.write_text("\n".join([head, *tables(found)]))
    return found


HEAD = """# `auto` beside tuned boosters

`make bench-auto DATA=DIR BENCH='--clock cpu --threads 1 --seconds 120 --page docs/results/auto.md'`

Every system gets the same queries and the same seconds of processor time on one thread, compilation included: two
minutes are what two cores do in one, and no thread waits for another. Each peer spends them on a
random search that stops early on the validation queries, and is then refitted with its best settings on training and
validation queries together; the refit is not counted. The end of the time ends the last training, of a peer as of
`auto`. NDCG@10 over the test queries; *auto* is on the same folds as
the system of the row, and *auto − it* is paired by query. Differences above two standard errors are **bold**; those in
which `auto` does worst come first. Where a standard error has ≈, the peer ran beside an earlier `auto`, and the error
is that of the difference to it: values of single queries are not kept.
"""


# Data set and seconds → system → fold → queries, mean, mean of auto less it, variance of that. These add up to the
# table of all folds, so a run may go on elsewhere; values of single queries stay where they were made. A fifth number,
# 1, says that the variance is that of an earlier auto.
Results = dict[str, dict[str, dict[str, list[float]]]]
Means = dict[str, dict[int, tuple[int, float]]]  # data set and seconds → fold → queries and mean of auto


def cells_of_auto(kept: Path) -> Iterator[tuple[str, Path, str, int, Array]]:
    """Data set and seconds, folder, data set, fold (from 0) and values of each cell of ``auto``."""
    for name in (*REAL, *MADE):
        for folder in kept.glob("*s"):
            for fold in range(5):
                values = cell_values(folder, name, fold, "auto")
                if values is not None:
                    yield f"{name} {folder.name[:-1]}", folder, name, fold, values


def results_of(kept: Path) -> Results:
    """The figures of all cells whose fold has one of ``auto``."""
    found: Results = {}
    for title, folder, name, fold, ours in cells_of_auto(kept):
        for system in (p.name for p in PEERS):
            theirs = cell_values(folder, name, fold, system)
            if theirs is not None:
                found.setdefault(title, {}).setdefault(system, {})[str(fold + 1)] = figures_of(ours, theirs)
    return found


def means_of_auto(kept: Path) -> Means:
    found: Means = {}
    for title, _, _, fold, ours in cells_of_auto(kept):
        found.setdefault(title, {})[fold + 1] = len(ours), float(ours.mean())
    return found


def renew(results: Results, ours: Means) -> Results:
    """The differences of the ``auto`` of now; their variances stay what they were, since peers' values are not kept."""
    for title, systems in results.items():
        mine = ours.get(title, {})
        for folds in systems.values():
            for key in [one for one in folds if set(folds_in(one)) <= set(mine)]:
                counts, means = np.array([mine[fold] for fold in folds_in(key)]).T
                n, theirs, _, variance = folds[key][:4]
                folds[key] = [n, theirs, round(float(counts @ means / counts.sum()) - theirs, 8), variance, 1.0]
    return results


def figures_of(ours: Array, theirs: Array) -> list[float]:
    d = ours - theirs
    return [round(float(one), 8) for one in (len(d), theirs.mean(), d.mean(), d.var(ddof=1))]


def cell_values(kept: Path, name: str, fold: int, system: str) -> np.ndarray | None:
    file = cell_file(kept, name, fold, system)
    return np.array(json.loads(file.read_text())["values"]) if file.exists() else None


def merge(old: Results, new: Results) -> Results:
    """Both; a fold that is in both is the new one, also where the old one is a run of folds ("1-5")."""
    found = {title: {system: dict(folds) for system, folds in systems.items()} for title, systems in old.items()}
    for title, systems in new.items():
        for system, folds in systems.items():
            kept = found.setdefault(title, {}).setdefault(system, {})
            for fold in [one for one in kept if set(folds_in(one)) & {n for key in folds for n in folds_in(key)}]:
                del kept[fold]
            kept |= folds
    return found


def folds_in(key: str) -> range:
    first, _, last = key.partition("-")
    return range(int(first), int(last or first) + 1)


def tables(results: Results) -> list[str]:
    names = (*REAL, *MADE)
    order = sorted(results, key=lambda title: (names.index(title.split()[0]), float(title.split()[1])))
    return [table(title, results[title]) for title in order]


def table(title: str, systems: dict[str, dict[str, list[float]]]) -> str:
    """NDCG@10 of each system, and ``auto`` less it on the same folds; the worst for ``auto`` first."""
    name, seconds = title.split()
    rows = []
    for system, folds in systems.items():
        n, means, gaps, variances = np.array([one[:4] for one in folds.values()]).T
        about = "≈" if any(len(one) > 4 for one in folds.values()) else ""
        total, mean, gap = n.sum(), (n * means).sum() / n.sum(), (n * gaps).sum() / n.sum()
        squares = ((n - 1) * variances + n * gaps**2).sum() - total * gap**2
        error = float(np.sqrt(squares / (total - 1) / total))
        count = sum(len(folds_in(key)) for key in folds)
        rows.append((gap / max(error, 1e-12), system, mean, gap, f"{about}{error:.4f}", count, int(total)))
    lines = [f"## {name}: {max(row[-1] for row in rows):,} test queries, {seconds} s per fold", ""]
    lines += ["| | NDCG@10 | auto | auto − it | ± s.e. | folds |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for ratio, system, mean, gap, error, count, _ in sorted(rows):
        shown = f"**{gap:+.4f}**" if abs(ratio) > 2 else f"{gap:+.4f}"
        of = 1 if name in MADE else 5
        lines.append(f"| {system} | {mean:.4f} | {mean + gap:.4f} | {shown} | {error} | {count} of {of} |")
    return "\n".join([*lines, ""])


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
    parser.add_argument("--folds", default="", help="from 1, with commas between them; all, if none is named")
    parser.add_argument("--kept", type=Path, default=HOME / "results" / "auto")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument(
        "--page", type=Path, help="put the tables into this file, and their figures beside it; others there stay"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
