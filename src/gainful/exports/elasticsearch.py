"""The learning-to-rank plugin of Elasticsearch and OpenSearch: linear weights, XGBoost's tree dump, RankLib's XML.

The plugin computes in float32. A split of an XGBoost dump goes to ``yes`` if value < split_condition, so we write the
next float32 above our threshold. A feature that did not match is 0 for linear models and RankLib's trees; in an XGBoost
dump it is missing, and what happens then depends on the version (``engines``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import UnknownNameError
from gainful.exports import ranklib
from gainful.exports.describe import Described
from gainful.exports.engines import OWN_SIDE, RIGHT, ZERO, choose_form
from gainful.exports.floats import above, below, single
from gainful.exports.formats import Settings, Written, check_trees, nest, refuse, setting, shift_words
from gainful.exports.walk import Nodes, Split, flatten
from gainful.rankers.ensembles import Ensemble, Tree
from gainful.rankers.scorers import Linear

REQUEST = ".request"
TYPES = {"linear": "model/linear", "xgboost": "model/xgboost+json", "ranklib": "model/ranklib"}


def write(described: Described, settings: Settings) -> Written:
    linear = isinstance(described.form, Linear)
    asked = settings.format
    if asked is not None and asked not in TYPES:
        raise UnknownNameError.among("format", asked, TYPES, owner=settings.to)
    if asked is not None and linear != (asked == "linear"):
        why = "linear models are written as weights, trees as trees"
        instead = f"leave out {setting('format')}" if linear else f"use {setting('format', 'xgboost')}"
        raise refuse(described, f"{settings.to} as {asked}", why, instead)
    if isinstance(described.form, Linear):
        return _linear(described, described.form, settings)
    ensemble = check_trees(described, settings.to)
    if asked == "ranklib" and not ensemble.missing_is_zero:
        raise refuse(
            described,
            f"{settings.to} as ranklib",
            "it gives missing values sides of their own, and RankLib reads them as 0",
            f"use {setting('format', 'xgboost')}, or {setting('missing', 'zero')} to have them read as 0 in any case",
        )
    rule, notes = choose_form(described, ensemble, settings.to, settings.engine_version, asked)
    if rule.form == "ranklib":
        return _ranklib(described, ensemble, settings, notes)
    return _xgboost(described, ensemble, settings, notes, rule.missing)


def _request(settings: Settings, kind: str, definition: str, normalizers: dict[str, Any] | None = None) -> bytes:
    """The body of POST _ltr/_featureset/FEATURE_SET/_createmodel."""
    model: dict[str, Any] = {"type": TYPES[kind], "definition": definition}
    model |= {"feature_normalizers": normalizers} if normalizers else {}
    return (json.dumps({"model": {"name": settings.name, "model": model}}, indent=1) + "\n").encode()


def _upload(settings: Settings) -> tuple[str, ...]:
    return (f"upload: POST _ltr/_featureset/{settings.feature_set}/_createmodel with the request file as body",)


# -- linear ------------------------------------------------------------------------------------------------------------


def _linear(described: Described, linear: Linear, settings: Settings) -> Written:
    """The model file has weights for the features as they are; the request standardises them if the model does."""
    names, folded = described.features, linear.fold_inputs()
    plain = _weights(folded.weights, names)
    definition, normalizers, notes = plain, None, _upload(settings)
    if linear.inputs is not None and not linear.inputs.idle:
        definition, normalizers = _weights(linear.weights, names), _normalizers(linear, names)
        notes += (
            "the model file has weights for the features as they are; its scores are "
            f"{shift_words(folded.intercept)} than the model's",
        )
    files = {"": (plain + "\n").encode(), REQUEST: _request(settings, "linear", definition, normalizers)}

    def read(files: Mapping[str, bytes], X: Array) -> list[Array]:
        # the two differ by what standardising adds to every score, which weights alone cannot express
        moved = np.float64(linear.intercept - folded.intercept)
        alone = linear_scores(json.loads(files[""]), {}, names, X).astype(np.float64)
        return [alone - moved, *_request_scores(files[REQUEST], names, X)]

    return Written(files, read, constant=linear.intercept, notes=notes, format="linear")


def _weights(weights: Array, names: tuple[str, ...]) -> str:
    """Features that are left out have weight 0."""
    kept = np.flatnonzero(weights)
    return json.dumps({names[j]: single(weights[j]) for j in (kept if len(kept) else range(len(names)))}, indent=1)


def _normalizers(linear: Linear, names: tuple[str, ...]) -> dict[str, Any]:
    assert linear.inputs is not None
    return {
        names[j]: {
            "standard": {
                "mean": single(linear.inputs.shift[j]),
                "standard_deviation": single(linear.inputs.scale[j]),
            }
        }
        for j in np.flatnonzero(linear.weights)
    }


# -- trees -------------------------------------------------------------------------------------------------------------


def _xgboost(
    described: Described, ensemble: Ensemble, settings: Settings, notes: tuple[str, ...], missing: str
) -> Written:
    names = described.features
    definition = json.dumps([_dump(tree, names) for tree in ensemble.trees])
    files = {"": (definition + "\n").encode(), REQUEST: _request(settings, "xgboost", definition)}

    def read(files: Mapping[str, bytes], X: Array) -> list[Array]:
        alone = dump_scores(json.loads(files[""]), names, X, missing)
        return [alone, *_request_scores(files[REQUEST], names, X, missing)]

    return Written(files, read, notes=(*_upload(settings), *notes), format="xgboost")


def _dump(tree: Tree, names: tuple[str, ...]) -> dict[str, Any]:
    """XGBoost's dump: numbers the splits from 0, then the leaves."""
    conditions = above(below(tree.threshold))
    number = [int(child) if child >= 0 else tree.n_splits - int(child) - 1 for child in (*tree.left, *tree.right)]
    yes, no = number[: tree.n_splits], number[tree.n_splits :]
    depth = np.zeros(tree.n_splits, dtype=np.int64)
    todo = [0] if tree.n_splits else []
    while todo:
        place = todo.pop()
        for child in (int(tree.left[place]), int(tree.right[place])):
            if child >= 0:
                depth[child] = depth[place] + 1
                todo.append(child)

    def split(place: int, left: Any, right: Any) -> dict[str, Any]:
        return {
            "nodeid": place,
            "depth": int(depth[place]),
            "split": names[int(tree.feature[place])],
            "split_condition": single(conditions[place]),
            "yes": yes[place],
            "no": no[place],
            "missing": yes[place] if tree.nan_left[place] else no[place],
            "children": [left, right],
        }

    def leaf(place: int) -> dict[str, Any]:
        return {"nodeid": tree.n_splits + place, "leaf": single(tree.leaves[place])}

    nested: dict[str, Any] = nest(tree, leaf, split)
    return nested


