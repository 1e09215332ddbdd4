"""Which trials are given up before their end.

A trial is hopeless at iteration t when both are true of its best validation value so far, b(t):

- it is below the median of what the trials it knows of had reached by iteration t, and
- even if it went on gaining as fast as over the second half of its iterations, up to its last possible iteration T, it
  would end below the best of them: b(t) + (T − t)·(b(t) − b(t/2))/(t − t/2) < best.

Gains that shrink from iteration to iteration (a concave b) stay below that forecast, so a trial that would have been
the best is then never given up. Validation curves are concave only roughly; hence the first condition, and a start that
is never judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

Curve = list[Any]  # [iteration, value] at each new best value
UNJUDGED = 0.1  # share of the iterations
FEWEST = 10  # and at least so many
KNOWN = 3  # trials that a verdict needs


def extend(curve: Curve, iteration: int, value: float | None) -> None:
    """Note a validation value, if it is the best so far."""
    if value is not None and not math.isnan(value) and (not curve or value > curve[-1][1]):
        curve.append([iteration, value])


def reached(curve: Curve, iteration: float) -> float | None:
    """The best value by an iteration; a finished training keeps what it had."""
    found: float | None = None
    for at, value in curve:
        if at > iteration:
            break
        found = value
    return found


def hopeless(curve: Curve, iteration: int, total: int | None, others: Sequence[Curve]) -> bool:
    """Whether a trial whose best values so far are ``curve`` is to be given up after ``iteration`` of ``total``."""
    if total is None or len(others) < KNOWN or iteration < max(FEWEST, UNJUDGED * total) or iteration >= total:
        return False
    now, half = reached(curve, iteration), reached(curve, iteration // 2)
    if now is None or half is None:
        return False
    theirs = [value for value in (reached(other, iteration) for other in others) if value is not None]
    if len(theirs) < KNOWN or now >= median(theirs):
        return False
    rate = (now - half) / (iteration - iteration // 2)
    return now + (total - iteration) * rate < max(float(other[-1][1]) for other in others if other)
