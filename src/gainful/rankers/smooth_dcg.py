"""Smoothed DCG on boosted trees."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

from gainful.losses import Loss, loss
from gainful.parameters.constraints import Choice, Integer, Maybe, Real, parameter
from gainful.parameters.space import Space
from gainful.rankers.boosted import LossTrees
from gainful.rankers.spaces import SMOOTH_DCG_SPACE

VARIANTS = {"sdcg": "sdcg", "shf": "shf-sdcg", "reg-shf": "reg-shf-sdcg"}


@dataclass(repr=False, eq=False)
class SmoothDCG(LossTrees):
    """Boosted trees on smoothed DCG: ranks and cut-off are sigmoids, so that DCG@k has a gradient.

    The objective, to maximise, is Σ_i φ(g_i) W(r̂_i)/log2(1 + r̂_i) with the smooth rank r̂_i = 1 + Σ_j h_ij(o_i − o_j).
    "sdcg" uses sigmoids for every pair and a fixed cut-off; "shf" uses smoothed hinges, whose gradient never vanishes
    for a pair in the wrong order, and a cut-off that follows the relevant documents; "reg-shf" starts with squared
    error on the grades and gradually changes to "shf". The losses are those of ``gainful.LOSSES``.

    Wu, Chang, Zheng and Zha 2009, Smoothing DCG for learning to rank: a novel approach using smoothed hinge functions.

    In addition to the parameters and attributes of every :class:`TreeRanker`:

    Parameters
    ----------
    variant : "sdcg", "shf" or "reg-shf"
    alpha : steepness of the pair functions
    least_spread : alpha is per √(σ² + least_spread²), with σ the standard deviation of the scores of a query: as the
        scores spread, as many pairs still count. 0 learns fastest, on clean data; None is the published form, with
        alpha per unit of score
    beta : steepness of the cut-off
    k : the cut-off; None for none
    target : "ndcg" divides each query by its best DCG@k; "dcg" does not
    tied : for "shf" and "reg-shf": if several documents share the grade at rank k, whether "all" of them hold the
        cut-off down or only the "best"-ranked one
    regression : for "reg-shf": weight of the squared error relative to DCG
    grade_step : for "reg-shf": what one grade is worth in scores during the regression; small, so that the steps on DCG
        that follow are large beside it. 1 is the published form
    step : "newton" divides by the curvature in the leaf; "gradient", the published form, fits the plain gradient
    gradient_scale : factor on the gradients; "auto" makes the root mean square of the first one 1
    start_trees : number of first trees that fit the grades by squared error. "sdcg" needs some: at equal scores it has
        almost no gradient

    Attributes
    ----------
    loss_, gradient_scale_, n_stages_ : as for :class:`BoostedRanker`
    """

    space: ClassVar[Space] = SMOOTH_DCG_SPACE

    variant: str = parameter(
        "shf", Choice(of=tuple(VARIANTS), help="sigmoids, smoothed hinges, or hinges after regression")
    )
    alpha: float = parameter(4.0, Real(low=0, open_low=True, help="steepness of the pair functions"))
    beta: float = parameter(0.3, Real(low=0, open_low=True, help="steepness of the cut-off"))
    k: int | None = parameter(20, Maybe(inner=Integer(low=1), help="cut-off; None for none"))
    target: str = parameter("ndcg", Choice(of=("ndcg", "dcg"), help="whether each query is divided by its best DCG"))
    tied: str = parameter(
        "all", Choice(of=("all", "best"), help="which documents tied in grade at rank k the moving cut-off considers")
    )
    regression: float = parameter(
        0.1, Real(low=0, open_low=True, help="for reg-shf: weight of the squared error relative to DCG")
    )
    _: KW_ONLY
    least_spread: float | None = parameter(
        0.15,
        Maybe(inner=Real(low=0), help="alpha is per standard deviation of a query's scores, at least this; or None"),
    )
    grade_step: float = parameter(
        0.1, Real(low=0, open_low=True, help="for reg-shf: what one grade is worth in scores during the regression")
    )
    step: str = parameter("newton", Choice(of=("newton", "gradient"), help="what a leaf divides its gradient by"))
    n_trees: int = field(default=250, kw_only=True)
    n_leaves: int = field(default=16, kw_only=True)
    min_docs_in_leaf: int = field(default=100, kw_only=True)
    colsample: float = field(default=0.3, kw_only=True)

    def _search_space(self) -> Space:
        idle = () if self.variant == "reg-shf" else ("regression",)
        return {name: dimension for name, dimension in self.space.items() if name not in idle}

    def _step(self) -> str:
        return self.step

    def _loss(self) -> Loss:
        given: dict[str, Any] = {"alpha": self.alpha, "beta": self.beta, "k": self.k, "target": self.target}
        given["least_spread"] = self.least_spread
        if self.variant != "sdcg":
            given["tied"] = self.tied
        if self.variant == "reg-shf":
            given |= {"regression": self.regression, "grade_step": self.grade_step}
        return loss(VARIANTS[self.variant], **given)
