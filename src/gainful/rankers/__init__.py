"""The rankers: thin estimators over losses, solvers and engines, found by name in the registry."""

from gainful.rankers.registry import RANKERS, RankerEntry, ranker

__all__ = ["RANKERS", "RankerEntry", "ranker"]
