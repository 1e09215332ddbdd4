"""Boosted trees: LightGBM, one iteration at a time.

gainful runs the loop itself instead of calling ``lightgbm.train``: validation uses gainful's metrics with their
conventions, Ctrl-C keeps the trees so far, and an objective may change from one iteration to the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gainful.compute.randomness import seed_from
from gainful.compute.threads import openmp_threads, step_context
from gainful.data.dataset import RankingData
from gainful.data.frames import CODES, without_codes
from gainful.data.query_weights import rows_of_mean_one
from gainful.data.rows import Array
from gainful.errors import DataError, GainfulError, ParameterError, UnknownNameError
from gainful.errors.other_names import LIGHTGBM
from gainful.training.monitor import Monitor
from gainful.trees.booster_text import check_booster_text
from gainful.trees.data_sets import as_lightgbm, binning_of, can_split, training_and_validation
from gainful.trees.query_sampling import (
    QuerySample,
    n_sampled_models,
    never_all_one,
    replace_bagging,
    skip_feature_samples,
)
from gainful.trees.row_chunks import ChunkedMatrix

# Called before each tree with the scores of the training rows and the number of the tree to grow (from 1, including
# trees of an earlier training); returns gradient and curvature of each row.
Objective = Callable[[Array, int], tuple[Array, Array]]

LINEAR_LEAVES = ("linear_tree", "linear_trees")  # LightGBM's names
NO_CONTRIBUTIONS = (
    "trees with linear models in their leaves (linear_tree) have no contributions; train without linear_tree"
)
FEW_ROWS = 1000  # per thread when scoring: fewer are not worth a thread
VALUES_PER_THREAD = 20_000  # stored values of X per thread when growing trees


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
    """LightGBM's parameters for gainful's. ``engine_params`` adds to them, but must not set those that gainful sets."""
    params: dict[str, Any] = {
        "num_leaves": int(n_leaves),
        "learning_rate": float(learning_rate),
        "min_data_in_leaf": int(min_docs_in_leaf),
        "feature_fraction": float(colsample),
        "lambda_l2": float(l2),
        "max_bin": 255 if bins == "exact" else int(bins),
        "num_threads": openmp_threads(n_jobs, math.inf),
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
    for ours, names in {**LIGHTGBM, **(also_owned or {})}.items():
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
    from gainful.trees.lightgbm_private import parameter_aliases

    known = parameter_aliases()
    names = {*known, *(alias for aliases in known.values() for alias in aliases)}
    for name, value in extra.items():
        if name not in names:
            raise UnknownNameError.among("parameter", name, sorted(names), owner=f"LightGBM (engine_params of {owner})")
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
    n_jobs: int | None = None,
) -> Any:
    """A booster of at most ``n_trees`` iterations; the monitor's best iteration is the one to predict with.

    Parameters
    ----------
    labels : (n_rows,), what LightGBM's own objectives see
    objective : gradients from gainful; without it ``params`` names an objective of LightGBM's
    categorical : features that hold categories
    exact_bins : one bin for each distinct value of a feature
    start : a booster to continue; its trees count
    to_scores : turns LightGBM's predictions for the validation rows into one score per row
    n_jobs : threads; None for as many as are useful at each tree
    """
    from gainful.trees.lightgbm_library import lgb, native

    monitor.total = n_trees
    n_threads = training_threads(n_jobs, data)
    step = step_context(native, n_jobs, n_threads)
    params = params | {"num_threads": n_threads}
    growth = Growth(data, params, monitor, objective, start)
    params = growth.params
    another_may_split = draws_at_random(params) or growth.sample is not None or getattr(objective, "changes", False)
    valid = monitor.valid
    binning = binning_of(data, params, categorical, exact_bins)
    params = binning.params
    try:
        train, held_out = training_and_validation(
            binning,
            (data, growth.columns(data, labels, growth.first_weights())),
            None if valid is None else (valid, growth.columns(valid, np.zeros(valid.n_rows), valid.row_weights)),
        )
        booster = _new_booster(params, train, held_out, growth)
        if growth.start is None and objective is not None and not can_split(train):
            # LightGBM accepts no gradients for trees without a split: no trees, and all scores are 0
            return booster
        with monitor:
            for _ in growth.trees(n_trees):
                before = booster.current_iteration()
                with step():
                    stuck = growth.update(booster, train)  # True when no leaf could be split
                    nothing = stuck and booster.current_iteration() == before
                    measured = valid is not None and not nothing
                    validation = _validation_metric(booster, monitor, to_scores) if measured else None
                if nothing:
                    if another_may_split:
                        continue
                    break
                if monitor.step(objective=getattr(objective, "value", None), validation=validation):
                    break
                growth.save_if_due(booster)
        growth.save_if_interrupted(booster)
    except lgb.basic.LightGBMError as error:
        raise GainfulError(f"LightGBM: {error}") from error
    return booster


def training_threads(n_jobs: int | None, data: RankingData) -> int:
    """The number of threads that sums are split over; the last digits of the trees depend on it."""
    values = data.X.nnz if hasattr(data.X, "indptr") else data.n_rows * data.n_features
    return openmp_threads(n_jobs, values / VALUES_PER_THREAD)


class Growth:
    """The state of a training: the tree to grow, its sample, and what a checkpoint holds.

    Trees are numbered from 1, including those of ``start``. ``first`` is the last number before this training,
    ``start`` the booster to continue: the one given, or that of the checkpoint. Weights are divided by the mean weight
    of the queries, ``mean_weight`` if the data is one block of many: only ratios count, not their size beside ``l2``.
    """

    def __init__(
        self,
        data: RankingData,
        params: dict[str, Any],
        monitor: Monitor,
        objective: Objective | None,
        start: Any,
        mean_weight: float | None = None,
    ):
        self.monitor, self.objective = monitor, objective
        self.first = 0 if start is None else start.current_iteration()
        found = None if monitor.checkpoint is None else monitor.checkpoint.state
        # continuing a model must not draw the samples of its trees again; random_state=None drew a seed
        self.seed = (params["seed"] + self.first) % 2**31
        self.tree, self.start, self.measured_before = self.first, start, -1
        if found is not None:
            assert monitor.checkpoint is not None
            with monitor.checkpoint.restoring():
                self._resume(found, data.n_features, int(params.get("num_class", 1)))
        self.params, self.sample = replace_bagging(params | {"seed": self.seed}, data)
        if objective is not None:
            self.params = self.params | {"objective": "none"}
        self.row_weights = rows_of_mean_one(data, mean_weight)

    def _resume(self, found: dict[str, Any], n_features: int, n_classes: int) -> None:
        from gainful.trees.lightgbm_library import lgb

        self.monitor.restore(found["monitor"])
        check_saved_trees(found, self.monitor, n_features)
        self.seed, self.tree, self.start = int(found["seed"]), int(found["tree"]), lgb.Booster(model_str=found["trees"])
        if self.start.num_model_per_iteration() != n_classes:
            raise ValueError("its trees are of another number of classes")
        if found["objective"] is not None:
            self.objective.restore(found["objective"])  # type: ignore[union-attr]

    def trees(self, n_trees: int) -> Iterator[int]:
        """The numbers of the trees to grow; none if training had ended already."""
        if not self.monitor.out_of_patience:
            for number in range(self.tree + 1, n_trees + 1):
                self.tree, self.measured_before = number, len(self.monitor.history)
                yield number

    def update(self, booster: Any, train: Any) -> bool:
        """Grow one tree. True when no leaf could be split."""
        if self.objective is not None:
            return bool(booster.update(fobj=self._gradients))
        if self.sample is not None:
            # LightGBM's objectives read the weights of the data set again for every tree
            train.set_weight(self._sampled_weights(self.sample))
        return bool(booster.update())

    def _gradients(self, scores: Array, _: Any) -> tuple[Array, Array]:
        assert self.objective is not None
        gradient, curvature = self.objective(scores, self.tree)
        if self.sample is not None:
            rows = self.sample.rows(self.tree).reshape((-1,) + (1,) * (gradient.ndim - 1))
            gradient, curvature = gradient * rows, curvature * rows
        return self._in_float32(gradient), self._in_float32(curvature)

    def _in_float32(self, values: Array) -> Array:
        """The values as LightGBM takes them."""
        with np.errstate(over="ignore"):
            small: Array = np.asarray(values, dtype=np.float32)
        if not np.isfinite(small).all():
            raise DataError(
                f"gradients at tree {self.tree} go up to {np.abs(values).max():.3g}, more than LightGBM can hold; a "
                "smaller learning_rate may help"
            )
        return small

    def _sampled_weights(self, sample: QuerySample) -> Array:
        rows = sample.rows(self.tree)
        return never_all_one(rows if self.row_weights is None else rows * self.row_weights)

    def first_weights(self) -> Array | None:
        """The weights of the rows that LightGBM gets before the first tree."""
        if self.objective is not None or self.sample is None:
            return self.row_weights
        return never_all_one(np.ones(int(self.sample.counts.sum())) if self.row_weights is None else self.row_weights)

    def columns(self, data: RankingData, labels: Array, weights: Array | None) -> dict[str, Any]:
        """What LightGBM gets besides the features."""
        # the scores of the trees to continue, one model after the other; summed tree by tree, as when they grew
        scores = None if self.start is None else predict_rows(self.start, data.X, -1, raw_score=True).ravel(order="F")
        if data.init_scores is not None:
            scores = data.init_scores if scores is None else scores + data.init_scores
        return {"label": labels, "group": data.counts, "weight": weights, "init_score": scores}

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def save_if_due(self, booster: Any) -> None:
        if self.monitor.checkpoint is not None and self.monitor.checkpoint.due():
            self._save(booster, self.tree)

    def save_if_interrupted(self, booster: Any) -> None:
        """Ctrl-C may come in the middle of a tree: the checkpoint ends with the last one that was measured."""
        if self.monitor.checkpoint is not None and self.monitor.interrupted:
            measured = len(self.monitor.history) > self.measured_before
            self._save(booster, self.tree if measured else self.tree - 1)

    def _save(self, booster: Any, tree: int) -> None:
        assert self.monitor.checkpoint is not None
        state = getattr(self.objective, "state", None)
        self.monitor.checkpoint.save(
            {
                "trees": booster.model_to_string(num_iteration=len(self.monitor.history)),
                "tree": tree,
                "seed": self.seed,
                "objective": None if state is None else state(),
                "monitor": self.monitor.record(),
            }
        )


def check_saved_trees(found: Mapping[str, Any], monitor: Monitor, n_features: int) -> None:
    """Raise unless LightGBM can read the trees of a checkpoint safely and they fit the ``monitor`` restored from it."""
    if check_booster_text(found["trees"], n_features) != len(monitor.history):
        raise ValueError("its trees do not fit its history")
    if not len(monitor.history) <= int(found["tree"]) <= (monitor.total or 0) or not 0 <= int(found["seed"]) < 2**31:
        raise ValueError("its numbers are out of range")


def draws_at_random(params: Mapping[str, Any]) -> bool:
    """Whether one tree may find a split where another found none, because each sees a sample."""
    shares = ("feature_fraction", "feature_fraction_bynode", "bagging_fraction")
    return any(float(params.get(name, 1.0)) < 1.0 for name in shares) or bool(params.get("extra_trees"))


def _new_booster(params: dict[str, Any], train: Any, valid: Any, growth: Growth) -> Any:
    """A booster that starts with the trees to continue. The data sets hold their scores."""
    from gainful.trees.lightgbm_library import lgb
    from gainful.trees.lightgbm_private import set_start

    data_sets = [train] if valid is None else [train, valid]
    for one in data_sets:
        one.construct()
    if growth.start is not None:
        set_start(growth.start, *data_sets)
    booster = lgb.Booster(params, train)
    if valid is not None:
        booster.add_valid(valid, "valid")
    if growth.tree > growth.first and float(params.get("feature_fraction", 1.0)) < 1.0:
        n_sampled = n_sampled_models(params, train, booster.num_model_per_iteration())
        skip_feature_samples(booster, (growth.tree - growth.first) * n_sampled)
    return booster


def first_iterations(booster: Any, iterations: int) -> Any:
    """A booster of the first ``iterations`` only: the one given where it has grown no further."""
    if booster.current_iteration() <= iterations:
        return booster
    from gainful.trees.lightgbm_library import lgb

    return lgb.Booster(model_str=booster.model_to_string(num_iteration=iterations))


def release_data(booster: Any) -> Any:
    """The same trees, without the data they were grown on."""
    from gainful.trees.lightgbm_library import lgb

    return lgb.Booster(model_str=booster.model_to_string(num_iteration=-1))


def predict_rows(booster: Any, X: Any, iterations: int, n_jobs: int | None = None, **how: Any) -> Array:
    """Predictions by the first iterations, through the link of LightGBM's own objective if it has one."""
    if isinstance(X, ChunkedMatrix):
        return np.concatenate([predict_rows(booster, chunk, iterations, n_jobs, **how) for chunk in X.chunks])
    how = {"num_threads": openmp_threads(n_jobs, X.shape[0] / FEW_ROWS)} | how
    if X.dtype in CODES:
        from gainful.trees.codes import predict_blocks

        return predict_blocks(booster, X, num_iteration=iterations, **how)
    return np.asarray(booster.predict(as_lightgbm(X), num_iteration=iterations, **how))


