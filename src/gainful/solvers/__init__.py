"""Solvers: they see features, targets and weights, and know nothing about rankers."""
