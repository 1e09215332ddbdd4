"""Choosing parameters on validation data: search spaces, searches, pruning, and results kept on disk."""

from gainful.tuning.result import TuneResult
from gainful.tuning.trials import Budget, TuneProgress
from gainful.tuning.tune import Choosing, InterruptedSearchError, TuningJob, tune

__all__ = ["Budget", "Choosing", "InterruptedSearchError", "TuneProgress", "TuneResult", "TuningJob", "tune"]
