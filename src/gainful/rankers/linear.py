"""Linear rankers for any loss, and RankSVM."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gainful.data.dataset import Dataset
from gainful.data.query_weights import pair_shares, query_shares
from gainful.data.rows import Array
from gainful.data.size import DataSize
from gainful.errors import DataError, ParameterError, wording
from gainful.linear.blockwise import BlockwiseRisk, linear_risk
from gainful.linear.journal import Journal, record_risk
from gainful.linear.scaling import SCALE, ScaledRisk, Scaling
from gainful.losses import Loss, LossSpec, loss
from gainful.losses.registry import loss_text
from gainful.nets.device import DeviceName, chosen_device, pytorch
from gainful.parameters.constraints import Choice, Integer, Maybe, MetricSpec, Real, Seed, parameter, patience
from gainful.parameters.space import Range, Space, Values
from gainful.rankers.base import Ranker
from gainful.rankers.paths import C_CONSTRAINT, PathOverC, PathState, validation_of
from gainful.rankers.spaces import C_RANGE
from gainful.rankers.with_loss import WithLoss
from gainful.solvers.bundle import Bundle, minimize_bundle
from gainful.solvers.certificate import ConvergenceWarning
from gainful.solvers.lbfgs import minimize_lbfgs
from gainful.solvers.momentum import descend_stages, minimize_momentum
from gainful.solvers.registry import SOLVERS, choose_solver
from gainful.solvers.ridge import ridge_bytes
from gainful.training.monitor import Monitor

if TYPE_CHECKING:
    from gainful.linear.tensor_risk import TensorLinearRisk

LEAST_WEIGHT = 1e-9  # of a standardised feature; smaller ones are what a vanishing gradient leaves


@dataclass(kw_only=True)
class LossPath(PathState):
    """One fit: the solvers' progress, and what carries over from one C to the next.

    ``v`` is the point to continue from: for this C, the best on the validation data if there is a ``patience``,
    otherwise the one of lowest objective, or the last one if the loss is staged and its values are not comparable.
    ``certificate`` bounds its distance from the minimum.
    """

    risk: Any  # a ScaledRisk of any kind, with or without a journal
    monitor: Monitor
    patience: int | None
    v: Array
    staged: bool
    step: Array | None = None  # first step for each feature, of the gradient solver
    bundle: Bundle | None = None
    lowest: float = np.inf
    best: float = -np.inf
    best_at: int = 0
    last: float | None = None

    def begin(self) -> None:
        self.lowest, self.best, self.best_at, self.certificate = np.inf, -np.inf, len(self.monitor.history), None

    def __call__(self, v: Array, objective: float, gap: float | None) -> bool:
        """Record an iteration; True if the solver should stop."""
        iteration = len(self.monitor.history) + 1
        if self.patience is None:
            if objective <= self.lowest or self.staged:
                self.v, self.lowest = v, objective
            return self.monitor.step(objective=objective, gap=gap)
        self.last = validation_of(v / self.scales, self.monitor)
        assert self.last is not None
        if np.isnan(self.last) or self.last > self.best:
            self.v, self.best_at = v, iteration
            self.best = -np.inf if np.isnan(self.last) else self.last
        stop = self.monitor.step(objective=objective, gap=gap, validation=self.last)
        return stop or iteration - self.best_at >= self.patience


class LossMinimizer(WithLoss, PathOverC, Ranker):
    """Base of the linear rankers that minimise ½‖w‖² + C Σ_q ω_q L_q(X_q w). A subclass names the loss in ``_loss``.

    The values below apply unless a subclass makes them parameters.
    """

    accepts_shards: ClassVar[bool] = True
    accepts_init_scores: ClassVar[bool] = True
    resumes: ClassVar[bool] = True

    C: float | Sequence[float]
    scale: str | None
    tol: float | None
    max_iter: int
    solver: str = "auto"
    init: str = "zeros"
    learning_rate: float = 0.1
    early_stopping: int | None = None
    device: str = "cpu"

    def _by_pairs(self) -> bool:
        """Whether a query counts by its number of pairs."""
        return False

    def _refuse_pairs(self, data: Dataset) -> None:
        super()._refuse_pairs(data)
        if self.init == "regression":
            zeros = wording("init='zeros'", "--set init=zeros")
            raise DataError(f"init='regression' starts from the grades, but the data has preferences; use {zeros}")

    # -- fitting -------------------------------------------------------------------------------------------------------

    row_bytes: ClassVar[float] = 44

    def _training_bytes(self, size: DataSize) -> float:
        return super()._training_bytes(size) + (ridge_bytes(size.features) if self.init == "regression" else 0.0)

    def _fit(self, data: Dataset, monitor: Monitor) -> None:
        self.loss_ = self._loss()
        self._check_path(monitor)
        self.solver_ = self._solver(self.loss_)
        state = self._path_state(data, monitor)
        self._follow_path(state, monitor)
        moved = np.abs(self.coef_ * np.where(np.isfinite(state.scales), state.scales, 0.0)).max(initial=0.0)
        learnable = np.isfinite(state.scales).any() and (data.has_pairs or data.lowest_grade < data.highest_grade)
        if moved < LEAST_WEIGHT and learnable and not self.loss_.convex:
            warnings.warn(
                f"{self._name_for_errors()} has learned nothing: no weight left 0, around which the loss is flat, as "
                "where lists are far longer than its cut-off; use another loss, such as lambda",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _fit_one(self, state: Any, C: float, monitor: Monitor) -> None:
        super()._fit_one(state, C, monitor)
        if state.patience is not None and monitor.history:
            monitor.history[-1]["validation"] = state.last  # of that iteration; the path keeps the best one
            if state.kept == len(monitor.history):
                state.kept = state.best_at

    def _solver(self, chosen: Loss) -> str:
        return choose_solver(type(self).__name__, chosen, self.solver, early_stopping=self.early_stopping is not None)

    def _path_state(self, data: Dataset, monitor: Monitor) -> LossPath:
        journal = None if monitor.checkpoint is None else Journal(monitor)
        scaling = Scaling(data, self.scale, journal)
        return LossPath(
            scales=scaling.scales,
            risk=record_risk(ScaledRisk(self._risk(data), scaling.scales), journal),
            monitor=monitor,
            patience=self.early_stopping if monitor.valid is not None else None,
            v=scaling.start() if self.init == "regression" else np.zeros(data.n_features),
            staged=self.loss_.staged,
            step=self.learning_rate / scaling.deviations() if self.solver_ == "gradient" else None,
        )

    def _risk(self, data: Dataset) -> BlockwiseRisk | TensorLinearRisk:
        """The risk that the solvers minimise, on the requested device; every solver accepts both kinds."""
        asked = self.device
        device = chosen_device(type(self).__name__, asked)
        whole = data.whole
        stays = whole is None or whole.is_sparse
        if device == "cpu" or (asked == "auto" and stays):
            return linear_risk(self.loss_, data, by_pairs=self._by_pairs())
        if whole is None:
            raise ParameterError(
                f"{type(self).__name__}: device={device!r} needs all data in memory; for shards and mapped "
                "files use device='cpu'"
            )
        pytorch(f"{type(self).__name__} with device={device!r}")
        from gainful.linear.tensor_risk import TensorLinearRisk

        shares = pair_shares(whole) if self._by_pairs() else query_shares(whole)
        return TensorLinearRisk(self.loss_, whole, shares, device=device)

    def _solve(self, state: LossPath, C: float, monitor: Monitor) -> None:
        """Minimise for this C, starting where the previous one ended."""
        state.begin()
        tol = SOLVERS[self.solver_].tol if self.tol is None else self.tol
        minimise = {"bundle": self._minimise_bundle, "lbfgs": self._minimise_smooth, "gradient": self._descend}
        with monitor:  # Ctrl-C keeps the best point so far
            minimise[self.solver_](state, C, tol)

    def _minimise_bundle(self, state: LossPath, C: float, tol: float) -> None:
        solution = minimize_bundle(
            state.risk, C, tol=tol, max_iter=self.max_iter, bundle=state.bundle, monitor=state.monitor,
            w0=state.v if state.bundle is None and state.v.any() else None,
        )  # fmt: skip
        state.v, state.bundle, state.certificate = solution.w, solution.bundle, solution.certificate

    def _minimise_smooth(self, state: LossPath, C: float, tol: float) -> None:
        found = minimize_lbfgs(
            lambda v: state.risk.objective(v, C), state.v, tol=tol, max_iter=self.max_iter,
            strongly_convex=self.loss_.convex, visit=state,
        )  # fmt: skip
        if self.loss_.convex and state.patience is None:
            state.certificate = found.certificate

    def _descend(self, state: LossPath, C: float, tol: float) -> None:
        assert state.step is not None
        if self.loss_.staged:
            descend_stages(
                lambda iteration: partial(state.risk.at(iteration, self.max_iter).objective, C=C), state.v,
                step=state.step, max_iter=self.max_iter, visit=state,
            )  # fmt: skip
            return
        minimize_momentum(
            lambda v: state.risk.objective(v, C), state.v, step=state.step, tol=tol, max_iter=self.max_iter,
            count_start=not self.loss_.frozen, visit=state,
        )  # fmt: skip

    def _facts(self) -> dict[str, Any]:
        return {"loss": str(self.loss_), "solver": self.solver_} | super()._facts()

    # -- model files ---------------------------------------------------------------------------------------------------

    def _pack(self) -> dict[str, Any]:
        return super()._pack() | {"loss": str(self.loss_), "solver": self.solver_}

    def _unpack(self, state: Mapping[str, Any]) -> None:
        super()._unpack(state)
        self.loss_, self.solver_ = loss(str(state["loss"])), str(state["solver"])


@dataclass(repr=False, eq=False)
class LinearRanker(LossMinimizer):
    """A linear ranker for any loss: minimises ½‖w‖² + C Σ_q ω_q L_q(X_q w), where the ω_q sum to 1.

    Without query weights that is ½‖w‖² + (C/m) Σ_q L_q. There is no intercept: it cannot change a ranking.

    Parameters
    ----------
    loss : a name in ``gainful.LOSSES``, with parameters as in ``"lambda(k=10)"``; a ``gainful.loss``; or a function
        ``f(scores, grades) -> (value, gradient)`` of one query, plain or compiled by numba
    solver : "bundle" (convex losses, certified), "lbfgs" (smooth losses, certified where convex), "gradient" (any), or
        "auto": lbfgs where smooth, else bundle where convex, else gradient. Losses that change from one iteration to
        the next need "gradient" and run all ``max_iter`` iterations, which define their stages
    C : weight of the loss, > 0; or a list, from which ``eval_set`` chooses
    scale : "standard": divide features by their standard deviations over the training rows, so that their units do not
        matter; X is not copied, and ``coef_`` are the weights of the original features. None: use the original features
        and exactly the objective above
    init : starting point: "zeros", or "regression" (ridge on the grades), which matters if the loss is not convex
    tol : relative gap at which to stop; for "gradient" the smallest relative decrease that counts. None: 1e-3 for
        "bundle", 1e-7 for "lbfgs", 1e-4 for "gradient"
    max_iter : maximum iterations per C
    learning_rate : length of the first steps of "gradient", for features in units of their standard deviations
    early_stopping : with ``eval_set``, validate every iteration, stop after this many without improvement and keep the
        best; None keeps the solution. Not with the bundle solver
    eval_metric : metric on ``eval_set``
    device : "cpu", "cuda", "cuda:1", or "auto": a GPU if PyTorch sees one and the features are dense. On a GPU
        the features are stored and multiplied there (needs the extra ``neural``); the solver runs on the CPU
    random_state : not used, nothing is random; accepted because all rankers accept it

    Attributes
    ----------
    coef_, intercept_ : weights; 0
    loss_ : the loss as a value; solver_ : the solver used; C_ : the C used
    certificate_ : objective and lower bound, if the loss is convex and the solution was kept
    path_ : one row per C if several were tried
    """

    space: ClassVar[Space] = {
        "C": C_RANGE,
        "learning_rate": Range(0.01, 1.0, log=True, why="for the gradient solver; too long a step never settles"),
    }

    loss: Any = parameter(
        "ranknet", LossSpec(help="loss to minimise: a name, a loss or a function of scores and grades")
    )
    solver: str = parameter(
        "auto", Choice(of=("auto", "bundle", "lbfgs", "gradient"), help="solver; auto chooses one that suits the loss")
    )
    C: float | Sequence[float] = parameter(100.0, C_CONSTRAINT)
    scale: str | None = parameter("standard", SCALE)
    init: str = parameter("zeros", Choice(of=("zeros", "regression"), help="starting point"))
    tol: float | None = parameter(
        None,
        Maybe(
            inner=Real(low=0, open_low=True),
            help="relative gap (or decrease) at which to stop; None for the solver's default",
        ),
    )
    max_iter: int = parameter(500, Integer(low=1, help="maximum iterations per C"))
    learning_rate: float = parameter(
        0.1, Real(low=0, open_low=True, help="length of the first steps of the gradient solver")
    )
    early_stopping: int | None = parameter(None, patience("iterations"))
    eval_metric: Any = parameter("ndcg@10", MetricSpec(help="metric on the validation data"))
    device: str = parameter("cpu", DeviceName(help="device for the features; auto uses a GPU if there is one"))
    random_state: Any = parameter(0, Maybe(inner=Seed(), help="not used: nothing is random"))

    def _search_space(self) -> Space:
        idle = () if self._solver(self._loss()) == "gradient" else ("learning_rate",)
        return {name: dimension for name, dimension in self.space.items() if name not in idle}

    def _file_params(self) -> dict[str, Any]:
        params = super()._file_params()
        return params | {"loss": loss_text(params["loss"])}


@dataclass(repr=False, eq=False)
class RankSVM(LossMinimizer):
    """Ranking SVM: ½‖w‖² + (C/Σ_q|R_q|) Σ over all pairs of [1 − w·(x_i − x_j)]₊, or of its square.

    R_q are the pairs of documents of query q with g_i > g_j. Each evaluation costs O(n log n) for a query of n
    documents, by sorting, and one pass over the features; no pair is ever built. A query's weight multiplies its pairs.
    (Joachims 2002, Optimizing search engines using clickthrough data.)

    Parameters
    ----------
    loss : "hinge" (bundle method) or "squared-hinge" (L-BFGS); both are certified
    C : weight of the loss, > 0; or a list, from which ``eval_set`` chooses
    scale : "standard" or None, as in :class:`LinearRanker`
    tol, max_iter : relative gap at which to stop; maximum iterations per C
    eval_metric : metric on ``eval_set``
    random_state : not used, nothing is random; accepted because all rankers accept it

    Attributes
    ----------
    coef_, intercept_ : weights; 0
    certificate_ : objective and lower bound; C_ : the C used; path_ : one row per C
    """

    space: ClassVar[Space] = {
        "C": C_RANGE,
        "loss": Values("hinge", "squared-hinge", why="which one is better depends on the data"),
    }

    loss: str = parameter(
        "hinge", Choice(of=("hinge", "squared-hinge"), help="loss of a pair as a function of its margin")
    )
    C: float | Sequence[float] = parameter(10.0, C_CONSTRAINT)
    scale: str | None = parameter("standard", SCALE)
    tol: float = parameter(1e-3, Real(low=0, open_low=True, help="relative gap at which to stop"))
    max_iter: int = parameter(2000, Integer(low=1, help="maximum iterations per C"))
    eval_metric: Any = parameter("ndcg@10", MetricSpec(help="metric on the validation data"))
    random_state: Any = parameter(0, Maybe(inner=Seed(), help="not used: nothing is random"))

    def _loss(self) -> Loss:
        return loss(f"pairwise-{self.loss}")

    def _by_pairs(self) -> bool:
        return True
