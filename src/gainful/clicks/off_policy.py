"""What another policy would have earned, from the log of the one that was shown: off-policy estimates with intervals.

Conventions
-----------
A page has one or more slots; its value is the sum of its rewards. The *weight* of a slot is the probability that the
policy to be valued shows what was shown there, over the probability that it was shown (the propensity). What is
estimated is the mean value of a page.

Every estimate has the form Σ_k (N_k / M) A_k / B_k over slots k: M pages, N_k of which have slot k, A_k the sum of
weighted rewards, and B_k = N_k, or the sum of weights if self-normalised. All sums are over independent units, so one
standard error and one bootstrap serve all methods.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from gainful.clicks.log import ClickLog, check_propensities
from gainful.clicks.reward_models import predict_values
from gainful.data.numbers import refuse_masked
from gainful.data.rows import Array, check_column
from gainful.errors import DataError, DataWarning, ParameterError, option, plural, shorten, wording
from gainful.parameters.constraints import Choice, Integer, Maybe, Real, Seed, check_parameters
from gainful.statistics.paired import skewed

METHODS = ("ips", "clipped", "snips", "dr")
ASSUMPTIONS = ("independent", "cascade", "list")
INTERVALS = ("normal", "bootstrap")
FEW_GROUPS = 20  # units per kind of unit from which drawing kinds is faster than drawing units
ROUNDING = 1e-4  # of a sum of probabilities, perhaps of float32
CLIP = 10.0  # the highest weight of method "clipped"
SETTINGS = {
    "method": Choice(of=METHODS),
    "assumption": Choice(of=ASSUMPTIONS),
    "clip": Maybe(inner=Real(low=0.0, open_low=True)),
    "interval": Choice(of=INTERVALS),
    "level": Real(low=0.0, high=1.0, open_low=True, open_high=True),
    "resamples": Integer(low=100),
    "folds": Integer(low=2),
    "least_effective": Real(low=0.0),
    "seed": Seed(),
}
Policy = Any


@dataclass(frozen=True)
class ValueEstimate:
    """The estimated mean value of a page under a policy, with an interval.

    ``effective`` is the effective number of pages, (Σw)² / Σw², the smallest over slots; ``mean_weight`` is close to 1
    if propensities are right and the log shows whatever the policy shows.
    """

    value: float
    low: float
    high: float
    error: float
    level: float
    pages: int
    effective: float
    mean_weight: float
    largest_weight: float
    method: str
    assumption: str
    interval: str

    def __str__(self) -> str:
        return (
            f"{self.value:.5g} ({self.low:.5g} to {self.high:.5g}, {self.level:.0%} {self.interval}), "
            f"{self.pages:,} pages, effectively {self.effective:,.0f}"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Slots(NamedTuple):
    """A log as arrays: per page, and per row (a slot of a page)."""

    offsets: Array  # (pages + 1,)
    unit: Array  # (pages,) codes of independent units
    reward: Array  # (rows,)
    propensity: Array  # (rows,)
    target: Array  # (rows,) probability under the policy to be valued
    action: Array | None  # (rows,) codes of what was shown
    every: Array | None  # (rows, actions) probability of each action under the policy
    context: Array | None  # (rows, features)

    @property
    def sizes(self) -> Array:
        return np.diff(self.offsets)

    @property
    def page(self) -> Array:
        return np.repeat(np.arange(len(self.offsets) - 1), self.sizes)

    @property
    def slot(self) -> Array:
        """From 0."""
        return np.asarray(np.arange(len(self.reward)) - np.repeat(self.offsets[:-1], self.sizes))


class Sums(NamedTuple):
    """Sums per unit: of weighted rewards, of what they are divided by, of slots (units, slots), and of pages."""

    rewards: Array
    divisors: Array
    slots: Array
    pages: Array


def estimate_value(
    log: ClickLog | Any,
    policy: Policy,
    method: str = "snips",
    *,
    assumption: str = "independent",
    reward: Any = None,
    propensity: Any = None,
    action: Any = None,
    context: Any = None,
    reward_model: Any = "mean",
    clip: float | None = None,
    interval: str = "bootstrap",
    level: float = 0.95,
    resamples: int = 1000,
    folds: int = 5,
    least_effective: float = 100.0,
    seed: int = 0,
) -> ValueEstimate:
    """The mean value of a page if ``policy`` had chosen what to show, from the log of another policy.

    Parameters
    ----------
    log : a click log with ``propensity``, the probability with which each document was shown in its place; or an array
        of rewards, (pages,) or (pages, slots), together with ``propensity=`` of the same shape
    policy : the probability with which the policy to be valued would have shown what was shown, one entry per row of
        the log (or in the shape of the rewards); or its probability of every document, (rows, documents) in the order
        of ``log.document_ids``; or a dictionary from document to probability, the same for all rows; or a function of
        the log that returns one of these
    method : "ips" (inverse propensity scores; Horvitz and Thompson, 1952), "clipped" (weights are at most ``clip``, by
        default 10; Ionides, 2008), "snips" (divided by the sum of weights; Swaminathan and Joachims, 2015) or "dr"
        (doubly robust: a reward model, corrected by weighted residuals; Dudík and others, 2011; with "cascade",
        Kiyohara and others, 2022)
    assumption : of pages with several slots: "independent" (a reward depends on its own slot: IIPS), "cascade" (on the
        slots above too: RIPS; McInerney and others, 2020) or "list" (on the whole page: plain IPS). With "independent",
        probabilities are those of a document in a place; with the others, given the documents above it
    reward : one per row; by default clicks
    action : for "dr" with arrays, what was shown, in the shape of the rewards: columns of ``policy``, which then has
        the shape (pages, actions) or (pages, slots, actions)
    context : for "dr", what else the reward model may know, one row of numbers per row of the log
    reward_model : of "dr": "mean" (the mean reward of each document, smoothed), a scikit-learn regressor (of the
        context, and the document as indicator columns), both fitted out of fold; or predicted rewards (rows,
        documents). With "cascade", of each slot, and what is predicted is the sum of its reward and of those below
    clip : the highest weight, with any method
    interval : "bootstrap" (studentised, of independent units) or "normal" (faster; too short at the upper end if
        rewards are rare, and a warning says so)
    least_effective : below this effective number of pages, or a tenth of it with a reward, a warning says that the
        estimate is not to be relied on

    The pages of a session are one independent unit.

    >>> import gainful
    >>> shown = gainful.estimate_value([1, 0, 1, 0], [0.9, 0.1, 0.9, 0.1], "ips", propensity=[0.5] * 4,
    ...                                least_effective=0)
    >>> round(shown.value, 3)
    0.9
    """
    given: dict[str, Any] = {"method": method, "assumption": assumption, "clip": clip, "interval": interval}
    given |= {"level": level, "resamples": resamples, "folds": folds}
    given |= {"least_effective": least_effective, "seed": seed}
    check_parameters("estimate_value", SETTINGS, given)
    slots = _slots(log, policy, reward, propensity, action, context)
    several = bool((slots.sizes > 1).any())
    if not several:
        assumption = "independent"  # all three are the same
    with np.errstate(over="ignore", invalid="ignore"):
        weight = _weights(slots, assumption)
        _refuse_overflow(slots, weight)
    effective = _effective(slots, weight)
    if clip is None and method == "clipped":
        clip = CLIP
    used = weight if clip is None else np.minimum(weight, clip)
    if method == "dr":
        if assumption == "list":
            raise ParameterError.of(
                "estimate_value", "assumption", "independent or cascade for method='dr'", assumption
            )
        sums = _doubly_robust(slots, used, reward_model, folds, seed, cascade=assumption == "cascade")
    else:
        sums = _weighted(slots, used, normalised=method == "snips")
    value, error = _value(sums)
    if interval == "normal":
        from scipy.special import ndtri

        _warn_if_skewed(sums)
        reach = float(ndtri(0.5 + level / 2)) * error
        low, high = value - reach, value + reach
    else:
        low, high = _bootstrap(sums, level, resamples, seed)
    if slots.reward.min() >= 0.0:
        low, high = max(low, 0.0), max(high, 0.0)
    _warn_if_small(slots, weight, effective, least_effective)
    _warn_if_shifted(slots, weight)
    return ValueEstimate(
        value=value,
        low=low,
        high=high,
        error=error,
        level=level,
        pages=len(slots.sizes),
        effective=effective,
        mean_weight=float(weight.mean()),
        largest_weight=float(used.max()),
        method=method,
        assumption=assumption,
        interval=interval,
    )


# -- the log as arrays -------------------------------------------------------------------------------------------------


def _slots(log: Any, policy: Policy, reward: Any, propensity: Any, action: Any, context: Any) -> Slots:
    if isinstance(log, ClickLog):
        return _slots_of_log(log, policy, reward, propensity, action, context)
    return _slots_of_arrays(log, policy, reward, propensity, action, context)


def _slots_of_log(log: ClickLog, policy: Policy, reward: Any, propensity: Any, action: Any, context: Any) -> Slots:
    if action is not None:
        raise ParameterError("a click log has its own documents; leave out action")
    n = log.n_rows
    shown = log.propensity if propensity is None else check_column(propensity, n, "propensity")
    if shown is None:
        raise DataError(
            "the click log has no propensity, the probability with which each document was shown; name its column with "
            f"{option('propensity')}, or give {wording('propensity=… here', '--logged MODEL')}"
        )
    check_propensities(shown)
    target, every = _target(policy(log) if callable(policy) else policy, n, log.document, log.document_ids.tolist())
    return Slots(
        offsets=log.offsets,
        unit=np.unique(log.session, return_inverse=True)[1],
        reward=log.clicked.astype(np.float64) if reward is None else _finite(check_column(reward, n, "reward")),
        propensity=shown,
        target=target,
        action=log.document,
        every=every,
        context=_context(log.features if context is None else context, n),
    )


def _slots_of_arrays(log: Any, policy: Policy, reward: Any, propensity: Any, action: Any, context: Any) -> Slots:
    if reward is not None:
        raise ParameterError("rewards are given twice: the first argument, and reward; leave out one")
    if propensity is None:
        raise ParameterError("an array of rewards needs propensity, the probability of each thing shown; give it")
    rewards = _numbers(log, "the rewards")
    if rewards.ndim not in (1, 2) or rewards.size == 0:
        raise DataError(f"rewards must have the shape (pages,) or (pages, slots), have {rewards.shape}")
    pages, width = rewards.shape[0], rewards.size // rewards.shape[0]
    shown = _numbers(propensity, "propensity")
    if shown.shape != rewards.shape:
        raise DataError(f"propensity has the shape {shown.shape}, the rewards have {rewards.shape}")
    check_propensities(shown.ravel())
    codes = None
    if action is not None:
        refuse_masked(action, "action")
        codes = np.asarray(action)
        if codes.shape != rewards.shape or codes.dtype.kind not in "iu":
            raise DataError("action must be a whole number for each reward: the column of policy")
        codes = codes.ravel()
    if isinstance(policy, Mapping) or callable(policy):
        raise ParameterError("a dictionary or a function as policy needs a click log, which knows its documents")
    given = _numbers(policy, "policy")
    if codes is None:
        if given.shape != rewards.shape:
            raise DataError(f"policy has the shape {given.shape}, the rewards have {rewards.shape}")
        given = given.ravel()
    elif given.ndim == rewards.ndim + 1 and given.shape[:-1] == rewards.shape:
        given = given.reshape(rewards.size, -1)
    target, every = _target(given, rewards.size, codes, None)
    return Slots(
        offsets=np.arange(pages + 1, dtype=np.int64) * width,
        unit=np.arange(pages),
        reward=_finite(rewards.ravel()),
        propensity=shown.ravel(),
        target=target,
        action=codes,
        every=every,
        context=_context(context, rewards.size),
    )


def _target(policy: Any, n: int, action: Array | None, names: list[Any] | None) -> tuple[Array, Array | None]:
    """The policy's probability of what was shown, and of every action if given."""
    if isinstance(policy, Mapping) and names is not None:
        policy = np.array([float(policy.get(name, 0.0)) for name in names])
        policy = np.broadcast_to(policy, (n, len(names)))
    found = _numbers(policy, "policy")
    if found.ndim not in (1, 2) or len(found) != n or (found.ndim == 2 and action is None):
        raise DataError(f"policy has the shape {found.shape} for {n} rows; give one probability per row")
    if found.ndim == 2 and names is not None and found.shape[1] != len(names):
        raise DataError(f"policy has {found.shape[1]} columns for the {len(names)} documents of the log")
    if not ((found >= 0.0) & (found <= 1.0)).all():
        raise DataError("the probabilities of the policy must lie between 0 and 1")
    if found.ndim == 1:
        return found, None
    total = found.sum(axis=1)
    if total.max() > 1.0 + ROUNDING:
        row = int(total.argmax())
        raise DataError(
            f"the probabilities of the policy add up to {total[row]:.6g} in row {row}; those of what may be shown in a "
            "place add up to 1 at most (a ranker is a policy by ranking_probabilities)"
        )
    assert action is not None
    if action.min() < 0 or action.max() >= found.shape[1]:
        raise DataError(f"action must be from 0 to {found.shape[1] - 1}, the columns of policy")
    return found[np.arange(n), action], found


