"""Checkpoints of fits that were stopped. Use: the same fit continues from the file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import gainful
from fuzz.cases import Input, Random, Target, Wholes, expect
from fuzz.containers import damage_fields, damage_member
from fuzz.damage import damage_bytes, pick

TREES = {"n_trees": 4, "n_leaves": 4, "min_docs_in_leaf": 3, "n_jobs": 1}
FOLDS = {"folds": 3, "n_jobs": 1}
FITS: dict[str, dict[str, Any]] = {
    "ranknet": {"max_iter": 5},
    "structured-svm": {"max_iter": 5},
    "ranksvm": {"max_iter": 5},
    "structured-svm-tight": {"max_iter": 5},
    "rankmm-1": {"max_iter": 5},
    "softrank": {"max_iter": 5},
    "lambdamart": TREES,
    "boosted": TREES,
    "mcrank": TREES,
    "neural": {"epochs": 3, "hidden": (3,), "device": "cpu"},
    "blend": {
        "members": ["regression", "tree-regression:n_trees=3:n_leaves=4:min_docs_in_leaf=3:n_jobs=1"],
        **FOLDS,
    },
    "auto": {"trials": 3, "rankers": ["regression", "listnet"], **FOLDS},
}
STOP_AFTER = 2  # iterations


def data() -> gainful.RankingData:
    return gainful.make_artificial(12, n_docs=6, n_features=4, seed=1)


def prepare(folder: Path) -> Mapping[str, bytes]:
    """The checkpoint of each ranker after a few iterations, and at its end."""
    found: dict[str, bytes] = {}
    for name, params in FITS.items():
        path = folder / name
        saved: list[bytes] = []

        def note(_: gainful.Progress, path: Path = path, saved: list[bytes] = saved) -> None:
            if path.exists():
                saved.append(path.read_bytes())

        checkpoint = gainful.Checkpoint(path, every=0, keep=True)
        with warnings.catch_warnings(action="ignore"):  # few iterations do not converge
            gainful.ranker(name, **params).fit(data(), checkpoint=checkpoint, progress=note)
        saved += [path.read_bytes()] if path.exists() else []
        if saved:
            found[name] = saved[min(STOP_AFTER, len(saved) - 1)]
    return found


def make(rng: Random, wholes: Wholes, whole: bool) -> Input:
    name = pick(rng, sorted(wholes))
    raw, options = wholes[name], {"ranker": name}
    if whole:
        return Input(raw, ".checkpoint", options)
    draw = rng.random()
    if draw < 0.2:
        return Input(damage_bytes(raw, rng, wholes[pick(rng, sorted(wholes))]), ".checkpoint", options)
    return Input(damage_member(raw, rng) if draw < 0.95 else damage_fields(raw, rng), ".checkpoint", options)


def use(path: Path, options: Mapping[str, Any]) -> None:
    name = options["ranker"]
    model = gainful.ranker(name, **FITS[name]).fit(data(), checkpoint=path)
    expect(bool(np.isfinite(model.predict(data())).all()), f"{name}: scores that are not finite")


def warm() -> None:
    import gainful.trees.lightgbm_library  # noqa: F401

    with suppress(ImportError):
        import torch  # noqa: F401


TARGET = Target(make, use, prepare, warm, seconds=60, mebibytes=2048)
