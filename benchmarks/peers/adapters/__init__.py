"""One small file per library: each function fits on the training data and returns the models along the way.

Each has the signature ``fit(train, budget, **settings) -> list[Snapshot]``. Imports are at the top of the files,
so that they are not timed.
"""