def _numbers(values: Any, what: str) -> Array:
    refuse_masked(values, what)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} must be an array of numbers, was {shorten(values)}") from None


def _finite(values: Array) -> Array:
    if not np.isfinite(values).all():
        raise DataError(f"the reward of row {int(np.argmin(np.isfinite(values)))} is not a number")
    return values


def _context(context: Any, n: int) -> Array | None:
    if context is None:
        return None
    found = _numbers(context, "context")
    found = found.reshape(n, -1) if found.ndim == 1 and len(found) == n else found
    if found.ndim != 2 or len(found) != n:
        raise DataError(f"context has the shape {found.shape}; give one row of numbers for each of {n} rows")
    return found


# -- weights -----------------------------------------------------------------------------------------------------------


def _weights(slots: Slots, assumption: str) -> Array:
    """(rows,)."""
    ratio = slots.target / slots.propensity
    if assumption == "independent":
        return ratio
    slot, page = slots.slot, slots.page
    table = np.ones((len(slots.sizes), int(slots.sizes.max())))
    table[page, slot] = ratio
    if assumption == "cascade":
        return np.asarray(np.cumprod(table, axis=1)[page, slot])
    return np.asarray(np.prod(table, axis=1)[page])


def _refuse_overflow(slots: Slots, weight: Array) -> None:
    """Raise if squares of weights, or of weighted rewards, are beyond the largest number."""
    size = np.where(weight > 0.0, weight * np.maximum(np.abs(slots.reward), 1.0), 0.0)
    if not np.isfinite(size @ size):
        row = int(np.argmax(np.nan_to_num(size, nan=np.inf)))
        raise DataError(
            f"the estimate overflows: row {row} has the weight {weight[row]:.3g} (propensity "
            f"{slots.propensity[row]:.3g}) and the reward {slots.reward[row]:.3g}; leave out such rows, or mend their "
            "propensities"
        )


