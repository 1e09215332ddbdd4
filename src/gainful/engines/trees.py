"""Boosted trees: LightGBM, one iteration at a time.

gainful owns the loop instead of calling ``lightgbm.train``: validation uses gainful's metrics with their conventions,
Ctrl-C keeps what is grown, and an objective may change from one iteration to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gainful.data import RankingData
from gainful.errors import GainfulError, ParameterError, UnknownNameError
from gainful.monitor import Monitor
from gainful.randomness import seed_from
from gainful.rows import Array

# Parameters that gainful sets from its own, under every name LightGBM knows them by (see its Parameters page).
OWNED: dict[str, tuple[str, ...]] = {
    "n_trees": ("num_iterations", "num_iteration", "n_iter", "num_tree", "num_trees", "num_round", "num_rounds",
                "nrounds", "num_boost_round", "n_estimators", "max_iter"),
    "n_leaves": ("num_leaves", "num_leaf", "max_leaves", "max_leaf", "max_leaf_nodes"),
    "learning_rate": ("learning_rate", "shrinkage_rate", "eta"),
    "min_docs_in_leaf": ("min_data_in_leaf", "min_data_per_leaf", "min_data", "min_child_samples", "min_samples_leaf"),
    "subsample": ("bagging_fraction", "sub_row", "subsample", "bagging"),
    "colsample": ("feature_fraction", "sub_feature", "colsample_bytree"),
    "l2": ("lambda_l2", "reg_lambda", "lambda", "l2_regularization"),
    "bins": ("max_bin", "max_bins"),
    "n_jobs": ("num_threads", "num_thread", "nthread", "nthreads", "n_jobs"),
    "random_state": ("seed", "random_seed", "random_state"),
    "early_stopping": ("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change"),
    "eval_metric": ("metric", "metrics", "metric_types"),
}  # fmt: skip


def lightgbm_params(
    *,
    n_leaves: int,
    learning_rate: float,
    min_docs_in_leaf: int,
    subsample: float,
    colsample: float,
    l2: float,
    bins: int,
    n_jobs: int | None,
    random_state: Any,
    engine_params: Mapping[str, Any] | None,
    owner: str,
    also_owned: Mapping[str, tuple[str, ...]] | None = None,
) -> dict[str, Any]:
    """LightGBM's parameters for gainful's. ``engine_params`` adds its own; those gainful owns are refused there."""
    params: dict[str, Any] = {
        "num_leaves": int(n_leaves),
        "learning_rate": float(learning_rate),
        "min_data_in_leaf": int(min_docs_in_leaf),
        "feature_fraction": float(colsample),
        "lambda_l2": float(l2),
        "max_bin": int(bins),
        "num_threads": 0 if n_jobs is None or n_jobs < 1 else int(n_jobs),
        "seed": seed_from(random_state),
        # Without a fixed layout LightGBM times both and picks one, and the sums round differently.
        "deterministic": True,
        "force_row_wise": True,
        "metric": "none",
        "verbosity": -1,
    }
    if subsample < 1:
        params |= {"bagging_fraction": float(subsample), "bagging_freq": 1, "bagging_by_query": True}
    extra = dict(engine_params or {})
    for ours, names in {**OWNED, **(also_owned or {})}.items():
        for name in names:
            if name in extra:
                use = ours if ours == "another ranker" else f"{ours}="
                raise ParameterError(f"engine_params of {owner} must not set {name!r}; use {use} instead")
    _check_engine_params(extra, owner)
    if "force_col_wise" in extra:
        params.pop("force_row_wise")
    return params | extra


def _check_engine_params(extra: dict[str, Any], owner: str) -> None:
    """Refuse names LightGBM does not know (it would ignore them), and boosting whose first trees change later."""
    import lightgbm as lgb

    known = lgb.basic._ConfigAliases._get_all_param_aliases()  # no public list exists
    names = {*known, *(alias for aliases in known.values() for alias in aliases)}
    for name, value in extra.items():
        if name not in names:
            raise UnknownNameError.among(f"LightGBM parameter (engine_params of {owner})", name, sorted(names))
        if name in ("boosting", "boosting_type", "boost") and value not in ("gbdt", "gbrt", "goss"):
            raise ParameterError(
                f"engine_params of {owner} must not set {name}={value!r}: its trees change after they are grown, so "
                "the best iteration could not be kept"
            )


def grow_trees(data: RankingData, labels: Array, n_trees: int, params: dict[str, Any], monitor: Monitor) -> Any:
    """A booster of at most ``n_trees`` trees on ``labels``; the monitor's best iteration is the one to predict with."""
    import lightgbm as lgb

    monitor.total = n_trees
    try:
        train = _dataset(data, labels, params)
        booster = lgb.Booster(params, train)
        if monitor.valid is not None:
            booster.add_valid(_dataset(monitor.valid, np.zeros(monitor.valid.n_rows), params, reference=train), "valid")
        with monitor:
            for _ in range(n_trees):
                finished = booster.update()  # True when no leaf could be split any more
                validation = _validation_metric(booster, monitor) if monitor.valid is not None else None
                if monitor.step(validation=validation) or finished:
                    break
    except lgb.basic.LightGBMError as error:
        raise GainfulError(f"LightGBM: {error}") from error
    return booster


def as_lightgbm(X: Any) -> Any:
    """X in a form LightGBM knows: it takes SciPy's sparse matrices but not its sparse arrays. Nothing is copied."""
    if isinstance(X, np.ndarray):
        return X
    from scipy import sparse

    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape, copy=False)


def _dataset(data: RankingData, labels: Array, params: dict[str, Any], reference: Any = None) -> Any:
    import lightgbm as lgb

    return lgb.Dataset(
        as_lightgbm(data.X),
        label=labels,
        group=data.counts,
        weight=data.row_weights,
        feature_name="auto",
        reference=reference,
        params=params,
    ).construct()


def _validation_metric(booster: Any, monitor: Monitor) -> float:
    results = booster.eval_valid(feval=lambda scores, _: ("validation", monitor.evaluate(scores), True))
    return float(results[0][2])
