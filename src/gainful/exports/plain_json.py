"""Plain JSON: any model in float64, with the rules that compute its scores in the file itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.exports.describe import Described, Mixture
from gainful.exports.formats import Settings, Written, note_on_words, refuse_lists
from gainful.exports.walk import Nodes
from gainful.rankers.ensembles import Ensemble, Tree
from gainful.rankers.scorers import Inputs, Kernel, Linear, Net

FORMAT, VERSION = "gainful-scorer", 1
STANDARDISED = "x is first replaced by (x - shift) / scale, where those are given"
RULES = {
    "linear": f"score = sum of weights[j] * x[j], plus intercept; {STANDARDISED}",
    "trees": (
        "a tree is walked from split 0: x[feature] <= threshold goes left; where categories[split] is given, a whole "
        "number that is among them goes left instead; a missing value goes left where missing_left is true; a child "
        "c >= 0 is a split, a child c < 0 is the leaf -c - 1; a tree without splits is its only leaf. Tree i adds to "
        "sum i modulo n_sums. score = the sum, or, where link is given: softmax: sum of relevance[k] * p[k] with p the "
        "softmax of the sums; cumulative: relevance[0] + sum of (relevance[k + 1] - relevance[k]) / (1 + exp(-(sums[k] "
        "+ start[k])))"
    ),
    "net": (
        f"z = x; for each layer z = z * matrix + bias (matrix has a row for each input); between layers z = "
        f"activation(z); {STANDARDISED}"
    ),
    "kernel": (
        "score = sum of weights[l] * k(x, landmarks[l]); rbf: exp(-gamma * squared distance); laplacian: exp(-gamma * "
        "sum of absolute differences); polynomial: (gamma * dot + coef0) ^ degree; linear: dot; cosine: dot / "
        f"(length * length), 0 where x is 0; {STANDARDISED}"
    ),
    "sum": "score = sum of factor * score of model over the parts, each by the rules of its own kind",
}  # fmt: skip


def write(described: Described, settings: Settings) -> Written:
    refuse_lists(described, "json")
    form = described.form
    kind = _kind(form)
    from gainful import __version__

    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "name": settings.name,
        "ranker": described.title,
        "gainful": __version__,
        "features": list(described.features),
        **({"words": described.words} if described.words else {}),
        "kind": kind,
        "rules": RULES[kind],
    }
    content |= _content(form)
    text = (json.dumps(content, allow_nan=False) + "\n").encode()
    notes = note_on_words(described, "words in the file")
    return Written({"": text}, lambda files, X: [scores(files[""], X)], precision=1e-11, notes=notes)


def _kind(form: Any) -> str:
    return {Linear: "linear", Ensemble: "trees", Net: "net", Kernel: "kernel", Mixture: "sum"}[type(form)]


def _content(form: Any) -> dict[str, Any]:
    if isinstance(form, Mixture):
        kinds = [{"kind": _kind(part), "rules": RULES[_kind(part)], **_content(part)} for part in form.parts]
        return {"parts": [{"factor": f, "model": m} for f, m in zip(form.factors, kinds, strict=True)]}
    if isinstance(form, Linear):
        return {"weights": form.weights.tolist(), "intercept": form.intercept} | _inputs(form.inputs)
    if isinstance(form, Net):
        layers = [{"matrix": W.tolist(), "bias": b.tolist()} for W, b in form.layers]
        return {"layers": layers, "activation": form.activation} | _inputs(form.inputs)
    if isinstance(form, Kernel):
        return {
            "kernel": form.kernel,
            **form.settings,
            "landmarks": form.landmarks.tolist(),
            "weights": form.weights.tolist(),
        } | _inputs(form.inputs)
    content: dict[str, Any] = {"n_sums": form.n_outputs, "trees": [_tree(tree) for tree in form.trees]}
    if form.link is not None:
        content["link"] = {
            "kind": form.link.kind,
            "relevance": form.link.relevance.tolist(),
            "start": form.link.start.tolist(),
        }
    return content


def _inputs(inputs: Inputs | None) -> dict[str, Any]:
    return {} if inputs is None or inputs.idle else {"shift": inputs.shift.tolist(), "scale": inputs.scale.tolist()}


def _tree(tree: Tree) -> dict[str, Any]:
    arrays = {
        "feature": tree.feature,
        "threshold": tree.threshold,
        "missing_left": tree.nan_left,
        "left": tree.left,
        "right": tree.right,
        "leaves": tree.leaves,
    }
    content: dict[str, Any] = {name: values.tolist() for name, values in arrays.items()}
    return content | ({"categories": {str(k): list(v) for k, v in tree.categories.items()}} if tree.categories else {})


# -- reading by the rules in the file ----------------------------------------------------------------------------------


def scores(content: bytes, X: Array) -> Array:
    return _scores(json.loads(content), X.astype(np.float64))


def _scores(model: dict[str, Any], X: Array) -> Array:
    if model["kind"] == "sum":
        return np.asarray(sum(part["factor"] * _scores(part["model"], X) for part in model["parts"]))
    if "shift" in model:
        X = (X - np.array(model["shift"])) / np.array(model["scale"])
    if model["kind"] == "linear":
        return np.asarray(X @ np.array(model["weights"]) + model["intercept"])
    if model["kind"] == "net":
        return _net_scores(model, X)
    if model["kind"] == "kernel":
        return _kernel_scores(model, X)
    sums = np.zeros((len(X), model["n_sums"]))
    for place, tree in enumerate(model["trees"]):
        sums[:, place % model["n_sums"]] += _outputs(tree, X)
    return _apply_link(model.get("link"), sums)


def _apply_link(link: Mapping[str, Any] | None, sums: Array) -> Array:
    if link is None:
        return sums[:, 0]
    relevance = np.array(link["relevance"])
    if link["kind"] == "softmax":
        p = np.exp(sums - sums.max(axis=1, keepdims=True))
        return np.asarray(p @ relevance / p.sum(axis=1))
    with np.errstate(over="ignore"):
        at_least = 1.0 / (1.0 + np.exp(-(sums + np.array(link["start"]))))
    return np.asarray(relevance[0] + at_least @ np.diff(relevance))


def _outputs(tree: dict[str, Any], X: Array) -> Array:
    """As :class:`Nodes`, with the leaves after the splits."""
    n, leaves = len(tree["feature"]), tree["leaves"]
    child = {side: [c if c >= 0 else n - c - 1 for c in tree[side]] + [-1] * len(leaves) for side in ("left", "right")}
    end = [0] * len(leaves)
    nodes = Nodes(
        feature=np.array(tree["feature"] + end, dtype=np.int64),
        threshold=np.array(tree["threshold"] + end, dtype=np.float64),
        missing_left=np.array(tree["missing_left"] + end, dtype=bool),
        left=np.array(child["left"], dtype=np.int64),
        right=np.array(child["right"], dtype=np.int64),
        value=np.array([0.0] * n + leaves),
    )
    categories = {int(split): inside for split, inside in tree.get("categories", {}).items()}

    def decide(x: Array, at: Array) -> Array:
        goes_left = x <= nodes.threshold[at]
        for split, inside in categories.items():
            here = at == split
            goes_left[here] = np.isin(x[here], inside)
        return np.where(np.isnan(x), nodes.missing_left[at], goes_left)

    return nodes.outputs(X, decide)


def _net_scores(model: dict[str, Any], z: Array) -> Array:
    functions: dict[str, Callable[[Array], Array]] = {
        "relu": lambda z: np.maximum(z, 0.0),
        "tanh": np.tanh,
        "sigmoid": lambda z: 1.0 / (1.0 + np.exp(-z)),
        "silu": lambda z: z / (1.0 + np.exp(-z)),
    }
    with np.errstate(over="ignore"):
        for place, layer in enumerate(model["layers"]):
            z = z if place == 0 else functions[model["activation"]](z)
            z = z @ np.array(layer["matrix"]) + np.array(layer["bias"])
    return z[:, 0]


def _kernel_scores(model: dict[str, Any], X: Array) -> Array:
    landmarks, total = np.array(model["landmarks"]), np.zeros(len(X))
    for landmark, weight in zip(landmarks, model["weights"], strict=True):
        if model["kernel"] == "rbf":
            k = np.exp(-model["gamma"] * ((X - landmark) ** 2).sum(axis=1))
        elif model["kernel"] == "laplacian":
            k = np.exp(-model["gamma"] * np.abs(X - landmark).sum(axis=1))
        else:
            k = X @ landmark
            if model["kernel"] == "polynomial":
                k = (model["gamma"] * k + model["coef0"]) ** model["degree"]
            elif model["kernel"] == "cosine":
                lengths = np.sqrt((X**2).sum(axis=1) * (landmark**2).sum())
                k = np.divide(k, lengths, out=np.zeros(len(X)), where=lengths > 0)
        total += weight * k
    return total