def _effective(slots: Slots, weight: Array) -> float:
    total, squares = np.bincount(slots.slot, weights=weight), np.bincount(slots.slot, weights=weight**2)
    return float(np.min(np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)))


def _warn_if_small(slots: Slots, weight: Array, effective: float, least: float) -> None:
    pages = plural(len(slots.sizes), "page")
    rewarded = len(np.unique(slots.page[weight * slots.reward != 0.0]))
    if effective < least:
        problem = f"the log of {pages} has an effective size of {effective:.3g} for this policy, below {least:g}"
    elif rewarded < least / 10:
        problem = f"{rewarded} of {pages} have a reward that counts for this policy, fewer than {least / 10:g}"
    else:
        return
    warnings.warn(
        f"{problem}; the estimate and its interval are not to be relied on: take a longer log, or a policy closer to "
        "the one that was logged",
        DataWarning,
        stacklevel=3,
    )


def _warn_if_shifted(slots: Slots, weight: Array) -> None:
    """Warn if the mean weight cannot be 1, as it is on average if propensities are those of what was shown."""
    pages, mean = _pages(slots), float(weight.mean())
    total = np.bincount(slots.unit[slots.page], weights=weight - 1.0, minlength=len(pages))
    error = math.sqrt(float(total @ total)) / len(weight)
    if not 0.5 <= mean <= 2.0 and abs(mean - 1.0) > 4.0 * error:
        warnings.warn(
            f"the mean weight is {mean:.3g}, and should be close to 1: the propensities are not the probabilities with "
            "which documents were shown (those of being examined are another thing), or the log does not show what the "
            "policy shows",
            DataWarning,
            stacklevel=3,
        )


