"""Other libraries' rankers: one trial with given settings, and a refit on all queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful import IntRange, Range, RankingData
from gainful.data.rows import Array

TREES, PATIENCE = 600, 50
Settings = dict[str, Any]
Trained = tuple[Callable[[Any], Array], int]  # scores of rows, and the iterations used
Over = Callable[[], bool]

SPACE = {
    "learning_rate": Range(0.02, 0.2, log=True),
    "leaves": IntRange(4, 64, log=True),
    "min_docs": IntRange(5, 200, log=True),
    "columns": Range(0.3, 1.0),
    "rows": Range(0.5, 1.0),
    "l2": Range(1e-3, 30.0, log=True),
}
FIRST = {"learning_rate": 0.06, "leaves": 16, "min_docs": 40, "columns": 0.6, "rows": 0.8, "l2": 1.0}


@dataclass(frozen=True)
class Peer:
    """A ranking objective of another library."""

    name: str
    train: Callable[[str, Settings, RankingData, RankingData | None, int, int, Over], Trained]  # over: ends it
    objective: str


def lightgbm(
    objective: str, s: Settings, train: RankingData, valid: RankingData | None, trees: int, threads: int, over: Over
) -> Trained:
    import lightgbm as lgb

    params = {
        "objective": objective, "metric": "ndcg", "eval_at": [10], "learning_rate": s["learning_rate"],
        "num_leaves": s["leaves"], "min_data_in_leaf": s["min_docs"], "feature_fraction": s["columns"],
        "bagging_fraction": s["rows"], "bagging_freq": 1, "bagging_by_query": True, "lambda_l2": s["l2"],
        "num_threads": threads, "verbosity": -1, "seed": s["seed"],
    }  # fmt: skip
    rows = lgb.Dataset(train.X, train.y, group=train.counts, free_raw_data=False)

    def watch(env: Any) -> None:
        if over():
            raise lgb.callback.EarlyStopException(env.iteration, env.evaluation_result_list or [])

    stop = [watch] if valid is None else [lgb.early_stopping(PATIENCE, verbose=False), watch]
    sets = [] if valid is None else [rows.create_valid(valid.X, valid.y, group=valid.counts)]
    booster = lgb.train(params, rows, trees, valid_sets=sets, callbacks=stop)
    n = booster.best_iteration or booster.current_iteration()
    return lambda X: np.asarray(booster.predict(X, num_iteration=n)), n


def xgboost(
    objective: str, s: Settings, train: RankingData, valid: RankingData | None, trees: int, threads: int, over: Over
) -> Trained:
    import xgboost as xgb

    def matrix(data: RankingData) -> Any:
        return xgb.DMatrix(data.X, data.y, qid=np.repeat(np.arange(data.n_queries), data.counts), nthread=threads)

    params = {
        "objective": objective, "eval_metric": "ndcg@10", "eta": s["learning_rate"], "tree_method": "hist",
        "grow_policy": "lossguide", "max_leaves": s["leaves"], "max_depth": 0, "min_child_weight": s["min_docs"] / 40,
        "colsample_bytree": s["columns"], "subsample": s["rows"], "lambda": s["l2"], "nthread": threads,
        "seed": s["seed"], "ndcg_exp_gain": True,
    }  # fmt: skip

    class Watch(xgb.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            return over()

    extra = {} if valid is None else {"evals": [(matrix(valid), "valid")], "early_stopping_rounds": PATIENCE}
    booster = xgb.train(params, matrix(train), trees, verbose_eval=False, callbacks=[Watch()], **extra)
    n = trees if valid is None else booster.best_iteration + 1
    return lambda X: np.asarray(booster.predict(xgb.DMatrix(X), iteration_range=(0, n))), n


def catboost(
    objective: str, s: Settings, train: RankingData, valid: RankingData | None, trees: int, threads: int, over: Over
) -> Trained:
    from catboost import CatBoost, Pool

    def pool(data: RankingData) -> Any:
        X = np.ascontiguousarray(data.X)
        return Pool(X, data.y / scale, group_id=np.repeat(np.arange(data.n_queries), data.counts))

    scale = float(train.highest_grade) if objective.startswith("YetiRank") and train.highest_grade > 0 else 1.0
    params = {
        "loss_function": objective, "eval_metric": "NDCG:top=10;type=Exp", "learning_rate": s["learning_rate"],
        "depth": int(np.clip(round(np.log2(s["leaves"])), 2, 8)), "l2_leaf_reg": s["l2"], "rsm": s["columns"],
        "bootstrap_type": "Bernoulli", "subsample": s["rows"], "random_seed": s["seed"], "thread_count": threads,
        "iterations": trees, "verbose": False, "allow_writing_files": False,
    }  # fmt: skip

    class Watch:
        def after_iteration(self, info: Any) -> bool:
            return not over()

    model = CatBoost(params)
    if valid is None:
        model.fit(pool(train))
        return lambda X: np.asarray(model.predict(np.ascontiguousarray(X))), trees
    stop = {"early_stopping_rounds": PATIENCE, "use_best_model": True, "callbacks": [Watch()]}
    model.fit(pool(train), eval_set=pool(valid), **stop)
    return lambda X: np.asarray(model.predict(np.ascontiguousarray(X))), int(model.tree_count_)


PEERS = (
    Peer("LightGBM lambdarank", lightgbm, "lambdarank"),
    Peer("LightGBM rank_xendcg", lightgbm, "rank_xendcg"),
    Peer("XGBoost rank:ndcg", xgboost, "rank:ndcg"),
    Peer("XGBoost rank:pairwise", xgboost, "rank:pairwise"),
    Peer("CatBoost QueryRMSE", catboost, "QueryRMSE"),
    Peer("CatBoost YetiRank", catboost, "YetiRank"),
)
