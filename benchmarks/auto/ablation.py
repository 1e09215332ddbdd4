"""What each ingredient of ``auto`` gives: bagging, number of members, kinds of members, weights; and distillation.

    python benchmarks/auto/ablation.py --shared DIR --data mq2007 --seconds 600

One ``auto`` is trained per fold, within seconds of processor time on one thread; the rows of the table recombine its
members, so that they differ in nothing else. It is a cell of ``run.py`` too, and is kept as one; the tuned booster
beside the distilled models is the cell of ``run.py`` with the same seconds. Results are kept in
benchmarks/results/auto-ablation, one file per fold, so that a stopped run resumes.
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
from auto.run import (  # noqa: E402
    NDCG,
    REAL,
    Budget,
    Parts,
    Results,
    auto_cell,
    cell_file,
    cell_values,
    figures_of,
    folds_of,
    tables,
    train_auto,
    write_page,
)
from gainful.blending.members import Member  # noqa: E402
from gainful.blending.weights import best_member, choose_weights  # noqa: E402
from gainful.data.rows import Array  # noqa: E402
from gainful.rankers.registry import RANKERS  # noqa: E402

RULE = gainful.Auto().weights
WHOLE = f"auto: bagged, all members, {RULE}"
TUNED = PEERS[0].name
STUDENTS = ("lambdamart:n_trees=300", "tree-regression:n_trees=300", "regression")


def variants(members: Sequence[Member]) -> Iterator[tuple[str, list[Member], Array]]:
    """Name, members and weights of each combination."""
    everything = list(members)
    values = np.array([one.values for one in everything])
    for rule in ("within", "shrunk", "uniform"):
        name = WHOLE if rule == RULE else f"weights {rule}"
        yield name, everything, choose_weights(rule, values)
    yield "best member alone", [everything[best_member(values)]], np.ones(1)
    for n in (5, 10, 20, 30):
        if n < len(everything):
            some = everything[:n]
            yield f"first {n} members", some, choose_weights(RULE, values[:n])
    for name, linear in (("trees only", False), ("linear only", True)):
        some = [one for one in everything if (RANKERS[one.spec.partition(":")[0]].kind == "trees") != linear]
        yield name, some, choose_weights(RULE, np.array([one.values for one in some]))
    some = [one for one in everything if ":init=" not in one.spec]
    yield "no trees that start from a linear model", some, choose_weights(RULE, np.array([one.values for one in some]))
    single = [_one_fold(one) for one in everything]
    yield "no bagging: one model per member", single, choose_weights(RULE, values)
    yield "no bagging, best member alone", [single[best_member(values)]], np.ones(1)


def _one_fold(member: Member) -> Member:
    """A member with the model of its first fold only."""
    return replace(member, models=member.models[:1], spreads=member.spreads[:1])


def run_fold(parts: Parts, budget: Budget, seed: int, cell: Path) -> dict[str, Any]:
    train, valid, test = parts
    model = train_auto(parts, budget, seed)
    cell.write_text(json.dumps(auto_cell(model, test)))
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
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                small = gainful.distill(model, together, student, grades=share).model
            name = f"distilled into {student}" + (f", {share:.0%} true grades" if share else "")
            found[name] = NDCG.per_query(small.predict(test), test).tolist()
    return {"values": found, "members": [one.spec for one in model.tried]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, help="folder of the real collections")
    parser.add_argument("--data", default="mq2007", help=f"one of {', '.join(REAL)}, artificial, mslr")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kept", type=Path, default=HOME / "results")
    parser.add_argument("--page", type=Path, help="put the table into this file, and its figures beside it")
    given = parser.parse_args()
    budget = Budget(given.seconds, 1, "cpu")
    cells, own = given.kept / "auto" / "cpu" / f"{given.seconds:g}s", given.kept / "auto-ablation"
    for folder in (cells, own):
        folder.mkdir(parents=True, exist_ok=True)
    title = f"{given.data} {given.seconds:g}"
    systems: dict[str, dict[str, list[float]]] = {}
    for i, parts in enumerate(folds_of(given.data, given.shared)):
        file = own / f"{given.data}-{given.seconds:g}s-{i}.json"
        if not file.exists():
            began = time.perf_counter()
            found = run_fold(parts, budget, given.seed, cell_file(cells, given.data, i, "auto"))
            file.write_text(json.dumps(found))
            print(f"fold {i + 1}: {len(found['members'])} members, {time.perf_counter() - began:.0f} s", flush=True)
        values = {name: np.array(one) for name, one in json.loads(file.read_text())["values"].items()}
        tuned = cell_values(cells, given.data, i, TUNED)
        if tuned is not None:
            values[f"{TUNED}, tuned"] = tuned
        for name, one in values.items():
            if name != WHOLE:
                systems.setdefault(name, {})[str(i + 1)] = figures_of(values[WHOLE], one)
    results: Results = {title: systems}
    if given.page is not None:
        results = write_page(given.page, HEAD, results)
    print("\n".join(tables(results)))


HEAD = """# What each part of `auto` gives

`python benchmarks/auto/ablation.py --shared DIR --data mq2007 --seconds 120 --page docs/results/auto-ablation.md`

One `auto` per fold (*auto*: every ranker bagged over query folds, all that it tried, weights `shrunk`), trained in
the seconds of processor time in the heading, on one thread. The rows recombine its models, so that they differ in
nothing else; the distilled models learned from its scores on the training and validation queries. *auto − it* is paired
by query, over the folds of the row; differences above two standard errors are **bold**; harmless rows come first.
"""


if __name__ == "__main__":
    main()
