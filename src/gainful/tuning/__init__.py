"""Choose parameters on validation data: search spaces, searches, pruning, and results stored on disk."""

from gainful.tuning.result import TuneResult
from gainful.tuning.trials import Budget, TuneProgress
from gainful.tuning.tune import InterruptedSearchError, TuningJob, TuningPlan, tune

__all__ = ["Budget", "TuningPlan", "InterruptedSearchError", "TuneProgress", "TuneResult", "TuningJob", "tune"]
