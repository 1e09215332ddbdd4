"""gainful beside its peers at equal quality and at equal time: ``python benchmarks/peers/run.py``."""
