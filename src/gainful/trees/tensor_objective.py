"""Ranking losses as objectives of trees that grow on a GPU. Imports PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from gainful.data.dataset import RankingData
from gainful.losses import Loss
from gainful.losses.newton_tensors import newton_loss
from gainful.losses.tensors import tensor_loss
from gainful.nets.device import tensor_device
from gainful.trees.objective import LossObjective


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
            build = newton_loss if self.curved else tensor_loss
            self.form = build(loss, self.y, self.offsets, at)
        self.by_row = tuple(torch.tensor(array, device=at.device, dtype=at.dtype) for array in self.by_row)
        self.sent_shares = torch.tensor(self.shares, device=at.device, dtype=at.dtype)

    def _derivatives(self, scores: Any, iteration: int) -> tuple[Any, Any]:
        if self.form is None:
            found = super()._derivatives(scores.cpu().numpy(), iteration)
            gradient, curvature = (None if one is None else torch.as_tensor(one, device=scores.device) for one in found)
            return gradient, curvature
        if self.curved:
            return self.form(scores)  # type: ignore[no-any-return]
        if self.loss.staged:
            self.form.stage(min(iteration, self.n_stages), self.n_stages)
        values, gradient = self.form(scores)
        self.value = float(self.sent_shares @ values) / len(values)
        return gradient, None
