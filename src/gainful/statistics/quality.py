"""Figures about quality in words: each says what else its queries were used for."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Quality:
    """The mean of a metric over queries, its standard error, and what else these queries were used for.

    A figure is what new queries will show only if its queries chose nothing: no iteration, no weight, no member, no
    parameter. Whoever has used them says for what (``used_for``, such as "choosing the parameters"), and the words
    repeat it; "" if for nothing.
    """

    metric: str
    value: float
    on: str  # the queries, such as "120 queries left out"
    used_for: str
    error: float = math.nan

    @property
    def place(self) -> str:
        """Where it was measured, and why it is too high, if it is."""
        more = f", which were also used for {self.used_for}: expect less on others" if self.used_for else ""
        return f"on {self.on}{more}"

    @property
    def figure(self) -> str:
        """The value with its standard error, where that is known."""
        return f"{self.value:.4f}" + (f" ± {self.error:.4f}" if math.isfinite(self.error) else "")

    def __str__(self) -> str:
        return f"{self.metric} {self.figure} {self.place}"
