"""Loss-augmented ranking: the inner problem of every structured ranking loss.

:class:`RankingProblem` holds what does not depend on the scores; :func:`fill_bound` makes a loss of it. The
first call loads the compiler, not this import.
"""

from gainful.losses.structured.problem import RankingProblem
from gainful.losses.structured.violations import augmented_rankings, fill_bound, violations

__all__ = ["RankingProblem", "augmented_rankings", "fill_bound", "violations"]
