"""LambdaMART on LightGBM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gainful.data import RankingData
from gainful.errors import DataError
from gainful.monitor import Monitor
from gainful.parameters import Choice, Constraint, Flag, Integer, Real
from gainful.rankers.trees import TREE_PARAMETERS, TreeRanker
from gainful.rows import Array

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

    Parameters, beside those of every :class:`TreeRanker`
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

    def _fit(self, data: RankingData, monitor: Monitor) -> None:
        self._refuse_long_queries(data)
        labels, gains = ranks_of_grades(data.y, self.gain)
        params = {
            "objective": "lambdarank",
            "label_gain": gains.tolist(),
            "lambdarank_truncation_level": self.truncation,
            "sigmoid": float(self.sigmoid),
            "lambdarank_norm": bool(self.normalize),
        }
        self._grow(data, labels, monitor, params=params)

    @staticmethod
    def _refuse_long_queries(data: RankingData) -> None:
        longest = int(np.argmax(data.counts))
        if data.counts[longest] > MOST_DOCUMENTS:
            raise DataError(
                f"query {data.query_ids[longest]} has {data.counts[longest]:,} documents; LightGBM's lambdarank takes "
                f"at most {MOST_DOCUMENTS:,} a query, so leave out those that never rank high"
            )


def ranks_of_grades(y: Array, gain: str) -> tuple[Array, Array]:
    """Labels 0, 1, … for the distinct grades in order, and the gain of each: all lambdarank looks at."""
    grades, labels = np.unique(y, return_inverse=True)
    if gain == "linear":
        gains = grades
    elif grades[-1] <= LARGEST_PLAIN_GRADE:
        gains = np.exp2(grades) - 1.0
    else:  # NDCG looks at ratios of gains only, so all may be divided by 2^(highest grade)
        gains = np.exp2(grades - grades[-1]) - np.exp2(-grades[-1])
    return labels.astype(np.float64), gains
