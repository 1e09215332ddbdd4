"""Exports of boosted trees: how many of 10,000 rows on and around the thresholds reach LightGBM's leaf in every tree.

The rows hold ties at thresholds, the float32 on either side of them, zeros, and missing values (a tenth). The peer is
the obvious export: thresholds rounded to the nearest float32 and written as they are. A row counts if the engine's
score is bit for bit the float32 sum of the leaves that LightGBM itself gives.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

import gainful
from gainful.exports import elasticsearch, formats, onnx_graph, ranklib, solr
from gainful.exports.check import compare_scores, made_up_rows
from gainful.exports.describe import describe
from gainful.exports.floats import LARGEST
from harness import Row, main

N_ROWS, LIST = 10_000, 100
SHAPES = {
    "500 trees of 31 leaves, 136 features": (500, 31, 136),
    "100 trees of 255 leaves, 45 features": (100, 255, 45),
}
FORMATS: dict[str, dict[str, str]] = {
    "onnx": {"to": "onnx"},
    "elasticsearch, xgboost": {"to": "elasticsearch"},
    "elasticsearch, ranklib": {"to": "elasticsearch", "format": "ranklib", "missing": "zero"},
    "solr": {"to": "solr"},
}


def nearest(thresholds: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.clip(np.asarray(thresholds).astype(np.float32), -LARGEST, LARGEST)


NEAREST = {
    "gainful.exports.elasticsearch.below": nearest,
    "gainful.exports.elasticsearch.above": lambda t: t,
    "gainful.exports.ranklib.below": nearest,
    "gainful.exports.solr.below": nearest,
    "gainful.exports.solr.without_slack": lambda t: t,
    "gainful.exports.onnx_graph.below": nearest,
}


def grown(n_trees: int, n_leaves: int, n_features: int) -> gainful.Ranker:
    """Trees on features with zeros, whole numbers and missing values, some very small, some large."""
    data = gainful.make_artificial(150, n_docs=60, n_features=n_features, seed=4)
    rng = np.random.default_rng(0)
    X = data.X - np.median(data.X, axis=0)
    X[:, ::5] = np.round(2 * X[:, ::5])
    X[:, 1::5][rng.random(X[:, 1::5].shape) < 0.5] = 0.0
    X[:, 2::5] *= 1e-12
    X[:, 3::5] *= 1e5
    X[rng.random(X.shape) < 0.05] = np.nan
    settings = {"n_trees": n_trees, "n_leaves": n_leaves, "min_docs_in_leaf": 5, "n_jobs": 1}
    return gainful.LambdaMART(**settings).fit(X, data.y, qid=data.qid)


def in_single(model: gainful.Ranker, X: np.ndarray) -> np.ndarray:
    """LightGBM's leaves of each row, summed in float32 in the order of the trees."""
    leaves = model.booster_.predict(X.astype(np.float64), pred_leaf=True, num_iteration=model.best_iteration_)
    total = np.zeros(len(X), dtype=np.float32)
    for tree in range(leaves.shape[1]):
        values = [model.booster_.get_leaf_output(tree, leaf) for leaf in range(leaves[:, tree].max() + 1)]
        total += np.array(values).astype(np.float32)[leaves[:, tree]]
    return total


def scored(name: str, files: dict[str, bytes], names: tuple[str, ...], X: np.ndarray) -> np.ndarray:
    readers: dict[str, Callable[[bytes], np.ndarray]] = {
        "onnx": lambda content: onnx_graph.scores(content, X),
        "elasticsearch, xgboost": lambda content: elasticsearch.dump_scores(json.loads(content), names, X),
        "elasticsearch, ranklib": lambda content: ranklib.scores(content.decode(), X),
        "solr": lambda content: solr.scores(content, names, X),
    }
    return readers[name](files[""])


def obvious(model: gainful.Ranker, name: str, X: np.ndarray) -> np.ndarray:
    """Scores of an export that rounds every threshold to the nearest float32."""
    described, options = describe(model), FORMATS[name]
    if options.get("missing") == "zero":
        described = replace(described, form=described.form.with_missing_as_zero())
    for target, plain in NEAREST.items():
        patch(target, plain).start()
    try:
        with patch("gainful.exports.solr._power", lambda *_: 0):
            write = onnx_graph.write if name == "onnx" else solr.write if name == "solr" else elasticsearch.write
            settings = formats.Settings(options["to"], options.get("format"))
            return scored(name, dict(write(described, settings).files), described.features, X)
    finally:
        patch.stopall()


def rows() -> Iterator[Row]:
    for shape, size in SHAPES.items():
        model = grown(*size)
        made = made_up_rows(describe(model).form, size[2], missing=True, n=N_ROWS, seed=5)
        made[np.abs(made) <= 1e-35] = 0.0  # what LightGBM treats as zero
        for name, options in FORMATS.items():
            expected = in_single(model, np.nan_to_num(made) if "missing" in options else made)
            exact = model.predict((np.nan_to_num(made) if "missing" in options else made).astype(np.float64))
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                done = gainful.export(model, Path(folder) / "model", **options)
                seconds = time.perf_counter() - start
                content = done.files[0].read_bytes()
            found = scored(name, {"": content}, done.features, made)
            lists = compare_scores(exact, found, np.full(N_ROWS, 1e-4), np.arange(0, N_ROWS + 1, LIST))
            close = np.isclose if name == "onnx" else np.equal  # ONNX Runtime sums the trees in another order
            obvious_rows = int(close(obvious(model, name, made), expected).sum())
            yield Row(
                f"{name}: {shape}",
                "rows in LightGBM's leaves",
                float(close(found, expected).sum()),
                "nearest float32",
                max(1.0, float(obvious_rows)),  # none counts as one: a ratio needs a number
                "rows",
                larger_is_better=True,
                notes={
                    "rows of the obvious export": obvious_rows,
                    "largest difference from predict": lists.difference,
                    f"rows at other ranks in lists of {LIST}": lists.swapped,
                    "largest score gap among those": lists.swapped_gap,
                    "seconds to export and check": seconds,
                    "MB": len(content) / 1e6,
                },
            )


if __name__ == "__main__":
    main(rows)
