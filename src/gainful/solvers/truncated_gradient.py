"""Gradient descent with truncation towards zero, for losses whose weights move with the point.

The loss is L(u) = Σ w(u) φ(u), where the weights w jump as ranks change; its gradient is taken with the weights
frozen at the current point. A truncation moves every coordinate towards zero by (step length · l1) and stops there, so
that coordinates become exactly zero (Langford, Li and Zhang 2008). With l1 = 0 this is plain descent.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gainful.data.rows import Array
from gainful.errors import DataError

GROWTH = 1.5  # growth of the step while the objective falls
SHRINK = 0.5  # factor of the step if it is too long, or if new ranks raise the objective
MOST_TRIALS = 60  # maximum halvings, about what floating point allows
LEAST_SQUARE = 1e-300  # of the gradient, over the loss; the step for a smaller one would overflow
MEMORY = 5  # recent objectives; a step that ends above all of them was too long
WINDOW = 10  # iterations over which the objective must fall


class MovingLoss(Protocol):
    """A loss with weights that depend on the point. ``at`` returns ``loss``, ``gradient`` and ``scores``."""

    def scores(self, u: Array) -> Array:
        """Scores of all rows at u: a pass over the data."""
        ...

    def at(self, scores: Array) -> Any:
        """Loss and gradient by u, with the weights at these scores: another pass."""
        ...

    def frozen_loss(self, look: Any, scores: Array) -> float:
        """The loss of other scores with the weights of ``look``."""
        ...


@dataclass(frozen=True)
class Iterate:
    """A finished iteration: the point, L + l1‖u‖₁ with the weights at its own ranks, and the step length."""

    u: Array
    objective: float
    step: float
    converged: bool


def truncate(u: Array, by: float) -> Array:
    """Every coordinate moved towards zero by ``by``, stopping there.

    >>> truncate(np.array([3.0, -0.5, -2.0]), 1.0).tolist()
    [2.0, 0.0, -1.0]
    """
    return np.asarray(np.sign(u) * np.maximum(np.abs(u) - by, 0.0) + 0.0)


def descend_fixed(
    loss: MovingLoss, u0: Array, *, step: float, l1: float = 0.0, truncate_every: int = 1
) -> Iterator[Iterate]:
    """The paper's descent: u ← u − step·∇L, in endless iterations of ``truncate_every`` steps.

    After the last step of an iteration, u is truncated by step·l1.
    """
    u = np.array(u0, dtype=np.float64)
    look = loss.at(loss.scores(u))
    while True:
        for k in range(truncate_every):
            u = u - step * look.gradient
            if k == truncate_every - 1:
                u = truncate(u, step * l1)
            look = loss.at(loss.scores(u))
        yield Iterate(u, look.loss + l1 * float(np.abs(u).sum()), step, False)


def descend_safeguarded(
    loss: MovingLoss, u0: Array, *, l1: float = 0.0, truncate_every: int = 1, tol: float = 1e-4
) -> Iterator[Iterate]:
    """The same with a step that needs no tuning; stops after ten iterations with a relative decrease below ``tol``.

    A step of length η is accepted if, *with the weights frozen*, the quadratic model with curvature 1/η lies above
    the loss at the new point: then the frozen objective falls. η is halved until that holds. New ranks bring new
    weights, which may raise the objective: if it exceeds its last five values, the next step is tried at half the
    length, otherwise at one and a half times. So steps shrink where ranks only flicker.
    """
    u = np.array(u0, dtype=np.float64)
    look = loss.at(loss.scores(u))
    if not (math.isfinite(look.loss) and np.isfinite(look.gradient).all()):
        raise DataError("the loss is not finite at the start of training; are the features scaled sensibly?")
    square = float(look.gradient @ look.gradient)
    eta = look.loss / square if square > LEAST_SQUARE * look.loss else 1.0
    value = look.loss + l1 * float(np.abs(u).sum())
    best, recent = [value], deque([value], maxlen=MEMORY)
    while True:
        moved = False
        for k in range(truncate_every):
            new, scores, eta = _step(loss, look, u, eta, l1 if k == truncate_every - 1 else 0.0)
            moved = moved or not np.array_equal(new, u)
            u, look = new, loss.at(scores)
            value = look.loss + l1 * float(np.abs(u).sum())
            used, eta = eta, eta * (GROWTH if value <= max(recent) else SHRINK)
            recent.append(value)
        best.append(min(best[-1], value))
        settled = len(best) > WINDOW and best[-1 - WINDOW] - best[-1] <= tol * abs(best[-1])
        yield Iterate(u, value, used, settled or not moved)
        if settled or not moved:
            return


def _step(loss: MovingLoss, look: Any, u: Array, eta: float, l1: float) -> tuple[Array, Array, float]:
    """The truncated step of the largest length η, η/2, … at which the frozen objective is guaranteed to fall."""
    slack = 1e-12 * abs(look.loss)
    for _ in range(MOST_TRIALS):
        new = truncate(u - eta * look.gradient, eta * l1)
        scores = loss.scores(new)
        away = new - u
        model = look.loss + float(look.gradient @ away) + float(away @ away) / (2.0 * eta)
        if loss.frozen_loss(look, scores) <= model + slack:
            return new, scores, eta
        eta *= SHRINK
    return u, look.scores, eta
