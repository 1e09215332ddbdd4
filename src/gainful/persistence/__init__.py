"""How models and checkpoints are stored on disk: a checked zip of JSON and arrays."""
