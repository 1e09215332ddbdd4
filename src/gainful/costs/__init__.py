"""What training will cost, before it starts."""
