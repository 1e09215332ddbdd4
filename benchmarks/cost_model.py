"""The cost model of training, fitted to the measurements of ``bench_cost.py``; and the exponents they show.

A ranker's seconds are a sum of terms times constants (``gainful.costs.model.TERMS``). The terms it may have are listed
here by family; the constants, none of them negative, come from least squares on relative errors over the sweeps of
rows, features and documents per query. Two shapes outside the sweeps check how well the sum predicts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import gainful
from gainful.costs.model import TERMS, Problem, total, trees_per_iteration

Measurement = dict[str, Any]
Points = Sequence[tuple[float, float]]
USUAL = {"rows": 100_000, "features": 50, "docs": 100}
DIGITS = 4
LEAST_SHARE = 1e-3  # of a time or a size; smaller terms are dropped

PASS = ("one", "rows", "values")
PAIRS = (*PASS, "pairs")
HINGES = (*PASS, "short pairs", "sorted", "queries")
LISTS = (*PASS, "sorted", "queries")
RANKED = (*PASS, "sorted", "pairs")
BINS = ("one", "rows", "values", "drawn bins")
TREE = ("one", "rows", "split values", "split rows")
NET = ("one", "rows", "queries", "layers")
COLUMNS = ("one", "values", "sorted values")
MAPPED = ("one", "landmarks", "sorted", "queries")

# Terms by ranker: of the one-off cost (linear solvers evaluate the loss before their first step), and of an iteration.
FAMILIES: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "regression": ((*PASS, "squares"), ()),
    **dict.fromkeys(("linear", "ranknet"), (PAIRS, PAIRS)),
    "listnet": (PASS, (*PASS, "queries")),
    **dict.fromkeys(("ranksvm", "rankmm-1", "rankmm-3"), (HINGES, HINGES)),
    **dict.fromkeys(("rankmm-2", "structured-svm", "structured-svm-slack"), (LISTS, LISTS)),
    "lambdarank": (RANKED, RANKED),
    "softrank": ((*PAIRS, "squares"), PAIRS),
    "svmmap": (LISTS, RANKED),
    "structured-svm-tight": ((*LISTS, "squares"), LISTS),
    "structured-svm-kernel": ((*MAPPED, "mapped"), MAPPED),
    **dict.fromkeys(("rsrank", "rsrank-sparse"), ((*RANKED, "squares"), RANKED)),
    "ndcg-reduction": ((*PASS, "squares"), (*RANKED, "drawn values", "drawn squares")),
    **dict.fromkeys(
        ("adarank-map", "adarank-ndcg"),
        ((*COLUMNS, "query values"), ("one", "rows", "sorted", "queries", "query values")),
    ),
    **dict.fromkeys(("rankboost", "frank"), ((*COLUMNS, "pairs"), RANKED)),
    "coordinate-ascent": ((*COLUMNS, "query values"), (*COLUMNS, "query values")),
    **dict.fromkeys(("mcrank", "mcrank-ordinal", "mcrank-regression", "tree-regression"), (BINS, TREE)),
    **dict.fromkeys(("lambdamart", "structured-boost"), (BINS, (*TREE, "sorted", "queries"))),
    **dict.fromkeys(
        ("boosted", "lambdamart-plain", "gbrank", "sdcg", "shf-sdcg", "reg-shf-sdcg"),
        ((*BINS, "pairs"), (*TREE, "sorted", "pairs")),
    ),
    **dict.fromkeys(("neural", "lambdarank-net", "ranknet-net"), (PASS, (*NET, "pairs"))),
    "structured-net": (PASS, (*NET, "sorted")),
}
MEMORY = ("one", "rows", "values", "query values", "drawn bins", "landmarks")


# -- the model ---------------------------------------------------------------------------------------------------------


def problem_of(m: Measurement) -> Problem:
    from cost_fits import settings

    params = gainful.ranker(m["ranker"], **settings(m["ranker"])).get_params(deep=False)
    return Problem(m["rows"], m["features"], m["docs"], 5, params)


def least_squares(rows: Iterable[dict[str, float]], names: Sequence[str]) -> dict[str, float]:
    """c ≥ 0 that brings Σ c·row closest to 1 in every row; a row's terms are divided by the measured value."""
    from scipy.optimize import nnls

    matrix = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    scale = np.maximum(matrix.max(axis=0), 1e-300)
    found, _ = nnls(matrix / scale, np.ones(len(matrix)))
    shares = dict(zip(names, found, strict=True))  # of the measured value, where the term matters most
    largest = dict(zip(names, scale, strict=True))
    return {name: float(f"{c / largest[name]:.{DIGITS}g}") for name, c in shares.items() if c > LEAST_SHARE}


def fit_seconds(ms: Sequence[Measurement]) -> tuple[dict[str, float], dict[str, float]]:
    """The constants of the one-off cost and of an iteration, fitted jointly to whole fits and to iterations."""
    setup, each = FAMILIES[ms[0]["ranker"]]
    rows = []
    for m in ms:
        problem = problem_of(m)
        values = {term: TERMS[term](problem) for term in {*setup, *each}}
        trees = trees_per_iteration(problem)
        whole = {f"setup {t}": values[t] for t in setup}
        whole |= {f"each {t}": m["iterations"] * trees * values[t] for t in each}
        rows.append({name: value / m["seconds"] for name, value in whole.items()})
        if m["each"] > 0:
            rows.append({f"each {t}": trees * values[t] / m["each"] for t in each})
    found = least_squares(rows, [*(f"setup {t}" for t in setup), *(f"each {t}" for t in each)])
    parts = {
        part: {k.partition(" ")[2]: c for k, c in found.items() if k.startswith(part)} for part in ("setup", "each")
    }
    return parts["setup"], parts["each"]


