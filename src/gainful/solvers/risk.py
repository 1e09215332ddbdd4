"""What a solver sees of the data: a convex risk R(w) = Σ_q ω_q L_q(w) ≥ 0 of a weight vector; no grades.

Every solver can minimise anything that implements the methods it needs (in memory, from a file, on many machines). R
does not depend on C: a plane that supports it stays valid along a whole path of C.
"""

from __future__ import annotations

from typing import Any, Protocol

from gainful.data.rows import Array


class Risk(Protocol):
    """A convex, non-negative risk of d weights over n rows with scores X·w.

    ``value_and_gradient`` is one pass over the data; ``along`` reads only scores and costs about a third of that.
    """

    @property
    def n_features(self) -> int: ...

    def value_and_gradient(self, w: Array) -> tuple[float, Array, Any]:
        """R(w), one of its subgradients (d,), and the scores of all rows. The caller may keep them.

        The scores are an array (n,), or represent one stored with the data: they can be added, subtracted, multiplied
        by a number, and passed to :meth:`along`.
        """
        ...

    def along(self, scores: Any, direction: Any, t: float) -> tuple[float, float]:
        """R at ``scores + t·direction`` and its derivative by t there; one-sided at a kink."""
        ...


class ColumnRisk(Risk, Protocol):
    """A risk that can be evaluated query by query, for cutting planes with one slack per query.

    L_q(w) = max over rankings y of b_qy − w·v_qy ≥ 0; a *column* is a pair (v, b).
    """

    @property
    def n_queries(self) -> int: ...

    @property
    def weights(self) -> Array:
        """ω_q ≥ 0, (n_queries,)."""
        ...

    def columns(self, w: Array, queries: Array) -> tuple[Array, Array]:
        """The column that attains L_q(w) for each of these queries: V (len(queries), d) and b (len(queries),)."""
        ...
