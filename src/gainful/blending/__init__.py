"""Rankers made of rankers: blends, the automatic choice of their members, rank fusion and distillation."""
