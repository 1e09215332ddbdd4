"""Ranking data: rows grouped by query, in one block or many; checks, splits and synthetic data."""