def _ranklib(described: Described, ensemble: Ensemble, settings: Settings, notes: tuple[str, ...]) -> Written:
    definition = ranklib.text_of(ensemble)
    files = {"": definition.encode(), REQUEST: _request(settings, "ranklib", definition)}
    order = f"RankLib knows features by number: the feature set must have all {len(described.features)}, in this order"
    return Written(files, _read_ranklib, notes=(*_upload(settings), *notes, order), format="ranklib")


def _read_ranklib(files: Mapping[str, bytes], X: Array) -> list[Array]:
    return [ranklib.scores(files[""].decode(), X), *_request_scores(files[REQUEST], (), X)]


# -- reading by the plugin's rules -------------------------------------------------------------------------------------


def _request_scores(body: bytes, names: tuple[str, ...], X: Array, missing: str = OWN_SIDE) -> list[Array]:
    """What a model uploaded by this request scores."""
    model = json.loads(body)["model"]["model"]
    definition = model["definition"]
    if model["type"] == "model/ranklib":
        return [ranklib.scores(definition, X)]
    if model["type"] == "model/linear":
        return [linear_scores(json.loads(definition), model.get("feature_normalizers", {}), names, X)]
    return [dump_scores(json.loads(definition), names, X, missing)]


def linear_scores(weights: dict[str, float], normalizers: dict[str, Any], names: tuple[str, ...], X: Array) -> Array:
    """Sums in float32, in the order of the feature set; what is missing is 0."""
    values = np.where(np.isnan(X), 0.0, X).astype(np.float32)
    total = np.zeros(len(X), dtype=np.float32)
    for j, name in enumerate(names):
        column = values[:, j]
        if name in normalizers:
            standard = normalizers[name]["standard"]
            column = (column - np.float32(standard["mean"])) / np.float32(standard["standard_deviation"])
        total += np.float32(weights.get(name, 0.0)) * column
    return total


def dump_scores(trees: list[dict[str, Any]], names: tuple[str, ...], X: Array, missing: str = OWN_SIDE) -> Array:
    """A value goes to ``yes`` when it is < split_condition in float32; a missing one as the version of the plugin says.

    Newer plugins send it where ``missing`` of the split points.
    """
    column = {name: j for j, name in enumerate(names)}
    values, total = X.astype(np.float32), np.zeros(len(X), dtype=np.float32)
    if missing == ZERO:
        values[np.isnan(values)] = 0.0

    def read(node: dict[str, Any]) -> Split | np.float32:
        if "leaf" in node:
            return np.float32(node["leaf"])
        left, right = node["children"]
        if (left["nodeid"], right["nodeid"]) != (node["yes"], node["no"]):
            raise ValueError(f"node {node['nodeid']} does not name its children in their order")
        missing_left = missing != RIGHT and node["missing"] == node["yes"]
        return Split(column[node["split"]], np.float32(node["split_condition"]), missing_left, left, right)

    for tree in trees:
        nodes: Nodes = flatten(tree, read, np.float32)

        def decide(x: Array, at: Array, nodes: Nodes = nodes) -> Array:
            return np.where(np.isnan(x), nodes.missing_left[at], x < nodes.threshold[at])

        total += nodes.outputs(values, decide)
    return total
