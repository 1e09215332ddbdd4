"""RankMM: large margins between documents of different grades, averaged or at worst per query."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gainful.compute.randomness import seed_from
from gainful.data.dataset import Dataset
from gainful.data.query_weights import block_shares
from gainful.data.rows import Array
from gainful.data.size import DataSize
from gainful.linear.blockwise import linear_risk
from gainful.linear.dual_pairs import DualPairs
from gainful.linear.journal import Journal, record_risk
from gainful.linear.scaling import SCALE, ScaledRisk, Scaling
from gainful.losses import loss
from gainful.losses.margins import KERNELS, GradedPairs
from gainful.parameters.constraints import Choice, Integer, Maybe, MetricSpec, Real, Seed, parameter
from gainful.parameters.space import Space, Values
from gainful.rankers.base import Ranker
from gainful.rankers.paths import C_CONSTRAINT, PathOverC, PathState
from gainful.rankers.spaces import C_RANGE
from gainful.solvers.bundle import Bundle, minimize_bundle
from gainful.solvers.certificate import Certificate, ConvergenceWarning
from gainful.solvers.dual_projection import minimize_dual_projection
from gainful.solvers.exponentiated import minimize_exponentiated
from gainful.training.monitor import Monitor

CLOSER = 1e-2  # fraction of the tolerance to try if all weights found are 0
MOST_HALVINGS = 100

DUAL_ROW_BYTES = 150  # of the steps in the dual: the order of preference and the state of each document


@dataclass(kw_only=True)
class MarginPath(PathState):
    """The state of one fit; the bundle and the last solution carry over along a path of C."""

    risk: Any  # of v: a ScaledRisk, for "stochastic" a DualPairs
    seed: int
    bundle: Bundle | None = None


@dataclass(repr=False, eq=False)
class RankMM(PathOverC, Ranker):
    """A linear ranker whose margins are the differences of grades (Agarwal and Collins 2010).

    Minimises ½‖w‖² + (C/m) Σ_q L_q(w) (with query weights C Σ_q ω_q L_q), where the loss of a query combines
    ℓ_jk = [(g_j − g_k) − w·(x_j − x_k)]_+ over its pairs R_q = {(j, k): g_j > g_k}:

    - ``loss="average"`` (RankMM-1): the mean of ℓ_jk over R_q;
    - ``loss="maximum"`` (RankMM-2): the largest ℓ_jk;
    - ``loss="max-average"`` (RankMM-3): the largest, over documents k, of the mean of ℓ_jk over the documents j
      preferred to k: a document far above many better ones is costly.

    Pairs are never listed: a query of n documents costs O(n log n) per pass. If a linear ranker cannot do better than
    w = 0, as is common with the last two losses on real data, "auto" takes the longest step down the gradient that
    ``tol`` allows, so that the model still ranks; "stochastic" with ``eval_set`` does better in that case.

    Parameters
    ----------
    loss : "average", "maximum" or "max-average"
    C : weight of the loss, > 0; or a list, from which ``eval_set`` chooses
    scale : "standard": divide features by their standard deviations over the training rows, so that their units do not
        matter; X is not copied, and ``coef_`` are the weights of the original features. None: use the original features
        and exactly the objective above
    solver : "auto", which reaches the relative gap ``tol`` by itself; or "stochastic", the paper's steps in the dual:
        gradient projection for the two averages, exponentiated gradient for the maximum
    tol, max_iter : relative gap at which to stop; maximum passes over the data of "auto"
    learning_rate : η0 of "stochastic": its steps are η0/√t in projections, η0 in exponentiated gradient. None derives
        it from the features
    n_steps : T, the steps of "stochastic", one query each; None for 20 times the number of queries
    eval_metric : metric on ``eval_set``
    random_state : seed for the queries that "stochastic" picks

    Attributes
    ----------
    coef_, intercept_ : weights; 0
    certificate_ : primal and dual value and their gap, for either solver
    C_ : the C used; path_ : one row per C
    """

    accepts_shards: ClassVar[bool] = True
    resumes: ClassVar[bool] = True
    space: ClassVar[Space] = {"C": C_RANGE}

    loss: str = parameter("average", Choice(of=tuple(KERNELS), help="how the pairs of a query form its loss"))
    C: float | Sequence[float] = parameter(10.0, C_CONSTRAINT)
    scale: str | None = parameter("standard", SCALE)
    solver: str = parameter(
        "auto",
        Choice(of=("auto", "stochastic"), help="auto runs until tol; stochastic takes the paper's steps in the dual"),
    )
    tol: float = parameter(1e-3, Real(low=0, open_low=True, help="relative gap at which to stop"))
    max_iter: int = parameter(1000, Integer(low=1, help="maximum passes over the data (auto)"))
    learning_rate: float | None = parameter(
        None, Maybe(inner=Real(low=0, open_low=True), help="first step (stochastic); None derives it from the features")
    )
    n_steps: int | None = parameter(
        None, Maybe(inner=Integer(low=1), help="steps of one query each (stochastic); None for 20 per query")
    )
    eval_metric: Any = parameter("ndcg@10", MetricSpec(help="metric on the validation data"))
    random_state: Any = parameter(0, Maybe(inner=Seed(), help="seed"))

    def _search_space(self) -> Space:
        if self.solver == "auto" and self.loss != "average":  # their minimum ranks alike for nearly every C
            return {"solver": Values("stochastic", why="C matters to its steps alone"), **self.space}
        return self.space

    def _accepts_init_scores(self) -> bool:
        return self.solver == "auto"

    def _name_for_errors(self) -> str:
        return f"RankMM with solver={self.solver!r}"

    def _training_bytes(self, size: DataSize) -> float:
        steps = DUAL_ROW_BYTES * size.rows if self.solver == "stochastic" else 0.0
        return super()._training_bytes(size) + steps

    def _fit(self, data: Dataset, monitor: Monitor) -> None:
        self._check_path(monitor)
        self._refuse_shards(data)
        journal = None if monitor.checkpoint is None else Journal(monitor)
        scales = Scaling(data, self.scale, journal).scales
        if self.solver == "stochastic":  # it visits queries one by one
            assert data.whole is not None
            pairs = GradedPairs(data.whole.y, data.whole.offsets)
            risk: Any = DualPairs(pairs, data.whole.X, block_shares(data.whole, data.total_weight), self.loss, scales)
        else:
            risk = record_risk(ScaledRisk(linear_risk(loss(f"margin-{self.loss}"), data), scales), journal)
        self._follow_path(MarginPath(scales=scales, risk=risk, seed=seed_from(self.random_state)), monitor)

    def _solve(self, state: MarginPath, C: float, monitor: Monitor) -> None:
        if self.solver == "auto":
            self._solve_bundle(state, C, monitor)
        else:
            self._ascend(state, C, monitor)

    def _solve_bundle(self, state: MarginPath, C: float, monitor: Monitor) -> None:
        """Solve to the tolerance, and closer if the point found is 0, which is near enough but ranks nothing."""
        for tol in (self.tol, CLOSER * self.tol):
            with warnings.catch_warnings():
                if tol < self.tol:
                    warnings.simplefilter("ignore", ConvergenceWarning)
                solution = minimize_bundle(
                    state.risk, C, tol=tol, max_iter=self.max_iter, bundle=state.bundle, monitor=monitor
                )
            state.bundle, state.v, state.certificate = solution.bundle, solution.w, solution.certificate
            if solution.w.any() or solution.interrupted:
                return
        self._leave_zero(state, C)

    def _leave_zero(self, state: MarginPath, C: float) -> None:
        """If no weights are better than 0, take the longest step down the gradient that the tolerance allows."""
        assert state.certificate is not None
        dual = state.certificate.dual
        _, gradient, _ = state.risk.value_and_gradient(np.zeros(state.risk.n_features))
        v = -C * gradient
        for _ in range(MOST_HALVINGS if v.any() else 0):
            found = Certificate(0.5 * float(v @ v) + C * state.risk.value_and_gradient(v)[0], dual)
            if found.relative_gap <= self.tol:
                state.v, state.certificate = v, found
                return
            v = 0.5 * v

    def _ascend(self, state: MarginPath, C: float, monitor: Monitor) -> None:
        """Take the paper's steps; validation data, if any, choose the number of rounds."""
        best = -np.inf

        def keep(v: Array, certificate: Certificate) -> None:
            nonlocal best
            found = self._validation(v / state.scales, monitor)
            if found is None or np.isnan(found) or found > best:
                best = -np.inf if found is None or np.isnan(found) else found
                state.v, state.certificate = v, certificate

        common: dict[str, Any] = {
            "learning_rate": self.learning_rate,
            "n_steps": self.n_steps,
            "tol": self.tol,
            "seed": state.seed,
            "monitor": monitor,
            "on_round": keep,
        }
        if self.loss == "maximum":
            minimize_exponentiated(state.risk, C, **common)
        else:
            constraint = "box" if self.loss == "average" else "ball"
            minimize_dual_projection(state.risk, C, constraint=constraint, **common)
