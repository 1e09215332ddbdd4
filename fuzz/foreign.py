"""Models of other makers in every form that ``gainful.load`` reads. What loads is used and saved."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import gainful
from fuzz.cases import Input, Random, Target, Wholes, expect
from fuzz.containers import Damage, damage_trees
from fuzz.damage import damage_bytes, damage_json, damage_lines, damage_numbers, pick
from gainful.exports import ranklib
from gainful.exports.describe import describe
from gainful.rankers.ensembles import Ensemble

MAX_BYTES = 4 << 20
N_FEATURES = 4
TEXTS: list[Damage] = [damage_numbers, damage_numbers, damage_lines, damage_bytes]
DEEP = 100_000
SVM_RANK = (
    b"SVM-light Version V6.20\n0 # kernel type\n3 # -d\n1 # -g\n1 # -s\n1 # -r\nempty# -u\n4 # highest feature index\n"
    b"12 # documents\n3 # number of support vectors plus 1\n0.5 # threshold b\n1 1:0.25 3:-2 #\n-2 2:1.5 #\n"
)
LIBLINEAR = b"solver_type L2R_LR\nnr_class 2\nlabel -1 1\nnr_feature 3\nbias 1\nw\n0.5\n-1\n0\n2\n"


def prepare(folder: Path) -> Mapping[str, bytes]:
    """Small files of each form, written without the makers."""
    data = gainful.make_artificial(20, n_docs=8, n_features=N_FEATURES, seed=1)
    X = data.X.copy()
    X[:, 1] = np.random.default_rng(0).integers(0, 40, len(X))
    settings: dict[str, Any] = {"n_trees": 3, "n_leaves": 5, "min_docs_in_leaf": 3, "n_jobs": 1}
    by_category = {"cat_smooth": 1, "min_data_per_group": 1, "max_cat_to_onehot": 1}
    plain = gainful.LambdaMART(**settings).fit(X, data.y, qid=data.qid)
    sets = gainful.LambdaMART(**settings, categorical=[1], engine_params=by_category).fit(X, data.y, qid=data.qid)
    made: dict[str, bytes] = {}
    for name, model in (("plain", plain), ("categories", sets)):
        for to, suffix in (("lightgbm", ".txt"), ("xgboost", ".json"), ("xgboost", ".ubj")):
            path = folder / f"{name}-{to}{suffix}"
            gainful.export(model, path, to=to)
            made[path.name] = path.read_bytes()
    made["lightgbm-own.txt"] = plain.booster_.model_to_string().encode()
    trees = json.loads(made["plain-xgboost.json"])
    made["dart.json"], made["linear.json"] = json.dumps(dart_of(trees)).encode(), json.dumps(linear_of(trees)).encode()
    made["catboost.json"] = json.dumps(catboost_model()).encode()
    form = describe(plain).form
    assert isinstance(form, Ensemble)
    made["ranklib.txt"] = ranklib.text_of(form).encode()
    made["ascent.txt"] = b"## Coordinate Ascent\n## Restart = 5\n1:0.25 3:-0.5 4:1.0"
    made |= {"svm-rank.txt": SVM_RANK, "liblinear.txt": LIBLINEAR}
    made |= {
        "weights.json": b'{"bm25": 0.5, "clicks": -1, "intercept": 2}',
        "weights.csv": b"name,weight\nbm25,0.5\nclicks,-1\n",
    }
    return made


def dart_of(model: dict[str, Any]) -> dict[str, Any]:
    learner = model["learner"]
    trees = learner["gradient_booster"]
    dart = {"name": "dart", "gbtree": trees, "weight_drop": [0.5] * len(trees["model"]["trees"])}
    return {**model, "learner": {**learner, "gradient_booster": dart}}


def linear_of(model: dict[str, Any]) -> dict[str, Any]:
    linear = {"name": "gblinear", "model": {"weights": [0.5] * (N_FEATURES + 1)}}
    return {**model, "learner": {**model["learner"], "gradient_booster": linear}}


def catboost_model() -> dict[str, Any]:
    """The parts of CatBoost's JSON that scores depend on."""
    rng = np.random.default_rng(0)
    features = [
        {"feature_index": j, "flat_feature_index": j, "feature_id": f"x{j}", "has_nans": True, "borders": [0.5],
         "nan_value_treatment": "AsTrue" if j % 2 else "AsFalse"}
        for j in range(N_FEATURES)
    ]  # fmt: skip
    trees = [
        {
            "splits": [
                {"split_type": "FloatFeature", "split_index": d, "float_feature_index": d, "border": 0.5}
                for d in range(depth)
            ],
            "leaf_values": rng.normal(size=2**depth).tolist(),
            "leaf_weights": rng.integers(0, 9, 2**depth).tolist(),
        }
        for depth in (0, 1, 3)
    ]
    info = {"params": {"loss_function": {"type": "YetiRank"}}}
    facts = {"oblivious_trees": trees, "scale_and_bias": [1, [0.25]], "model_info": info}
    return {"features_info": {"float_features": features}, **facts}


def make(rng: Random, wholes: Wholes, whole: bool) -> Input:
    name = pick(rng, sorted(wholes))
    raw, other = wholes[name], wholes[pick(rng, sorted(wholes))]
    if whole:
        return Input(raw, "", {"same_as": name})
    draw = rng.random()
    if draw < 0.02:
        return Input(raw[:1] + pick(rng, [b"[", b'{"a":', b"<split>", b"{L"]) * int(rng.integers(1, DEEP)))
    if draw < 0.25:
        return Input(damage_bytes(raw, rng, other))
    if name.endswith(".json") and draw < 0.8:
        return Input(damage_json(raw, rng))
    if "lightgbm" in name and draw < 0.8:
        return Input(damage_trees(raw, rng))
    damage: Damage = pick(rng, TEXTS)
    return Input(damage(raw, rng))


def use(path: Path, options: Mapping[str, Any]) -> None:
    """Load the model, score rows with it, explain them, save it and load it again."""
    model = gainful.load(path, max_bytes=MAX_BYTES)
    repr(model)
    if model.n_features_in_ >= 1000:  # the number is free where nothing else says it
        return
    rows = np.random.default_rng(0).normal(size=(7, model.n_features_in_)) * 20
    rows[3] = np.nan
    scores = model.predict(rows)
    expect(scores.shape == (7,) and bool(np.isfinite(scores).all()), "scores that are not finite")
    with contextlib.suppress(gainful.GainfulError):  # some scores are not sums
        model.contributions(rows)
    gainful.save(model, path.with_name("again.gainful"))
    again = gainful.load(path.with_name("again.gainful")).predict(rows)
    expect(np.array_equal(again, scores), "saved and loaded, it scores otherwise")


def warm() -> None:
    import gainful.trees.lightgbm_library  # noqa: F401
    from gainful.cli.warm import walk_trees

    walk_trees()  # compiles


TARGET = Target(make, use, prepare, warm)
