"""Boosted trees: LightGBM, one iteration at a time.

gainful owns the loop instead of calling ``lightgbm.train``: validation uses gainful's metrics with their conventions,
Ctrl-C keeps what is grown, and an objective may change from one iteration to the next.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gainful.data import RankingData
from gainful.errors import DataError, GainfulError, ParameterError, UnknownNameError
from gainful.frames import CODES, without_codes
from gainful.monitor import Monitor
from gainful.randomness import seed_from
from gainful.rows import BLOCK_VALUES, Array

# What a custom objective is asked after each tree: the scores of the training rows and the number of the tree to grow,
# from 1, trees of an earlier training counted in. It answers with gradient and curvature of each row.
Objective = Callable[[Array, int], tuple[Array, Array]]

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
    "monotone": ("monotone_constraints", "mc", "monotone_constraint", "monotonic_cst"),
    "categorical": ("categorical_feature", "cat_feature", "categorical_column", "cat_column", "categorical_features"),
    "n_jobs": ("num_threads", "num_thread", "nthread", "nthreads", "n_jobs"),
    "random_state": ("seed", "random_seed", "random_state"),
    "early_stopping": ("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change"),
    "eval_metric": ("metric", "metrics", "metric_types"),
}  # fmt: skip


MOST_BINS = 65_536  # two bytes a value
FEW_ROWS = 1000  # scored on one thread


def lightgbm_params(
    *,
    n_leaves: int,
    learning_rate: float,
    min_docs_in_leaf: int,
    subsample: float,
    colsample: float,
    l2: float,
    bins: int | str,
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
        "max_bin": 255 if bins == "exact" else int(bins),
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


def grow_trees(
    data: RankingData,
    labels: Array,
    n_trees: int,
    params: dict[str, Any],
    monitor: Monitor,
    *,
    objective: Objective | None = None,
    categorical: Sequence[int] = (),
    exact_bins: bool = False,
    start: Any = None,
    to_scores: Callable[[Array], Array] | None = None,
) -> Any:
    """A booster of at most ``n_trees`` iterations; the monitor's best iteration is the one to predict with.

    Parameters
    ----------
    labels : (n_rows,), what LightGBM's own objectives see
    objective : gradients from gainful; without it ``params`` names an objective of LightGBM's
    categorical : features that hold categories
    exact_bins : one bin for each distinct value of a feature
    start : a booster to go on from; its trees count
    to_scores : from what LightGBM predicts for the validation rows to one score per row
    """
    import lightgbm as lgb

    monitor.total = n_trees
    grown = 0 if start is None else start.current_iteration()
    params = params | {"seed": (params["seed"] + grown) % 2**31}  # going on must not draw the same samples again
    another_may_split = draws_at_random(params) or getattr(objective, "changes", False)
    if exact_bins:
        params = params | bins_of_values(data.X)
    fobj = None
    tree = [grown]  # the number of the one to grow; the objective is told
    if objective is not None:
        gradients, params = _with_own_sample(objective, data, params | {"objective": "none"})
        fobj = lambda scores, _: gradients(scores, tree[0])  # noqa: E731
    try:
        train, valid = _training_and_validation(data, labels, params, monitor, categorical, exact_bins, start)
        booster = None if start is not None else _new_booster(params, train, valid)
        if booster is not None and objective is not None and not _can_split(train):
            # LightGBM takes no gradients for trees without a split: no tree, and all scores are 0
            _say_if_leaves_are_too_large(data, params)
            return booster
        with monitor:
            for tree[0] in range(grown + 1, n_trees + 1):
                before = grown if booster is None else booster.current_iteration()
                if booster is None:
                    booster, stuck = _go_on(start, params, train, valid, fobj), False
                else:
                    stuck = booster.update(fobj=fobj)  # True when no leaf could be split
                if stuck and booster.current_iteration() == before:
                    if another_may_split:
                        continue
                    break
                validation = None if valid is None else _validation_metric(booster, monitor, to_scores)
                if monitor.step(objective=getattr(objective, "value", None), validation=validation):
                    break
    except lgb.basic.LightGBMError as error:
        raise GainfulError(f"LightGBM: {error}") from error
    return start if booster is None else booster


def _training_and_validation(
    data: RankingData,
    labels: Array,
    params: dict[str, Any],
    monitor: Monitor,
    categorical: Sequence[int],
    exact_bins: bool,
    start: Any,
) -> tuple[Any, Any]:
    """LightGBM's data sets, the second None without validation data."""
    # categories are binned by how often they occur; going on predicts the rows, which LightGBM cannot do in blocks
    in_blocks = exact_bins and data.X.dtype in CODES and not categorical and start is None
    bins = None
    if in_blocks:
        from gainful.engines.codes import NOT_BY_FREQUENCY, bins_of_codes

        params |= NOT_BY_FREQUENCY
        bins = bins_of_codes(data.X, params)
    train = _dataset(data, labels, params, categorical, bins, in_blocks)
    if monitor.valid is None:
        return train, None
    return train, _dataset(monitor.valid, np.zeros(monitor.valid.n_rows), params, categorical, train, in_blocks)


def draws_at_random(params: Mapping[str, Any]) -> bool:
    """Whether one tree may find a split where another found none, because each sees a sample."""
    shares = ("feature_fraction", "feature_fraction_bynode", "bagging_fraction")
    return any(float(params.get(name, 1.0)) < 1.0 for name in shares) or bool(params.get("extra_trees"))


