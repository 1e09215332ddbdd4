"""What each ingredient of ``auto`` gives: bagging, number of members, kinds of members, weights; and distillation.

    python benchmarks/auto/ablation.py --shared DIR --data mq2007 --trials 40

One ``auto`` is trained per fold; the rows of the table recombine its members, so that they differ in nothing else.
Results are kept in benchmarks/results/auto-ablation, one file per fold, so that a stopped run resumes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

HOME = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(HOME)

import gainful  # noqa: E402
from auto.peers import PEERS  # noqa: E402
from auto.run import NDCG, REAL, Budget, Parts, folds_of, run_peer  # noqa: E402
from gainful.blending.members import Member  # noqa: E402
from gainful.blending.weights import best_member, choose_weights  # noqa: E402
from gainful.data.rows import Array  # noqa: E402
from gainful.rankers.registry import RANKERS  # noqa: E402

WHOLE = "auto: bagged, all members, within"
TUNED, TUNING_SECONDS = PEERS[0], 120.0
STUDENTS = ("lambdamart:n_trees=300", "tree-regression:n_trees=300", "regression")


class OpenAuto(gainful.Auto):
    """``auto`` that keeps all its members, in the order of trial."""

    def _finish(self, folds: Any, members: list[Member], monitor: Any, clock: Any) -> Array:
        self.tried = [member for member in members if not member.dropped]
        return super()._finish(folds, members, monitor, clock)


def variants(members: Sequence[Member]) -> Iterator[tuple[str, list[Member], Array]]:
    """Name, members and weights of each combination."""
    everything = list(members)
    values = np.array([one.values for one in everything])
    for rule in ("within", "shrunk", "uniform"):
        name = WHOLE if rule == "within" else f"weights {rule}"
        yield name, everything, choose_weights(rule, values)
    yield "best member alone", [everything[best_member(values)]], np.ones(1)
    for n in (5, 10, 20, 30):
        if n < len(everything):
            some = everything[:n]
            yield f"first {n} members", some, choose_weights("within", values[:n])
    for name, linear in (("trees only", False), ("linear only", True)):
        some = [one for one in everything if (RANKERS[one.spec.partition(":")[0]].kind == "trees") != linear]
        yield name, some, choose_weights("within", np.array([one.values for one in some]))
    single = [_one_fold(one) for one in everything]
    yield "no bagging: one model per member", single, choose_weights("within", values)
    yield "no bagging, best member alone", [single[best_member(values)]], np.ones(1)


def _one_fold(member: Member) -> Member:
    """A member with the model of its first fold only."""
    return replace(member, models=member.models[:1], spreads=member.spreads[:1])


def run_fold(parts: Parts, trials: int, threads: int, seed: int) -> dict[str, Any]:
    train, valid, test = parts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = OpenAuto(trials=trials, n_jobs=threads, random_state=seed)
        model.fit(train, eval_set=valid)
        scores = {id(m): np.asarray(m.predict(test)) for one in model.tried for m in one.models}
        found = {}
        for name, members, weights in variants(model.tried):
            total = np.zeros(test.n_rows)
            for member, weight in zip(members, weights, strict=True):
                for m, factor in zip(member.models, member.factors(float(weight)), strict=True):
                    total += factor * scores[id(m)]
            found[name] = NDCG.per_query(total, test).tolist()
        together = gainful.RankingData.concatenate([train, valid])
        for student in STUDENTS:
            for share in (0.0, 0.5):
                small = gainful.distill(model, together, student, grades=share).model
                name = f"distilled into {student}" + (f", {share:.0%} true grades" if share else "")
                found[name] = NDCG.per_query(small.predict(test), test).tolist()
        tuned = run_peer(TUNED, parts, Budget(TUNING_SECONDS, threads, "cpu"), seed)
        found[f"{TUNED.name}, tuned for {TUNING_SECONDS:g} s"] = tuned["values"]
    return {"values": found, "members": [one.spec for one in model.tried]}


def table(results: Sequence[dict[str, Any]]) -> str:
    """Mean NDCG@10 of each variant over all folds, and its paired difference to the whole."""
    values = {name: np.concatenate([one["values"][name] for one in results]) for name in results[0]["values"]
              if all(name in one["values"] for one in results)}  # fmt: skip
    whole = values[WHOLE]
    lines = [f"{len(whole):,} test queries, {len(results)} folds", "", "| | NDCG@10 | less the whole | ± s.e. |",
             "| --- | ---: | ---: | ---: |"]  # fmt: skip
    for name, own in values.items():
        d = own - whole
        gap = " | " if name == WHOLE else f"{d.mean():+.4f} | {d.std(ddof=1) / np.sqrt(len(d)):.4f}"
        lines.append(f"| {name} | {own.mean():.4f} | {gap} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, help="folder of the real collections")
    parser.add_argument("--data", default="mq2007", help=f"one of {', '.join(REAL)}, artificial, mslr")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kept", type=Path, default=HOME / "results" / "auto-ablation")
    given = parser.parse_args()
    given.kept.mkdir(parents=True, exist_ok=True)
    results = []
    for i, parts in enumerate(folds_of(given.data, given.shared)):
        file = given.kept / f"{given.data}-{given.trials}-{i}.json"
        if not file.exists():
            began = time.perf_counter()
            file.write_text(json.dumps(run_fold(parts, given.trials, given.threads, given.seed)))
            print(f"fold {i + 1}: {time.perf_counter() - began:.0f} s", flush=True)
        results.append(json.loads(file.read_text()))
    print(table(results))


if __name__ == "__main__":
    main()
