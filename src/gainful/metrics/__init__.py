"""Ranking metrics as values that carry, print and parse back their conventions."""

from gainful.metrics.conventions import CONVENTIONS
from gainful.metrics.value import Metric, metric

__all__ = ["metric", "Metric", "CONVENTIONS"]
