"""Gradient and curvature of losses on tensors, for trees that grow on a GPU. Imports PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gainful.data.rows import Array
from gainful.losses.base import ByGrade, Loss
from gainful.losses.listwise import gain_shares, top_one
from gainful.losses.swap_tensors import Ranking
from gainful.losses.tensors import Bucket, OfDifference, SwapTensors, TensorLoss, Weigh, pair_counts, weighed_pairs

NewtonForm = Callable[[Tensor], tuple[Tensor, Tensor]]  # padded scores (m, n) → gradient (m, n), curvature (m, n)


class NewtonLoss(TensorLoss):
    """A loss on the queries of one batch: scores (n_rows,) → gradient (n_rows,), curvature (n_rows,)."""

    def __call__(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        padded = torch.cat([scores, scores.new_zeros(1)])
        gradient, curvature = scores.new_zeros(self.n_rows + 1), scores.new_zeros(self.n_rows + 1)
        for bucket, form in self.parts:
            gradient[bucket.rows], curvature[bucket.rows] = form(padded[bucket.rows])
        return gradient[:-1], curvature[:-1]


def bent_pairs(t: Tensor, levels: Tensor, slopes: OfDifference, weigh: Weigh | None = None) -> tuple[Tensor, Tensor]:
    """Gradient and curvature of :func:`over_pairs`; ``slopes`` gives the first and second derivative of a pair."""
    gradient, curvature = torch.zeros_like(t), torch.zeros_like(t)
    for here, later, slope, bend in weighed_pairs(t, levels, slopes, weigh):
        gradient[:, here] += slope.sum(dim=2)
        gradient[:, later] -= slope.sum(dim=1)
        curvature[:, here] += bend.sum(dim=2)
        curvature[:, later] += bend.sum(dim=1)
    return gradient, curvature


def logistic_slopes(sigma: float, d: Tensor) -> tuple[Tensor, Tensor]:
    wrong = torch.sigmoid(-sigma * d)
    return -sigma * wrong, sigma * sigma * wrong * (1.0 - wrong)


def _newton_ranknet(params: Mapping[str, Any], rows: ByGrade, bucket: Bucket) -> NewtonForm:
    share = 1.0 / bucket.number(pair_counts(rows)).clamp(min=1.0)[bucket.queries]
    slopes = partial(logistic_slopes, float(params["sigma"]))

    def form(t: Tensor) -> tuple[Tensor, Tensor]:
        gradient, curvature = bent_pairs(t, bucket.levels, slopes)
        return gradient * share[:, None], curvature * share[:, None]

    return form


def _newton_lambda(params: Mapping[str, Any], rows: ByGrade, bucket: Bucket) -> NewtonForm | None:
    swaps, slopes = SwapTensors(params, rows, bucket), partial(logistic_slopes, float(params["sigma"]))
    if swaps.places is not None:
        return None

    def form(t: Tensor) -> tuple[Tensor, Tensor]:
        return bent_pairs(t, bucket.levels, slopes, swaps.weigh(Ranking(t, bucket.levels, bucket.inside)))

    return form


def _newton_softmax(target_of: Callable[[Mapping[str, Any], Array, Array], Array]) -> Any:
    def build(params: Mapping[str, Any], rows: ByGrade, bucket: Bucket) -> NewtonForm:
        target = bucket.of(rows.take(target_of(params, rows.y, rows.offsets))) * bucket.several[:, None]
        wanted = target.sum(dim=1, keepdim=True)

        def form(t: Tensor) -> tuple[Tensor, Tensor]:
            chances = torch.softmax(torch.where(bucket.inside, t, -torch.inf), dim=1)
            return wanted * chances - target, wanted * chances * (1.0 - chances)

        return form

    return build


NEWTON_FORMS: Mapping[str, Callable[[Mapping[str, Any], ByGrade, Bucket], NewtonForm | None]] = {
    "ranknet": _newton_ranknet,
    "lambda": _newton_lambda,
    "lambdaloss": _newton_lambda,
    "listnet": _newton_softmax(top_one),
    "xendcg": _newton_softmax(gain_shares),
}


def newton_loss(loss: Loss, y: Array, offsets: Array, at: Tensor) -> NewtonLoss | None:
    """Gradient and curvature of the loss on these queries, or None if it has no such form."""
    if loss.name not in NEWTON_FORMS or loss.params.get("noise"):
        return None
    built = NewtonLoss(NEWTON_FORMS[loss.name], loss.params, y, offsets, at)  # type: ignore[arg-type]
    return built if all(form is not None for _, form in built.parts) else None
