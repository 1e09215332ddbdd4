"""Dividing data by query: a query's documents are never separated."""

from gainful.selection.splits import Split, folds, split

__all__ = ["Split", "folds", "split"]