def _warn_if_skewed(sums: Sums) -> None:
    """Warn if the estimate cannot be close to normal, as by the differences of paired tests."""
    if skewed(_influence(sums, np.ones(len(sums.pages)))[1][:, None])[0]:
        bootstrap = wording('interval="bootstrap"', "--interval bootstrap")
        warnings.warn(
            "a few large weighted rewards decide the estimate, so its normal interval is too short on one side; that "
            f"of {bootstrap} is not",
            DataWarning,
            stacklevel=3,
        )


# -- estimates ---------------------------------------------------------------------------------------------------------


def _weighted(slots: Slots, weight: Array, *, normalised: bool) -> Sums:
    if not normalised:
        return _whole_pages(slots, weight * slots.reward)
    width = int(slots.sizes.max())
    units = int(slots.unit.max()) + 1
    cell = slots.unit[slots.page] * width + slots.slot

    def add(values: Array | None) -> Array:
        return np.bincount(cell, weights=values, minlength=units * width).reshape(units, width).astype(np.float64)

    sums = Sums(add(weight * slots.reward), add(weight), add(None), _pages(slots))
    empty = np.flatnonzero(sums.divisors.sum(axis=0) == 0)
    if len(empty):
        raise DataError(
            f"the policy shows nothing that the log shows in slot {int(empty[0]) + 1}, so its value cannot be estimated"
        )
    return sums


