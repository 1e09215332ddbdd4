"""gainful: learning to rank that optimises what you measure.

Public names are loaded on first use, so that ``import gainful`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gainful.comparison import Comparison, LossMatrix, loss_grid
    from gainful.comparison.compare import CompareProgress, compare
    from gainful.costs.model import Estimate, estimate
    from gainful.data.checks import Finding, check_data
    from gainful.data.dataset import RankingData
    from gainful.data.sharded import ShardedData
    from gainful.data.splits import Split, folds, split
    from gainful.data.synthetic import make_artificial
    from gainful.errors import (
        ClusterError,
        DataError,
        DataWarning,
        FormatError,
        GainfulError,
        InterruptedFitWarning,
        ParameterError,
        RedundantFeaturesWarning,
    )
    from gainful.explanation.explain import Explanation, PairExplanation, explain, explain_pair
    from gainful.exports import Exported, export
    from gainful.formats import read, write
    from gainful.formats.table.reader import from_frame
    from gainful.inputs.shards import open_shards
    from gainful.losses import LOSSES, Loss, loss
    from gainful.metrics import Metric, metric
    from gainful.metrics.scorer import scorer
    from gainful.parameters.space import IntRange, Range, Values
    from gainful.rankers import RANKERS, ranker
    from gainful.rankers.adarank import AdaRank
    from gainful.rankers.base import Ranker
    from gainful.rankers.boosted import BoostedRanker
    from gainful.rankers.coordinate_ascent import CoordinateAscent
    from gainful.rankers.frank import FRank
    from gainful.rankers.gbrank import GBRank
    from gainful.rankers.lambdamart import LambdaMART
    from gainful.rankers.linear import LinearRanker, RankSVM
    from gainful.rankers.mcrank import McRank
    from gainful.rankers.model_file import load, model_info, save
    from gainful.rankers.ndcg_reduction import NDCGReduction
    from gainful.rankers.neural import NeuralRanker
    from gainful.rankers.rankboost import RankBoost
    from gainful.rankers.rankmm import RankMM
    from gainful.rankers.regression import RegressionRanker
    from gainful.rankers.rsrank import RSRank
    from gainful.rankers.smooth_dcg import SmoothDCG
    from gainful.rankers.structured_kernel import KernelStructuredSVM
    from gainful.rankers.structured_svm import StructuredSVM
    from gainful.training.checkpoint import Checkpoint
    from gainful.training.monitor import Progress
    from gainful.trees.binning import AdaptiveBinner
    from gainful.tuning import TuneProgress, TuneResult
    from gainful.tuning.tune import tune

_HOME = {
    "gainful.trees.binning": ("AdaptiveBinner",),
    "gainful.training.checkpoint": ("Checkpoint",),
    "gainful.data.checks": ("Finding", "check_data"),
    "gainful.comparison": ("Comparison", "CompareProgress", "LossMatrix", "compare", "loss_grid"),
    "gainful.costs.model": ("Estimate", "estimate"),
    "gainful.data.dataset": ("RankingData",),
    "gainful.errors": (
        "ClusterError",
        "DataError",
        "DataWarning",
        "FormatError",
        "GainfulError",
        "InterruptedFitWarning",
        "ParameterError",
        "RedundantFeaturesWarning",
    ),
    "gainful.explanation.explain": ("Explanation", "PairExplanation", "explain", "explain_pair"),
    "gainful.exports": ("Exported", "export"),
    "gainful.formats": ("read", "write"),
    "gainful.inputs.shards": ("open_shards",),
    "gainful.formats.table.reader": ("from_frame",),
    "gainful.losses": ("LOSSES", "Loss", "loss"),
    "gainful.metrics": ("Metric", "metric"),
    "gainful.rankers.model_file": ("load", "model_info", "save"),
    "gainful.training.monitor": ("Progress",),
    "gainful.rankers": ("RANKERS", "ranker"),
    "gainful.rankers.adarank": ("AdaRank",),
    "gainful.rankers.base": ("Ranker",),
    "gainful.rankers.boosted": ("BoostedRanker",),
    "gainful.rankers.coordinate_ascent": ("CoordinateAscent",),
    "gainful.rankers.frank": ("FRank",),
    "gainful.rankers.gbrank": ("GBRank",),
    "gainful.rankers.lambdamart": ("LambdaMART",),
    "gainful.rankers.linear": ("LinearRanker", "RankSVM"),
    "gainful.rankers.mcrank": ("McRank",),
    "gainful.rankers.ndcg_reduction": ("NDCGReduction",),
    "gainful.rankers.neural": ("NeuralRanker",),
    "gainful.rankers.rankboost": ("RankBoost",),
    "gainful.rankers.rankmm": ("RankMM",),
    "gainful.rankers.regression": ("RegressionRanker",),
    "gainful.rankers.rsrank": ("RSRank",),
    "gainful.rankers.smooth_dcg": ("SmoothDCG",),
    "gainful.rankers.structured_kernel": ("KernelStructuredSVM",),
    "gainful.rankers.structured_svm": ("StructuredSVM",),
    "gainful.metrics.scorer": ("scorer",),
    "gainful.data.splits": ("Split", "folds", "split"),
    "gainful.data.sharded": ("ShardedData",),
    "gainful.parameters.space": ("IntRange", "Range", "Values"),
    "gainful.data.synthetic": ("make_artificial",),
    "gainful.tuning": ("TuneProgress", "TuneResult", "tune"),
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "AdaRank",
    "AdaptiveBinner",
    "BoostedRanker",
    "Checkpoint",
    "ClusterError",
    "CompareProgress",
    "Comparison",
    "CoordinateAscent",
    "DataError",
    "DataWarning",
    "Estimate",
    "Explanation",
    "Exported",
    "FRank",
    "Finding",
    "FormatError",
    "GBRank",
    "GainfulError",
    "IntRange",
    "InterruptedFitWarning",
    "KernelStructuredSVM",
    "LOSSES",
    "LambdaMART",
    "LinearRanker",
    "Loss",
    "LossMatrix",
    "McRank",
    "Metric",
    "NDCGReduction",
    "NeuralRanker",
    "PairExplanation",
    "ParameterError",
    "Progress",
    "RANKERS",
    "RSRank",
    "Range",
    "RankBoost",
    "RankMM",
    "RankSVM",
    "Ranker",
    "RankingData",
    "RedundantFeaturesWarning",
    "RegressionRanker",
    "ShardedData",
    "SmoothDCG",
    "Split",
    "StructuredSVM",
    "TuneProgress",
    "TuneResult",
    "Values",
    "check_data",
    "compare",
    "estimate",
    "explain",
    "explain_pair",
    "export",
    "folds",
    "from_frame",
    "load",
    "loss",
    "loss_grid",
    "make_artificial",
    "metric",
    "model_info",
    "open_shards",
    "ranker",
    "read",
    "save",
    "scorer",
    "split",
    "tune",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'gainful' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
