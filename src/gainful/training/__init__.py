"""What every fit shares: progress, history, early stopping, checkpoints."""
