"""Clicks become what rankers train on: lists of clicked documents, or unbiased estimates of grades."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array, weight_fields
from gainful.data.sharded import map_blocks
from gainful.debiasing.pair_ratios import learn_ratios
from gainful.debiasing.regression_em import learn_propensities
from gainful.debiasing.settings import Debias
from gainful.errors import DataError, wording
from gainful.losses.click_lists import list_per_click
from gainful.trees.row_chunks import in_chunks

LISTS, COPIES, RATES = "lists", "copies", "rates"


@dataclass(frozen=True)
class Correction:
    """What one training does to its clicks. ``propensities`` and ``unclicked``, if learned, are by position, from 1."""

    how: Debias
    propensities: Array | None = None
    unclicked: Array | None = None

    def apply(self, data: Dataset, form: str) -> Dataset:
        """The data with its clicks corrected, in the form that a ranker learns from.

        LISTS: ``click_weights``, for losses; COPIES: ordinary data with a copy of the query for each clicked document;
        RATES: grades y/p.
        """
        if self.propensities is None and self.how.method == "ipw" and not data.has_propensities:
            raise DataError(
                f"{wording('eval_set', 'the validation data')} has positions but no propensities, unlike the training "
                "data; give both the same columns"
            )
        tasks: dict[str, Callable[..., RankingData]] = {LISTS: _as_lists, COPIES: _as_copies, RATES: _as_rates}
        return map_blocks(data, tasks[form], self)

    def facts(self) -> dict[str, Any]:
        """What a model keeps of it."""
        found: dict[str, Any] = {"debias": str(self.how)}
        if self.propensities is not None:
            found["propensities"] = self.propensities.tolist()
        if self.unclicked is not None:
            found["unclicked_ratios"] = self.unclicked.tolist()
        return found

    # -- one block -----------------------------------------------------------------------------------------------------

    def propensities_of(self, data: RankingData) -> Array:
        """By row, clipped."""
        if self.how.method == "naive":
            return np.ones(data.n_rows)
        found = data.propensities if self.propensities is None else _by_position(self.propensities, data)
        assert found is not None
        return np.maximum(found, self.how.clip)

    def clicks_of(self, data: RankingData) -> Array:
        """Clicks over propensities, by row."""
        clicks = _impressions(data) * data.y
        weights = clicks / self.propensities_of(data)
        if self.how.self_normalise:
            starts = data.offsets[:-1]
            before, after = (np.add.reduceat(one, starts) for one in (clicks, weights))
            weights *= np.repeat(np.divide(before, after, out=np.ones(len(starts)), where=after > 0.0), data.counts)
        return weights

    def rivals_of(self, data: RankingData) -> Array | None:
        """What each document counts in the list of another: by the ratio of its position, unless it was clicked too."""
        return None if self.unclicked is None else (1.0 - data.y) / _by_position(self.unclicked, data)


def find_correction(data: Dataset, how: Debias) -> Correction:
    """Learn what has to be learned of the positions."""
    method = how.method
    if method == "auto":
        method = "ipw" if data.has_propensities else "em"
    how = replace(how, method=method)
    _check(data, method)
    if method in ("naive", "ipw"):
        return Correction(how)
    plain = in_chunks(data).without_codes()
    if data.has_missing:
        plain = map_blocks(plain, _without_missing)
    if method == "em":
        return Correction(how, learn_propensities(plain).propensities)

    def weigh(given: Dataset, plus: Array, minus: Array) -> Dataset:
        return Correction(how, plus[1:], minus[1:]).apply(given, LISTS)

    return Correction(how, *learn_ratios(plain, weigh))


def _check(data: Dataset, method: str) -> None:
    """Raise if the data lacks what the method needs."""
    if not sum(data.map(_n_clicks)):
        raise DataError("there is no click in the data; training on clicks needs at least one")
    if method == "ipw" and not data.has_propensities:
        raise DataError(
            f"{wording('debias', '--debias')} 'ipw' needs the propensity of each row, but the data has positions only; "
            f"give {wording('propensity', '--propensity')}, or learn it with 'em'"
        )
    if method in ("em", "pairwise") and not data.has_positions:
        raise DataError(
            f"{wording('debias', '--debias')} {method!r} needs the position of each row; give "
            f"{wording('position', '--position')}"
        )
    if method in ("em", "pairwise") and data.highest_grade > 1.0:
        raise DataError(
            f"{wording('debias', '--debias')} {method!r} needs to know how often a row was not clicked, but y goes up "
            f"to {data.highest_grade:g}; give rates of clicks as y, and impressions as the weights of the rows"
        )


# -- tasks -------------------------------------------------------------------------------------------------------------


def _n_clicks(data: RankingData) -> float:
    return float(_impressions(data) @ (data.y > 0.0))


def _impressions(data: RankingData) -> Array:
    return np.ones(data.n_rows) if data.row_weights is None else data.row_weights


def _without_missing(data: RankingData) -> RankingData:
    """Missing values as 0, for the linear models that learn about positions."""
    if not isinstance(data.X, np.ndarray):
        X = data.X.copy()
        X.data = np.nan_to_num(X.data, nan=0.0)
        return data.replace(X=X, categories=None)
    return data.replace(X=np.nan_to_num(data.X, nan=0.0), categories=None)


def _by_position(table: Array, data: RankingData) -> Array:
    """The entry of each row's position; the last one for positions beyond, 1 for rows that were not shown."""
    assert data.positions is not None
    place = np.minimum(data.positions, len(table))
    return np.asarray(np.concatenate([[1.0], table])[place])


def _as_lists(data: RankingData, correction: Correction) -> RankingData:
    weights, rivals = correction.clicks_of(data), correction.rivals_of(data)
    if rivals is not None:  # a pair counts by both ratios
        sums, rest = np.add.reduceat(rivals, data.offsets[:-1]), np.maximum(data.counts - 1, 1)
        weights = weights * np.maximum(np.repeat(sums, data.counts) - rivals, 0.0) / np.repeat(rest, data.counts)
    weights = np.where(np.repeat(data.counts, data.counts) > 1, weights, 0.0)  # a list of one has no order
    totals = np.add.reduceat(weights, data.offsets[:-1])
    by_row = np.repeat(totals, data.counts)
    return data.replace(
        y=np.divide(weights, by_row, out=np.zeros(data.n_rows), where=by_row > 0.0),
        query_weights=totals,
        document_weights=None,
        positions=None,
        propensities=None,
        click_weights=weights,
        rival_weights=rivals,
    )


def _as_copies(data: RankingData, correction: Correction) -> RankingData:
    return list_per_click(_as_lists(data, correction))


def _as_rates(data: RankingData, correction: Correction) -> RankingData:
    shown = _impressions(data)
    weights = data.row_weights
    if data.positions is not None and not data.positions.all():
        weights = np.where(data.positions > 0, shown, 0.0)  # nothing is known of what was not shown
    plain = {"positions": None, "propensities": None, "query_weights": None, "document_weights": None}
    rates = np.divide(correction.clicks_of(data), shown, out=np.zeros(data.n_rows), where=shown > 0.0)
    return data.replace(y=rates, **(plain | weight_fields(weights, data.offsets)))