def _with_own_sample(
    objective: Objective, data: RankingData, params: dict[str, Any]
) -> tuple[Objective, dict[str, Any]]:
    """The objective on a sample of the queries, drawn anew for each tree.

    LightGBM's own sampling by query leaves out nothing where the gradients come from outside (seen in 4.7: all rows
    counted, and below a share of one half no split at all).
    """
    if not params.get("bagging_by_query"):
        return objective, params
    share, seed = float(params["bagging_fraction"]), int(params["seed"])
    rest = {name: value for name, value in params.items() if not name.startswith("bagging_")}

    def sampled(scores: Array, iteration: int) -> tuple[Array, Array]:
        gradient, curvature = objective(scores, iteration)
        drawn = np.zeros(data.n_queries)
        rng = np.random.default_rng([seed, iteration])
        drawn[rng.permutation(data.n_queries)[: max(1, round(share * data.n_queries))]] = 1.0
        rows = np.repeat(drawn, data.counts).reshape((-1,) + (1,) * (gradient.ndim - 1))
        return gradient * rows, curvature * rows

    return sampled, rest


def _say_if_leaves_are_too_large(data: RankingData, params: Mapping[str, Any]) -> None:
    least = int(params["min_data_in_leaf"])
    if data.n_rows < 2 * least:
        warnings.warn(
            f"min_docs_in_leaf={least} leaves no room for a split among {data.n_rows} documents, so all scores are "
            "equal; lower it",
            ConvergenceWarning,
            stacklevel=2,
        )


def _new_booster(params: dict[str, Any], train: Any, valid: Any) -> Any:
    import lightgbm as lgb

    booster = lgb.Booster(params, train.construct())
    if valid is not None:
        booster.add_valid(valid.construct(), "valid")
    return booster


def _can_split(train: Any) -> bool:
    """Whether a feature has two bins left; LightGBM drops those that no split could use."""
    return any(train.feature_num_bin(j) > 1 for j in range(train.num_feature()))


def _go_on(start: Any, params: dict[str, Any], train: Any, valid: Any, fobj: Any) -> Any:
    """A live booster that holds the trees of ``start`` and one more: what LightGBM offers for going on."""
    import lightgbm as lgb

    return lgb.train(
        params if fobj is None else params | {"objective": fobj},
        train,
        num_boost_round=1,
        init_model=start,
        keep_training_booster=True,
        valid_sets=None if valid is None else [valid],
        valid_names=None if valid is None else ["valid"],
    )


def bins_of_values(X: Any) -> dict[str, Any]:
    """LightGBM's parameters for one bin per distinct value."""
    from scipy import sparse

    n, d = X.shape
    columns = X.tocsc() if sparse.issparse(X) else X
    most = 1
    for j in range(d):
        if isinstance(columns, np.ndarray):
            most = max(most, len(np.unique(columns[:, j])))
        else:
            most = max(most, 1 + len(np.unique(columns.data[columns.indptr[j] : columns.indptr[j + 1]])))
    if most > MOST_BINS:
        raise DataError(
            f'bins="exact" wants a bin for each distinct value, but a feature has {most:,} and {MOST_BINS:,} is '
            "the most; put gainful.AdaptiveBinner in front, or give bins a number"
        )
    # one more than there are values: LightGBM keeps a bin for missing ones
    return {"max_bin": max(most + 1, 2), "min_data_in_bin": 1, "bin_construct_sample_cnt": max(n, 1)}


def predict_rows(booster: Any, X: Any, iterations: int) -> Array:
    """What the first so many iterations predict, put through LightGBM's own objective where it has a link."""
    if X.dtype in CODES:
        from gainful.engines.codes import predict_blocks

        return predict_blocks(booster, X, BLOCK_VALUES, num_iteration=iterations)
    return np.asarray(booster.predict(as_lightgbm(X), num_iteration=iterations, **_threads(X.shape[0], FEW_ROWS)))


def contributions_of_rows(booster: Any, X: Any, iterations: int) -> Array:
    """SHAP values of the first so many iterations, (n_rows, models · (n_features + 1)), base last; dense."""
    import lightgbm as lgb

    rows = as_lightgbm(without_codes(X))
    rows = rows if isinstance(rows, np.ndarray) else rows.toarray()  # LightGBM would answer with a list of matrices
    try:
        found = booster.predict(rows, num_iteration=iterations, pred_contrib=True, **_threads(len(rows), 1))
    except lgb.basic.LightGBMError as error:
        raise GainfulError(f"LightGBM: {error}") from error
    return np.asarray(found, dtype=np.float64)


def _threads(n_rows: int, few: int) -> dict[str, int]:
    """LightGBM's setting for so many rows: waking its threads takes longer than scoring a few rows on one."""
    return {"num_threads": 1} if n_rows <= few else {}


def as_lightgbm(X: Any) -> Any:
    """X in a form LightGBM knows: it takes SciPy's sparse matrices but not its sparse arrays. Nothing is copied."""
    if isinstance(X, np.ndarray):
        return X
    from scipy import sparse

    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape, copy=False)


def _dataset(
    data: RankingData,
    labels: Array,
    params: dict[str, Any],
    categorical: Sequence[int],
    reference: Any = None,
    in_blocks: bool = False,
) -> Any:
    import lightgbm as lgb

    X = as_lightgbm(data.X)
    if in_blocks and X.dtype in CODES:
        from gainful.engines.codes import Blocks

        X = Blocks(X)
    return lgb.Dataset(
        X,
        label=labels,
        group=data.counts,
        weight=data.row_weights,
        feature_name="auto",
        categorical_feature=list(categorical) if categorical else "auto",
        reference=reference,
        params=params,
    )


def _validation_metric(booster: Any, monitor: Monitor, to_scores: Callable[[Array], Array] | None) -> float:
    def measure(predicted: Array, _: Any) -> tuple[str, float, bool]:
        return "validation", monitor.evaluate(predicted if to_scores is None else to_scores(predicted)), True

    return float(booster.eval_valid(feval=measure)[0][2])
