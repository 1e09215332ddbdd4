"""All rankers by name. An entry here adds a ranker to the API, the command line, the contract tests and the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gainful.errors import UnknownNameError
from gainful.errors.other_names import bare

if TYPE_CHECKING:
    from gainful.rankers.base import Ranker


@dataclass(frozen=True)
class RankerEntry:
    """A named ranker: its class, loaded on first use, and the parameters that the name presets."""

    name: str
    path: str  # of the class: "package.module.Class"
    summary: str
    kind: str  # "linear", "additive", "trees", "net", "kernel" or "blend"
    params: Mapping[str, Any] = field(default_factory=dict)
    paper: str = ""
    needs: str = ""  # module of an optional dependency that training needs

    @property
    def module(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def class_name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def installed(self) -> bool:
        """Whether its optional dependency is installed; nothing is imported to find out."""
        return not self.needs or find_spec(self.needs) is not None

    @property
    def weighs_documents(self) -> bool:
        """Whether it takes weights that differ within a query."""
        return self.create()._weighs_documents()

    @property
    def accepts_init_scores(self) -> bool:
        """Whether it can start from given scores."""
        return self.create()._accepts_init_scores()

    @property
    def accepts_pairs(self) -> bool:
        """Whether it can learn from preferences instead of grades."""
        return self.create()._accepts_pairs()

    @property
    def cls(self) -> type[Ranker]:
        return getattr(import_module(self.module), self.class_name)  # type: ignore[no-any-return]

    def create(self, **params: Any) -> Ranker:
        """An unfitted estimator with the preset parameters, overridden by ``params``."""
        known = self.cls.parameters
        for name in params:
            if name not in known:
                raise UnknownNameError.among("parameter", name, known, owner=self.name, hint=twin_hint(self.name, name))
        return self.cls(**{**self.params, **params})


class Registry(Mapping[str, RankerEntry]):
    """A read-only mapping from names to entries."""

    def __init__(self, *entries: RankerEntry):
        self._entries = {entry.name: entry for entry in entries}

    def __getitem__(self, name: str) -> RankerEntry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"RANKERS({', '.join(self)})"


SUN = "Sun, Qin, Tao and Wang 2009, Robust sparse rank learning for non-smooth ranking measures"
CHAPELLE = "Chapelle, Le and Smola 2007, Large margin optimization of ranking measures"
AGARWAL = "Agarwal and Collins 2010, Maximum margin ranking algorithms for information retrieval"
WU = (
    "Wu, Chang, Zheng and Zha 2009, Smoothing DCG for learning to rank: a novel approach using smoothed hinge functions"
)
LI = "Li, Burges and Wu 2007, McRank: learning to rank using multiple classification and gradient boosting"
XU_LI = "Xu and Li 2007, AdaRank: a boosting algorithm for information retrieval"

RANKERS = Registry(
    RankerEntry(
        "regression",
        "gainful.rankers.regression.RegressionRanker",
        "Ridge regression on the grades, or on the gains.",
        kind="linear",
    ),
    RankerEntry(
        "linear",
        "gainful.rankers.linear.LinearRanker",
        "Linear; any loss of gainful.LOSSES, or one of your own.",
        kind="linear",
    ),
    RankerEntry(
        "ranksvm",
        "gainful.rankers.linear.RankSVM",
        "Linear; hinge or squared hinge on all pairs, certified.",
        kind="linear",
        paper="Joachims 2002, Optimizing search engines using clickthrough data",
    ),
    RankerEntry(
        "ranknet",
        "gainful.rankers.linear.LinearRanker",
        "Linear; logistic loss on pairs.",
        kind="linear",
        params={"loss": "ranknet", "early_stopping": 20},
        paper="Burges et al. 2005, Learning to rank using gradient descent",
    ),
    RankerEntry(
        "listnet",
        "gainful.rankers.linear.LinearRanker",
        "Linear; cross entropy of top-one probabilities.",
        kind="linear",
        params={"loss": "listnet", "early_stopping": 20},
        paper="Cao, Qin, Liu, Tsai and Li 2007, Learning to rank: from pairwise approach to listwise approach",
    ),
    RankerEntry(
        "lambdarank",
        "gainful.rankers.linear.LinearRanker",
        "Linear; logistic loss on pairs weighted by what swapping them changes in NDCG.",
        kind="linear",
        params={"loss": "lambda", "early_stopping": 50},
        paper="Burges, Ragno and Le 2006, Learning to rank with nonsmooth cost functions",
    ),
    RankerEntry(
        "softrank",
        "gainful.rankers.linear.LinearRanker",
        "Linear; expected NDCG under normal noise on the scores.",
        kind="linear",
        params={"loss": "softrank", "early_stopping": 50},
        paper="Taylor, Guiver, Robertson and Minka 2008, SoftRank: optimizing non-smooth rank metrics",
    ),
    RankerEntry(
        "structured-svm",
        "gainful.rankers.structured_svm.StructuredSVM",
        "Linear; large margin on NDCG@k itself, convex and certified.",
        kind="linear",
        paper=CHAPELLE,
    ),
    RankerEntry(
        "structured-svm-tight",
        "gainful.rankers.structured_svm.StructuredSVM",
        "Linear; the tighter, non-convex bound of 1 − NDCG@k, started from ridge regression.",
        kind="linear",
        params={"bound": "tight", "C": 10.0},
        paper=CHAPELLE,
    ),
    RankerEntry(
        "structured-svm-slack",
        "gainful.rankers.structured_svm.StructuredSVM",
        "Linear; structured SVM with slack rescaled by the loss.",
        kind="linear",
        params={"rescaling": "slack"},
        paper=CHAPELLE,
    ),
    RankerEntry(
        "structured-svm-kernel",
        "gainful.rankers.structured_kernel.KernelStructuredSVM",
        "Structured SVM with kernels, exact or by Nyström landmarks.",
        kind="kernel",
        paper=CHAPELLE,
    ),
    RankerEntry(
        "svmmap",
        "gainful.rankers.structured_svm.StructuredSVM",
        "Linear; large margin on average precision, convex and certified.",
        kind="linear",
        params={"metric": "map"},
        paper="Yue, Finley, Radlinski and Joachims 2007, A support vector method for optimizing average precision",
    ),
    RankerEntry(
        "rankmm-1",
        "gainful.rankers.rankmm.RankMM",
        "Linear; margins as wide as grades differ, averaged over the pairs of each query; certified.",
        kind="linear",
        paper=AGARWAL,
    ),
    RankerEntry(
        "rankmm-2",
        "gainful.rankers.rankmm.RankMM",
        "Linear; the same margins, on the worst pair of each query.",
        kind="linear",
        params={"loss": "maximum"},
        paper=AGARWAL,
    ),
    RankerEntry(
        "rankmm-3",
        "gainful.rankers.rankmm.RankMM",
        "Linear; the same margins, averaged over the documents that should rank above the worst one.",
        kind="linear",
        params={"loss": "max-average"},
        paper=AGARWAL,
    ),
    RankerEntry(
        "adarank-map",
        "gainful.rankers.adarank.AdaRank",
        "Linear; boosting over queries on average precision, single features as weak rankers.",
        kind="linear",
        paper=XU_LI,
    ),
    RankerEntry(
        "adarank-ndcg",
        "gainful.rankers.adarank.AdaRank",
        "Linear; boosting over queries on NDCG@10, single features as weak rankers.",
        kind="linear",
        params={"metric": "ndcg@10"},
        paper=XU_LI,
    ),
    RankerEntry(
        "rankboost",
        "gainful.rankers.rankboost.RankBoost",
        "Sum of steps of single features; boosting on the pairs' exponential loss.",
        kind="additive",
        paper="Freund, Iyer, Schapire and Singer 2003, An efficient boosting algorithm for combining preferences",
    ),
    RankerEntry(
        "frank",
        "gainful.rankers.frank.FRank",
        "Sum of steps of single features on the fidelity loss of the pairs.",
        kind="additive",
        paper="Tsai, Liu, Qin, Chen and Ma 2007, FRank: a ranking method with fidelity loss",
    ),
    RankerEntry(
        "coordinate-ascent",
        "gainful.rankers.coordinate_ascent.CoordinateAscent",
        "Linear; maximises any measure itself, one weight at a time.",
        kind="linear",
        paper="Metzler and Croft 2007, Linear feature-based models for information retrieval",
    ),
    RankerEntry(
        "rsrank",
        "gainful.rankers.rsrank.RSRank",
        "Linear; pairs weighted by what they cost in NDCG, all features.",
        kind="linear",
        paper=SUN,
    ),
    RankerEntry(
        "rsrank-sparse",
        "gainful.rankers.rsrank.RSRank",
        "Linear; RSRank with the fewest features within 1 % of the best on validation.",
        kind="linear",
        params={"l1": "auto", "tolerance": 0.01},
        paper=SUN,
    ),
    RankerEntry(
        "ndcg-reduction",
        "gainful.rankers.ndcg_reduction.NDCGReduction",
        "Linear; any linear scikit-learn classifier on pairs weighted by what they cost in NDCG.",
        kind="linear",
        paper=SUN,
    ),
    RankerEntry(
        "boosted",
        "gainful.rankers.boosted.BoostedRanker",
        "Boosted trees; any loss of gainful.LOSSES, or one of your own.",
        kind="trees",
    ),
    RankerEntry(
        "sdcg",
        "gainful.rankers.smooth_dcg.SmoothDCG",
        "Boosted trees; DCG with sigmoids for ranks, after a start by regression.",
        kind="trees",
        params={"variant": "sdcg", "start_trees": 20},
        paper=WU,
    ),
    RankerEntry(
        "shf-sdcg",
        "gainful.rankers.smooth_dcg.SmoothDCG",
        "Boosted trees; DCG with smoothed hinges for ranks.",
        kind="trees",
        params={"variant": "shf"},
        paper=WU,
    ),
    RankerEntry(
        "reg-shf-sdcg",
        "gainful.rankers.smooth_dcg.SmoothDCG",
        "Boosted trees; from regression to DCG with smoothed hinges.",
        kind="trees",
        params={"variant": "reg-shf"},
        paper=WU,
    ),
    RankerEntry(
        "gbrank",
        "gainful.rankers.gbrank.GBRank",
        "Boosted trees; pairs in the wrong order pull at their documents.",
        kind="trees",
        paper="Zheng, Chen, Sun and Zha 2007, A regression framework for learning ranking functions using relative "
        "relevance judgments",
    ),
    RankerEntry(
        "structured-boost",
        "gainful.rankers.boosted.BoostedRanker",
        "Boosted trees; structured hinge on NDCG@k, after a start by regression.",
        kind="trees",
        params={"loss": "structured-ndcg(weight=0.01)", "start_trees": 20},
        paper=CHAPELLE,
    ),
    RankerEntry(
        "lambdamart-plain",
        "gainful.rankers.boosted.BoostedRanker",
        "Boosted trees; |ΔNDCG|-weighted logistic loss on all pairs, neither truncated nor normalised.",
        kind="trees",
        params={"loss": "lambda"},
        paper="Burges 2010, From RankNet to LambdaRank to LambdaMART: an overview",
    ),
    RankerEntry(
        "lambdamart",
        "gainful.rankers.lambdamart.LambdaMART",
        "Boosted trees on LightGBM's lambdarank gradients: today's standard.",
        kind="trees",
        paper="Burges 2010, From RankNet to LambdaRank to LambdaMART",
    ),
    RankerEntry(
        "neural",
        "gainful.rankers.neural.NeuralRanker",
        "Net of fully connected layers; any loss of gainful.LOSSES, or one of your own.",
        kind="net",
        needs="torch",
    ),
    RankerEntry(
        "lambdarank-net",
        "gainful.rankers.neural.NeuralRanker",
        "Two-layer net; logistic loss on pairs weighted by what swapping them changes in NDCG.",
        kind="net",
        params={"loss": "lambda"},
        paper="Burges, Ragno and Le 2006, Learning to rank with nonsmooth cost functions",
        needs="torch",
    ),
    RankerEntry(
        "ranknet-net",
        "gainful.rankers.neural.NeuralRanker",
        "Two-layer net; logistic loss on pairs.",
        kind="net",
        params={"loss": "ranknet"},
        paper="Burges et al. 2005, Learning to rank using gradient descent",
        needs="torch",
    ),
    RankerEntry(
        "structured-net",
        "gainful.rankers.neural.NeuralRanker",
        "Two-layer net; large margin on NDCG@k itself.",
        kind="net",
        params={"loss": "structured-ndcg", "output_scale": 0.01},
        paper=CHAPELLE,
        needs="torch",
    ),
    RankerEntry(
        "list-net",
        "gainful.rankers.attention.AttentionRanker",
        "Net with self-attention over the documents of a query, so that a score depends on the whole list; any loss.",
        kind="net",
        paper="Qin et al. 2021, Are neural rankers still outperformed by gradient boosted decision trees?",
        needs="torch",
    ),
    RankerEntry(
        "mcrank",
        "gainful.rankers.mcrank.McRank",
        "Boosted trees that classify into grades; ranked by expected relevance.",
        kind="trees",
        paper=LI,
    ),
    RankerEntry(
        "mcrank-ordinal",
        "gainful.rankers.mcrank.McRank",
        "Boosted trees for the probability of each grade or better; ranked by expected relevance.",
        kind="trees",
        params={"mode": "ordinal"},
        paper=LI,
    ),
    RankerEntry(
        "mcrank-regression",
        "gainful.rankers.mcrank.McRank",
        "Boosted trees; squared error on the gains.",
        kind="trees",
        params={"mode": "regression", "relevance": "gain"},
        paper=LI,
    ),
    RankerEntry(
        "tree-regression",
        "gainful.rankers.mcrank.McRank",
        "Boosted trees; squared error on the grades.",
        kind="trees",
        params={"mode": "regression"},
        paper="Friedman 2001, Greedy function approximation: a gradient boosting machine",
    ),
    RankerEntry(
        "blend",
        "gainful.blending.blend.Blend",
        "Weighted sum of several rankers, each trained on query folds.",
        kind="blend",
    ),
    RankerEntry(
        "auto",
        "gainful.blending.auto.Auto",
        "Chooses rankers and settings for the data within a budget, and blends the best.",
        kind="blend",
    ),
)
"""Every ranker by name, a read-only mapping; an entry has its class, kind, preset parameters and paper."""

IMPORTED = Registry(
    RankerEntry(
        "imported-trees",
        "gainful.foreign.rankers.ImportedTrees",
        "Trees that another library trained.",
        kind="trees",
    ),
    RankerEntry(
        "imported-linear",
        "gainful.foreign.rankers.ImportedLinear",
        "Linear model that another library trained.",
        kind="linear",
    ),
)
"""Rankers that only :func:`gainful.load` makes: they cannot be trained, so they have no name for comparisons."""


def twin_hint(name: str, parameter: str) -> str:
    """Advice where a ranker lacks a parameter that the one of nearly the same name has; else nothing."""
    for other, entry in RANKERS.items():
        if other != name and bare(other) == bare(name) and parameter in entry.cls.parameters:
            return f"{other!r} does, another ranker: {entry.summary}"
    return ""


USEFUL_FEW = (
    "regression",
    "ranksvm",
    "listnet",
    "structured-svm-tight",
    "mcrank-regression",
    "lambdamart",
    "auto",
)
"""What a comparison trains by default: fast to train and from different families, and ``auto`` within a minute."""


def ranker(name: str, **params: Any) -> Ranker:
    """An unfitted ranker by name; ``params`` override what the name presets.

    >>> import gainful
    >>> gainful.ranker("regression", alpha=10.0)
    RegressionRanker(alpha=10.0)
    """
    if name not in RANKERS:
        raise UnknownNameError.among("ranker", name, RANKERS)
    return RANKERS[name].create(**params)
