"""Solvers: they see data as features, targets and weights, and know nothing of rankers."""
