"""Boosted trees grown by XGBoost, on the CPU or a GPU, one iteration at a time, on gradients of ours.

gainful keeps the scores itself: it adds each finished tree to them, on a GPU where the features already are. So there
are gradients, trees and scores in one place, and only the tree (a few kilobytes) and validation scores come to the
host. The result is a ``lightgbm.Booster`` of the same trees: see :mod:`gainful.trees.xgboost_trees`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gainful.compute.randomness import seed_from
from gainful.compute.threads import openmp_threads, short_waits
from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.errors import DataError, GainfulError, MissingExtraError, ParameterError, UnknownNameError
from gainful.nets.device import tensor_device
from gainful.training.monitor import Monitor
from gainful.trees.grow import Objective, predict_rows, training_threads
from gainful.trees.query_sampling import QuerySample
from gainful.trees.row_chunks import chunks_of
from gainful.trees.scoring import CompiledTrees
from gainful.trees.tree_text import model_text, tree_sections
from gainful.trees.xgboost_trees import GrownTree

# Parameters of XGBoost that users may set; gainful sets the others, or they make no sense here.
ALLOWED = ("alpha", "colsample_bylevel", "colsample_bynode", "gamma", "grow_policy",
           "max_cached_hist_node", "max_delta_step", "max_depth", "min_split_loss", "reg_alpha")  # fmt: skip
LARGEST = float(np.finfo(np.float32).max)
SLACK = 0.1  # by which the unit of min_docs_in_leaf may be off: a change of it costs a third of a tree on a GPU


def xgboost() -> Any:
    """The module; without it, an error that says how to install it."""
    try:
        with short_waits():
            import xgboost
    except ImportError:
        raise MissingExtraError.of("engine='xgboost'", "XGBoost", "xgboost") from None
    return xgboost


def xgboost_params(
    *,
    n_leaves: int,
    learning_rate: float,
    colsample: float,
    l2: float,
    bins: int | str,
    n_jobs: int | None,
    random_state: Any,
    engine_params: Mapping[str, Any] | None,
    owner: str,
) -> dict[str, Any]:
    """XGBoost's parameters for gainful's; those that it does not have are refused."""
    if bins == "exact":
        raise ParameterError(f"{owner}: engine='xgboost' has no bins='exact'; give bins a number")
    for name in engine_params or {}:
        if name not in ALLOWED:
            raise UnknownNameError.among(
                "parameter", name, ALLOWED, owner=f"engine='xgboost' (engine_params of {owner})"
            )
    return {
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_leaves": int(n_leaves),
        "max_depth": 0,
        "eta": float(learning_rate),
        "lambda": float(l2),
        "colsample_bytree": float(colsample),
        "max_bin": int(bins),
        "nthread": openmp_threads(n_jobs, np.inf),
        "seed": seed_from(random_state),
        "base_score": 0.0,
        "verbosity": 0,
    } | dict(engine_params or {})


def grow_by_xgboost(
    data: RankingData,
    n_trees: int,
    params: Mapping[str, Any],
    monitor: Monitor,
    *,
    objective: Objective,
    device: str,
    min_docs_in_leaf: int,
    subsample: float = 1.0,
    start: Any = None,
    n_jobs: int | None = None,
) -> Any:
    """A LightGBM booster of at most ``n_trees`` trees; the monitor's best iteration is the one to predict with.

    ``objective`` takes and returns arrays of ``device``: tensors, except on the CPU. XGBoost does not count documents,
    so ``min_docs_in_leaf`` is in units of the mean curvature, to a tenth: exact where all documents have the same.
    """
    xgb = xgboost()
    monitor.total = n_trees
    first = 0 if start is None else start.current_iteration()
    where = OnHost if device == "cpu" else OnDevice
    rows = where(data, start, device)
    valid = None if monitor.valid is None else where(monitor.valid, start, device)
    sample = None if subsample >= 1 else QuerySample(data, subsample, int(params["seed"]) + first)
    settings = dict(params) | {"seed": int(params["seed"]) + first, "device": tensor_device(device)}
    if device == "cpu":
        settings["nthread"] = training_threads(n_jobs, data)
    draws = any(params.get(f"colsample_by{part}", 1) < 1 for part in ("tree", "level", "node"))
    another_may_split = sample is not None or draws or getattr(objective, "changes", False)
    grown: list[dict[str, Any]] = [] if start is None else list(tree_sections(start.model_to_string()))
    try:
        train = xgb.QuantileDMatrix(rows.X, max_bin=params["max_bin"], nthread=settings["nthread"])
        booster, unit = xgb.Booster(settings, [train]), -1.0
        with monitor:
            for number in range(first + 1, n_trees + 1):
                gradient, curvature = objective(rows.scores, number)
                if sample is not None:
                    drawn = rows.like(sample.rows(number))
                    gradient, curvature = gradient * drawn, curvature * drawn
                mean = float(curvature.sum()) / data.n_rows
                if not abs(mean - unit) <= SLACK * unit:
                    unit = mean
                    booster.set_param({"min_child_weight": min_docs_in_leaf * unit})
                rows.boost(booster, train, number - first - 1, gradient, curvature)
                tree = last_tree(booster)
                if not len(tree.feature) and not another_may_split:
                    break
                lines = tree.lines(data.n_rows)
                grown.append(lines)
                rows.add(tree, lines)
                validation = None
                if valid is not None:
                    valid.add(tree, lines)
                    validation = monitor.evaluate(valid.host_scores(), complete=True)
                if monitor.step(objective=getattr(objective, "value", None), validation=validation):
                    break
    except xgb.core.XGBoostError as error:
        raise GainfulError(f"XGBoost: {first_words(str(error))}") from error
    return as_booster(grown, data.n_features)


def first_words(message: str) -> str:
    """An error of XGBoost in one line, without the time, the place in its sources and the stack.

    >>> first_words("[12:00:01] /src/a.cc:12: Check failed: x < y: no\\nStack trace:\\n  [bt] (0) lib.so")
    'Check failed: x < y: no'
    """
    lines = [line.strip() for line in message.partition("Stack trace")[0].splitlines() if line.strip()]
    first = next((line for line in lines if not line.startswith("[bt]")), "it failed without a word")
    return re.sub(r"^\[[\d:]+\] \S+:\d+: ", "", first)


def last_tree(booster: Any) -> GrownTree:
    """The newest tree."""
    import json

    count = booster.num_boosted_rounds()
    model = json.loads(booster[count - 1 : count].save_raw("json"))
    return GrownTree.of(model["learner"]["gradient_booster"]["model"]["trees"][0])


def as_booster(trees: Sequence[Mapping[str, Any]], n_features: int) -> Any:
    from gainful.trees.lightgbm_library import lgb

    text = model_text(trees, [f"Column_{j}" for j in range(n_features)], ["[-1:1]"] * n_features)
    return lgb.Booster(model_str=text)


def dense(data: RankingData) -> Any:
    """X as XGBoost reads it, one matrix; float32 and float64 stay as they are."""
    parts = chunks_of(data.X)
    if not all(isinstance(part, np.ndarray) for part in parts):
        raise DataError("engine='xgboost' takes dense features, but these are sparse; use engine='lightgbm'")
    X = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if X.dtype == np.float64 and X.size and np.nanmax(np.abs(X)) > LARGEST:
        raise DataError(f"engine='xgboost' computes in single precision, up to {LARGEST:.3g}, and a feature is larger")
    return X if X.dtype.kind == "f" else X.astype(np.float32)


class OnHost:
    """Features and scores of some rows, in memory."""

    def __init__(self, data: RankingData, start: Any, _: str):
        self.X = dense(data)
        self.scores: Any = np.zeros(data.n_rows) if start is None else predict_rows(start, self.X, -1)
        if data.init_scores is not None:
            self.scores = self.scores + data.init_scores

    def like(self, values: Array) -> Any:
        return values

    def boost(self, booster: Any, train: Any, iteration: int, gradient: Any, curvature: Any) -> None:
        small = (np.asarray(values, dtype=np.float32) for values in (gradient, curvature))
        g, h = (values.reshape(-1, 1) for values in small)
        booster.boost(train, iteration, grad=g, hess=h)

    def add(self, tree: GrownTree, lines: Mapping[str, Any]) -> None:
        walk = CompiledTrees.of_sections([{name: str(value) for name, value in lines.items()}])
        assert walk is not None
        self.scores += walk.scores(self.X)

    def host_scores(self) -> Array:
        return np.asarray(self.scores)


class OnDevice:
    """The same on a GPU, or in tensors on the CPU for tests."""

    def __init__(self, data: RankingData, start: Any, device: str):
        import torch

        X, name = dense(data), tensor_device(device)
        self.tensor = torch.tensor(X, dtype=torch.float32, device=name)
        self.X: Any = self.tensor if self.tensor.is_cuda else self.tensor.numpy()  # XGBoost reads no other tensors
        first = np.zeros(data.n_rows) if start is None else predict_rows(start, X, -1)
        self.scores: Any = torch.tensor(first if data.init_scores is None else first + data.init_scores, device=name)

    def like(self, values: Array) -> Any:
        import torch

        return torch.as_tensor(values, device=self.tensor.device)

    def boost(self, booster: Any, train: Any, iteration: int, gradient: Any, curvature: Any) -> None:
        g, h = (values.float().reshape(-1, 1).contiguous() for values in (gradient, curvature))
        if g.is_cuda:
            import torch

            torch.cuda.current_stream(g.device).synchronize()  # XGBoost works on a stream of its own
            booster.boost(train, iteration, grad=g, hess=h)
        else:
            booster.boost(train, iteration, grad=g.numpy(), hess=h.numpy())

    def add(self, tree: GrownTree, lines: Mapping[str, Any]) -> None:
        from gainful.trees.tensor_walk import leaf_values

        self.scores += leaf_values(tree, self.tensor)

    def host_scores(self) -> Array:
        return np.asarray(self.scores.cpu().numpy())
