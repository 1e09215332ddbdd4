"""Losses on linear models: the solvers' view of the data."""
