"""Which trials to stop early.

A trial is hopeless at iteration t if both hold for its best validation value so far, b(t):

- it is below the median of what earlier trials had reached by iteration t, and
- even if it kept gaining as fast as over the second half of its iterations, up to its last possible iteration T, it
  would end below the best of them: b(t) + (T − t)·(b(t) − b(t/2))/(t − t/2) < best.

If gains shrink from iteration to iteration (b is concave), they stay below that forecast, so a trial that would have
been the best is never stopped. Validation curves are only roughly concave; hence the first condition, and no verdict
on the first iterations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

Curve = list[Any]  # [iteration, value] at each new best value
UNJUDGED = 0.1  # share of the iterations without a verdict
FEWEST = 10  # and at least this many
KNOWN = 3  # earlier trials that a verdict needs


def extend(curve: Curve, iteration: int, value: float | None) -> None:
    """Append a validation value if it is the best so far."""
    if value is not None and not math.isnan(value) and (not curve or value > curve[-1][1]):
        curve.append([iteration, value])


def best_by(curve: Curve, iteration: float) -> float | None:
    """The best value up to an iteration; a finished training keeps its last one."""
    found: float | None = None
    for at, value in curve:
        if at > iteration:
            break
        found = value
    return found


def is_hopeless(curve: Curve, iteration: int, total: int | None, others: Sequence[Curve]) -> bool:
    """Whether to stop a trial with the best values ``curve`` after ``iteration`` of ``total``."""
    if total is None or len(others) < KNOWN or iteration < max(FEWEST, UNJUDGED * total) or iteration >= total:
        return False
    now, half = best_by(curve, iteration), best_by(curve, iteration // 2)
    if now is None or half is None:
        return False
    theirs = [value for value in (best_by(other, iteration) for other in others) if value is not None]
    if len(theirs) < KNOWN or now >= median(theirs):
        return False
    rate = (now - half) / (iteration - iteration // 2)
    return now + (total - iteration) * rate < max(float(other[-1][1]) for other in others if other)
