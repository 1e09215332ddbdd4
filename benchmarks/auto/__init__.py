"""``auto`` beside tuned gradient boosters, at equal budgets."""
