"""Ridge regression as a ranker: the oldest baseline, and the starting point of other rankers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gainful.data.dataset import Dataset
from gainful.data.rows import Array
from gainful.data.size import DataSize
from gainful.errors import DataError
from gainful.linear.scaling import SCALE, Scaling
from gainful.parameters.constraints import Choice, MetricSpec, Real, parameter
from gainful.parameters.space import Range, Space, Values
from gainful.rankers.base import LinearScores, Ranker
from gainful.rankers.paths import validation_of
from gainful.solvers.ridge import ridge_bytes
from gainful.training.monitor import Monitor

LARGEST_GRADE = 300.0  # the squares of larger gains overflow


@dataclass(repr=False, eq=False)
class RegressionRanker(LinearScores, Ranker):
    """Linear regression on the relevance, with an l2 penalty.

    Minimises Σ_i ω_i (t_i − w·x_i − b)² + alpha Σ_j σ_j² w_j², where t is the grade or its gain 2^g − 1, less the
    initial score if there is one; ω is the weight of the row over the mean weight of the queries, those of weight 0
    left out, σ_j the standard deviation of feature j (1 with ``scale=None``) and b an intercept, which is not
    penalised. Scores are expected relevances, which rank well when the features carry a linear signal and the grades
    are not too skewed.

    Parameters
    ----------
    alpha : strength of the penalty, ≥ 0. With 0, the shortest minimiser is taken.
    scale : "standard": penalise weights of features divided by their standard deviations over the training rows, so
        that their units do not matter; None: of the original features
    target : "grade" or "gain"
    eval_metric : metric on ``eval_set`` reported in ``history_``

    Attributes
    ----------
    coef_ : (n_features,) weights; intercept_ : float
    history_ : one row, with the objective at the optimum
    """

    accepts_shards: ClassVar[bool] = True
    weighs_documents: ClassVar[bool] = True
    accepts_init_scores: ClassVar[bool] = True
    space: ClassVar[Space] = {
        "alpha": Range(1.0, 1e5, log=True, why="from almost no penalty to one that leaves little but the mean"),
        "target": Values("grade", "gain", why="NDCG counts gains 2^g − 1; grades are less skewed"),
    }

    alpha: float = parameter(1000.0, Real(low=0, help="strength of the l2 penalty on the weights"))
    scale: str | None = parameter("standard", SCALE)
    target: str = parameter(
        "grade", Choice(of=("grade", "gain"), help="regression target: the grade g, or its gain 2^g − 1")
    )
    eval_metric: Any = parameter("ndcg@10", MetricSpec(help="metric reported on the validation data"))

    row_bytes: ClassVar[float] = 16

    def _fits_grades(self) -> bool:
        return self.target == "grade"

    def _training_bytes(self, size: DataSize) -> float:
        return super()._training_bytes(size) + ridge_bytes(size.features)

    def _fit(self, data: Dataset, monitor: Monitor) -> None:
        monitor.total = 1
        top = data.highest_grade
        if self.target == "gain" and top > LARGEST_GRADE:
            raise DataError(
                f"the gain 2^g − 1 of grade {top:g} is too large to regress on; use target='grade', or grades "
                f"up to {LARGEST_GRADE:g}"
            )
        targets = np.asarray if self.target == "grade" else gains
        scaling = Scaling(data, self.scale)
        v, self.intercept_, objective = scaling.ridge(float(self.alpha), targets)
        self.coef_ = np.asarray(v / scaling.scales)
        monitor.step(objective=objective, validation=validation_of(self.coef_, monitor))


def gains(y: Array) -> Array:
    """2^g − 1."""
    return np.asarray(np.exp2(y) - 1.0)
