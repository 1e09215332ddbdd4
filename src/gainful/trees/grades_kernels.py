# mypy: ignore-errors
"""Compiled part of :mod:`gainful.trees.grades`."""

from __future__ import annotations

import numpy as np

from gainful.compute.compiled import kernel


@kernel
def pool_rising(rows, weights):
    """Make each of ``rows`` (n, m) fall along its m values, in place: the weighted least-squares falling sequence."""
    n, m = rows.shape
    level = np.empty(m)
    weight = np.empty(m)
    size = np.empty(m, dtype=np.int64)
    for i in range(n):
        blocks = 0
        for j in range(m):
            level[blocks], weight[blocks], size[blocks] = rows[i, j], weights[j], 1
            blocks += 1
            while blocks > 1 and level[blocks - 1] > level[blocks - 2]:
                blocks -= 1
                total = weight[blocks - 1] + weight[blocks]
                level[blocks - 1] = (weight[blocks - 1] * level[blocks - 1] + weight[blocks] * level[blocks]) / total
                weight[blocks - 1] = total
                size[blocks - 1] += size[blocks]
        if blocks < m:
            at = m
            for b in range(blocks - 1, -1, -1):
                for j in range(at - size[b], at):
                    rows[i, j] = level[b]
                at -= size[b]