def fit_bytes(ms: Sequence[Measurement]) -> dict[str, float]:
    kind = gainful.RANKERS[ms[0]["ranker"]].kind
    own = {"landmarks": "kernel", "drawn bins": "trees"}
    terms = [t for t in MEMORY if own.get(t, kind) == kind]
    rows = []
    for m in ms:
        if m["bytes"]:
            problem = problem_of(m)
            rows.append({t: TERMS[t](problem) / m["bytes"] for t in terms})
    return least_squares(rows, terms)


def parallel_part(ms: Sequence[Measurement]) -> float | None:
    """The part p of the work that threads share, from t₂/t₁ = 1 − p/2 at one shape; None if not measured."""
    one = {_shape(m): m["seconds"] for m in ms if m["work"] == "fixed" and m["threads"] == 1}
    two = {_shape(m): m["seconds"] for m in ms if m["work"] == "fixed" and m["threads"] == 2}
    both = sorted(one.keys() & two.keys())
    if not both:
        return None
    largest = both[-1]
    return round(min(1.0, max(0.0, 2.0 * (1.0 - two[largest] / one[largest]))), 2)


def _shape(m: Measurement) -> tuple[int, int, int]:
    return m["rows"], m["features"], m["docs"]


def counted_by(name: str) -> list[str]:
    """The parameters whose product is the maximum number of iterations."""
    known = gainful.RANKERS[name].cls.parameters
    return [p for p in ("n_trees", "n_rounds", "max_iter", "epochs", "n_restarts", "n_sweeps") if p in known]


def model_of(ms: Sequence[Measurement]) -> dict[str, Any]:
    """The entry of one ranker in costs.json."""
    name, swept = ms[0]["ranker"], in_sweeps(ms)
    setup, each = fit_seconds(swept)
    seen = [m["iterations"] for m in ms if m["work"] == "default"]
    entry = {"setup": setup, "iteration": each, "bytes": fit_bytes(swept), "parallel": parallel_part(ms)}
    return entry | {"counted by": counted_by(name)} | ({"seen": seen[0]} if seen else {})


def predicted(model: dict[str, Any], m: Measurement) -> tuple[float, float]:
    """Seconds and bytes of a measurement, as the model predicts them."""
    problem = problem_of(m)
    each = total(model["iteration"], problem) * trees_per_iteration(problem)
    return total(model["setup"], problem) + m["iterations"] * each, total(model["bytes"], problem)


# -- exponents ---------------------------------------------------------------------------------------------------------


def in_sweeps(ms: Iterable[Measurement]) -> list[Measurement]:
    from bench_cost import UNSEEN

    unseen = {(s.rows, s.features, s.docs) for s in UNSEEN}
    return [m for m in ms if m["work"] == "fixed" and m["threads"] == 1 and _shape(m) not in unseen]


def along(ms: Iterable[Measurement], axis: str) -> list[Measurement]:
    """The measurements along one axis, the others at their usual values."""
    usual = {key: value for key, value in USUAL.items() if key != axis}
    found = [m for m in in_sweeps(ms) if all(m[key] == value for key, value in usual.items())]
    return sorted(found, key=lambda m: m[axis])


def sweep(ms: Iterable[Measurement], axis: str) -> list[tuple[float, float]]:
    """(size, seconds) along one axis, with every fit extended to the iterations of the longest."""
    found = along(ms, axis)
    count = max((m["iterations"] for m in found), default=0)
    return [(m[axis], m["seconds"] + (count - m["iterations"]) * m["each"]) for m in found]


def exponent(points: Points) -> float:
    """The slope of the least-squares line through the logarithms; NaN for fewer than two points."""
    if len(points) < 2:
        return float("nan")
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


def last_decade(points: Points) -> list[tuple[float, float]]:
    return [p for p in points if p[0] >= 0.0999 * points[-1][0]]


def by_ranker(found: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    groups: dict[str, list[Measurement]] = {name: [] for name in gainful.RANKERS}
    for m in found:
        groups[m["ranker"]].append(m)
    return {name: ms for name, ms in groups.items() if in_sweeps(ms)}


def exponents(ms: Sequence[Measurement]) -> dict[str, float | None]:
    """By name; None along an axis that was not measured."""
    rows, docs = sweep(ms, "rows"), sweep(ms, "docs")
    of = {"rows": rows, "last decade": last_decade(rows), "features": sweep(ms, "features"), "docs": docs,
          "docs, last decade": last_decade(docs)}  # fmt: skip
    found = {name: exponent(points) for name, points in of.items()}
    return {name: None if math.isnan(e) else round(e, 2) for name, e in found.items()}


# -- how good it is ----------------------------------------------------------------------------------------------------


def checks(model: dict[str, Any], ms: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Predicted over measured at the shapes that no constant was fitted to, the larger first."""
    rows, swept = [], {id(m) for m in in_sweeps(ms)}
    for m in ms:
        if m["work"] == "fixed" and m["threads"] == 1 and id(m) not in swept:
            seconds, count = predicted(model, m)
            ratios = {"seconds": round(seconds / m["seconds"], 2)}
            ratios["bytes"] = round(count / m["bytes"], 2) if m["bytes"] else None
            rows.append({"rows": m["rows"], "features": m["features"], "docs": m["docs"], **ratios})
    return sorted(rows, key=lambda row: -row["rows"])


def worst(model: dict[str, Any], ms: Sequence[Measurement]) -> float:
    """The largest factor between model and measurement over the sweeps."""
    ratios = [predicted(model, m)[0] / m["seconds"] for m in in_sweeps(ms)]
    return max(max(r, 1 / r) for r in ratios)
