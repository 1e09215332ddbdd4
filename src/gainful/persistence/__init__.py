"""How models and checkpoints lie on disk: a checked zip of JSON and arrays."""
