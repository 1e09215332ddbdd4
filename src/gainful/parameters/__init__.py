"""What a parameter may be, and where tuning looks for it."""