def contributions_of_rows(booster: Any, X: Any, iterations: int, n_jobs: int | None = None) -> Array:
    """SHAP values of the first iterations, (n_rows, models · (n_features + 1)), base last; dense."""
    from gainful.trees.lightgbm_library import lgb

    text = booster.model_to_string(num_iteration=1)
    if "\n[linear_tree: 1]\n" in text:  # LightGBM would print before it raises
        raise GainfulError(NO_CONTRIBUTIONS)
    rows = as_lightgbm(without_codes(X))
    rows = rows if isinstance(rows, np.ndarray) else rows.toarray()  # else LightGBM would return a list of matrices
    try:
        threads = openmp_threads(n_jobs, len(rows))
        found = booster.predict(rows, num_iteration=iterations, pred_contrib=True, num_threads=threads)
    except lgb.basic.LightGBMError as error:
        raise GainfulError(f"LightGBM: {error}") from error
    sums = np.asarray(found, dtype=np.float64)
    return sums / iterations if is_average(text) else sums  # LightGBM forgets the mean here


def is_average(text: str) -> bool:
    """Whether a LightGBM model is the mean of its trees, a random forest, instead of their sum."""
    return "\naverage_output\n" in text.partition("\nTree=")[0]


def _validation_metric(booster: Any, monitor: Monitor, to_scores: Callable[[Array], Array] | None) -> float:
    def measure(predicted: Array, _: Any) -> tuple[str, float, bool]:
        scores = predicted if to_scores is None else to_scores(predicted)
        return "validation", monitor.evaluate(scores, complete=True), True

    return float(booster.eval_valid(feval=measure)[0][2])
