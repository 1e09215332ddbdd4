"""LambdaMART on LightGBM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.data.sharded import ShardedData
from gainful.errors import DataError
from gainful.parameters.constraints import Choice, Constraint, Flag, Integer, Real
from gainful.rankers.trees import TREE_PARAMETERS, TreeRanker
from gainful.training.monitor import Monitor
from gainful.trees.grades import Tally

LARGEST_PLAIN_GRADE = 100.0
MOST_DOCUMENTS = 10_000  # LightGBM's own limit for its built-in ranking objectives


@dataclass(repr=False, eq=False)
class LambdaMART(TreeRanker):
    """Gradient boosting on lambdarank gradients, grown by LightGBM.

    Each tree fits, for every pair of documents of different grade, the gradient of the logistic pair loss times the
    change of NDCG that swapping the two would make. This is LightGBM's ``lambdarank`` objective: pairs whose better
    document is below ``truncation`` are left out; with ``normalize`` lambdas are scaled by score distance and query.

    Grades may be any non-negative numbers, in any number: LightGBM sees the rank of a grade among the grades of the
    training data together with its gain, so its limits of 31 grades and of integers do not apply. It takes at most
    10,000 documents a query. The plain form, all pairs and no normalisation, is ``BoostedRanker(loss="lambda")``, known
    as ``lambdamart-plain``; it has no such limits.

    These come on top of the parameters of every :class:`TreeRanker`.

    Parameters
    ----------
    gain : "exp2" (2^g − 1) or "linear", in the NDCG that the gradients are weighted by
    truncation : lambdarank's truncation level
    sigmoid : steepness of the pair loss
    normalize : LightGBM's normalisation of the lambdas
    """

    parameters: ClassVar[Mapping[str, Constraint]] = {
        "gain": Choice(of=("exp2", "linear"), help="gain of a grade: 2^g − 1 or g"),
        "truncation": Integer(low=1, help="pairs whose better document ranks below this are left out"),
        "sigmoid": Real(low=0, open_low=True, help="steepness of the pair loss"),
        "normalize": Flag(help="LightGBM's normalisation of the lambdas"),
        **TREE_PARAMETERS,
    }

    gain: str = "exp2"
    truncation: int = 30
    sigmoid: float = 1.0
    normalize: bool = True

    def _owned(self) -> dict[str, tuple[str, ...]]:
        return {
            "gain": ("label_gain",),
            "truncation": ("lambdarank_truncation_level",),
            "sigmoid": ("sigmoid",),
            "normalize": ("lambdarank_norm",),
        }

    def _fit(self, data: RankingData | ShardedData, monitor: Monitor) -> None:
        self._refuse_long_queries(data)
        distinct = Tally.of_data(data).grades
        params = {
            "objective": "lambdarank",
            "label_gain": gains_of(distinct, self.gain).tolist(),
            "lambdarank_truncation_level": self.truncation,
            "sigmoid": float(self.sigmoid),
            "lambdarank_norm": bool(self.normalize),
        }
        self._grow(data, partial(ranks_among, distinct), monitor, params=params)

    @staticmethod
    def _refuse_long_queries(data: RankingData | ShardedData) -> None:
        if data.longest <= MOST_DOCUMENTS:
            return
        if isinstance(data, RankingData):
            which = f"query {data.query_ids[int(np.argmax(data.counts))]}"
        else:
            which = f"a query of {data.names[int(np.argmax([facts.longest for facts in data.facts]))]}"
        raise DataError(
            f"{which} has {data.longest:,} documents; LightGBM's lambdarank takes at most {MOST_DOCUMENTS:,} a query, "
            "so leave out those that never rank high"
        )


def ranks_among(distinct: Array, data: RankingData) -> Array:
    """Labels 0, 1, … for the distinct grades in order: with the gain of each, all lambdarank looks at."""
    return np.searchsorted(distinct, data.y).astype(np.float64)


def gains_of(distinct: Array, gain: str) -> Array:
    """The gain of each distinct grade."""
    if gain == "linear":
        return distinct
    if distinct[-1] <= LARGEST_PLAIN_GRADE:
        return np.asarray(np.exp2(distinct) - 1.0)
    # NDCG looks at ratios of gains only, so all may be divided by 2^(highest grade)
    return np.asarray(np.exp2(distinct - distinct[-1]) - np.exp2(-distinct[-1]))
