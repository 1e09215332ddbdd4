"""Preferences that say what grades say, for tests that compare the two."""

from __future__ import annotations

import numpy as np

from gainful.data.pairs import PreferredPairs


def pairs_of_grades(y, offsets):
    """All pairs of documents of one query with different grades, each of weight 1."""
    rows = [np.arange(a, b) for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    found = [np.nonzero(y[own][:, None] > y[own][None, :]) for own in rows]
    better = np.concatenate([own[i] for own, (i, _) in zip(rows, found, strict=True)])
    worse = np.concatenate([own[j] for own, (_, j) in zip(rows, found, strict=True)])
    return PreferredPairs.of_rows(better, worse, np.ones(len(better)), offsets)
