"""Ranking losses as values, in one registry with one signature per query."""

from gainful.losses.base import Loss
from gainful.losses.custom import custom_loss
from gainful.losses.registry import LOSSES, LossSpec, loss, loss_text

__all__ = ["LOSSES", "Loss", "LossSpec", "custom_loss", "loss", "loss_text"]
