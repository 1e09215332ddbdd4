"""GBRank: boosted trees that order pairs by moving both documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from gainful.compute import query_loop
from gainful.data.dataset import Dataset, RankingData
from gainful.data.query_weights import pair_counts, weights_of_mean_one
from gainful.data.rows import Array, read_only
from gainful.errors import ParameterError
from gainful.losses import loss
from gainful.parameters.constraints import Choice, Real, parameter
from gainful.parameters.space import Space
from gainful.rankers.scorers import Trees
from gainful.rankers.spaces import GBRANK_SPACE
from gainful.rankers.trees import TreeRanker
from gainful.training.monitor import Monitor
from gainful.trees.objective_factory import ObjectiveFactory, grades


class PullingPairs:
    """The targets of GBRank's trees. A pair i ≻ j with o_i < o_j + τ pulls o_i towards o_j + τ and o_j towards o_i − τ.

    "gradient": a leaf moves by the mean distance to these targets, so that Σ [τ − (o_i − o_j)]₊² falls. "average": a
    leaf is the mean target itself, t_m, and h_m = (m·h_{m−1} + η·t_m)/(m + 1). As (m + 1)·h_m = m·h_{m−1} + η·t_m, the
    booster holds H_m = (m + 1)·h_m, a plain sum of trees.
    """

    def __init__(
        self,
        data: RankingData,
        tau: float,
        update: str,
        threads: int | None = None,
        mean_weight: float | None = None,
    ):
        self.offsets, self.tau, self.average, self.threads = read_only(data.offsets), tau, update == "average", threads
        hinge = loss("pairwise-squared-hinge").bind_newton_judgments(data)
        assert hinge is not None
        self.hinge = hinge
        # the loss is a mean over the pairs of a query: times their number, every pair counts the same
        pulls = weights_of_mean_one(data, mean_weight) * pair_counts(data)
        self.pulls = np.repeat(pulls, data.counts)

    def __call__(self, scores: Array, iteration: int) -> tuple[Array, Array]:
        h = scores / iteration if self.average else np.asarray(scores, dtype=np.float64)
        slope, curvature = query_loop.gradient_and_curvature(
            self.hinge, self.offsets, read_only(np.ascontiguousarray(h / self.tau)), self.threads
        )
        distance, count = -0.5 * self.tau * slope * self.pulls, 0.5 * curvature * self.pulls
        return -(distance + count * h if self.average else distance), count


@dataclass(repr=False, eq=False)
class GBRank(TreeRanker):
    """Boosted trees on pairs in the wrong order, grown by LightGBM.

    A pair i ≻ j with o_i < o_j + τ sets the target o_j + τ for document i and o_i − τ for document j; every tree fits
    the current targets.

    Zheng, Chen, Sun and Zha 2007, A regression framework for learning ranking functions using relative relevance
    judgments.

    In addition to the parameters of every :class:`TreeRanker`:

    Parameters
    ----------
    tau : margin of a correctly ordered pair
    update : "gradient" adds a tree fitted to the distances to the targets; "average" is the paper's running average of
        trees of the targets themselves, h_m = (m·h_{m−1} + η·t_m)/(m + 1)
    """

    space: ClassVar[Space] = GBRANK_SPACE
    accepts_pairs: ClassVar[bool] = True

    tau: float = parameter(1.0, Real(low=0, open_low=True, help="margin of a correctly ordered pair"))
    update: str = parameter(
        "gradient", Choice(of=("gradient", "average"), help="how a tree is combined with the others")
    )

    def _fit(self, data: Dataset, monitor: Monitor) -> None:
        before: str = getattr(self, "update_", self.update)
        if self.warm_start and before != self.update:
            raise ParameterError(
                f"the trees to continue were grown with update={before!r}; keep that, or set warm_start=False"
            )
        make = partial(PullingPairs, tau=float(self.tau), update=self.update)
        self._grow(data, grades, monitor, factory=ObjectiveFactory(make))
        self.update_ = self.update

    def _binds_clicks(self) -> bool:
        return True

    def _accepts_init_scores(self) -> bool:
        return self.update == "gradient"  # an average has no start

    def _name_for_errors(self) -> str:
        return f"GBRank with update={self.update!r}"

    def _factor(self) -> float:
        """The factor from the sum of the trees to the score."""
        return 1.0 / (self.best_iteration_ + 1) if self.update_ == "average" else 1.0

    def _tree_scorer(self) -> Trees:
        return Trees(self.booster_, self.best_iteration_, self.n_jobs, factor=self._factor())

    def _pack(self) -> dict[str, Any]:
        return super()._pack() | {"update": self.update_}

    def _unpack(self, state: Mapping[str, Any]) -> None:
        super()._unpack(state)
        self.update_ = str(state["update"])
