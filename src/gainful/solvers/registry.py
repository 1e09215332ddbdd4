"""The solvers, what each needs, and the choice of a solver for a loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gainful.errors import ParameterError
from gainful.losses import Loss


@dataclass(frozen=True)
class Solver:
    """What a solver needs from a loss and from the data.

    ``needs`` are properties of the loss, "convex" or "smooth". ``staged``: it can follow a loss that changes from one
    iteration to the next. ``validates``: every iterate can be validated, so early stopping works. ``by_query``: it
    visits queries one by one, so it needs all data in one place and writes no checkpoints. ``tol`` is its default
    tolerance.
    """

    needs: tuple[str, ...] = ()
    staged: bool = False
    validates: bool = True
    by_query: bool = False
    tol: float = 1e-3

    def lacks(self, loss: Loss) -> list[str]:
        """The needs that the loss does not meet."""
        return [need for need in self.needs if not getattr(loss, need)]

    def takes(self, loss: Loss, early_stopping: bool = False) -> bool:
        return not self.lacks(loss) and (self.staged or not loss.staged) and (self.validates or not early_stopping)


SOLVERS = {
    "lbfgs": Solver(needs=("smooth",), tol=1e-7),
    "bundle": Solver(needs=("convex",), validates=False),
    "gradient": Solver(staged=True, tol=1e-4),
    "subgradient": Solver(needs=("convex",)),
    "cutting_plane": Solver(needs=("convex",), validates=False, by_query=True),
    "stochastic": Solver(needs=("convex",), by_query=True),
}
AUTOMATIC = ("lbfgs", "bundle", "gradient")  # the first that accepts the loss


def choose_solver(
    owner: str, loss: Loss, solver: str, *, early_stopping: bool = False, among: Sequence[str] = AUTOMATIC
) -> str:
    """The requested solver, or for "auto" the first that accepts the loss; an error names those that would work."""
    chosen = solver
    if solver == "auto":
        chosen = next(name for name in among if SOLVERS[name].takes(loss))
    if SOLVERS[chosen].takes(loss, early_stopping):
        return chosen
    able = " or ".join(repr(name) for name in among if SOLVERS[name].takes(loss, early_stopping))
    needs, lacks = (" and ".join(words) for words in (SOLVERS[chosen].needs, SOLVERS[chosen].lacks(loss)))
    if loss.staged:
        why = f"cannot follow {loss}, which changes from one iteration to the next; use solver={able}"
    elif lacks:
        why = f"needs a {needs} loss, but {loss} is not {lacks}; use solver={able}"
    else:
        raise ParameterError(
            f"{owner}: early_stopping needs solver={able}; the {chosen} solver, which minimises {loss} here, stops "
            "at its gap"
        )
    raise ParameterError(f"{owner}: solver='{chosen}' {why}")
