"""Statistics of per-query values: paired tests and intervals."""
