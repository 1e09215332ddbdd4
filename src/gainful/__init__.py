"""gainful: learning to rank that optimises what you measure.

Public names are loaded on first use, so that ``import gainful`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gainful.comparison import CompareProgress, Comparison, compare
    from gainful.data import RankingData
    from gainful.errors import DataError, FormatError, GainfulError, InterruptedFitWarning, ParameterError
    from gainful.formats import read, write
    from gainful.formats.table import from_frame
    from gainful.losses import LOSSES, Loss, loss
    from gainful.metrics import Metric, metric
    from gainful.model_file import load, save
    from gainful.monitor import Progress
    from gainful.rankers import RANKERS, ranker
    from gainful.rankers.adarank import AdaRank
    from gainful.rankers.base import Ranker
    from gainful.rankers.coordinate_ascent import CoordinateAscent
    from gainful.rankers.frank import FRank
    from gainful.rankers.lambdamart import LambdaMART
    from gainful.rankers.linear import LinearRanker, RankSVM
    from gainful.rankers.ndcg_reduction import NDCGReduction
    from gainful.rankers.rankboost import RankBoost
    from gainful.rankers.rankmm import RankMM
    from gainful.rankers.regression import RegressionRanker
    from gainful.rankers.rsrank import RSRank
    from gainful.rankers.structured_kernel import KernelStructuredSVM
    from gainful.rankers.structured_svm import StructuredSVM
    from gainful.selection import Split, folds, split
    from gainful.synthetic import make_artificial

_HOME = {
    "gainful.comparison": ("Comparison", "CompareProgress", "compare"),
    "gainful.data": ("RankingData",),
    "gainful.errors": ("DataError", "FormatError", "GainfulError", "InterruptedFitWarning", "ParameterError"),
    "gainful.formats": ("read", "write"),
    "gainful.formats.table": ("from_frame",),
    "gainful.losses": ("LOSSES", "Loss", "loss"),
    "gainful.metrics": ("Metric", "metric"),
    "gainful.model_file": ("load", "save"),
    "gainful.monitor": ("Progress",),
    "gainful.rankers": ("RANKERS", "ranker"),
    "gainful.rankers.adarank": ("AdaRank",),
    "gainful.rankers.base": ("Ranker",),
    "gainful.rankers.coordinate_ascent": ("CoordinateAscent",),
    "gainful.rankers.frank": ("FRank",),
    "gainful.rankers.lambdamart": ("LambdaMART",),
    "gainful.rankers.linear": ("LinearRanker", "RankSVM"),
    "gainful.rankers.ndcg_reduction": ("NDCGReduction",),
    "gainful.rankers.rankboost": ("RankBoost",),
    "gainful.rankers.rankmm": ("RankMM",),
    "gainful.rankers.regression": ("RegressionRanker",),
    "gainful.rankers.rsrank": ("RSRank",),
    "gainful.rankers.structured_kernel": ("KernelStructuredSVM",),
    "gainful.rankers.structured_svm": ("StructuredSVM",),
    "gainful.selection": ("Split", "folds", "split"),
    "gainful.synthetic": ("make_artificial",),
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "AdaRank",
    "CompareProgress",
    "Comparison",
    "CoordinateAscent",
    "DataError",
    "FRank",
    "FormatError",
    "GainfulError",
    "InterruptedFitWarning",
    "KernelStructuredSVM",
    "LOSSES",
    "LambdaMART",
    "LinearRanker",
    "Loss",
    "Metric",
    "NDCGReduction",
    "ParameterError",
    "Progress",
    "RANKERS",
    "RSRank",
    "RankBoost",
    "RankMM",
    "RankSVM",
    "Ranker",
    "RankingData",
    "RegressionRanker",
    "Split",
    "StructuredSVM",
    "compare",
    "folds",
    "from_frame",
    "load",
    "loss",
    "make_artificial",
    "metric",
    "ranker",
    "read",
    "save",
    "split",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'gainful' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