def _doubly_robust(
    slots: Slots, weight: Array, reward_model: Any, folds: int, seed: int, *, cascade: bool = False
) -> Sums:
    """What a model predicts for the policy, corrected by weighted residuals.

    If a reward depends on the slots above (cascade), the model predicts what a slot and all below it earn. Each slot
    then corrects the prediction of the slot above: w_k (r_k − q_k) + w_k-1 Σ_a π(a | above) q_k(a).
    """
    if slots.every is None or slots.action is None:
        raise ParameterError(
            "method='dr' needs the probability of every document: give policy as a dictionary, or with a column per "
            "document"
        )
    slot = slots.slot if cascade else np.zeros(len(slots.reward), dtype=np.int64)
    predicted = predict_values(
        reward_model,
        slots.reward,
        slots.action,
        slots.every,
        slot,
        slots.context,
        slots.unit[slots.page],
        folds,
        seed,
    )
    expected = np.einsum("ij,ij->i", slots.every, predicted)
    if cascade:
        expected *= np.where(slot == 0, 1.0, np.roll(weight, 1))
    own = predicted[np.arange(len(slots.action)), slots.action]
    return _whole_pages(slots, expected + weight * (slots.reward - own))


def _whole_pages(slots: Slots, values: Array) -> Sums:
    """Sums of values that need no division by slot."""
    pages = _pages(slots)
    total = np.bincount(slots.unit[slots.page], weights=values, minlength=len(pages))[:, None]
    return Sums(total, pages[:, None], pages[:, None], pages)


def _pages(slots: Slots) -> Array:
    return np.bincount(slots.unit).astype(np.float64)


def _value(sums: Sums, times: Array | None = None) -> tuple[float, float]:
    """The estimate and its standard error, with each unit taken ``times``."""
    if times is None:
        times = np.ones(len(sums.pages))
    if (times @ sums.divisors == 0).any():
        return math.nan, math.nan
    value, influence = _influence(sums, times)
    units = float(times.sum())
    return value, math.sqrt(units / (units - 1.0) * float(times @ influence**2)) if units >= 2 else math.inf


def _influence(sums: Sums, times: Array) -> tuple[float, Array]:
    """The estimate, and how far each unit moves it."""
    pages = float(times @ sums.pages)
    share = times @ sums.slots / pages
    divisor = times @ sums.divisors
    rate = times @ sums.rewards / divisor
    influence = (sums.rewards - sums.divisors * rate) @ (share / divisor)
    influence += (sums.slots - sums.pages[:, None] * share) @ rate / pages
    return float(share @ rate), influence


def _bootstrap(sums: Sums, level: float, resamples: int, seed: int) -> tuple[float, float]:
    """Studentised: quantiles of (resampled estimate − estimate) / its standard error."""
    value, error = _value(sums)
    rng = np.random.default_rng(seed)
    distinct, group = _equal_units_once(sums)
    units, groups = len(group), len(distinct.pages)
    share = np.bincount(group) / units
    ratios = []
    for _ in range(resamples):
        if groups * FEW_GROUPS < units:
            times = rng.multinomial(units, share).astype(np.float64)
        else:
            times = np.bincount(group[rng.integers(units, size=units)], minlength=groups).astype(np.float64)
        again, spread = _value(distinct, times)
        # Resamples without any reward have no spread; their ratio is the lowest there is.
        ratios.append((again - value) / spread if spread > 0.0 else math.copysign(math.inf, again - value))
    drawn = np.array(ratios)
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn) or error == 0.0:
        return value, value
    upper, lower = np.quantile(drawn, [0.5 + level / 2, 0.5 - level / 2], method="inverted_cdf")
    return value - float(upper) * error, value - float(lower) * error


def _equal_units_once(sums: Sums) -> tuple[Sums, Array]:
    """The distinct units, and the one that each unit equals: most logs have few kinds of pages."""
    width = sums.rewards.shape[1]
    table = np.column_stack(sums)
    distinct, group = np.unique(table, axis=0, return_inverse=True)
    rewards, divisors, slots = (distinct[:, i * width : (i + 1) * width] for i in range(3))
    return Sums(rewards, divisors, slots, distinct[:, -1]), group.ravel()
