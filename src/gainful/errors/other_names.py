"""Names that other libraries use for what has another name here, so that messages can give ours."""

from __future__ import annotations

from collections.abc import Collection

# Parameters of LightGBM that gainful sets from its own, with all their aliases (see LightGBM's Parameters page).
LIGHTGBM: dict[str, tuple[str, ...]] = {
    "n_trees": ("num_iterations", "num_iteration", "n_iter", "num_tree", "num_trees", "num_round", "num_rounds",
                "nrounds", "num_boost_round", "n_estimators", "max_iter"),
    "n_leaves": ("num_leaves", "num_leaf", "max_leaves", "max_leaf", "max_leaf_nodes"),
    "learning_rate": ("learning_rate", "shrinkage_rate", "eta"),
    "min_docs_in_leaf": ("min_data_in_leaf", "min_data_per_leaf", "min_data", "min_child_samples", "min_samples_leaf"),
    "subsample": ("bagging_fraction", "sub_row", "subsample", "bagging", "bagging_freq", "subsample_freq",
                  "bagging_by_query", "bagging_seed", "bagging_fraction_seed"),
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

# The same for other libraries, and for names that are not parameters of trees.
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "n_trees": ("iterations", "trees", "tree", "boosting_rounds"),
    "n_leaves": ("leaf", "leaves"),
    "learning_rate": ("shrinkage", "lr", "step_size"),
    "min_docs_in_leaf": ("mls", "min_leaf_support"),
    "colsample": ("rsm", "max_features"),
    "l2": ("l2_leaf_reg",),
    "bins": ("border_count", "tc", "threshold_candidates"),
    "categorical": ("cat_features",),
    "n_jobs": ("thread_count", "threads"),
    "early_stopping": ("od_wait", "patience", "estop"),
    "epochs": ("n_epochs", "num_epochs", "max_epochs"),
    "batch_size": ("batch",),
    "hidden": ("hidden_layer_sizes", "hidden_sizes", "layers"),
    "heads": ("n_heads", "num_heads"),
    "blocks": ("n_blocks", "num_blocks", "n_layers", "num_layers"),
    "models": ("members", "n_models", "n_estimators", "seeds"),
    "loss": ("objective", "loss_function", "criterion"),
    "truncation": ("lambdarank_truncation_level",),
    "gain": ("label_gain", "ndcg_exp_gain"),
    "normalize": ("lambdarank_norm", "lambdarank_normalization"),
    "scale": ("standardize", "standardise", "normalize", "normalise"),
    "alpha": ("ridge", "lambda", "reg_lambda", "l2"),
    # of fit and its relatives
    "qid": ("groups", "group_id", "query", "query_id", "queries", "qids"),
    "sample_weight": ("sample_weights", "weight", "weights"),
    "query_weights": ("sample_weight", "sample_weights", "weight", "weights"),
    "init_score": ("base_margin", "baseline"),
    "eval_init_score": ("base_margin_eval_set",),
    "progress": ("callback",),
    # of functions
    "data": ("X", "dataset", "path"),
    "folds": ("cv", "n_folds", "n_splits"),
    "seed": ("random_state",),
    "metrics": ("metric", "eval_metric", "scoring"),
    "sep": ("delimiter", "separator"),
    # rankers
    "lambdamart": ("lightgbm", "lgbm", "LGBMRanker", "xgboost", "XGBRanker", "catboost"),
    "lambdarank": ("lambdarank-linear",),
    "ranksvm": ("svmrank", "svm"),
    "adarank-ndcg": ("adarank",),
    "structured-svm": ("svmndcg",),
    "regression": ("ridge", "linear-regression"),
    "tree-regression": ("mart", "gbdt", "gbrt"),
    "list-net": ("dasalc", "allrank", "attention", "self-attention", "transformer", "context-aware-ranker"),
    # metrics
    "map": ("ap", "average_precision", "MeanAveragePrecision"),
    "mrr": ("rr", "reciprocal_rank"),
    "p": ("precision", "prec"),
    "hit": ("success", "hits", "hit_rate"),
    "rprec": ("r_precision",),
    "iprec": ("iprec_at_recall",),
    "infap": ("inf_ap",),
    "set-f1": ("f1",),
}

# Parameters of LightGBM without a counterpart here: tree rankers pass them on through engine_params.
PASSED_ON = (
    "max_depth", "boosting_type", "min_split_gain", "min_gain_to_split", "reg_alpha", "lambda_l1",
    "extra_trees", "path_smooth", "min_sum_hessian_in_leaf", "min_child_weight", "feature_fraction_bynode",
)  # fmt: skip

OWN_LOSS = "each ranker has its own: lambdamart is lambdarank, boosted takes loss=…, such as 'lambda(metric=map)'"

# Keywords and parameters of other libraries without a single counterpart here: the keyword or parameter that the advice
# is about, and the advice. It applies only where that keyword or parameter exists.
INSTEAD = {
    "group": ("qid", "qid takes the query id of each row; np.repeat(np.arange(len(group)), group) makes it from sizes"),
    "callbacks": ("progress", "progress takes one function, called after each iteration; progress=True shows a bar"),
    "verbose": ("progress", "progress=True shows a bar, progress=print each iteration"),
    "init_model": ("warm_start", "warm_start=True continues training from a model"),
    "xgb_model": ("warm_start", "warm_start=True continues training from a model"),
    "eval_group": ("eval_set", "eval_set=(X, y, group) takes the group sizes of the validation rows"),
    "eval_X": ("eval_set", "eval_set=(X, y, qid) takes the validation rows"),
    "eval_y": ("eval_set", "eval_set=(X, y, qid) takes the validation rows"),
    "eval_qid": ("eval_set", "eval_set=(X, y, qid) takes the query ids of the validation rows"),
    "eval_names": ("eval_set", "eval_set={'name': (X, y, qid), …} names several sets"),
    "eval_sample_weight": ("eval_set", "give eval_set as a RankingData, which brings weights of queries"),
    "feature_name": ("X", "names come with a frame or a RankingData"),
    "depth": ("engine_params", "engine_params={'max_depth': …} passes it to LightGBM"),
    "gamma": ("engine_params", "engine_params={'min_gain_to_split': …} passes it to LightGBM"),
    "eval_at": ("eval_metric", "eval_metric='ndcg@10' names the metric and where it ends"),
    "group_weight": ("sample_weight", "sample_weight has one weight per row, equal within a query"),
    "pairs_weight": ("pairs", "pairs takes the weights of the pairs as its third column"),
    "objective": ("n_trees", OWN_LOSS),
    "loss_function": ("n_trees", OWN_LOSS),
    "loss": ("n_trees", OWN_LOSS),
}


def bare(name: object) -> str:
    """A name without capitals, dashes, underscores and spaces, where spellings differ most."""
    return str(name).casefold().replace("-", "").replace("_", "").replace(" ", "")


def name_here(name: object, known: Collection[str]) -> str | None:
    """Which of the ``known`` names is the counterpart of this one from another library."""
    for table in (LIGHTGBM, ELSEWHERE):
        for ours, others in table.items():
            if ours in known and bare(name) in map(bare, others):
                return ours
    return None
