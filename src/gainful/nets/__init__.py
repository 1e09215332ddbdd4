"""Neural networks on PyTorch: training, and scoring without it."""
