"""The engines' documented rules once more, one row and one node at a time; the vectorised readers must agree."""

from __future__ import annotations

import json
import math
import re

import numpy as np

F = np.float32


def solr(text, names, row):
    """LTRScoringModel: values are float32, null is 0 unless the model says otherwise, normalizers come first."""
    model = json.loads(text)
    params, nulls = model["params"], model["params"].get("isNullSameAsZero", True) is False
    values = {}
    for feature in model["features"]:
        x = F(row[names.index(feature["name"])])
        if math.isnan(x) and not nulls:
            x = F(0)
        if "norm" in feature and not math.isnan(x):
            norm = feature["norm"]["params"]
            x = (x - F(float(norm["avg"]))) / F(float(norm["std"]))
        values[feature["name"]] = x
    if "weights" in params:
        total = F(0)
        for name, x in values.items():
            total = F(total + F(x * F(params["weights"][name])))
        return total
    if "layers" in params:
        return solr_net(params["layers"], list(values.values()))
    total = F(0)
    for tree in params["trees"]:
        node = tree["root"]
        while "feature" in node:
            x, threshold = values[node["feature"]], F(F(float(node["threshold"])) + F(1e-6))
            left = node["missing"] == "left" if math.isnan(x) else bool(x <= threshold)
            node = node["left"] if left else node["right"]
        total = F(total + F(F(float(tree["weight"])) * F(float(node["value"]))))
    return total


def solr_net(layers, values):
    for layer in layers:
        out = []
        for weights, bias in zip(layer["matrix"], layer["bias"], strict=True):
            z = F(bias)
            for w, x in zip(weights, values, strict=True):
                z = F(z + F(F(w) * x))
            out.append(
                {
                    "relu": lambda z: F(0) if z < 0 else z,
                    "tanh": lambda z: F(math.tanh(z)),
                    "sigmoid": lambda z: F(1 / (1 + math.exp(-float(z)))),
                    "identity": lambda z: z,
                }[layer["activation"]](z)
            )
        values = out
    return values[0]


def plugin(body, names, row):
    """A model of the Elasticsearch and OpenSearch plugin, from the body of its _createmodel request."""
    model = json.loads(body)["model"]["model"]
    read = {"model/linear": linear, "model/xgboost+json": xgboost, "model/ranklib": ranklib}[model["type"]]
    return read(model["definition"], names, row, model.get("feature_normalizers", {}))


def linear(definition, names, row, normalizers):
    weights, total = json.loads(definition), F(0)
    for name, value in zip(names, row, strict=True):
        x = F(0) if math.isnan(value) else F(value)
        if name in normalizers:
            norm = normalizers[name]["standard"]
            x = F(F(x - F(norm["mean"])) / F(norm["standard_deviation"]))
        total = F(total + F(F(weights.get(name, 0.0)) * x))
    return total


def xgboost(definition, names, row, normalizers):
    assert not normalizers
    total = F(0)
    for node in json.loads(definition):
        depth = 0
        while "leaf" not in node:
            assert node["depth"] == depth
            x, (left, right) = F(row[names.index(node["split"])]), node["children"]
            goes = node["yes"] if F(node["split_condition"]) > x else node["no"]
            goes = node["missing"] if math.isnan(x) else goes
            assert {left["nodeid"], right["nodeid"]} == {node["yes"], node["no"]}
            node, depth = (left if left["nodeid"] == goes else right), depth + 1
        total = F(total + F(node["leaf"]))
    return total


def ranklib(definition, names, row, normalizers):
    """By regular expressions rather than an XML parser; no white space may stand between elements of a tree."""
    assert not normalizers
    assert definition.startswith("## LambdaMART\n")
    total = F(0)
    trees = re.findall(r'<tree id="\d+" weight="([^"]+)">(.*?)</tree>', definition)
    assert not any(re.search(r">\s|\s<", tree) for _, tree in trees)
    for weight, tree in trees:
        tokens = re.findall(r"<[^>]+>|[^<]+", tree)
        node, _ = ranklib_node(tokens, 1)
        while len(node) == 4:
            x = F(row[node[0] - 1])
            node = node[2] if (F(0) if math.isnan(x) else x) <= node[1] else node[3]
        total = F(float(total) + float(node[0]) * float(F(weight)))
    return total


def ranklib_node(tokens, at):
    """The node whose content starts at ``at``, and where it ends (after its closing tag)."""
    if tokens[at] == "<output>":
        return (F(tokens[at + 1]),), at + 4
    feature, threshold = int(tokens[at + 1]), F(tokens[at + 4])
    assert tokens[at + 6] == '<split pos="left">'
    left, at = ranklib_node(tokens, at + 7)
    assert tokens[at] == '<split pos="right">'
    right, at = ranklib_node(tokens, at + 1)
    return (feature, threshold, left, right), at + 1


def plain(text, row):
    """Plain JSON: linear models and trees, from the rules in the file."""
    model = json.loads(text)
    if model["kind"] == "linear":
        return sum(w * x for w, x in zip(model["weights"], row, strict=True)) + model["intercept"]
    sums = [0.0] * model["n_sums"]
    for i, tree in enumerate(model["trees"]):
        at = 0 if tree["feature"] else -1
        while at >= 0:
            x, inside = row[tree["feature"][at]], tree.get("categories", {}).get(str(at))
            if math.isnan(x):
                left = tree["missing_left"][at]
            else:
                left = x in inside if inside is not None else x <= tree["threshold"][at]
            at = tree["left"][at] if left else tree["right"][at]
        sums[i % len(sums)] += tree["leaves"][-at - 1]
    if "link" not in model:
        return sums[0]
    relevance = model["link"]["relevance"]
    if model["link"]["kind"] == "softmax":
        odds = [math.exp(s) for s in sums]
        return sum(o * r for o, r in zip(odds, relevance, strict=True)) / sum(odds)
    at_least = [1 / (1 + math.exp(-(s + b))) for s, b in zip(sums, model["link"]["start"], strict=True)]
    return relevance[0] + sum(p * (b - a) for p, a, b in zip(at_least, relevance, relevance[1:], strict=False))


def xgboost_model(text, row):
    """XGBoost's model file: float32, x < condition goes to the left child and else to the node after it."""
    learner = json.loads(text)["learner"]
    total = F(float(learner["learner_model_param"]["base_score"]))
    for tree in learner["gradient_booster"]["model"]["trees"]:
        node = 0
        while tree["left_children"][node] != -1:
            x = F(row[tree["split_indices"][node]])
            left = tree["default_left"][node] if math.isnan(x) else x < F(tree["split_conditions"][node])
            node = tree["left_children"][node] + (not left)
        total = F(total + F(tree["split_conditions"][node]))
    return total
