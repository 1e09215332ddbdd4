"""What the papers report, verbatim, and where.

Two of the papers show their OHSUMED results as plots without numbers (Chapelle et al. 2007, figure 2; Agarwal and
Collins 2010, figure 1). No number here is read off a plot; those papers appear only as sentences, as :class:`Claim`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WU = "Wu, Chang, Zheng and Zha 2009, table 1"
LETOR = "LETOR 3.0's baselines"
SUN = "Sun, Qin, Tao and Wang 2009, section 5.2"
CHAPELLE = "Chapelle, Le and Smola 2007, section 5.3 and figure 2"
AGARWAL = "Agarwal and Collins 2010, section 4 and figure 1"
LI = "Li, Burges and Wu 2007, table 1"

TABLE_1 = ("ndcg@1", "ndcg@2", "ndcg@3", "ndcg@4", "ndcg@5", "p@1", "p@2", "p@3", "p@4", "p@5", "map")


@dataclass(frozen=True)
class Published:
    """The figures of one ranker: measure → mean."""

    called: str  # the paper's name for it
    values: Mapping[str, float]
    source: str
    kept: float | None = None  # share of the features that a sparse ranker keeps
    deviations: Mapping[str, float] = field(default_factory=dict)  # standard deviations over the queries


def _table_1(called: str, *values: float, ndcg10: float | None = None) -> Published:
    figures = dict(zip(TABLE_1, values, strict=True))
    if ndcg10 is None:
        return Published(called, figures, WU)
    return Published(called, figures | {"ndcg@10": ndcg10}, f"{WU}; NDCG@10: {LETOR}")


# Five folds of OHSUMED in LETOR 3.0, with LETOR's own measure; keys are our ranker names.
OHSUMED: dict[str, Published] = {
    "rankboost": _table_1(
        "RankBoost", .4632, .4504, .4555, .4543, .4494, .5576, .5481, .5609, .5580, .5447, .4411, ndcg10=.4302
    ),
    "ranksvm": _table_1(
        "RankSVM", .4958, .4331, .4207, .4240, .4164, .5974, .5494, .5427, .5443, .5319, .4334, ndcg10=.4140
    ),
    "frank": _table_1("FRank", .5300, .5008, .4812, .4694, .4588, .6429, .6195, .5925, .5840, .5638, .4439),
    "listnet": _table_1(
        "ListNet", .5326, .4810, .4732, .4561, .4432, .6524, .6093, .6016, .5745, .5502, .4457, ndcg10=.4410
    ),
    "adarank-map": _table_1(
        "AdaRank.MAP", .5388, .4789, .4682, .4721, .4613, .6338, .5959, .5895, .5887, .5674, .4487, ndcg10=.4429
    ),
    "adarank-ndcg": _table_1(
        "AdaRank.NDCG", .5330, .4922, .4790, .4688, .4673, .6719, .6236, .5984, .5838, .5767, .4498
    ),
    "sdcg": _table_1("SDCG", .5012, .4750, .4714, .4533, .4420, .6152, .5816, .5802, .5461, .5313, .4501),
    "shf-sdcg": _table_1("SHF-SDCG", .5409, .5022, .4743, .4701, .4598, .6333, .6141, .5922, .5790, .5593, .4503),
    "reg-shf-sdcg": _table_1(
        "REG-SHF-SDCG", .5517, .5110, .4802, .4716, .4634, .6333, .6152, .5893, .5716, .5574, .4506
    ),
    "rsrank": Published("RSRank", {"ndcg@1": .5613}, SUN, kept=1.0),
    "rsrank-sparse": Published("RSRank, sparse", {"ndcg@1": .5605}, SUN, kept=.36888),
}  # fmt: skip

# NDCG@10 on the artificial data, 10,000 test queries.
ARTIFICIAL: dict[str, Published] = {
    "mcrank-ordinal": Published("ordinal classification", {"ndcg@10": 0.850}, LI, deviations={"ndcg@10": 0.095}),
    "mcrank": Published("classification", {"ndcg@10": 0.837}, LI, deviations={"ndcg@10": 0.099}),
    "mcrank-regression": Published("regression", {"ndcg@10": 0.829}, LI, deviations={"ndcg@10": 0.102}),
    "lambdarank-net": Published("LambdaRank", {"ndcg@10": 0.749}, LI),
}


@dataclass(frozen=True)
class Claim:
    """A sentence on OHSUMED without a number for each ranker: ``ranker`` ranks above ``others``."""

    ranker: str
    others: tuple[str, ...]
    says: str
    source: str


CLAIMS = (
    Claim(
        "structured-svm-tight",
        ("rankboost", "ranksvm"),
        "about 2 % more NDCG than RankBoost and RankSVM, not significant",
        CHAPELLE,
    ),
    Claim("rankmm-1", ("regression", "ranksvm", "rankboost"), "considerably above all three, and best of all", AGARWAL),
    Claim("rankmm-3", ("regression", "ranksvm", "rankboost"), "considerably above all three", AGARWAL),
    Claim("rankmm-2", ("rankmm-1", "rankmm-3"), "behind its two sisters", AGARWAL),
    Claim("rsrank", ("lambdarank",), "above, significantly for NDCG@3 to NDCG@10", SUN),
)
