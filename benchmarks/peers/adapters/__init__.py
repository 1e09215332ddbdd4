"""One small file a library: each function fits on the training data and gives the models along the way.

Every one has the signature ``fit(train, budget, **settings) -> list[Snapshot]``. Imports are at the top of the files,
so that none of them is timed.
"""
