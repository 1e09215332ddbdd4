"""Every ranker, on three shapes of data, to every format that takes it."""

from __future__ import annotations

import lightgbm
import numpy as np
import onnxruntime
import pandas as pd
import plain_readers
import pytest
from scipy import sparse

import gainful
import gainful.exports
from few_trees import few_trees
from gainful import GainfulError

TARGETS = {
    "onnx": {},
    "elasticsearch": {},
    "opensearch": {"format": "ranklib"},
    "solr": {},
    "json": {},
    "lightgbm": {},
    "xgboost": {},
    "c": {},
}
SUFFIXES = {"xgboost": ".json"}
# What each kind of ranker goes to; the rest refuse it.
HELD = {
    "linear": {"onnx", "elasticsearch", "solr", "json", "c"},
    "additive": set(TARGETS),
    "trees": set(TARGETS),
    "net": {"onnx", "solr", "json", "c"},
    "kernel": {"json", "c"},
    "blend": set(TARGETS),
}
EXPECTATIONS = {"mcrank", "mcrank-ordinal"}  # scores that are not a sum of trees
NET = {"epochs": 2, "hidden": (6,), "device": "cpu"}
BLEND = {"members": ["lambdamart:n_trees=3:n_leaves=4:min_docs_in_leaf=3", "rankboost:n_rounds=3"], "folds": 3}
QUICK = {
    "blend": BLEND | {"n_jobs": 1},
    "trees": {"n_trees": 4, "n_leaves": 5, "min_docs_in_leaf": 3, "n_jobs": 1},
    "net": NET,
}


def shapes() -> dict[str, tuple]:
    """Training rows, grades and query ids; rows to check on."""
    rng = np.random.default_rng(1)
    qid = np.repeat(np.arange(12), 8)
    dense = rng.normal(size=(96, 6)) * [1, 10, 0.01, 1, 1e3, 1]
    wide = sparse.csr_array(rng.random((96, 40)) * (rng.random((96, 40)) < 0.2))
    tied = pd.DataFrame({name: rng.integers(-1, 3, 96) / 2 for name in ("bm25", "title match", "clicks/day")})
    found = {}
    for name, X, first in (
        ("dense", dense, dense[:, 0]),
        ("wide sparse", wide, wide.toarray()[:, :5].sum(axis=1)),
        ("tied, named", tied, tied["bm25"].to_numpy()),
    ):
        y = np.clip(np.round(2 * first + rng.normal(size=96) * 0.3), 0, 3)
        found[name] = (X, y, qid)
    return found


SHAPES = shapes()


def one_by_one(to, files, names, rows, as_list=False):
    """Scores by the plain readers; None where they do not go."""
    content = files[0].read_bytes()
    if to == "onnx":
        session = onnxruntime.InferenceSession(content)
        if as_list:
            return session.run(None, {"features": rows.astype(np.float32)})[0]
        return [session.run(None, {"features": row[None].astype(np.float32)})[0][0] for row in rows]
    if to == "solr":
        return [plain_readers.solr(content, names, row) for row in rows]
    if to == "json":
        return None if b'"kind": "net"' in content or b'"kind": "kernel"' in content else [
            plain_readers.plain(content, row) for row in rows
        ]  # fmt: skip
    if to == "xgboost":
        return [plain_readers.xgboost_model(content, row) for row in rows]
    if to == "c":
        return None
    if to == "lightgbm":
        return lightgbm.Booster(model_str=content.decode()).predict(rows)
    assert to in ("elasticsearch", "opensearch"), f"{to} has no plain reader; write one and call it here"
    return [plain_readers.plugin(files[1].read_bytes(), names, row) for row in rows]


def test_every_target_is_tested():
    assert set(TARGETS) == set(gainful.exports.TARGETS)


@pytest.mark.parametrize("name", list(gainful.RANKERS))
def test_scores_survive(name, tmp_path, monkeypatch):
    monkeypatch.setattr("gainful.exports.check.MADE_UP", 200)
    monkeypatch.setattr(
        "gainful.exports.c_code.find_compiler", lambda: None
    )  # test_export_c.py compiles one of each kind
    kind = gainful.RANKERS[name].kind
    if not gainful.RANKERS[name].installed:
        pytest.skip("its extra is not installed")
    held = {"onnx", "json", "c"} if name in EXPECTATIONS else {"onnx"} if name == "list-net" else HELD[kind]
    for shape, (X, y, qid) in SHAPES.items():
        settings = (
            {"trials": 1, "rankers": ["lambdamart"], "folds": 3, "n_jobs": 1} if name == "auto" else QUICK.get(kind, {})
        )
        with few_trees():
            model = gainful.ranker(name, **settings).fit(X, y, qid=qid)
        values = X.toarray() if sparse.issparse(X) else np.asarray(X)
        rows = values[:6].astype(np.float32).astype(np.float64)
        expected = model.predict(rows, group=[6])
        names = list(X.columns) if isinstance(X, pd.DataFrame) else [f"f{j + 1}" for j in range(X.shape[1])]
        for to, options in TARGETS.items():
            path = tmp_path / f"{shape}-{to}{SUFFIXES.get(to, '.model')}"
            if to not in held:
                with pytest.raises(GainfulError, match=r"cannot be exported to .*; (use|leave)"):
                    gainful.export(model, path, to=to, **options)
                assert not path.exists()
                continue
            done = gainful.export(model, path, to=to, check_on=X, **options)
            assert done.checks["data"].n_rows == 96
            assert done.checks["made up"].n_rows == 200
            found = one_by_one(to, done.files, names, rows, as_list=model.needs_queries)
            if found is not None:
                size = np.abs(expected).max() + 1
                assert np.allclose(np.asarray(found, dtype=float) + done.constant, expected, rtol=0, atol=1e-5 * size)
