"""Random models of other makers: does gainful score them as their makers do?

    python benchmarks/foreign_models.py                    # 1,000 models of each maker
    python benchmarks/foreign_models.py --models 50 --makers xgboost,catboost --seed 3

Each model is small and trained on random rows with random settings: objective, kind of booster, depth, missing values,
categories. It is saved in the maker's format and loaded by gainful. Both score rows that lie on thresholds, next to
them and elsewhere, with missing values and unseen categories. A model fails if any score differs by more than float32
rounding of what is summed, if its contributions do not add up to the scores, or if it scores otherwise after
``gainful.save`` and ``gainful.load``. A model that gainful refuses counts as refused, with the reason.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gainful

RENEWED = ("regression_l1", "quantile", "mape")  # objectives whose leaves LightGBM sets anew, so never linear ones
ROUNDING = 2e-6  # of float32, relative to the size of what is summed
Random = np.random.Generator


@dataclass
class Made:
    """A model in a file, and what its maker gives for some rows."""

    path: Path
    rows: np.ndarray
    expected: np.ndarray
    size: float  # of what is summed for a score
    settings: dict[str, Any]


def pick(rng: Random, *options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


@dataclass
class Problem:
    """Rows to train on: numbers of several sizes, ties, zeros, one or two columns of categories, missing values."""

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray
    categorical: list[int]


def random_problem(rng: Random, *, missing: bool = True, categories: bool = True) -> Problem:
    n_queries, n_docs, n_features = int(rng.integers(3, 8)), int(rng.integers(5, 25)), int(rng.integers(1, 9))
    n = n_queries * n_docs
    X = rng.normal(size=(n, n_features)) * 10.0 ** rng.integers(-6, 7, n_features)
    for j in range(n_features):
        kind = rng.integers(4)
        if kind == 0:
            X[:, j] = rng.integers(-3, 4, n) / 2
        elif kind == 1:
            X[rng.random(n) < 0.5, j] = 0.0
    categorical = [j for j in range(n_features) if categories and rng.random() < 0.3]
    for j in categorical:
        X[:, j] = rng.integers(0, rng.integers(2, 40), n)
    signal = sum(np.argsort(np.argsort(X[:, j])) / n for j in range(n_features)) + sum(X[:, j] % 3 for j in categorical)
    y = np.clip(np.round(signal + rng.normal(size=n) * 0.3), 0, 4)
    if missing and rng.random() < 0.6:
        X[rng.random(X.shape) < 0.15] = np.nan
    return Problem(X, y, np.full(n_queries, n_docs), categorical)


def rows_to_score(rng: Random, problem: Problem, n: int = 120, *, missing: bool = True) -> np.ndarray:
    """Training values mixed anew, the float32 next to them, new values, zeros, missing ones, unseen categories."""
    X = problem.X
    rows = np.stack([rng.choice(X[:, j], n) for j in range(X.shape[1])], axis=1)
    single = rows.astype(np.float32)
    kind = rng.integers(6, size=rows.shape)
    rows = np.where(kind == 0, np.nextafter(single, np.float32(np.inf)), rows)
    rows = np.where(kind == 1, np.nextafter(single, np.float32(-np.inf)), rows)
    rows = np.where(kind == 2, rows * (1.0 + 0.3 * rng.normal(size=rows.shape)), rows)
    rows = np.where((kind == 3) & (rng.random(rows.shape) < 0.3), 0.0, rows)
    for j in problem.categorical:
        rows[:, j] = rng.choice(X[:, j], n)
        rows[rng.random(n) < 0.1, j] = rng.integers(40, 2000)
    if missing:
        rows[rng.random(rows.shape) < 0.1] = np.nan
    elif np.isnan(rows).any():
        rows = np.nan_to_num(rows)
    return rows


# -- makers ------------------------------------------------------------------------------------------------------------


def of_lightgbm(rng: Random, folder: Path) -> Made:
    import lightgbm as lgb

    problem = random_problem(rng)
    objective = pick(
        rng,
        "lambdarank",
        "lambdarank",
        "rank_xendcg",
        "regression",
        "regression_l1",
        "huber",
        "fair",
        "quantile",
        "mape",
        "poisson",
        "binary",
        "cross_entropy",
        "tweedie",
        "gamma",
        "multiclass",
        "none",
    )
    boosting = pick(rng, "gbdt", "gbdt", "dart", "gbdt" if objective == "none" else "rf")
    params: dict[str, Any] = {
        "objective": objective,
        "boosting": boosting,
        "num_leaves": int(rng.integers(2, 32)),
        "verbosity": -1,
        "min_data_in_leaf": int(rng.integers(1, 6)),
        "learning_rate": float(rng.uniform(0.05, 0.9)),
        "num_threads": 1,
        "zero_as_missing": bool(rng.random() < 0.15),
        "use_missing": bool(rng.random() < 0.9),
        "seed": 1,
        "cat_smooth": 1,
        "min_data_per_group": 1,
        "max_cat_to_onehot": pick(rng, 1, 4),
        "boost_from_average": True,
        "linear_tree": bool(rng.random() < 0.1) and boosting == "gbdt" and objective not in RENEWED,
    }
    if params["linear_tree"]:  # which LightGBM has for plain numbers only
        params["linear_tree"] = not problem.categorical and not params["zero_as_missing"]
    y = problem.y
    if boosting == "rf":
        params |= {"bagging_freq": 1, "bagging_fraction": 0.7}
    if objective in ("binary", "cross_entropy"):
        y = (y > np.median(y)).astype(float)
    elif objective == "gamma":
        y = y + 1.0
    elif objective == "multiclass":
        params["num_class"] = 5
    train = lgb.Dataset(problem.X, y, group=problem.group, categorical_feature=problem.categorical, params=params)
    if objective == "none":
        params["objective"] = lambda scores, data: (scores - data.get_label(), np.ones_like(scores))
    booster = lgb.train(params, train, int(rng.integers(1, 15)))
    path = folder / "model.txt"
    booster.save_model(path)
    again = lgb.Booster(model_file=path)
    rows = rows_to_score(rng, problem)
    if objective == "multiclass":
        expected = again.predict(rows) @ np.arange(5.0)
    else:
        expected = again.predict(rows, raw_score=True)
        if boosting == "rf":  # LightGBM's raw score is the sum, its prediction the mean
            expected = expected / again.num_trees()
    settings = {k: v for k, v in params.items() if not callable(v)} | {"objective": objective}
    return Made(path, rows, expected, 1e-3 * float(np.abs(expected).max() + 1), settings)


def of_xgboost(rng: Random, folder: Path) -> Made:
    import xgboost as xgb

    booster_kind = pick(rng, "gbtree", "gbtree", "gbtree", "dart", "gblinear")
    is_linear = booster_kind == "gblinear"
    problem = random_problem(rng, categories=not is_linear)
    objective = pick(
        rng,
        "rank:ndcg",
        "rank:pairwise",
        "rank:map",
        "reg:squarederror",
        "reg:absoluteerror",
        "reg:pseudohubererror",
        "reg:logistic",
        "binary:logistic",
        "binary:logitraw",
        "binary:hinge",
        "count:poisson",
        "reg:gamma",
        "reg:tweedie",
        "survival:cox",
        "reg:squaredlogerror",
        "reg:quantileerror",
        "multi:softprob",
        "multi:softmax",
    )
    y = problem.y
    if objective.startswith("binary") or objective in ("reg:logistic", "rank:map"):
        y = (y > np.median(y)).astype(float)
    elif objective in ("reg:gamma", "survival:cox"):
        y = y + 1.0
    params: dict[str, Any] = {
        "booster": booster_kind,
        "objective": objective,
        "nthread": 1,
        "verbosity": 0,
        "eta": float(rng.uniform(0.1, 0.9)),
        "seed": int(rng.integers(1000)),
    }
    if is_linear:
        params |= {"updater": "coord_descent", "lambda": 0.1}
    else:
        methods = ("hist", "approx") if problem.categorical else ("hist", "approx", "exact")
        params |= {
            "max_depth": int(rng.integers(1, 9)),
            "min_child_weight": pick(rng, 0, 0.01, 1),
            "lambda": pick(rng, 0.0, 1.0),
            "tree_method": pick(rng, *methods),
            "max_cat_to_onehot": pick(rng, 1, 4, 100),
            "subsample": pick(rng, 1.0, 0.7),
        }
        params["max_bin"] = pick(rng, 4, 256)
        if rng.random() < 0.2 and objective not in ("reg:absoluteerror", "reg:quantileerror"):
            params["num_parallel_tree"] = 3
        if booster_kind == "dart" or rng.random() < 0.2:  # which drops trees without dart, too, from XGBoost 3.4 on
            params |= {
                "rate_drop": pick(rng, 0.1, 0.4, 1.0),
                "skip_drop": pick(rng, 0.0, 0.3),
                "one_drop": pick(rng, 0, 1),
                "sample_type": pick(rng, "uniform", "weighted"),
                "normalize_type": pick(rng, "tree", "forest"),
            }
    if objective == "reg:quantileerror":
        params["quantile_alpha"] = 0.6
    if rng.random() < 0.5:
        params["base_score"] = float(rng.uniform(0.2, 0.8))
    if objective.startswith("multi"):
        params["num_class"] = 5
        if is_linear:
            params |= {"objective": "reg:squarederror"}
            del params["num_class"]
            objective = "reg:squarederror"
    types = ["c" if j in problem.categorical else "float" for j in range(problem.X.shape[1])]
    given = {"feature_types": types, "enable_categorical": True}
    train = xgb.DMatrix(problem.X, y, **given)
    if objective.startswith("rank"):
        train.set_group(problem.group)
    try:
        booster = xgb.train(params, train, int(rng.integers(1, 12)))
    except xgb.core.XGBoostError:  # older versions estimate a base_score of 0, which they then refuse: another problem
        return of_xgboost(rng, folder)
    path = folder / pick(rng, "model.json", "model.ubj")
    booster.save_model(path)
    again = xgb.Booster(model_file=path)
    rows = rows_to_score(rng, problem)
    matrix = xgb.DMatrix(rows, **given)
    if objective.startswith("multi"):
        margins = again.predict(matrix, output_margin=True).astype(np.float64)
        odds = np.exp(margins - margins.max(axis=1, keepdims=True))
        expected = (odds / odds.sum(axis=1, keepdims=True)) @ np.arange(5.0)
        if objective == "multi:softprob":
            expected = again.predict(matrix).astype(np.float64) @ np.arange(5.0)
        size = 5.0 * (1.0 + float(np.abs(margins).max()))
    else:
        expected = again.predict(matrix, output_margin=True).astype(np.float64)
        parts = again.predict(matrix, pred_contribs=True)
        size = float(np.abs(parts).sum(axis=1).max() + np.abs(expected).max() + 0.5)
    return Made(path, rows, expected, size, params)


def of_catboost(rng: Random, folder: Path) -> Made:
    import catboost

    nan_mode = pick(rng, "Min", "Max", "Forbidden")
    problem = random_problem(rng, missing=nan_mode != "Forbidden", categories=False)
    loss = pick(
        rng, "YetiRank", "QueryRMSE", "QuerySoftMax", "PairLogit", "RMSE", "MAE", "Logloss", "Poisson", "MultiClass"
    )
    y = (problem.y > np.median(problem.y)).astype(float) if loss in ("Logloss", "QuerySoftMax") else problem.y
    if loss == "MultiClass" and len(np.unique(y)) < 3:
        loss = "RMSE"
    policy = pick(rng, "SymmetricTree", "SymmetricTree", "Depthwise", "Lossguide")
    params: dict[str, Any] = {
        "loss_function": loss,
        "iterations": int(rng.integers(1, 10)),
        "depth": int(rng.integers(1, 7)),
        "thread_count": 1,
        "nan_mode": nan_mode,
        "border_count": pick(rng, 4, 32, 254),
        "random_seed": int(rng.integers(1000)),
        "verbose": False,
        "allow_writing_files": False,
        "learning_rate": float(rng.uniform(0.05, 0.9)),
        "grow_policy": policy,
        "feature_border_type": pick(rng, "GreedyLogSum", "Median", "Uniform", "UniformAndQuantiles"),
    }
    if policy != "SymmetricTree" and loss in ("YetiRank", "PairLogit"):
        params["grow_policy"] = "SymmetricTree"
    groups = np.repeat(np.arange(len(problem.group)), problem.group)
    model = catboost.CatBoost(params)
    try:
        model.fit(catboost.Pool(problem.X, y, group_id=groups))
    except catboost.CatBoostError:  # all pairs tied, all features constant, …: another problem
        return of_catboost(rng, folder)
    if rng.random() < 0.3 and loss != "MultiClass":
        model.set_scale_and_bias(float(rng.uniform(0.5, 2)), float(rng.normal()))
    path = folder / "model.json"
    model.save_model(path, format="json")
    again = catboost.CatBoost().load_model(path, format="json")
    rows = rows_to_score(rng, problem, missing=nan_mode != "Forbidden" or bool(rng.random() < 0.5))
    if loss == "MultiClass":
        expected = again.predict(rows, prediction_type="Probability") @ np.unique(y)
    else:
        expected = again.predict(rows, prediction_type="RawFormulaVal")
    return Made(path, rows, expected, float(np.abs(expected).max() + 1e-3), params)


def of_liblinear(rng: Random, folder: Path) -> Made:
    """Support vector regression, whose predictions are scores; the programs must be installed."""
    problem = random_problem(rng, missing=False, categories=False)
    params = {"-s": pick(rng, 11, 12, 13), "-B": pick(rng, -1, 1, 2.5), "-c": float(10 ** rng.uniform(-2, 1))}
    rows, path, output = rows_to_score(rng, problem, missing=False), folder / "liblinear", folder / "scores"
    for name, X, y in (("train", problem.X, problem.y), ("rows", rows, np.zeros(len(rows)))):
        lines = (f"{grade:g} " + " ".join(f"{j}:{x!r}" for j, x in enumerate(row, 1)) for row, grade in zip(X.tolist(), y, strict=True))  # fmt: skip # noqa: E501
        (folder / name).write_text("\n".join(lines) + "\n")
    options = [str(word) for pair in params.items() for word in pair]
    subprocess.run(["liblinear-train", "-q", *options, folder / "train", path], check=True)
    subprocess.run(["liblinear-predict", folder / "rows", path, output], check=True, stdout=subprocess.DEVNULL)
    expected = np.loadtxt(output)
    return Made(path, rows, expected, float(np.abs(expected).max() + 1e-3), params)


MAKERS: dict[str, Callable[[Random, Path], Made]] = {
    "lightgbm": of_lightgbm,
    "xgboost": of_xgboost,
    "catboost": of_catboost,
}
if shutil.which("liblinear-train"):
    MAKERS["liblinear"] = of_liblinear


# -- comparison --------------------------------------------------------------------------------------------------------


def fault_of(made: Made, folder: Path) -> str | None:
    """What is wrong with gainful's reading of this model; None if nothing is. Refusals raise."""
    model = gainful.load(made.path)
    scores = model.predict(made.rows)
    difference = float(np.abs(scores - made.expected).max())
    if difference > ROUNDING * made.size:
        return f"scores differ by {difference:.3g}, {ROUNDING * made.size:.2g} is allowed"
    gainful.save(model, folder / "again.gainful")
    if not np.array_equal(gainful.load(folder / "again.gainful").predict(made.rows), scores):
        return "saved and loaded, it scores otherwise"
    if made.settings.get("linear_tree"):
        return None
    total = model.contributions(made.rows).sum(axis=1)
    if not np.allclose(total, scores, rtol=0, atol=1e-9 * (1.0 + float(np.abs(scores).max()) + made.size)):
        return f"contributions differ from scores by {float(np.abs(total - scores).max()):.3g}"
    return None


def run(maker: str, n_models: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Counts of "equal", "refused: …" and "fault", and the first faults."""
    counts: Counter[str] = Counter()
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(n_models):
            rng = np.random.default_rng([seed, number])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the makers warn about settings
                made = MAKERS[maker](rng, folder)
            try:
                fault = fault_of(made, folder)
            except gainful.FormatError as error:
                counts[f"refused: {str(error).partition(': ')[2]}"] += 1
                continue
            counts["equal" if fault is None else "fault"] += 1
            if fault is not None:
                faults.append(f"{maker} {number}: {fault}; {made.settings}")
    return counts, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=1000, help="of each maker")
    parser.add_argument("--makers", default=",".join(MAKERS))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    failed = 0
    for maker in arguments.makers.split(","):
        counts, faults = run(maker, arguments.models, arguments.seed)
        print(f"{maker}: {', '.join(f'{count} {what}' for what, count in counts.most_common())}", flush=True)
        for fault in faults[:10]:
            print(f"  {fault}")
        failed += len(faults)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
