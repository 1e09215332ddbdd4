"""Ranking metrics as values that carry, print and parse back their conventions."""

from gainful.metrics.conventions import CONVENTIONS
from gainful.metrics.value import Metric, headings, mean_over_queries, metric, refuse_storing

__all__ = ["metric", "Metric", "CONVENTIONS", "headings", "mean_over_queries", "refuse_storing"]
