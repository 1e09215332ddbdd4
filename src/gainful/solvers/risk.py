"""What a solver sees of the data: a convex risk R(w) = Σ_q ω_q L_q(w) ≥ 0 of a weight vector, and nothing of grades.

Whatever implements these methods (in memory, from a file, on many machines) can be minimised by every solver that asks
for it. R never involves C: a plane that supports it once supports it along a whole path of C.
"""

from __future__ import annotations

from typing import Any, Protocol

from gainful.data.rows import Array


class Risk(Protocol):
    """A convex, non-negative risk of d weights over n rows with scores X·w.

    ``value_and_gradient`` is one stream over the data; ``along`` touches scores only and costs about a third of it.
    """

    @property
    def n_features(self) -> int: ...

    def value_and_gradient(self, w: Array) -> tuple[float, Array, Any]:
        """R(w), one of its subgradients (d,), and the scores of all rows. They are the caller's to keep.

        The scores are an array (n,), or stand for one that lies where the data is: they can be added, subtracted and
        multiplied by a number, and handed back to :meth:`along`.
        """
        ...

    def along(self, scores: Any, direction: Any, t: float) -> tuple[float, float]:
        """R at ``scores + t·direction`` and its derivative by t there; a one-sided one where it jumps."""
        ...


class ColumnRisk(Risk, Protocol):
    """A risk whose queries can be asked one by one, for cutting planes with one slack per query.

    L_q(w) = max over rankings y of b_qy − w·v_qy ≥ 0; a *column* is a pair (v, b).
    """

    @property
    def n_queries(self) -> int: ...

    @property
    def weights(self) -> Array:
        """ω_q, (n_queries,), not negative."""
        ...

    def columns(self, w: Array, queries: Array) -> tuple[Array, Array]:
        """The column that attains L_q(w) for each of these queries: V (len(queries), d) and b (len(queries),)."""
        ...
