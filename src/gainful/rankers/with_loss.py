"""What rankers that minimise a loss say about themselves: it all follows from the loss."""

from __future__ import annotations

from typing import Any

from gainful.data.dataset import Dataset, RankingData
from gainful.errors import wording
from gainful.losses import Loss, loss
from gainful.losses.swaps import can_change


class WithLoss:
    """Mixin for rankers with a parameter ``loss``; those without one override ``_loss``."""

    loss: Any

    def _loss(self) -> Loss:
        return loss(self.loss)

    def _weighs_documents(self) -> bool:
        return self._loss().weighs_documents

    def _accepts_pairs(self) -> bool:
        return self._loss().accepts_pairs

    def _binds_clicks(self) -> bool:
        return True

    def _fits_grades(self) -> bool:
        return self._loss().entry.affine

    def _name_for_errors(self) -> str:
        return f"{type(self).__name__} with the loss {self._loss()}"

    def _why_idle(self, data: Dataset) -> str | None:
        chosen = self._loss()
        measure = chosen.params.get("metric")
        if measure in (None, "ndcg") or data.has_pairs:  # NDCG changes wherever grades differ
            return None
        by_metric, by_grades = map(any, zip(*data.map(_changes, measure), strict=True))
        if by_metric or not by_grades:
            return None
        other = wording("loss='lambda(metric=ndcg@10)'", "--set 'loss=lambda(metric=ndcg@10)'")
        return (
            f"no swap of two documents changes {measure} on this data, so the loss {chosen} learns nothing; "
            f"use another metric, such as {other}"
        )


def _changes(block: RankingData, measure: str) -> tuple[bool, bool]:
    """Whether swaps change the metric, and whether they change NDCG: not if all grades are equal, which others say."""
    return can_change(measure, block.y, block.offsets), can_change("ndcg", block.y, block.offsets)
