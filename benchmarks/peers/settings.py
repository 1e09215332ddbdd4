"""Settings that mean the same in every library and are equal for all."""

from __future__ import annotations

LEAVES = 31
RATE = 0.1
BINS = 255
LEAST_DOCUMENTS = 20  # in a leaf
SVM_C = 100.0  # ½‖w‖² + C times the mean over all pairs
SWEEPS = 25  # of one start of coordinate ascent
PAIR_VALUES = 30_000_000  # numbers that explicit pairs may take
