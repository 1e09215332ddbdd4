"""Losses on linear models: what the solvers see of the data."""
