"""Small models of other makers, as files, for several test modules; those of RankLib and SVMrank by hand."""

from __future__ import annotations

import numpy as np

RANKLIB = """## LambdaMART
## No. of trees = 2
## No. of leaves = 3

<ensemble>
\t<tree id="1" weight="0.5">
\t\t<split>
\t\t\t<feature> 3 </feature>
\t\t\t<threshold> 0.25 </threshold>
\t\t\t<split pos="left">
\t\t\t\t<output> -2.0 </output>
\t\t\t</split>
\t\t\t<split pos="right">
\t\t\t\t<feature> 1 </feature>
\t\t\t\t<threshold> -1.0 </threshold>
\t\t\t\t<split pos="left">
\t\t\t\t\t<output> 1.0 </output>
\t\t\t\t</split>
\t\t\t\t<split pos="right">
\t\t\t\t\t<output> 4.0 </output>
\t\t\t\t</split>
\t\t\t</split>
\t\t</split>
\t</tree>
\t<tree id="2" weight="0.1">
\t\t<split>
\t\t\t<output> 3.0 </output>
\t\t</split>
\t</tree>
</ensemble>
"""

SVM_RANK = """SVM-light Version V6.20
0 # kernel type
3 # kernel parameter -d
1 # kernel parameter -g
1 # kernel parameter -s
1 # kernel parameter -r
empty# kernel parameter -u
4 # highest feature index
12 # number of training documents
3 # number of support vectors plus 1
0.5 # threshold b, each following line is a SV (starting with alpha*y)
1 1:0.25 3:-2 #
-2 2:1.5 #
"""

LIBLINEAR = "solver_type L2R_LR\nnr_class 2\nlabel -1 1\nnr_feature 3\nbias 1\nw\n0.5\n-1\n0\n2\n"


def problem(seed=0, n=200, categories=0):
    """Rows with missing values and, in the first columns, categories; grades and the sizes of the queries."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    for j in range(categories):
        X[:, j] = rng.integers(0, 12, n)
    y = np.clip(np.round(X[:, 2] + X[:, 3] + X[:, 0] % 3 + 1), 0, 4)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y, np.full(n // 20, 20)


def lightgbm_model(path, seed=0, **params):
    import lightgbm as lgb

    X, y, group = problem(seed)
    base = {"objective": "lambdarank", "verbosity": -1, "num_threads": 1, "num_leaves": 7}
    booster = lgb.train(base | params, lgb.Dataset(X, y, group=group), 5)
    booster.save_model(path)
    return booster, X


def xgboost_model(path, seed=0, names=None, categories=0, **params):
    import xgboost as xgb

    X, y, group = problem(seed, categories=categories)
    types = ["c"] * categories + ["float"] * (4 - categories)
    data = xgb.DMatrix(X, y, feature_names=names, feature_types=types, enable_categorical=True)
    data.set_group(group)
    base = {"objective": "rank:ndcg", "verbosity": 0, "nthread": 1, "max_depth": 4}
    booster = xgb.train(base | params, data, 5)
    booster.save_model(path)
    return booster, data, X


def catboost_model(path, seed=0, **params):
    import catboost

    X, y, group = problem(seed)
    base = {"loss_function": "YetiRank", "iterations": 5, "depth": 3, "thread_count": 1, "verbose": False}
    model = catboost.CatBoost(base | {"allow_writing_files": False} | params)
    model.fit(catboost.Pool(X, y, group_id=np.repeat(np.arange(len(group)), group)))
    model.save_model(str(path), format="json")
    return model, X
