"""Apache Solr's learning to rank: LinearModel, MultipleAdditiveTreesModel, NeuralNetworkModel.

Solr computes in float32. A tree sends a value left if it is ≤ threshold ⊕ 1e-6, the sum rounded to float32, so we write
a number whose sum with that slack is the intended threshold. Near 0 there may be none: 1e-6 and a float32 of that size
cancel to steps of 1e-13. Features with such thresholds get a normalizer that divides by a power of two, which is exact
and makes the slack small enough relative to the thresholds.

A feature without a value is 0, unless ``isNullSameAsZero`` is false (Solr 9.2): then it is NaN and goes where the
``missing`` of the split says. We write that only for models that need it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import ExportError
from gainful.exports.describe import Described
from gainful.exports.engines import choose_form
from gainful.exports.floats import LARGEST, below, single, text
from gainful.exports.formats import (
    SOLR_ACTIVATIONS,
    Settings,
    Written,
    check_trees,
    kind_of,
    nest,
    refuse,
    setting,
)
from gainful.exports.walk import Nodes, Split, flatten
from gainful.rankers.ensembles import Ensemble, Tree
from gainful.rankers.scorers import Inputs, Kernel, Linear, Net
from gainful.trees.tree_text import ZERO_BAND

MODELS, NORMS = "org.apache.solr.ltr.model", "org.apache.solr.ltr.norm"
SLACK = np.float32(1e-6)
LARGEST_POWER = 126  # scaled thresholds stay below 2^126, which float32 can hold
JUST_BELOW_ZERO = np.float32(-(2.0**-117))


def write(described: Described, settings: Settings) -> Written:
    form = described.form
    notes: tuple[str, ...] = ()
    constant, tiny = 0.0, 0.0
    if isinstance(form, Linear):
        kind, features, params = "LinearModel", *_linear(form, described.features)
        constant = form.intercept  # the format has none
    elif isinstance(form, Net):
        kind, features, params = "NeuralNetworkModel", *_net(form, described)
    elif isinstance(form, Kernel):
        raise refuse(described, "solr", f"it is {kind_of(form)}", f"use {setting('to', 'json')}")
    else:
        trees = check_trees(described, "solr")
        kind, features, params = "MultipleAdditiveTreesModel", *_trees(trees, described)
        tiny = ZERO_BAND
        rule, _ = choose_form(described, trees, "solr", settings.engine_version)
        if "isNullSameAsZero" in params:
            notes = (
                f"missing values have sides of their own in this model: it needs {rule.versions}, and "
                '"defaultValue": "NaN" in the feature store for features that may be missing',
            )
    model: dict[str, Any] = {"class": f"{MODELS}.{kind}", "name": settings.name}
    model |= {"store": settings.store} if settings.store else {}
    model |= {"features": features, "params": params}
    content = (json.dumps(model, indent=1) + "\n").encode()
    names = described.features
    return Written({"": content}, lambda files, X: [scores(files[""], names, X)], constant, tiny=tiny, notes=notes)


def _feature(name: str, norm: tuple[float, float] | None = None) -> dict[str, Any]:
    if norm is None:
        return {"name": name}
    return {
        "name": name,
        "norm": {"class": f"{NORMS}.StandardNormalizer", "params": {"avg": text(norm[0]), "std": text(norm[1])}},
    }


def _norms(names: tuple[str, ...], inputs: Inputs | None, kept: Array) -> list[dict[str, Any]]:
    if inputs is None or inputs.idle:
        return [_feature(names[j]) for j in kept]
    return [_feature(names[j], (inputs.shift[j], inputs.scale[j])) for j in kept]


# -- linear models and nets --------------------------------------------------------------------------------------------


def _linear(linear: Linear, names: tuple[str, ...]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Leaves out features with weight 0, so that Solr need not compute them."""
    kept = np.flatnonzero(linear.weights)
    kept = kept if len(kept) else np.arange(len(names))
    weights = {names[j]: single(linear.weights[j]) for j in kept}
    return _norms(names, linear.inputs, kept), {"weights": weights}


