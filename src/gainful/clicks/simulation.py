"""Simulated users: pages ranked by any ranker, clicks by any click model, and the truth to compare estimates with."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.clicks.em import Beta
from gainful.clicks.index import PageIndex, Pairs
from gainful.clicks.log import ClickLog
from gainful.clicks.models import ClickModel, Users
from gainful.clicks.registry import click_model
from gainful.data.dataset import RankingData
from gainful.data.rows import Array, check_column
from gainful.errors import DataError, ParameterError
from gainful.parameters.constraints import Integer, Maybe, Real, Seed, check_parameters

NOISE = 0.1  # of models made from grades
TRUST_ENDS = 10  # the position from which trust no longer falls
LEAST = 1e-9  # of the probabilities of a model made from grades, and of their complements
DRAWS_AT_ONCE = 1 << 22
SETTINGS = {
    "sessions": Maybe(inner=Integer(low=1)),
    "length": Integer(low=1, high=10_000),
    "eta": Real(low=0.0),
    "noise": Maybe(inner=Real(low=0.0, high=1.0, open_high=True)),
    "continuation": Real(low=0.0, high=1.0, open_low=True),
    "trust": Real(low=0.0, high=1.0, open_high=True),
    "temperature": Real(low=0.0),
    "seed": Seed(),
}


def simulate_clicks(
    data: RankingData | ClickLog,
    model: str | ClickModel = "pbm",
    *,
    ranker: Any = None,
    sessions: int | None = None,
    length: int = 10,
    eta: float = 1.0,
    noise: float | None = None,
    continuation: float = 0.9,
    trust: float = 0.0,
    temperature: float = 0.0,
    features: bool = False,
    seed: int = 0,
) -> ClickLog:
    """A click log of simulated users. The same arguments give the same log on every machine.

    Parameters
    ----------
    data : ranking data, whose queries are asked at random (as often as their weights say) and whose grades say what is
        attractive; or a click log, whose pages are shown again
    model : the name of a click model, made by :func:`make_click_model` from the grades with ``eta``, ``noise`` and
        ``continuation``; or a click model that was fitted or made
    ranker : what ranks the documents: a fitted model, one score per row, or a function of X; by default pages have the
        order of the data
    sessions : number of pages; by default 1,000 of ranking data, and each page of a log once
    length : documents on a page
    noise : probability that a document which is examined, and not attractive, is clicked all the same; by default 0.1
        with the name of a model, and 0 with a fitted one
    trust : trust in high positions: in position r a document that is examined, and not attractive, is clicked with
        probability trust / min(r, 10) all the same (Agarwal and others, "Addressing trust bias for unbiased
        learning-to-rank", 2019)
    temperature : randomness of pages: Gumbel noise times the temperature is added to the scores of each session
    features : whether the log has the features of the rows

    ``propensity`` of the log is the true probability that a row is examined. Documents without ids are numbered by
    their row in the data.

    >>> import gainful
    >>> data = gainful.make_artificial(20, n_docs=15, seed=1)
    >>> log = gainful.simulate_clicks(data, "pbm", sessions=500, eta=2.0, seed=7)
    >>> log.n_pages, log.last_position
    (500, 10)
    """
    given = {"sessions": sessions, "length": length, "eta": eta, "noise": noise, "continuation": continuation}
    given |= {"trust": trust, "temperature": temperature, "seed": seed}
    check_parameters("simulate_clicks", SETTINGS, given)
    rng = np.random.default_rng(seed)
    if isinstance(data, ClickLog):
        pages = _shown_again(data, ranker, sessions, rng)
    elif isinstance(data, RankingData):
        scores = scores_of(data, ranker)
        pages = _draw_pages(data, scores, sessions or 1000, length, temperature, features, rng)
    else:
        raise ParameterError.of("simulate_clicks", "data", "a RankingData or a ClickLog", type(data).__name__)
    if isinstance(model, str):
        if isinstance(data, ClickLog):
            raise ParameterError.of(
                "simulate_clicks", "model", "a fitted click model for the pages of a log, which has no grades", model
            )
        users = make_click_model(
            model, data, eta=eta, noise=NOISE if noise is None else noise, continuation=continuation, depth=length
        )
        noise = 0.0  # the model has it already
    elif isinstance(model, ClickModel):
        model._check_fitted()
        users = model
    else:
        raise ParameterError.of("simulate_clicks", "model", "a name or a click model", type(model).__name__)
    return _click(pages, users, noise or 0.0, trust, rng)


def _click(pages: ClickLog, users: ClickModel, noise: float, trust: float, rng: np.random.Generator) -> ClickLog:
    index = PageIndex.of_known(pages, users.pairs_)
    passed_over = (1.0 - users.theta_["attractiveness"][index.pair]) * (1.0 - noise)
    passed_over *= 1.0 - trust / np.minimum(index.position, TRUST_ENDS)
    clicked = users._draw(index, users.theta_, 1.0 - passed_over, rng.random(pages.n_rows))
    examined = np.clip(users._examined(index, users.theta_), LEAST, 1.0)
    return pages.replace(clicked=clicked, propensity=examined)


# -- pages -------------------------------------------------------------------------------------------------------------


def _shown_again(log: ClickLog, ranker: Any, sessions: int | None, rng: np.random.Generator) -> ClickLog:
    if ranker is not None:
        raise ParameterError("a click log has its own order of documents; leave out ranker, or give ranking data")
    chosen = np.arange(log.n_pages) if sessions is None else rng.integers(log.n_pages, size=sessions)
    return log.pages(chosen).replace(session=np.arange(len(chosen), dtype=np.int32), session_ids=None, dwell=None)


def scores_of(data: RankingData, ranker: Any, owner: str = "simulate_clicks") -> Array:
    """The score of each row by a fitted model, a function of X, or scores; by default the order of the data."""
    if ranker is None:
        found: Any = -np.arange(data.n_rows, dtype=np.float64)
    elif hasattr(ranker, "predict"):
        found = ranker.predict(data.X)
    elif callable(ranker):
        found = ranker(data.X)
    elif isinstance(ranker, str):
        raise ParameterError.of(owner, "ranker", "a fitted model, scores or a function of X", ranker)
    else:
        found = ranker
    scores = check_column(found, data.n_rows, "the scores of the ranker")
    if not np.isfinite(scores).all():
        raise DataError(f"the score of row {int(np.argmin(np.isfinite(scores)))} is not finite")
    return scores


def _draw_pages(
    data: RankingData,
    scores: Array,
    sessions: int,
    length: int,
    temperature: float,
    features: bool,
    rng: np.random.Generator,
) -> ClickLog:
    """Pages of queries drawn at random, without clicks."""
    weights = data.query_weights
    share = None if weights is None else weights / weights.sum()
    query = rng.choice(data.n_queries, size=sessions, p=share).astype(np.int32)
    sizes = np.minimum(data.counts, length)[query]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = np.empty(int(offsets[-1]), dtype=np.int64)
    order = np.argsort(query, kind="stable")
    cuts = np.searchsorted(query[order], np.arange(data.n_queries + 1))
    for q in range(data.n_queries):
        mine = order[cuts[q] : cuts[q + 1]]
        if len(mine):
            start, n = int(data.offsets[q]), min(int(data.counts[q]), length)
            places = offsets[mine][:, None] + np.arange(n)
            own = scores[start : int(data.offsets[q + 1])]
            rows[places] = start + _rankings(own, len(mine), n, temperature, rng)
    return _pages(data, query, offsets, rows, features)


def _pages(data: RankingData, query: Array, offsets: Array, rows: Array, features: bool = False) -> ClickLog:
    """Pages without clicks that show these rows of the data."""
    ids, document = document_codes(data)
    return ClickLog(
        offsets=offsets,
        session=np.arange(len(query), dtype=np.int32),
        query=query,
        document=document[rows],
        position=(np.arange(len(rows)) - np.repeat(offsets[:-1], np.diff(offsets)) + 1).astype(np.int32),
        clicked=np.zeros(len(rows), dtype=bool),
        session_ids=None,
        query_ids=data.query_ids,
        document_ids=ids,
        features=data.X[rows] if features else None,
        feature_names=data.feature_names if features else None,
    )


def _rankings(scores: Array, sessions: int, n: int, temperature: float, rng: np.random.Generator) -> Array:
    """(sessions, n): the best documents of each session, best first; equal scores in the order of the data."""
    if temperature == 0.0:
        return np.broadcast_to(np.argsort(-scores, kind="stable")[:n], (sessions, n))
    found = np.empty((sessions, n), dtype=np.int64)
    step = max(1, DRAWS_AT_ONCE // len(scores))
    for first in range(0, sessions, step):
        part = found[first : first + step]
        noisy = scores + temperature * rng.gumbel(size=(len(part), len(scores)))
        part[:] = np.argsort(-noisy, axis=1, kind="stable")[:, :n]
    return found


def document_codes(data: RankingData) -> tuple[Array, Array]:
    """The ids of documents, and the code of each row's."""
    if data.doc_ids is None:
        place = np.arange(data.n_rows) if data.input_order is None else data.input_order
        return np.arange(data.n_rows), place.astype(np.int32)
    ids, codes = np.unique(data.doc_ids, return_inverse=True)
    keys = np.repeat(np.arange(data.n_queries), data.counts) * len(ids) + codes
    if len(np.unique(keys)) < len(keys):
        raise DataError("a query of the data has a document id twice; the documents of a query need different ids")
    return ids, codes.astype(np.int32)


# -- models from grades ------------------------------------------------------------------------------------------------


def make_click_model(
    name: str,
    data: RankingData,
    *,
    eta: float = 1.0,
    noise: float = NOISE,
    continuation: float = 0.9,
    depth: int = 10,
) -> ClickModel:
    """A click model with known parameters, those of users who want what the grades of ``data`` say.

    A document of grade g is attractive with probability ε + (1 − ε)(2^g − 1)/(2^G − 1), where G is the highest grade
    and ε the ``noise``, and satisfies once clicked with probability (2^g − 1)/2^G. Position r is examined with
    probability r^−η (PBM, rates), or (r − r')^−η after a click in position r' (UBM). DCM reads on after a click in
    position r with probability 0.8 r^(−η/2), DBN with ``continuation`` if not satisfied.
    """
    model = click_model(name)
    given = {"eta": eta, "noise": noise, "continuation": continuation}
    check_parameters("make_click_model", SETTINGS, given)
    if not isinstance(data, RankingData):
        raise ParameterError.of("make_click_model", "data", "a RankingData", type(data).__name__)
    if data.highest_grade <= 0:
        raise DataError("all grades are 0, so no document is attractive; simulated users need some")
    ids, document = document_codes(data)
    query = np.repeat(np.arange(data.n_queries, dtype=np.int32), data.counts)
    order = np.lexsort((document, query))
    pairs = Pairs(query[order], document[order], data.query_ids, ids)
    gain = (2.0 ** data.y[order] - 1.0) / (2.0**data.highest_grade - 1.0)
    satisfied = (2.0 ** data.y[order] - 1.0) / 2.0**data.highest_grade
    users = Users(noise + (1.0 - noise) * gain, satisfied, eta, continuation, np.arange(1.0, depth + 1.0))
    theta = {"attractiveness": users.attractiveness} | model._known_parameters(users)
    for one in model.pair_parameters:
        theta[one] = np.clip(theta[one], LEAST, 1.0 - LEAST)
    model._keep(pairs, theta, {}, {one: Beta.of_mean(float(theta[one].mean()), 1.0) for one in model.pair_parameters})
    sizes = np.minimum(data.counts, depth)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = np.repeat(data.offsets[:-1] - offsets[:-1], sizes) + np.arange(offsets[-1])
    every_query = _pages(data, np.arange(data.n_queries, dtype=np.int32), offsets, rows)
    model._note(PageIndex.of_known(every_query, pairs), [], True)
    return model
