"""RSRank: a sparse linear ranker from importance-weighted pairs and truncated gradients."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np

from gainful.compute.estimators import FeatureSelector
from gainful.compute.features import Features
from gainful.compute.randomness import seed_from
from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array
from gainful.data.size import DataSize
from gainful.errors import DataError, ParameterError, wording
from gainful.linear.frozen_risk import FrozenRisk
from gainful.linear.scaling import SCALE, Scaling
from gainful.linear.weighted_pairs import query_order, row_scores
from gainful.losses import loss
from gainful.parameters.constraints import (
    Choice,
    Either,
    Integer,
    ListOf,
    Maybe,
    MetricSpec,
    Real,
    Seed,
    parameter,
    patience,
)
from gainful.parameters.space import IntRange, Range, Space, Values
from gainful.rankers.base import LinearScores, Ranker
from gainful.solvers.ridge import ridge_bytes
from gainful.solvers.truncated_gradient import Iterate, descend_fixed, descend_safeguarded
from gainful.training.history import Path
from gainful.training.monitor import Monitor, ProgressCallback

HELD_OUT = 0.25  # share of training queries held out to choose among several l1 without validation data
AUTO_PATH = (0.0, *np.logspace(-3.0, -0.25, 16).tolist())  # multiples of the l1 at which the first weight leaves zero


@dataclass
class Run:
    """The descent for one l1: its current point, and the point kept (best on validation, or lowest objective)."""

    l1: float
    last: Array
    kept: Array
    value: float = np.inf  # lowest objective, or minus the best validation metric
    iteration: int = 0  # iteration that reached ``kept``, counted over the whole fit
    row: dict[str, Any] = field(default_factory=dict)


@dataclass(repr=False, eq=False)
class RSRank(LinearScores, FeatureSelector, Ranker):
    """A sparse linear ranker that weights wrongly ordered pairs by their cost in NDCG.

    Minimises, by gradient steps with truncation (Sun, Qin, Tao and Wang 2009)::

        (1/m) Σ_q Σ_{g_i > g_j} w_ij φ(s_i − s_j) + l1 Σ_j σ_j |β_j|,    s = X·β
        w_ij = |(2^{g_i} − 2^{g_j})(D(π_i) − D(π_j))| / N_q,    φ(v) = −4v | (1 − v)² | 0  for v < −1 | to 1 | above

    where π are the ranks by the current scores and σ_j the standard deviation of feature j over the training rows (1
    with ``scale=None``). Among tied scores the lower grade ranks first; the order of the rows does not matter. The
    first term is at least 1 − NDCG. Every ``truncate_every`` steps of length η, each weight moves towards zero by η·l1
    and stops there: unused features have weight exactly 0.

    It is a feature selector too: ``transform``, ``get_support`` and ``support_`` are scikit-learn's.

    Parameters
    ----------
    l1 : penalty on a weight, ≥ 0; a list, from which one is chosen; or "auto": 0 and sixteen values up to half of the
        one that leaves no feature. They are tried from small to large, each starting from the previous one
    tolerance : among several l1, take the fewest features whose validation metric is within this fraction of the best
    truncate_every : gradient steps per truncation
    step : "safeguarded", which needs no tuning, or "fixed": β ← β − learning_rate·∇ of the *sum* over queries
    learning_rate : of the fixed step
    init : "regression" (ridge on the grades), "zeros", or weights. At zero all scores tie, and lower grades rank first
    scale : "standard": divide features by their standard deviations over the training rows, so that their units do not
        matter; X is not copied, and ``coef_`` are the weights of the original features. None: use the original features
    tol, max_iter : relative decrease of the objective required over ten iterations; maximum iterations per l1
    early_stopping : with one l1, stop when the validation metric has not risen for this many iterations and keep the
        best iterate; None keeps the one of lowest objective
    eval_metric : metric on ``eval_set``. With several l1, each contributes its iterate of lowest objective, and the
        metric chooses among these
    random_state : seed for holding out a quarter of the queries if several l1 come without ``eval_set``; they are drawn
        by query id, regardless of data order

    Attributes
    ----------
    coef_, intercept_ : weights; 0
    support_ : (n_features,) whether each weight is nonzero
    l1_ : the penalty used
    path_ : one row per l1: ``l1``, ``n_features``, ``validation``, ``objective``, ``iterations``, ``seconds``
    """

    weighs_documents: ClassVar[bool] = True
    accepts_pairs: ClassVar[bool] = True
    settings_for_pairs: ClassVar[Mapping[str, str]] = {"init": "zeros"}
    space: ClassVar[Space] = {
        "l1": Range(1e-2, 10.0, log=True, why="from all features to a handful, on LETOR and on synthetic data"),
        "truncate_every": IntRange(1, 20, log=True, why="the paper's K"),
        "init": Values("regression", "zeros", why="the loss is not convex"),
    }

    l1: float | str | Sequence[float] = parameter(
        0.0,
        Either(
            of=(Real(low=0), Choice(of=("auto",)), ListOf(inner=Real(low=0))),
            help="penalty on a weight; from a list, or 'auto', the validation data choose",
        ),
    )
    tolerance: float = parameter(
        0.0, Real(low=0, high=1, help="fraction of the best validation metric to give up for fewer features")
    )
    truncate_every: int = parameter(1, Integer(low=1, help="gradient steps per truncation"))
    step: str = parameter("safeguarded", Choice(of=("safeguarded", "fixed"), help="how step lengths are chosen"))
    learning_rate: float = parameter(0.001, Real(low=0, open_low=True, help="length of the fixed step"))
    init: str | Sequence[float] = parameter(
        "regression",
        Either(of=(Choice(of=("regression", "zeros")), ListOf(inner=Real())), help="initial weights"),
    )
    scale: str | None = parameter("standard", SCALE)
    tol: float = parameter(1e-4, Real(low=0, help="relative decrease of the objective required over ten iterations"))
    max_iter: int = parameter(500, Integer(low=1, help="maximum iterations per l1"))
    early_stopping: int | None = parameter(50, patience("iterations"))
    eval_metric: Any = parameter("ndcg@10", MetricSpec(help="metric on the validation data"))
    random_state: Any = parameter(0, Maybe(inner=Seed(), help="seed"))

    # -- fitting -------------------------------------------------------------------------------------------------------

    def fit_path(
        self,
        X: Any,
        y: Any = None,
        *,
        l1: Sequence[float] | str = "auto",
        qid: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        progress: ProgressCallback | None = None,
    ) -> Self:
        """Train for each l1, from small to large, each starting from the previous one; ``path_`` has a row per l1.

        Keeps the model with the fewest features within ``tolerance`` of the best validation metric.
        """
        given, self.l1 = self.l1, l1
        try:
            return self.fit(X, y, qid=qid, sample_weight=sample_weight, eval_set=eval_set, progress=progress)
        finally:
            self.l1 = given

    def _refuse_pairs(self, data: Dataset) -> None:
        super()._refuse_pairs(data)
        if isinstance(self.init, str) and self.init == "regression":
            zeros = wording("init='zeros'", "--set init=zeros")
            raise DataError(f"init='regression' starts from the grades, but the data has preferences; use {zeros}")

    def _training_bytes(self, size: DataSize) -> float:
        chooses = (isinstance(self.l1, str) or np.size(self.l1) > 1) and not size.valid_rows
        held_out = size.value_bytes * size.values if chooses else 0.0  # the rows divided in two
        return super()._training_bytes(size) + ridge_bytes(size.features) + held_out

    def _fit(self, data: RankingData, monitor: Monitor) -> None:
        risk, start = self._risk_and_start(data)
        values = self._prices(risk, start)
        self.path_ = Path()
        if len(values) > 1 and monitor.valid is None:
            values = self._held_out_choice(data, monitor, values)
            runs = self._runs(risk, start, values, monitor)
            chosen = runs[-1] if runs else None
            path = self.path_
        else:
            runs = self._runs(risk, start, values, monitor)
            path = Path((run.row for run in runs), metric=monitor.metric.name)
            chosen = self._choice(runs)
        if chosen is None:
            raise KeyboardInterrupt  # nothing to keep yet
        self.path_ = path
        self.coef_, self.intercept_ = chosen.kept / risk.scales, 0.0
        self.l1_, monitor.best_iteration = chosen.l1, chosen.iteration

    def _risk_and_start(self, data: RankingData) -> tuple[FrozenRisk, Array]:
        """The risk, and the point u at which the descent starts."""
        scaling = Scaling(data, self.scale)
        risk = FrozenRisk(loss("weighted-huber"), data, scaling.scales)
        movable = np.isfinite(risk.scales)
        if isinstance(self.init, str):
            start = scaling.start() if self.init == "regression" else np.zeros(data.n_features)
            return risk, np.where(movable, start, 0.0)
        weights = np.asarray(self.init, dtype=np.float64)
        if weights.shape != (data.n_features,):
            raise ParameterError.of(type(self).__name__, "init", f"{data.n_features} weights", self.init)
        return risk, weights * np.where(movable, risk.scales, 0.0)

    def _prices(self, risk: FrozenRisk, start: Array) -> list[float]:
        """The values of l1 from small to large; "auto" in units of the gradient at zero with the ranks of the start."""
        if isinstance(self.l1, str):
            scores = risk.scores(start)
            most = float(np.abs(risk.with_ranks_of(np.zeros(len(scores)), scores).gradient).max())
            return [most * part for part in AUTO_PATH]
        return sorted({float(value) for value in np.atleast_1d(np.asarray(self.l1))})

    def _held_out_choice(self, data: RankingData, monitor: Monitor, values: list[float]) -> list[float]:
        """Choose l1 on a quarter of the training queries; returns the values up to it, for the fit on all of them."""
        if data.query_weights is not None:
            data = data[data.query_weights > 0.0]  # the others neither teach nor test
        if data.n_queries < 2:
            return values[:1]
        held = max(1, round(HELD_OUT * data.n_queries))
        drawn = np.random.default_rng(seed_from(self.random_state)).permutation(query_order(data.query_ids))
        train, valid = data[np.sort(drawn[:-held])], data[np.sort(drawn[-held:])]
        trial = Monitor(metric=monitor.metric, valid=valid)
        runs = self._runs(*self._risk_and_start(train), values, trial)
        if trial.interrupted:
            raise KeyboardInterrupt  # the actual training has not started
        chosen = self._choice(runs)
        self.path_ = Path((run.row for run in runs), metric=monitor.metric.name)
        return values[: values.index(chosen.l1) + 1] if chosen is not None else values[:1]

    def _choice(self, runs: list[Run]) -> Run | None:
        """The fewest features within the tolerance of the best on validation; ties go to the better metric."""
        if len(runs) < 2:
            return runs[0] if runs else None
        scored = [(run, run.row["validation"]) for run in runs]
        best = np.nanmax([-np.inf, *(value for _, value in scored)])
        near = [(run, value) for run, value in scored if value >= (1.0 - self.tolerance) * best] or scored[:1]
        return min(near, key=lambda pair: (pair[0].row["n_features"], -pair[1]))[0]

    def _runs(self, risk: FrozenRisk, start: Array, values: list[float], monitor: Monitor) -> list[Run]:
        runs: list[Run] = []
        u = start
        with monitor:  # Ctrl-C keeps the best run so far
            for l1 in values:
                run = Run(l1, last=u, kept=u)
                try:
                    self._run(risk, run, monitor, each=len(values) == 1 and self.early_stopping is not None)
                finally:
                    if run.iteration:
                        runs.append(self._finish(risk, run, monitor))
                u = run.last
                if monitor.interrupted:
                    break
        return runs

    def _run(self, risk: FrozenRisk, run: Run, monitor: Monitor, each: bool) -> None:
        """Descend for one l1 and record the result in ``run``, which is valid whenever Ctrl-C comes.

        ``each``: validate every iterate and keep the best; otherwise keep the one with the lowest objective.
        """
        began, before = time.perf_counter(), len(monitor.history)
        for n, iterate in enumerate(islice(self._descent(risk, run), self.max_iter), 1):
            used = int(np.count_nonzero(iterate.u))
            validation = self._validation(iterate.u / risk.scales, monitor) if each and monitor.valid else None
            scored = iterate.objective if validation is None or np.isnan(validation) else -validation
            run.last = iterate.u
            if scored < run.value or not run.iteration:
                run.value, run.kept, run.iteration = scored, iterate.u, before + n
                run.row = {"l1": run.l1, "n_features": used, "validation": validation, "objective": iterate.objective}
            run.row |= {"iterations": n, "seconds": time.perf_counter() - began}
            stop = monitor.step(
                objective=iterate.objective, validation=validation, l1=run.l1, n_features=used, step=iterate.step
            )
            tired = self.early_stopping is not None and before + n - run.iteration >= self.early_stopping
            if stop or (tired and validation is not None):
                return

    def _finish(self, risk: FrozenRisk, run: Run, monitor: Monitor) -> Run:
        """Finish the run: add its validation metric, which a path measures at the end."""
        if run.row["validation"] is None and monitor.valid is not None:
            scored = self._validation(run.kept / risk.scales, monitor)
            run.row["validation"] = scored
            monitor.validate_last(scored)
        return run

    def _descent(self, risk: FrozenRisk, run: Run) -> Iterator[Iterate]:
        if self.step == "safeguarded":
            return descend_safeguarded(
                risk, run.last, l1=run.l1, truncate_every=self.truncate_every, tol=float(self.tol)
            )
        step = self.learning_rate * len(risk.shares)  # the paper's loss is a sum over queries, ours is a mean
        return descend_fixed(risk, run.last, step=step, l1=run.l1, truncate_every=self.truncate_every)

    @staticmethod
    def _validation(w: Array, monitor: Monitor) -> float:
        assert monitor.valid is not None
        return monitor.evaluate(row_scores(Features(monitor.valid.X), w))

    # -- features ------------------------------------------------------------------------------------------------------

    @property
    def support_(self) -> Array:
        return np.asarray(self.coef_ != 0.0)

    def _get_support_mask(self) -> Array:
        self._check_fitted()
        return self.support_

    def _facts(self) -> dict[str, Any]:
        return {"features kept": f"{int(self.support_.sum())} of {len(self.coef_)}"}

    # -- model files ---------------------------------------------------------------------------------------------------

    def _pack(self) -> dict[str, Any]:
        return super()._pack() | {"l1": self.l1_, "path": self.path_}

    def _unpack(self, state: Mapping[str, Any]) -> None:
        super()._unpack(state)
        self.l1_, self.path_ = float(state["l1"]), Path(state["path"])