def _net(net: Net, described: Described) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    if net.activation not in SOLR_ACTIVATIONS:
        why = f"Solr has no activation {net.activation!r}"
        raise refuse(described, "solr", why, f"use {setting('to', 'onnx')}")
    features = _norms(described.features, net.inputs, np.arange(len(described.features)))
    layers = [
        {
            "matrix": [[single(w) for w in row] for row in W.T],
            "bias": [single(b) for b in bias],
            "activation": "identity" if place == len(net.layers) - 1 else net.activation,
        }
        for place, (W, bias) in enumerate(net.layers)
    ]
    return features, {"layers": layers}


# -- trees -------------------------------------------------------------------------------------------------------------


def _trees(ensemble: Ensemble, described: Described) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    names, used = described.features, ensemble.used_features or [0]
    powers = {j: _power(_thresholds(ensemble, j), described, j) for j in used}
    features = [_feature(names[j], None if powers[j] == 0 else (0.0, 2.0 ** -powers[j])) for j in used]
    with_missing = not ensemble.missing_is_zero
    params: dict[str, Any] = {"isNullSameAsZero": False} if with_missing else {}
    params["trees"] = [{"weight": "1.0", "root": _root(tree, names, powers, with_missing)} for tree in ensemble.trees]
    return features, params


def _root(tree: Tree, names: tuple[str, ...], powers: Mapping[int, int], with_missing: bool) -> dict[str, Any]:
    power = np.array([powers[int(j)] for j in tree.feature])
    with np.errstate(over="ignore"):  # "Infinity" is a threshold that Java reads: numbers left, missing values right
        wanted = near_zero_is_zero(below(tree.threshold)) * np.exp2(power).astype(np.float32)
    written = np.where(np.isinf(wanted), wanted, without_slack(wanted))

    def split(place: int, left: Any, right: Any) -> dict[str, Any]:
        node = {"feature": names[int(tree.feature[place])], "threshold": _text(written[place])}
        node |= {"missing": "left" if tree.nan_left[place] else "right"} if with_missing else {}
        return node | {"left": left, "right": right}

    root: dict[str, Any] = nest(tree, lambda leaf: {"value": text(tree.leaves[leaf])}, split)
    return root


def _text(threshold: np.float32) -> str:
    return text(threshold) if np.isfinite(threshold) else "Infinity" if threshold > 0 else "-Infinity"


def _thresholds(ensemble: Ensemble, feature: int) -> Array:
    found = np.unique(np.concatenate([tree.threshold[tree.feature == feature] for tree in ensemble.trees]))
    return near_zero_is_zero(below(found))


def near_zero_is_zero(thresholds: Array) -> Array:
    """Thresholds just above 0 as 0, those just below as a round number: they part zero from what is larger or less."""
    thresholds = np.where((thresholds > 0) & (thresholds <= ZERO_BAND), np.float32(0.0), thresholds)
    just_below = (thresholds < 0) & (thresholds >= np.nextafter(np.float32(-ZERO_BAND), np.float32(-1.0)))
    return np.where(just_below, JUST_BELOW_ZERO, thresholds)


def without_slack(thresholds: Array) -> Array:
    """float32 numbers that become the thresholds when Solr adds its slack; NaN where there is none."""
    thresholds = np.asarray(thresholds, dtype=np.float32)
    found = np.full(thresholds.shape, np.nan, dtype=np.float32)
    guess = np.clip(thresholds.astype(np.float64) - float(SLACK), -LARGEST, LARGEST).astype(np.float32)
    with np.errstate(over="ignore"):
        for candidate in (guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))):
            fits = np.isnan(found) & (candidate + SLACK == thresholds)
            found[fits] = candidate[fits]
    return found


