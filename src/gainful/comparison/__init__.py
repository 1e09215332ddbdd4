"""Compare rankers on the same queries: per-query values, paired tests, one table."""

from gainful.comparison.compare import compare
from gainful.comparison.grid import LossMatrix, loss_grid
from gainful.comparison.job import CompareProgress, ComparisonJob
from gainful.comparison.result import Comparison, PairedTest

__all__ = ["CompareProgress", "Comparison", "ComparisonJob", "LossMatrix", "PairedTest", "compare", "loss_grid"]
