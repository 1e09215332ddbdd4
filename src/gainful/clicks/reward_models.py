"""Reward models of doubly robust estimates: what each action would earn, predicted out of fold."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import DataError, ParameterError

STRENGTH = 10.0  # a mean counts this many rows at the mean reward of all


def predict_rewards(
    model: Any,
    reward: Array,
    action: Array,
    n_actions: int,
    context: Array | None,
    unit: Array,
    folds: int,
    seed: int,
) -> Array:
    """(rows, actions): the predicted reward of each action. Rows of a unit are in one fold, and do not see it."""
    if not isinstance(model, str) and not hasattr(model, "fit"):
        return _given(model, (len(reward), n_actions))
    if isinstance(model, str) and model != "mean":
        raise ParameterError.of("estimate_value", "reward_model", "'mean', a regressor or predicted rewards", model)
    units = int(unit.max()) + 1
    if units < folds:
        raise DataError(f"{units} pages are too few for {folds} folds; give fewer folds, or predicted rewards")
    fold = np.random.default_rng(seed).permutation(units)[unit] % folds
    predicted = np.empty((len(reward), n_actions))
    for one in range(folds):
        held = fold == one
        if isinstance(model, str):
            predicted[held] = _means(reward[~held], action[~held], n_actions)
        else:
            predicted[held] = _regressed(model, reward, action, n_actions, context, held)
    return predicted


def _given(model: Any, shape: tuple[int, int]) -> Array:
    found = np.asarray(model, dtype=np.float64)
    if found.shape != shape or not np.isfinite(found).all():
        raise DataError(f"reward_model as predictions must have the shape {shape} and no gaps, has {found.shape}")
    return found


def _means(reward: Array, action: Array, n_actions: int) -> Array:
    """The mean reward of each action, drawn towards that of all."""
    shown = np.bincount(action, minlength=n_actions)
    earned = np.bincount(action, weights=reward, minlength=n_actions)
    return np.asarray((earned + STRENGTH * reward.mean()) / (shown + STRENGTH))


def _regressed(model: Any, reward: Array, action: Array, n_actions: int, context: Array | None, held: Array) -> Array:
    from sklearn.base import clone

    fitted = clone(model).fit(_design(action[~held], n_actions, _part(context, ~held)), reward[~held])
    found = np.empty((int(held.sum()), n_actions))
    for one in range(n_actions):
        same = np.full(len(found), one)
        found[:, one] = fitted.predict(_design(same, n_actions, _part(context, held)))
    return found


def _part(context: Array | None, which: Array) -> Array | None:
    return None if context is None else context[which]


def _design(action: Array, n_actions: int, context: Array | None) -> Array:
    made = np.zeros((len(action), n_actions))
    made[np.arange(len(action)), action] = 1.0
    return made if context is None else np.hstack([context, made])
