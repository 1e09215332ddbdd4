"""Compile every kernel by using it once on a tiny problem; numba caches the machine code on disk."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gainful.clicks.registry import CLICK_MODELS
from gainful.clicks.simulation import simulate_clicks
from gainful.data.dataset import RankingData
from gainful.formats import read
from gainful.formats.letor.reader import SMALL_FILE
from gainful.losses import LOSSES, loss
from gainful.losses.structured import RankingProblem, augmented_rankings, violations
from gainful.losses.structured.ndcg_kernels import INSERTION_DEPTH
from gainful.metrics import metric
from gainful.rankers.base import Ranker
from gainful.rankers.boosted import BoostedRanker
from gainful.rankers.coordinate_ascent import CoordinateAscent
from gainful.rankers.ensembles import Ensemble, Tree
from gainful.rankers.lambdamart import LambdaMART
from gainful.rankers.linear import LinearRanker
from gainful.rankers.mcrank import McRank
from gainful.rankers.ndcg_reduction import NDCGReduction
from gainful.rankers.rankmm import RankMM
from gainful.rankers.registry import RANKERS
from gainful.rankers.rsrank import RSRank
from gainful.rankers.scorers import prepare
from gainful.rankers.structured_svm import StructuredSVM
from gainful.serve.body_kernels import take_lists
from gainful.solvers.bundle_qp import solve_simplex_qp
from gainful.solvers.dual_projection import project_nonnegative_l1_inf
from gainful.statistics.paired import bootstrap_intervals, randomization
from gainful.trees.binning import AdaptiveBinner

METRICS = ("ndcg@10", "ndcg", "p@5", "map", "mrr@10", "err@10", "pair-accuracy")  # one per kernel


def warm_kernels(progress: Callable[[str, int, int], object] = lambda name, done, total: None) -> float:
    """Use every kernel once and return the seconds it took, nearly none if the machine code was cached.

    ``progress`` gets the name of the next step, the number done and the number in total.
    """
    start, steps = time.perf_counter(), warm_steps()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for done, (name, use) in enumerate(steps.items()):
            progress(name, done, len(steps))
            use()
    return time.perf_counter() - start


def warm_steps() -> dict[str, Callable[[], object]]:
    """Name → function that uses some kernels."""
    steps = {"reading": _read, "metrics": _evaluate, "comparisons": _resample, **_rankers(), **_losses()}
    steps["trees of other libraries"] = walk_trees
    steps["scores of trees"] = _score_by_trees
    steps["other ways to store features"] = _store_otherwise
    steps["other solvers and measures"] = _solve_otherwise
    steps["preferences"] = _prefer
    steps["rare cases"] = _meet_rare_cases
    steps["click models"] = _fit_click_models
    steps["requests to the server"] = _read_request
    return steps


def _read() -> None:
    """Features out of order, a long number, a comment; more than a small file has, which needs fewer kernels."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.txt")
        path.write_text("1 qid:1 2:0.25 1:0.12345678901 #docid = a\n" * (SMALL_FILE // 32))
        for sparse in (False, True):
            for dtype in ("float64", "float32"):
                read(path, sparse=sparse, dtype=dtype)


def _evaluate() -> None:
    """Every metric near the top, and over lists long enough to be sorted."""
    n = 40
    for name in METRICS:
        metric(name)(np.arange(n), np.arange(n) % 3, qid=np.zeros(n))


def _resample() -> None:
    randomization(np.ones(2))
    bootstrap_intervals(np.ones((2, 1)))


def _rows() -> tuple[Any, Any, Any]:
    return np.random.default_rng(0).random((48, 3)), np.tile([0.0, 1.0, 2.0], 16), np.repeat([1, 2, 3, 4], 12)


def _rankers() -> dict[str, Callable[[], object]]:
    data = RankingData.from_rows(*_rows())

    def use(ranker: Ranker) -> None:
        ranker.fit(data, eval_set=data).predict(data)

    rankers = {name: entry.create(**_short(name)) for name, entry in RANKERS.items() if entry.installed}
    for ranker in rankers.values():
        ranker._check_parameters()  # what a ranker lacks is said before any compiles
    return {name: partial(use, ranker) for name, ranker in rankers.items()}


def _losses() -> dict[str, Callable[[], object]]:
    """Every loss with its gradient and curvature; hinge losses also on a list long enough to be sorted."""
    data = RankingData.from_rows(*_rows())
    crowded = np.arange(2_100.0)

    def use(name: str) -> None:
        LinearRanker(loss=name, max_iter=2).fit(data)
        if loss(name).entry.newton:
            BoostedRanker(loss=name, n_trees=1).fit(data)
        if name.startswith(("pairwise", "margin")):
            loss(name)(-crowded, crowded)

    names = [*LOSSES, *(f"lambda(metric={metric})" for metric in ("map", "mrr", "err(max_grade=9)"))]
    return {f"loss {name}": partial(use, name) for name in names}


def _prefer() -> None:
    X, _, qid = _rows()
    LinearRanker(max_iter=2).fit(X, pairs=[(0, 1)], qid=qid)


def walk_trees() -> None:
    """Trees of other libraries, with and without categories."""
    one, row = np.zeros(1, dtype=np.int64), np.zeros((1, 1))
    plain = Tree(one, np.zeros(1), np.zeros(1, dtype=bool), one - 1, one - 2, np.ones(2))
    for tree in (plain, replace(plain, categories={0: (1,)})):
        Ensemble((tree,), 1).scores(row)
    Ensemble((plain,), 1).contributions(row)


def _score_by_trees() -> None:
    """The compiled walk, which a model takes up only after some use."""
    data = RankingData.from_rows(*_rows())
    model = LambdaMART(n_trees=1, n_jobs=1).fit(data)
    prepare(model._scorer())
    model.predict(data)


def _store_otherwise() -> None:
    from scipy import sparse

    X, y, qid = _rows()
    data = RankingData.from_rows(X, y, qid)
    for stored in (X.astype(np.float32), sparse.csr_array(X), sparse.csr_array(X.astype(np.float32))):
        StructuredSVM(tol=0.1, max_iter=3).fit(RankingData.from_rows(stored, y, qid))
        AdaptiveBinner().fit(stored).transform(stored)
        RSRank(max_iter=2).fit(RankingData.from_rows(stored, y, qid))
    AdaptiveBinner().fit(data).transform(data)
    McRank("ordinal", n_trees=1).fit(data).predict_proba(data)


def _solve_otherwise() -> None:
    """The solvers and losses that no named ranker uses by default."""
    data = RankingData.from_rows(*_rows())
    StructuredSVM(solver="cutting_plane", tol=0.1, max_iter=3).fit(data)
    for kind in ("average", "maximum", "max-average"):
        RankMM(loss=kind, solver="stochastic", n_steps=3).fit(data)
    for measure in ("map", "map(ties=worst)"):
        CoordinateAscent(measure, n_restarts=1, n_sweeps=1).fit(data)


def _fit_click_models() -> None:
    data = RankingData.from_rows(*_rows())
    for name, model in CLICK_MODELS.items():
        log = simulate_clicks(data, name, sessions=3)
        model(max_iter=1).fit(log).evaluate(log)


def _read_request() -> None:
    body = b'{"rows": [[1, 0.5]]}'
    rest = np.empty(len(body), dtype=np.uint8)
    take_lists(np.frombuffer(body, dtype=np.uint8), 2, np.empty(2), rest)


def _meet_rare_cases() -> None:
    """Kernels that only some data need."""
    NDCGReduction(max_pairs=8, n_rounds=2).fit(RankingData.from_rows(*_rows()))
    _rank_for_losses()
    far = np.array([800.0, 0.0])
    for name in ("ranknet", "lambda"):
        loss(name)(far, np.array([0.0, 1.0]))
    solve_simplex_qp(np.eye(2), np.ones(2), 1.0, np.zeros(2), tol=0.0, max_changes=0, max_pairs=1)
    project_nonnegative_l1_inf([[1.0]], 1.0)


def _rank_for_losses() -> None:
    """Loss-augmented rankings of two and of three grades, of the top and of whole lists, short and long."""
    for n in (6, 2 * INSERTION_DEPTH):
        scores, offsets = np.arange(n, dtype=float), [0, n]
        for n_grades in (2, 3):
            for k in (3, n):
                falling = 1.0 / np.arange(1.0, k + 1.0)
                grades = np.arange(n) % n_grades
                augmented_rankings(RankingProblem.ndcg(grades, offsets, k, position_weights=falling), scores)
        by_precision = RankingProblem.average_precision(np.arange(n) % 2, offsets)
        augmented_rankings(by_precision, scores)
        violations(by_precision, scores, "tight")


def _short(name: str) -> dict[str, Any]:
    """Settings that end a training early, of those the ranker has."""
    few = {"max_iter": 3, "n_rounds": 2, "n_trees": 2, "n_restarts": 1, "n_sweeps": 1, "epochs": 2, "n_landmarks": 10}
    return {parameter: value for parameter, value in few.items() if parameter in RANKERS[name].cls.parameters}
