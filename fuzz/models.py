"""Model files of every family, and small files that unpack to large ones. What loads is used."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import gainful
from fuzz.cases import Input, Random, Target, Wholes, expect
from fuzz.containers import damage_fields, damage_member, members_of, pack, with_checksums
from fuzz.damage import damage_bytes, pick
from gainful.persistence.container import MANIFEST
from gainful.training.history import History

MAX_BYTES = 16 << 20  # that a model file may unpack to here
N_FEATURES = 5


def prepare(folder: Path) -> Mapping[str, bytes]:
    """Small model files, one for each way of storing a model."""
    data = gainful.make_artificial(20, n_docs=8, n_features=N_FEATURES, seed=1)
    X = data.X.copy()
    X[:, 1] = np.random.default_rng(0).integers(0, 40, len(X))
    trees: dict[str, Any] = {"n_trees": 2, "n_leaves": 4, "min_docs_in_leaf": 3, "n_jobs": 1}
    by_category = {"cat_smooth": 1, "min_data_per_group": 1, "max_cat_to_onehot": 1}
    makers: dict[str, Any] = {
        "regression": gainful.RegressionRanker(),
        "structured-svm": gainful.StructuredSVM(),
        "rankboost": gainful.RankBoost(n_rounds=3),
        "kernel": gainful.KernelStructuredSVM(n_landmarks=5),
        "lambdamart": gainful.LambdaMART(**trees),
        "categories": gainful.LambdaMART(**trees, categorical=[1], engine_params=by_category),
        "linear-trees": gainful.BoostedRanker(**trees, engine_params={"linear_tree": True}),
        "mcrank": gainful.McRank(**trees),
        "blend": gainful.Blend(["regression", "mcrank:n_trees=2:n_leaves=4:n_jobs=1"], folds=3, n_jobs=1),
        "auto": gainful.Auto(trials=2, rankers=["regression", "listnet"], folds=3, n_jobs=1),
    }
    models = {name: model.fit(X, data.y, qid=data.qid) for name, model in makers.items()} | {"net": untrained_net()}
    for name, model in models.items():
        gainful.save(model, folder / name)
    return {name: (folder / name).read_bytes() for name in models}


def untrained_net() -> gainful.NeuralRanker:
    """A net as training would leave it, made without loading PyTorch."""
    net = gainful.NeuralRanker(hidden=(3,), epochs=1, device="cpu")
    rng = np.random.default_rng(0)
    net.weights_ = [rng.normal(size=shape).astype(np.float32) for shape in ((N_FEATURES, 3), (3,), (3, 1), (1,))]
    net.shift_, net.scale_ = np.zeros(N_FEATURES), np.ones(N_FEATURES)
    net.loss_, net.device_, net.best_epoch_ = gainful.loss("ranknet"), "cpu", 1
    net.n_features_in_, net.history_, net.n_iter_, net.interrupted_ = N_FEATURES, History(), 0, False
    return net


def bomb(raw: bytes, rng: Random) -> bytes:
    """A small file that unpacks to a large one, is deeply nested, or has very many members."""
    members = members_of(raw)
    kind = int(rng.integers(5))
    if kind == 0:
        members["zeros.npy"] = bytes(int(rng.integers(MAX_BYTES // 2, 2 * MAX_BYTES)))
        return pack(with_checksums(members), zipfile.ZIP_DEFLATED)
    if kind == 1:
        deep = int(rng.integers(100, 200_000))
        members[MANIFEST] = b'{"format": "gainful-model", "version": 1, "x": ' + b"[" * deep + b"]" * deep + b"}"
        return pack(members, zipfile.ZIP_DEFLATED)
    if kind == 2:
        members |= {f"m{i}.npy": b"" for i in range(int(rng.integers(2, 6000)))}
        return pack(with_checksums(members))
    if kind == 3:
        manifest = json.loads(members[MANIFEST])
        manifest["history"] = [{}] * int(rng.integers(1, 1_500_000))
        members[MANIFEST] = json.dumps(manifest, separators=(",", ":")).encode()
        return pack(members, zipfile.ZIP_DEFLATED)
    shape = b"%d," % 10 ** int(rng.integers(6, 19))
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + shape + b"), }\n"
    members["coef.npy"] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    return pack(with_checksums(members))


def make(rng: Random, wholes: Wholes, whole: bool) -> Input:
    name = pick(rng, sorted(wholes))
    raw = wholes[name]
    if whole:
        return Input(raw, ".gainful", {"same_as": name})
    draw = rng.random()
    if draw < 0.25:
        return Input(damage_bytes(raw, rng, wholes[pick(rng, sorted(wholes))]), ".gainful")
    if draw < 0.88:
        return Input(damage_member(raw, rng), ".gainful")
    return Input(damage_fields(raw, rng) if draw < 0.99 else bomb(raw, rng), ".gainful")


def use(path: Path, options: Mapping[str, Any]) -> None:
    """Load the model, score rows with it and explain them."""
    gainful.model_info(path)
    model = gainful.load(path, max_bytes=MAX_BYTES)
    repr(model)
    if model.n_features_in_ >= 1000:  # the number is free where nothing else says it
        return
    rows = np.random.default_rng(0).normal(size=(7, model.n_features_in_)) * 20
    scores = model.predict(rows)
    expect(
        scores.shape == (7,) and bool(np.isfinite(scores).all()), f"{type(model).__name__}: scores that are not finite"
    )
    with contextlib.suppress(gainful.GainfulError):  # some scores are not sums
        model.contributions(rows)


def warm() -> None:
    import gainful.trees.lightgbm_library  # noqa: F401


TARGET = Target(make, use, prepare, warm)
