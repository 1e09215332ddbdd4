"""Structured SVM for NDCG and average precision: a large margin on the measure itself."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gainful.compute.randomness import seed_from
from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array
from gainful.data.size import DataSize
from gainful.data.splits import split
from gainful.errors import DataWarning, ParameterError
from gainful.linear.journal import Journal
from gainful.linear.scaling import SCALE, Scaling
from gainful.linear.structured import ProblemSpec, ShiftedRisk, StructuredRisks
from gainful.metrics import Metric, metric
from gainful.parameters.constraints import (
    Choice,
    Either,
    Flag,
    Integer,
    Maybe,
    MetricSpec,
    Real,
    Seed,
    parameter,
)
from gainful.parameters.space import Range, Space, Values
from gainful.rankers.base import Ranker
from gainful.rankers.paths import C_CONSTRAINT, PathOverC, PathState
from gainful.rankers.position_weights import CONSTRAINT, LEARNABLE, Family, position_weights
from gainful.solvers.bundle import Bundle, minimize_bundle
from gainful.solvers.certificate import ConvergenceWarning, warn_not_converged
from gainful.solvers.cutting_plane import minimize_cutting_plane
from gainful.solvers.ridge import ridge_bytes
from gainful.solvers.risk import Risk
from gainful.solvers.subgradient import minimize_subgradient
from gainful.training.monitor import Monitor

MOST_INNER_ITERATIONS = 1000  # tolerance of the convex problem in one step of CCCP
AT_ZERO = (
    "the convex bound is lowest at w = 0 on these data, whatever C is, so the model hardly ranks; "
    "use the tight bound ('structured-svm-tight', or bound='tight')"
)
HELD_OUT = 0.25  # share of training queries that "learn" holds out without validation data


@dataclass(kw_only=True)
class StructuredPath(PathState):
    """The state of one fit. ``start`` is v0 of the tight bound; ``bundle`` and ``v`` carry over along a path of C."""

    blocks: StructuredRisks
    start: Array | None
    bundle: Bundle | None = None
    is_zero: bool = False  # the convex bound is lowest at w = 0

    def risk(self, bound: str) -> Risk:
        return self.blocks.risk(bound)


@dataclass(repr=False, eq=False)
class StructuredSVM(PathOverC, Ranker):
    """A linear ranker that directly minimises an upper bound of 1 − NDCG@k or of 1 − AP.

    With ``bound="convex"`` (Chapelle, Le and Smola 2007; for ``metric="map"`` Yue et al. 2007)::

        ½‖w‖² + (C/m) Σ_q max_y [ Δ_q(y) + w·Ψ(x_q, y) − w·Ψ(x_q, y_q) ],   Ψ(x, y) = Σ_i A(y_i) x_i

    where Δ is the loss of the ranking y and y_q the perfect ranking (the mean over all perfect rankings with
    ``ties="average"``). It is solved to a certified gap. On data that no linear ranker fits well, its optimum is w = 0
    for every C; ``fit`` warns if so.

    With ``bound="tight"`` the perfect ranking is replaced by the ranking that w itself predicts::

        ½‖w − w0‖² + (C/m) Σ_q ( max_y [ Δ_q(y) + w·Ψ(x_q, y) ] − max_y w·Ψ(x_q, y) )

    This is still an upper bound and never larger, but not convex: it starts at w0, ridge regression on the grades, and
    has no certificate. Use this one on real data.

    Parameters
    ----------
    metric : "ndcg@k", "ndcg" or "map", with the gain and discount of its conventions
    C : weight of the loss, > 0; or a list, from which ``eval_set`` chooses
    scale : "standard": divide features by their standard deviations over the training rows, so that their units do not
        matter; X is not copied, and ``coef_`` are the weights of the original features. None: use the original features
        and exactly the objectives above
    solver : "bundle"; "cutting_plane" (one slack per query); "subgradient". For ``bound="convex"``
    bound : "convex" or "tight"
    position_weights : A(r): "linear" (k + 1 − r), "sqrt" (1/√r), "discount" (1/log2(1 + r)), numbers, a function of the
        rank, or "learn": choose among these shapes on ``eval_set``, or on a quarter of the training queries
    ties : "average" or "random": which of the perfect rankings is the target
    rescaling : "margin" as above, or "slack": max_y Δ(y)·(1 + w·Ψ(y) − w·Ψ(y_q)), whose maximum is found by a
        local search, so that the certificate's primal value is an estimate from below
    tol, max_iter : relative gap at which to stop (tight: relative decrease); maximum iterations, each about one pass
        over the data, or with "cccp" one convex problem
    tight_method : "gradient" (steepest descent with line search) or "cccp" (a sequence of convex problems)
    start_alpha : penalty of the ridge regression that gives w0, in units of the features' mean sum of squares; with
        ``scale="standard"`` that is the number of training rows
    schedule : when cutting planes solve their quadratic programme: every "pass", "query", or number of queries
    drop_inactive, active_set, single_variable_update : the paper's tricks for cutting planes
    conjugate : conjugate directions in the subgradient solver
    eval_metric : metric on ``eval_set``; by default ``metric``
    random_state : seed for ``ties="random"`` and for the queries that "learn" holds out

    Attributes
    ----------
    coef_, intercept_ : weights; 0
    certificate_ : primal and dual value and their gap (convex bound)
    C_ : the C used; position_weights_ : A(1), …
    path_ : one row per C if several were tried
    """

    accepts_shards: ClassVar[bool] = True
    resumes: ClassVar[bool] = True
    space: ClassVar[Space] = {
        "C": Range(1e-2, 1e3, log=True, why="the paper's grid; the loss of a query is at most 1"),
        "position_weights": Values("linear", "sqrt", "discount", why="the families of A(r) of the paper"),
        "start_alpha": Range(1e-1, 1e3, log=True, why="for the tight bound, which stays near its start"),
    }

    metric: Any = parameter("ndcg@10", MetricSpec(help="measure to optimise: ndcg@k, ndcg or map"))
    C: float | Sequence[float] = parameter(1.0, C_CONSTRAINT)
    scale: str | None = parameter("standard", SCALE)
    solver: str = parameter(
        "bundle", Choice(of=("bundle", "cutting_plane", "subgradient"), help="solver of the convex bound")
    )
    bound: str = parameter("convex", Choice(of=("convex", "tight"), help="upper bound of the loss to minimise"))
    position_weights: Any = parameter("linear", CONSTRAINT)
    ties: str = parameter("average", Choice(of=("average", "random"), help="target if several rankings are perfect"))
    rescaling: str = parameter(
        "margin", Choice(of=("margin", "slack"), help="whether the loss of a ranking rescales the margin or the slack")
    )
    tol: float = parameter(1e-4, Real(low=0, open_low=True, help="relative gap at which to stop"))
    max_iter: int = parameter(1000, Integer(low=1, help="maximum iterations"))
    tight_method: str = parameter("gradient", Choice(of=("gradient", "cccp"), help="method for the tight bound"))
    start_alpha: float = parameter(1.0, Real(low=0, help="ridge penalty for the start of the tight bound"))
    schedule: str | int = parameter(
        "pass",
        Either(
            of=(Choice(of=("pass", "query")), Integer(low=1)),
            help="when cutting planes solve their quadratic programme: every pass, query, or a number of queries",
        ),
    )
    drop_inactive: bool = parameter(True, Flag(help="cutting planes drop columns without weight"))
    active_set: bool = parameter(
        True, Flag(help="cutting planes skip a column that lost its weight until it is found again")
    )
    single_variable_update: bool = parameter(True, Flag(help="cutting planes optimise a new column's variable at once"))
    conjugate: bool = parameter(False, Flag(help="conjugate directions in the subgradient solver"))
    eval_metric: Any = parameter(
        None, Maybe(inner=MetricSpec(), help="metric on the validation data; None for the training metric")
    )
    random_state: Any = parameter(0, Maybe(inner=Seed(), help="seed"))

    # -- fitting -------------------------------------------------------------------------------------------------------

    def _search_space(self) -> Space:
        idle = {"start_alpha"} if self.bound != "tight" else set()
        if metric(self.metric).name == "map":  # its feature map has no position weights
            idle.add("position_weights")
        return {name: dimension for name, dimension in self.space.items() if name not in idle}

    def _validation_metric(self) -> Metric:
        return metric(self.metric if self.eval_metric is None else self.eval_metric)

    def _training_bytes(self, size: DataSize) -> float:
        start = ridge_bytes(size.features) if self.bound == "tight" else 0.0
        chooses = isinstance(self.position_weights, str) and self.position_weights == "learn" and not size.valid_rows
        held_out = size.value_bytes * size.values if chooses else 0.0  # the rows divided in two
        return super()._training_bytes(size) + start + held_out

    def _fit(self, data: Dataset, monitor: Monitor) -> None:
        self._check_combination(monitor)
        self.__dict__.pop("position_weights_search_", None)  # of an earlier fit
        journal = None if monitor.checkpoint is None else Journal(monitor)
        weights, self.position_weights_name_ = self._chosen_weights(data, monitor, journal)
        training = self._fit_with(weights, data, monitor, journal)
        if training.is_zero and training.certificate is not None and training.certificate.primal > 0:
            warnings.warn(AT_ZERO, DataWarning, stacklevel=2)

    def _check_combination(self, monitor: Monitor) -> None:
        owner = type(self).__name__
        measure = metric(self.metric)
        if measure.kind not in ("ndcg", "map") or (measure.kind == "map" and measure.k is not None):
            raise ParameterError.of(owner, "metric", "'ndcg@k', 'ndcg' or 'map'", str(self.metric))
        if self.rescaling == "slack" and (measure.kind == "map" or self.bound == "tight" or self.solver != "bundle"):
            raise ParameterError(f"{owner}: rescaling='slack' needs ndcg, bound='convex' and solver='bundle'")
        if self.bound == "tight" and self.solver != "bundle":
            raise ParameterError(f"{owner}: bound='tight' has its own methods (tight_method); omit solver")
        self._check_path(monitor)

    def _fit_with(
        self, weights: Array | None, data: Dataset, monitor: Monitor, journal: Journal | None
    ) -> StructuredPath:
        """Solve for every C given and keep the best on the validation data, or the only one."""
        training = self._training(data, weights, journal)
        self._follow_path(training, monitor)
        self.position_weights_ = weights
        return training

    def _training(self, data: Dataset, weights: Array | None, journal: Journal | None) -> StructuredPath:
        measure = metric(self.metric)
        for found in data.map(grades_of):
            measure._refuse_grades(found)
        self._refuse_shards(data)
        seed = seed_from(self.random_state) if self.ties == "random" else 0
        scaling = Scaling(data, self.scale, journal)
        blocks = StructuredRisks(data, ProblemSpec(measure, weights, self.ties, seed), scaling.scales, journal)
        start = scaling.start(self.start_alpha) if self.bound == "tight" else None
        return StructuredPath(scales=scaling.scales, blocks=blocks, start=start)

    # -- position weights ----------------------------------------------------------------------------------------------

    def _chosen_weights(
        self, data: Dataset, monitor: Monitor, journal: Journal | None
    ) -> tuple[Array | None, str | None]:
        """A(1), …, A(k) and the family's name; None for average precision, which has no position weights."""
        measure: Metric = metric(self.metric)
        if measure.kind == "map":
            return None, None
        k = data.longest if measure.k is None else measure.k
        if isinstance(self.position_weights, str) and self.position_weights == "learn":
            return self._learned_weights(data, monitor, k, journal)
        name = self.position_weights if isinstance(self.position_weights, str) else None
        return position_weights(self.position_weights, k, type(self).__name__), name

    def _learned_weights(self, data: Dataset, monitor: Monitor, k: int, journal: Journal | None) -> tuple[Array, str]:
        """Fit with each shape and take the one that does best on the validation queries."""
        train, valid = data, monitor.valid
        if valid is None:
            if data.whole is None:
                raise ParameterError(
                    f"{type(self).__name__}: position_weights='learn' needs eval_set if the data come in shards"
                )
            train, valid = split(data.whole, (1 - HELD_OUT, HELD_OUT), seed=seed_from(self.random_state))
        ranks = np.arange(1.0, k + 1.0)
        found: dict[str, float] = {}
        for name, family in LEARNABLE.items():
            trial = Monitor(metric=monitor.metric, valid=valid, journal=journal)
            self._fit_with(_scale_family(family, ranks, k), train, trial, journal)
            if trial.interrupted:
                raise KeyboardInterrupt  # the actual training has not started
            found[name] = max(row["validation"] for row in self.path_)
        self.position_weights_search_ = found
        best = max(found, key=lambda name: found[name])
        return _scale_family(LEARNABLE[best], ranks, k), best

    # -- solving -------------------------------------------------------------------------------------------------------

    def _solve(self, training: StructuredPath, C: float, monitor: Monitor) -> None:
        if self.bound == "tight":
            solve = self._solve_cccp if self.tight_method == "cccp" else self._solve_gradient
            solve(training, C, monitor)
        elif self.solver == "bundle":
            self._solve_bundle(training, C, monitor)
        elif self.solver == "cutting_plane":
            solution = minimize_cutting_plane(
                training.blocks.by_query(),
                C,
                tol=self.tol,
                max_iter=self.max_iter,
                schedule=self.schedule,
                drop_inactive=self.drop_inactive,
                active_set=self.active_set,
                single_variable_update=self.single_variable_update,
                monitor=monitor,
            )
            self._take(training, solution)
        else:
            self._solve_subgradient(training, C, monitor)

    @staticmethod
    def _take(training: StructuredPath, solution: Any) -> None:
        training.v, training.certificate = solution.w, solution.certificate

    def _solve_bundle(self, training: StructuredPath, C: float, monitor: Monitor) -> None:
        risk = training.risk("slack" if self.rescaling == "slack" else "convex")
        solution = minimize_bundle(
            risk, C, tol=self.tol, max_iter=self.max_iter, bundle=training.bundle, monitor=monitor
        )
        training.bundle, training.is_zero = solution.bundle, solution.is_zero(C)
        self._take(training, solution)

    def _solve_subgradient(self, training: StructuredPath, C: float, monitor: Monitor) -> None:
        """Subgradient descent has no lower bound of its own; the planes it visits give one."""
        risk = training.risk("convex")
        planes = training.bundle = training.bundle or Bundle(risk.n_features)

        def objective(w: Array) -> tuple[float, Array]:
            value, gradient, _ = risk.value_and_gradient(w)
            if float(w @ w) <= 2.0 * C:  # the minimum is not farther out (Δ ≤ 1), where a plane is mostly rounding
                planes.idle[: planes.n_planes] += 1  # if there are too many, the oldest go first
                planes.add(gradient, value - float(gradient @ w))
            return 0.5 * float(w @ w) + C * value, w + C * gradient

        solution = minimize_subgradient(
            objective,
            np.zeros(risk.n_features) if training.v is None else training.v,
            method="conjugate" if self.conjugate else "steepest",
            max_iter=self.max_iter,
            tol=self.tol,
            monitor=monitor,
            lower_bound=lambda: max(planes.minimise(C, 1e-6)[1], 0.0),
        )
        if solution.converged and solution.certificate.relative_gap > self.tol:
            warn_not_converged(
                "subgradient descent",
                solution.certificate,
                self.tol,
                "where no step decreased the objective, perhaps at a kink,",
            )
        self._take(training, solution)

    def _solve_gradient(self, training: StructuredPath, C: float, monitor: Monitor) -> None:
        risk, v0 = training.risk("tight"), training.start
        assert v0 is not None

        def objective(v: Array) -> tuple[float, Array]:
            value, gradient, _ = risk.value_and_gradient(v)
            away = v - v0
            return 0.5 * float(away @ away) + C * value, away + C * gradient

        solution = minimize_subgradient(
            objective, v0, method="conjugate" if self.conjugate else "steepest", max_iter=self.max_iter, tol=self.tol,
            monitor=monitor, lower_bound=None,
        )  # fmt: skip
        training.v = solution.w

    def _solve_cccp(self, training: StructuredPath, C: float, monitor: Monitor) -> None:
        """Linearise the subtracted maximum at v, solve the convex rest, and repeat until the bound stops falling."""
        v0 = training.start
        assert v0 is not None
        tight = training.risk("tight")
        training.v, value = v0, C * tight.value_and_gradient(v0)[0]
        with monitor:  # Ctrl-C keeps the best point so far
            for _ in range(self.max_iter):
                new = self._convex_step(training, training.v, C)
                away = new - v0
                lower = 0.5 * float(away @ away) + C * tight.value_and_gradient(new)[0]
                gain = max(0.0, value - lower)
                if gain > 0:
                    training.v, value = new, lower
                if monitor.step(objective=value) or gain <= self.tol * abs(value):
                    break

    def _convex_step(self, training: StructuredPath, v: Array, C: float) -> Array:
        """The minimiser of the convex bound that touches the tight one at v."""
        v0 = training.start
        assert v0 is not None
        risk = ShiftedRisk(training.blocks.linearise(v), v0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the outer loop decides
            solution = minimize_bundle(risk, C, tol=self.tol, max_iter=MOST_INNER_ITERATIONS, w0=v - v0)
        return v0 + solution.w

    def _facts(self) -> dict[str, Any]:
        learned = {} if self.position_weights_name_ is None else {"position weights": self.position_weights_name_}
        return super()._facts() | learned

    # -- model files ---------------------------------------------------------------------------------------------------

    def _pack(self) -> dict[str, Any]:
        state = super()._pack()
        if self.position_weights_ is not None:
            state |= {"position_weights": self.position_weights_, "position_weights_name": self.position_weights_name_}
        if hasattr(self, "position_weights_search_"):
            state["position_weights_search"] = self.position_weights_search_
        return state

    def _unpack(self, state: Mapping[str, Any]) -> None:
        super()._unpack(state)
        weights = state.get("position_weights")
        self.position_weights_ = None if weights is None else np.asarray(weights, dtype=np.float64)
        self.position_weights_name_ = state.get("position_weights_name")
        if "position_weights_search" in state:
            self.position_weights_search_ = dict(state["position_weights_search"])

    def _file_params(self) -> dict[str, Any]:
        """A function cannot be stored; its weights can."""
        params = super()._file_params()
        if callable(self.position_weights) and self.position_weights_ is not None:
            params["position_weights"] = self.position_weights_.tolist()
        return params


def _scale_family(family: Family, ranks: Array, k: int) -> Array:
    """A family scaled to A(1) = k, like the linear one: scaling A scales C, and only shapes should be compared."""
    weights = family(ranks, k)
    return np.asarray(weights * (k / weights[0]))


def grades_of(data: RankingData) -> Array:
    """The grades that occur in a block."""
    return np.unique(data.y)
