"""Ranking losses as objectives of trees that grow on a GPU. Imports PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gainful.data.dataset import RankingData
from gainful.errors import DataError
from gainful.losses import Loss
from gainful.losses.newton_tensors import newton_loss
from gainful.losses.tensors import tensor_loss
from gainful.nets.device import tensor_device
from gainful.trees.objective import GradientSize, LossObjective, natural_scale


class TensorObjective(LossObjective):
    """A :class:`LossObjective` that takes and returns tensors on ``device``.

    A loss that has no form in tensors, or data with preferences, clicks or weights of documents, is computed on the
    host: then scores, gradients and curvatures travel.
    """

    def __init__(self, loss: Loss, data: RankingData, n_stages: int, *, device: str, **about: Any):
        super().__init__(loss, data, n_stages, **about)
        at = torch.zeros(0, dtype=torch.float64, device=tensor_device(device))
        plain = data.pairs is None and data.click_weights is None and data.relative_weights is None
        self.form: Any = None
        if plain:
            build = tensor_loss if self.newton is None else newton_loss
            self.form = build(loss, self.y, self.offsets, at)
        arrays = self.y, self.query_weights, self.row_weights, self.shares
        sent = [torch.tensor(array, device=at.device, dtype=at.dtype) for array in arrays]
        self.sent_grades, self.sent_queries, self.sent_rows, self.sent_shares = sent

    def __call__(self, scores: Any, iteration: int) -> tuple[Any, Any]:
        if iteration <= self.start_trees:
            return (scores - self.sent_grades) * self.sent_rows, self.sent_rows
        if self.form is None:
            found = super().__call__(scores.cpu().numpy(), iteration)
            gradient, curvature = (torch.as_tensor(one, device=scores.device) for one in found)
            return gradient, curvature
        gradient, bend = self._on_device(scores, iteration)
        if not bool(torch.isfinite(gradient).all()) or (bend is not None and not bool(torch.isfinite(bend).all())):
            raise DataError(
                f"the loss {self.loss} gave a gradient that is not finite at tree {iteration}; a smaller learning_rate "
                "or gradient_scale may help"
            )
        if self.scale is None:
            self.scale = natural_scale(self._size_on_device(gradient, bend))
        factor = self.sent_queries * self.scale
        return gradient * factor, self.sent_rows if bend is None else bend * factor

    def _on_device(self, scores: Tensor, iteration: int) -> tuple[Tensor, Tensor | None]:
        if self.newton is not None:
            gradient, bend = self.form(scores)
            return gradient, bend
        if self.loss.staged:
            self.form.stage(min(iteration, self.n_stages), self.n_stages)
        values, gradient = self.form(scores)
        self.value = float(self.sent_shares @ values) / len(values)
        return gradient, None

    def _size_on_device(self, gradient: Tensor, bend: Tensor | None) -> GradientSize:
        return GradientSize(
            len(gradient),
            len(self.shares),
            float((gradient**2).sum()),
            None if bend is None else float(bend.sum()),
            self._has_pairs(),
            str(self.loss),
            self.start_trees,
        )
