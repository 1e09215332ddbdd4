"""JSON Lines: one object per row."""