def _power(thresholds: Array, described: Described, feature: int) -> int:
    """0, or the power of two by which the feature is multiplied so that all its thresholds can be written."""
    thresholds = thresholds[np.abs(thresholds) < LARGEST]
    if not np.isnan(without_slack(thresholds)).any():
        return 0
    sizes = np.abs(thresholds[thresholds != 0])
    room = LARGEST_POWER - int(np.ceil(np.log2(float(sizes.max()))))
    for power in range(1, min(LARGEST_POWER, room) + 1):
        if not np.isnan(without_slack(thresholds * np.float32(2.0**power))).any():
            return power
    raise ExportError(
        f"the thresholds of feature {described.features[feature]!r} range from {sizes.min():.3g} to {sizes.max():.3g}, "
        f"and Solr adds 1e-6 to each; scale the feature, or use {setting('to', 'onnx')} or "
        f"{setting('to', 'elasticsearch')}"
    )


# -- reading by Solr's rules -------------------------------------------------------------------------------------------


def scores(content: bytes, names: tuple[str, ...], X: Array) -> Array:
    """What Solr scores for rows of float32, NaN where a feature has no value."""
    model = json.loads(content)
    params = model["params"]
    column = {name: j for j, name in enumerate(names)}
    nulls = not params.get("isNullSameAsZero", True)
    values = X.astype(np.float32)
    values = values if nulls else np.where(np.isnan(values), np.float32(0.0), values)
    values = np.stack([_normalize(feature, values[:, column[feature["name"]]]) for feature in model["features"]], 1)
    place = {feature["name"]: j for j, feature in enumerate(model["features"])}
    kind = model["class"].rpartition(".")[2]
    if kind == "LinearModel":
        return _linear_scores(params["weights"], place, values)
    if kind == "NeuralNetworkModel":
        return _net_scores(params["layers"], values)
    total = np.zeros(len(X), dtype=np.float32)
    for tree in params["trees"]:
        total += np.float32(tree["weight"]) * _tree_outputs(tree["root"], place, values, nulls)
    return total


def _normalize(feature: dict[str, Any], values: Array) -> Array:
    if "norm" not in feature:
        return values
    params = feature["norm"]["params"]
    with np.errstate(over="ignore"):
        return np.asarray((values - np.float32(params["avg"])) / np.float32(params["std"]))


def _linear_scores(weights: dict[str, float], place: dict[str, int], values: Array) -> Array:
    total = np.zeros(len(values), dtype=np.float32)
    for name, j in place.items():
        total += values[:, j] * np.float32(weights[name])
    return total


def _net_scores(layers: list[dict[str, Any]], values: Array) -> Array:
    functions: dict[str, Callable[[Array], Array]] = {
        "relu": lambda z: np.where(z < 0, np.float32(0), z),
        "tanh": lambda z: np.tanh(z.astype(np.float64)).astype(np.float32),
        "sigmoid": lambda z: (1 / (1 + np.exp(-z.astype(np.float64)))).astype(np.float32),
        "identity": lambda z: z,
    }
    for layer in layers:
        matrix, bias = np.array(layer["matrix"], dtype=np.float32), np.array(layer["bias"], dtype=np.float32)
        total = np.tile(bias, (len(values), 1))
        for j in range(matrix.shape[1]):
            total += matrix[:, j] * values[:, j : j + 1]
        with np.errstate(over="ignore"):
            values = functions[layer["activation"]](total)
    return values[:, 0]


def _tree_outputs(root: dict[str, Any], place: dict[str, int], values: Array, nulls: bool) -> Array:
    def read(node: dict[str, Any]) -> Split | np.float32:
        if "feature" not in node:
            return np.float32(node["value"])
        threshold = np.float32(node["threshold"]) + SLACK
        return Split(place[node["feature"]], threshold, node.get("missing") == "left", node["left"], node["right"])

    nodes: Nodes = flatten(root, read, np.float32)

    def decide(x: Array, at: Array) -> Array:
        goes_left = x <= nodes.threshold[at]
        return np.where(np.isnan(x), nodes.missing_left[at], goes_left) if nulls else goes_left

    return nodes.outputs(values, decide)
