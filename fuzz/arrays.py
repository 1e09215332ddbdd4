"""Arrays given to rankers: scales, types, shapes, missing values, grades and weights at random, with few iterations."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import gainful
from fuzz.cases import Input, Random, Target, Wholes, expect
from fuzz.damage import pick

FEW: dict[str, Any] = {"max_iter": 3, "n_trees": 3, "n_rounds": 3, "epochs": 2, "n_leaves": 4,
       "min_docs_in_leaf": 1, "n_jobs": 1, "device": "cpu", "hidden": (3,), "start_trees": 1,
       "n_landmarks": 5, "n_restarts": 1, "max_classes": 8}  # fmt: skip
SCALES = [1e-310, 1e-155, 1e-30, 1e-8, 1e8, 1e30, 1e39, 1e155, 1e200, 1e307]
FORMS = ["fortran", "big-endian", "float32", "float16", "integers", "object", "list", "csr", "csc", "strided", "bool",
         "masked", "frame", "longdouble"]  # fmt: skip
GRADES = ["same", "zero", "large", "huge", "negative", "missing", "fractions", "infinite", "text", "bool"]
WEIGHTS = ["ones", "random", "zero", "one query", "huge", "tiny", "negative", "missing", "uneven"]
QUERIES = ["one", "each row", "shuffled", "text", "float"]
PROBES = ["ones", "huge", "missing", "infinite", "empty", "narrow", "one row"]
ODD_SHARE = 0.3  # of the cases for each of values, form, grades, weights, queries and probe


def make(rng: Random, _: Wholes, whole: bool) -> Input:
    """Arrays as NumPy's archive; the options say in which form they are given, and to which ranker."""
    names = [name for name, entry in gainful.RANKERS.items() if entry.installed]
    n, d = int(rng.integers(4, 40)), int(rng.integers(1, 6))
    qid = np.sort(rng.integers(0, max(1, n // 4), n))
    qid[-1] = max(qid[-1], qid[0] + 1)  # blends leave out queries: two at least
    X, y, weights = rng.normal(size=(n, d)), rng.integers(0, 4, n).astype(float), np.ones(n)
    options: dict[str, Any] = {"ranker": pick(rng, names), "form": "array", "queries": "runs", "weights": False}
    options |= {"grades": "few", "probe": "same", "save": bool(rng.random() < 0.3)}
    if not whole:
        odd = [bool(draw) for draw in rng.random(6) < ODD_SHARE]
        X = _odd_values(rng, X) if odd[0] else X
        options["form"] = pick(rng, FORMS) if odd[1] else "array"
        options["grades"] = pick(rng, GRADES) if odd[2] else "few"
        y = _odd_grades(rng, y, options["grades"])
        options["weights"] = odd[3]
        weights = _odd_weights(rng, qid, pick(rng, WEIGHTS)) if odd[3] else weights
        options["queries"] = pick(rng, QUERIES) if odd[4] else "runs"
        options["probe"] = pick(rng, PROBES) if odd[5] else "same"
        if rng.random() < 0.05:
            X, y, qid, weights = _odd_shapes(rng, X, y, qid, weights)
    buffer = io.BytesIO()
    np.savez(buffer, X=X, y=y, qid=qid, weights=weights)
    return Input(buffer.getvalue(), ".npz", options)  # NumPy dates all members to 1980: the same bytes every time


def _odd_shapes(rng: Random, X: Any, y: Any, qid: Any, weights: Any) -> tuple[Any, Any, Any, Any]:
    kind, few = int(rng.integers(5)), int(rng.integers(0, 3))
    if kind == 0:
        return X[:few], y[:few], qid[:few], weights[:few]
    if kind == 1:
        return X, y, qid, weights[:few]
    if kind == 2:
        return X[:-1], y, qid, weights
    return (X[:, :0] if kind == 3 else X[:, 0]), y, qid, weights


def _odd_values(rng: Random, X: Any) -> Any:
    X = X * pick(rng, SCALES) if rng.random() < 0.6 else X
    kind = int(rng.integers(8))
    if kind == 0:
        with np.errstate(over="ignore"):
            X = X * 10.0 ** rng.integers(-150, 150, X.shape[1])
    elif kind == 1:
        X[rng.random(X.shape) < 0.3] = np.nan
    elif kind == 2:
        X[:, int(rng.integers(X.shape[1]))] = pick(rng, [0.0, 1.0, np.nan, 1e300])
    elif kind == 3:
        X[int(rng.integers(len(X))), 0] = pick(rng, [np.inf, -np.inf, 1.7e308, np.nan, 5e-324])
    elif kind == 4:
        X = np.repeat(X[:, :1], X.shape[1], axis=1)
    elif kind == 5:
        X = np.round(X)
    return X


def _odd_grades(rng: Random, y: Any, kind: str) -> Any:
    n = len(y)
    kinds = {"same": np.ones(n), "zero": np.zeros(n), "large": y * 10, "huge": y * 1e300, "fractions": rng.random(n)}
    if kind in kinds:
        return kinds[kind]
    wrong = {"negative": -1.0, "missing": np.nan, "infinite": np.inf}
    if kind in wrong:
        y[int(rng.integers(n))] = wrong[kind]
    return y


def _odd_weights(rng: Random, qid: Any, kind: str) -> Any:
    per_query = rng.random(int(qid.max()) + 1)
    if kind == "uneven":
        return rng.random(len(qid))
    values = {"ones": 1.0, "zero": 0.0, "huge": 1e300, "tiny": 1e-300, "negative": -1.0, "missing": np.nan}
    if kind == "one query":
        per_query = np.arange(len(per_query)) == 0
    elif kind in values:
        per_query[:] = values[kind]
    return per_query[qid].astype(float)


def use(path: Path, options: Mapping[str, Any]) -> None:
    """Fit, predict, and now and then save and load: finite scores, or one line that says why not."""
    with np.load(path) as held:
        X, y, qid, weights = held["X"], held["y"], held["qid"], held["weights"]
    cls = gainful.RANKERS[options["ranker"]].cls
    params = {name: value for name, value in FEW.items() if name in cls.parameters}
    with np.errstate(all="ignore"):
        given = _in_form(X, options["form"])
        grades = {"text": y.astype(str), "bool": y > 1}.get(options["grades"], y)
    model = gainful.ranker(options["ranker"], **params)
    model.fit(
        given, grades, qid=_queries(qid, options["queries"]), sample_weight=weights if options["weights"] else None
    )
    expect_finite(options["ranker"], model.predict(given), len(y))
    if options["save"]:
        gainful.save(model, path.with_name("saved.gainful"))
        again = gainful.load(path.with_name("saved.gainful"))
        same = np.array_equal(again.predict(given), model.predict(given))
        expect(same, f"{options['ranker']}: the saved model scores otherwise")
    with contextlib.suppress(gainful.GainfulError):
        probe = _probe(X, options["probe"])
        expect_finite(options["ranker"], model.predict(probe), len(probe))


def expect_finite(ranker: str, scores: Any, n: int) -> None:
    expect(scores.shape == (n,), f"{ranker}: not one score per row")
    expect(bool(np.isfinite(scores).all()), f"{ranker}: scores that are not finite")


def _in_form(X: Any, form: str) -> Any:
    if X.ndim != 2:
        return X
    if form == "csr":
        return sparse.csr_matrix(X)
    if form == "csc":
        return sparse.csc_matrix(X)
    if form == "list":
        return X.tolist()
    if form == "masked":
        return np.ma.masked_array(X, mask=np.arange(X.size).reshape(X.shape) % 5 == 0)
    if form == "frame":
        import pandas  # type: ignore[import-untyped, unused-ignore]

        return pandas.DataFrame(X)
    if form == "strided":
        return np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]
    if form == "fortran":
        return np.asfortranarray(X)
    types = {"big-endian": ">f8", "float32": "f4", "float16": "f2", "integers": "i8", "object": object, "bool": bool}
    types["longdouble"] = np.longdouble
    return X.astype(types.get(form, "f8"))


def _queries(qid: Any, kind: str) -> Any:
    if kind == "one":
        return np.zeros_like(qid)
    if kind == "each row":
        return np.arange(len(qid))
    if kind == "shuffled":
        return qid[::-1] % 3
    if kind == "text":
        return np.array([f"q{i}\x00" if i % 2 else f"q{i}" for i in qid])
    return qid.astype(float) + 0.5 if kind == "float" else qid


def _probe(X: Any, kind: str) -> Any:
    """Rows to score that training did not see."""
    rows = np.array(X, dtype=float)
    if rows.ndim != 2 or kind == "same":
        return X
    if kind == "empty":
        return rows[:0]
    if kind == "narrow":
        return rows[:, :-1]
    if kind == "one row":
        return rows[:1]
    rows[:] = {"ones": 1.0, "huge": 1e308, "missing": np.nan, "infinite": np.inf}[kind]
    return rows


def warm() -> None:
    import pandas  # type: ignore[import-untyped, unused-ignore]  # noqa: F401

    import gainful.trees.lightgbm_library  # noqa: F401

    with suppress(ImportError):
        import torch  # noqa: F401


TARGET = Target(make, use, warm=warm, seconds=90, mebibytes=4096)
