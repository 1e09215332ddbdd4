"""Reward models of doubly robust estimates: what each action would earn, predicted out of fold."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import DataError, ParameterError

STRENGTH = 10.0  # a mean counts this many rows at the mean reward of all


def predict_values(
    model: Any,
    reward: Array,
    action: Array,
    every: Array,
    slot: Array,
    context: Array | None,
    unit: Array,
    folds: int,
    seed: int,
) -> Array:
    """(rows, actions): what each action is predicted to earn, here and, under the policy, in the slots below.

    ``every`` is the policy's probability of each action; ``slot`` counts from 0 on each page, or is 0 throughout if
    slots have nothing to do with each other. Slots are fitted from the last to the first: what a slot is worth is its
    reward, plus what the policy is predicted to earn in the next. Rows of a unit are in one fold, and do not see it.
    """
    if not isinstance(model, str) and not hasattr(model, "fit"):
        return _given(model, every.shape)
    if isinstance(model, str) and model != "mean":
        raise ParameterError.of("estimate_value", "reward_model", "'mean', a regressor or predicted rewards", model)
    units = int(unit.max()) + 1
    if units < folds:
        raise DataError(f"{units} pages are too few for {folds} folds; give fewer folds, or predicted rewards")
    fold = np.random.default_rng(seed).permutation(units)[unit] % folds
    goes_on = np.append(slot[1:] > 0, False)  # the next row is the next slot of the same page
    predicted = np.zeros(every.shape)
    for one in range(folds):
        held = fold == one
        below = np.zeros(len(reward) + 1)  # what the policy is predicted to earn from each row on
        for k in range(int(slot.max()), -1, -1):
            rows = np.flatnonzero(slot == k)
            worth = reward[rows] + goes_on[rows] * below[rows + 1]
            seen = ~held[rows]
            if not seen.any():
                continue
            values = _fit_slot(model, worth, action[rows], every.shape[1], _part(context, rows), seen)
            below[rows] = np.einsum("ij,ij->i", every[rows], np.broadcast_to(values, (len(rows), every.shape[1])))
            predicted[rows[~seen]] = values if values.ndim == 1 else values[~seen]
    return predicted


def _fit_slot(model: Any, worth: Array, action: Array, n_actions: int, context: Array | None, seen: Array) -> Array:
    """What each action is worth, (actions,), or for each row, (rows, actions), from the rows ``seen``."""
    if isinstance(model, str):
        return _means(worth[seen], action[seen], n_actions)
    return _regressed(model, worth, action, n_actions, context, seen)


def _given(model: Any, shape: tuple[int, ...]) -> Array:
    found = np.asarray(model, dtype=np.float64)
    if found.shape != shape or not np.isfinite(found).all():
        raise DataError(f"reward_model as predictions must have the shape {shape} and no gaps, has {found.shape}")
    return found


def _means(reward: Array, action: Array, n_actions: int) -> Array:
    """The mean reward of each action, drawn towards that of all."""
    shown = np.bincount(action, minlength=n_actions)
    earned = np.bincount(action, weights=reward, minlength=n_actions)
    return np.asarray((earned + STRENGTH * reward.mean()) / (shown + STRENGTH))


def _regressed(model: Any, reward: Array, action: Array, n_actions: int, context: Array | None, seen: Array) -> Array:
    from sklearn.base import clone

    fitted = clone(model).fit(_design(action[seen], n_actions, _part(context, seen)), reward[seen])
    found = np.empty((len(reward), n_actions))
    for one in range(n_actions):
        found[:, one] = fitted.predict(_design(np.full(len(found), one), n_actions, context))
    return found


def _part(context: Array | None, which: Array) -> Array | None:
    return None if context is None else context[which]


def _design(action: Array, n_actions: int, context: Array | None) -> Array:
    made = np.zeros((len(action), n_actions))
    made[np.arange(len(action)), action] = 1.0
    return made if context is None else np.hstack([context, made])
