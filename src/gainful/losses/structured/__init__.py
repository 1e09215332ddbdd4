"""Loss-augmented ranking: the inner problem of every structured ranking loss.

:class:`RankingProblem` holds what does not depend on the scores; the functions take it with scores, or with features
and weights. The compiler is loaded by the first call, not by this import.
"""

from gainful.losses.structured.problem import RankingProblem
from gainful.losses.structured.slack import slack_violations
from gainful.losses.structured.violations import (
    apply_gradient,
    augmented_rankings,
    risk,
    risk_along,
    risk_from_scores,
    tight_violations,
    violations,
)

__all__ = [
    "RankingProblem",
    "violations",
    "tight_violations",
    "slack_violations",
    "augmented_rankings",
    "risk",
    "risk_along",
    "risk_from_scores",
    "apply_gradient",
]
