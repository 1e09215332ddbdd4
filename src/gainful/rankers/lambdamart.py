"""LambdaMART on LightGBM."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array
from gainful.errors import DataError
from gainful.nets.device import pytorch
from gainful.parameters.constraints import Choice, Flag, Integer, Real, parameter
from gainful.rankers.engines import EngineRanker
from gainful.training.monitor import Monitor
from gainful.trees.grades import Tally
from gainful.trees.grow import Objective
from gainful.trees.objective_factory import ObjectiveFactory, grades

LARGEST_PLAIN_GRADE = 100.0
MOST_DOCUMENTS = 10_000  # LightGBM's own limit for its built-in ranking objectives


@dataclass(repr=False, eq=False)
class LambdaMART(EngineRanker):
    """Gradient boosting on lambdarank gradients, grown by LightGBM.

    Each tree fits, for every pair of documents of different grade, the gradient of the logistic pair loss times the
    change in NDCG from swapping the two. This is LightGBM's ``lambdarank`` objective: pairs whose better document is
    below ``truncation`` are left out; with ``normalize`` lambdas are scaled by score distance and query.

    Grades may be any non-negative numbers, in any number: LightGBM sees the rank of a grade among the grades of the
    training data together with its gain, so its limits of 31 grades and of integers do not apply. It takes at most
    10,000 documents per query. The plain form, with all pairs and no normalisation, is
    ``BoostedRanker(loss="lambda")``, named ``lambdamart-plain``; it has no such limits. Nor does it depend on the order
    of the rows, by which LightGBM ranks ties: all documents, at the start.

    In addition to the parameters of every :class:`TreeRanker`:

    Parameters
    ----------
    gain : "exp2" (2^g − 1) or "linear", in the NDCG that weights the gradients
    truncation : lambdarank's truncation level
    sigmoid : steepness of the pair loss
    normalize : LightGBM's normalisation of the lambdas
    """

    gain: str = parameter("exp2", Choice(of=("exp2", "linear"), help="gain of a grade: 2^g − 1 or g"))
    truncation: int = parameter(30, Integer(low=1, help="pairs whose better document ranks below this are left out"))
    sigmoid: float = parameter(1.0, Real(low=0, open_low=True, help="steepness of the pair loss"))
    normalize: bool = parameter(True, Flag(help="LightGBM's normalisation of the lambdas"))

    def _own_lightgbm_names(self) -> dict[str, tuple[str, ...]]:
        return {
            "gain": ("label_gain",),
            "truncation": ("lambdarank_truncation_level",),
            "sigmoid": ("sigmoid",),
            "normalize": ("lambdarank_norm",),
        }

    def _fit(self, data: Dataset, monitor: Monitor) -> None:
        self._refuse_long_queries(data)
        distinct = Tally.of_data(data).grades
        if self.engine == "xgboost":
            self._grow(data, grades, monitor, factory=ObjectiveFactory(partial(self._objective, distinct)))
            return
        params = {
            "objective": "lambdarank",
            "label_gain": gains_of(distinct, self.gain).tolist(),
            "lambdarank_truncation_level": self.truncation,
            "sigmoid": float(self.sigmoid),
            "lambdarank_norm": bool(self.normalize),
        }
        self._grow(data, partial(ranks_among, distinct), monitor, params=params)

    def _objective(self, distinct: Array, data: RankingData, *, threads: int | None = None) -> Objective:
        """LightGBM's objective, for another engine; ``threads`` are PyTorch's own."""
        pytorch("LambdaMART with engine='xgboost'")
        from gainful.trees.lambdarank_tensors import LambdaRank

        return LambdaRank(
            data,
            gains_of(distinct, self.gain)[np.searchsorted(distinct, data.y)],
            truncation=self.truncation,
            sigmoid=float(self.sigmoid),
            normalize=bool(self.normalize),
            device=self._device(),
        )

    @staticmethod
    def _refuse_long_queries(data: Dataset) -> None:
        if data.longest <= MOST_DOCUMENTS:
            return
        raise DataError(
            f"query {data.longest_query} has {data.longest:,} documents; LightGBM's lambdarank takes at most "
            f"{MOST_DOCUMENTS:,} per query, so leave out those that never rank high"
        )


def ranks_among(distinct: Array, data: RankingData) -> Array:
    """Labels 0, 1, … for the distinct grades in order: with their gains, all that lambdarank uses."""
    return np.searchsorted(distinct, data.y).astype(np.float64)


def gains_of(distinct: Array, gain: str) -> Array:
    """The gain of each distinct grade."""
    if gain == "linear":
        return distinct
    if distinct[-1] <= LARGEST_PLAIN_GRADE:
        return np.asarray(np.exp2(distinct) - 1.0)
    # NDCG depends only on ratios of gains, so all may be divided by 2^(highest grade)
    return np.asarray(np.exp2(distinct - distinct[-1]) - np.exp2(-distinct[-1]))
