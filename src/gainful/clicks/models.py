"""The base of click models: fitting, examination, attractiveness, likelihood, perplexity."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from gainful.clicks.em import LEAST, Beta, Estimates, Fitted, maximise_all
from gainful.clicks.index import PageIndex, Pairs
from gainful.clicks.judging import Judgments, grade_pairs, wanted_pairs
from gainful.clicks.log import ClickLog
from gainful.compute.estimators import NotFittedError
from gainful.data.rows import Array, read_only
from gainful.display import plots
from gainful.display.progress import callback_of
from gainful.errors import DataWarning, ParameterError
from gainful.parameters.constraints import (
    DeclaredParameters,
    InitSignature,
    Integer,
    Maybe,
    Real,
    check_parameters,
    parameter,
    refuse_unknown_parameters,
)
from gainful.training.monitor import Progress

LEAST_MOVING = 0.01  # share of pairs in two or more positions, below which examination cannot be estimated
Known = tuple[Estimates, Mapping[str, Beta]]  # the parameters and priors of a fit to a similar log
WEAK = Beta(1.0, 1.0)  # prior of what all pages share: positions, continuation


@dataclass(frozen=True)
class ClickEvaluation:
    """How well a click model predicts a log.

    ``log_likelihood`` is the mean over pages of Σ_r log P(c_r | clicks above r). Perplexity at rank r is
    2^(−mean log2 P(c_r)), where P(c_r) does not know the clicks above; ``perplexity`` is the mean over ranks.
    ``conditional_perplexity`` knows them. 1 is perfect, 2 is a coin. (Chuklin, Markov and de Rijke, "Click Models for
    Web Search", 2015, section 5.2.)
    """

    n_pages: int
    log_likelihood: float
    perplexity: float
    perplexity_by_rank: Array
    conditional_perplexity: float
    conditional_perplexity_by_rank: Array

    def to_dict(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True)
class Users:
    """What is known of simulated users; see :func:`gainful.make_click_model`."""

    attractiveness: Array  # of each pair
    satisfaction: Array  # of each pair
    eta: float
    continuation: float
    positions: Array  # 1, 2, …

    @property
    def examination(self) -> Array:
        """r^−η."""
        return np.asarray(self.positions**-self.eta)


@dataclass
class ClickModel:
    """Base of all click models. A subclass says what its parameters are, and how pages speak about them.

    After ``fit``: ``examination_`` is the mean probability that a position is examined, from position 1 on;
    ``attractiveness_`` has the probability of a click on each pair of ``pairs_`` once it is examined, and
    ``attractiveness_error_`` the standard error; ``history_`` the objective before each step of EM, which may fall
    only where priors were learned anew; ``moving_share_`` the share of pairs that were shown in two or more positions.
    """

    parameters: ClassVar[Any] = DeclaredParameters()
    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    iterates: ClassVar[bool] = False  # by EM; others count
    pair_parameters: ClassVar[tuple[str, ...]] = ("attractiveness",)
    shared_parameters: ClassVar[tuple[str, ...]] = ()  # of all pages
    has_probabilities: ClassVar[bool] = True  # parameters are at most 1
    needs_moves: ClassVar[bool] = False  # examination is learned from documents that change their positions

    smoothing: float | None = parameter(
        None,
        Maybe(
            inner=Real(low=0.0),
            help="pseudo-impressions of every query-document pair, at the average rate of the log; None: both are "
            "learned from the differences between pairs",
        ),
    )
    depth: int = parameter(100, Integer(low=1, high=10_000, help="positions below this one count as this one"))
    max_iter: int = parameter(200, Integer(low=0, help="most steps of EM; 0 keeps the estimates from counts"))
    tol: float = parameter(
        1e-6, Real(low=0.0, help="EM ends when a step adds less than this to the objective per page")
    )

    __signature__: ClassVar[Any] = InitSignature()

    def __new__(cls, *_: Any, **params: Any) -> Self:
        refuse_unknown_parameters(cls, [one.name for one in fields(cls)] if cls is not ClickModel else [], params)
        return super().__new__(cls)

    # -- what a subclass provides --------------------------------------------------------------------------------------

    def _start(self, index: PageIndex) -> tuple[dict[str, Array], dict[str, Beta]]:
        """The first estimates and the priors; ``attractiveness`` has one entry per pair."""
        raise TypeError(f"{type(self).__name__} does not say where to start")

    def _expect(self, index: PageIndex) -> Callable[[Estimates], tuple[float, dict[str, Array]]]:
        """The E-step on the pages."""
        raise TypeError(f"{type(self).__name__} does not say what to expect")

    def _examined(self, index: PageIndex, theta: Estimates) -> Array:
        """The probability that each row is examined, whatever is clicked."""
        raise TypeError(f"{type(self).__name__} does not say what is examined")

    def _clicked(self, index: PageIndex, theta: Estimates) -> Array:
        """The probability of a click on each row, given the clicks above it."""
        return self._examined(index, theta) * theta["attractiveness"][index.pair]

    def _draw(self, index: PageIndex, theta: Estimates, attraction: Array, draws: Array) -> Array:
        """Clicks of simulated users; ``attraction`` is that of each row, ``draws`` are uniform on [0, 1)."""
        return np.asarray(draws < self._examined(index, theta) * attraction)

    def _known_parameters(self, users: Users) -> dict[str, Array]:
        """The parameters besides attractiveness, of users whose wishes are known."""
        return {}

    # -- fitting -------------------------------------------------------------------------------------------------------

    def fit(self, log: ClickLog, *, progress: Callable[[int, float], Any] | bool | None = None) -> Self:
        """Estimate the parameters from a log.

        ``progress=True`` shows a bar; a function ``progress(step, objective)`` is called after each step of EM.
        """
        self._check(log, "fit")
        index, pairs = PageIndex.by_query(log)
        self._warn_if_fixed(index.moving_share)
        with callback_of(progress, "fit") as callback:
            found = self._estimate(index, self._draw_steps(callback) if progress is True else callback)
        self._keep(pairs, found.theta, found.errors, found.priors)
        self._note(index, found.history, found.converged)
        return self

    def refit(self, log: ClickLog) -> Self:
        """A model like this one, fitted to another log: EM starts from the estimates here, so a similar log is fast."""
        self._check_fitted()
        self._check(log, "refit")
        index, pairs = PageIndex.by_query(log)
        place = self.pairs_.places(pairs.query_ids, pairs.document_ids, pairs.query, pairs.document)
        known = {n: v[place] if n in self.pair_parameters else v for n, v in self.theta_.items()}, self.priors_
        made = type(self)(**{name: getattr(self, name) for name in self.parameters})
        found = made._estimate(index, None, known)
        made._keep(pairs, found.theta, found.errors, found.priors)
        made._note(index, found.history, found.converged)
        return made

    def _draw_steps(self, draw: Callable[[Any], object] | None) -> Callable[[int, float], object] | None:
        """What EM calls so that a bar moves."""
        return None if draw is None else lambda step, objective: draw(Progress(step, self.max_iter, 0.0, objective))

    def _note(self, index: PageIndex, history: list[float], converged: bool) -> None:
        """What the parameters say about pages, and how they were found."""
        self.n_iter_ = max(0, len(history) - 1)
        self.history_ = np.array(history)
        self.converged_ = converged
        total = 0.0
        for part in index.parts():
            total += float(part.row_weight @ _log_chances(self._probabilities(part, True), part.clicked))
        self.log_likelihood_ = total / index.total_weight
        self.examination_ = read_only(self._mean_examination(index))
        self.moving_share_ = index.moving_share

    def _estimate(self, index: PageIndex, progress: Any, known: Known | None = None) -> Fitted:
        start, priors = self._start(index)
        estimates, learned_priors = known or ({}, {})
        priors |= {name: prior for name, prior in learned_priors.items() if name in priors and self.smoothing is None}
        for name, values in estimates.items():
            if name in start and len(values) == len(start[name]):  # a log of fewer positions has other slots
                start[name] = np.clip(values, LEAST, 1.0 - LEAST) if priors[name].fixed is None else values
        steps = self.max_iter if self.iterates else 1
        learned = [name for name in self.pair_parameters if self.smoothing is None and name in priors]
        return maximise_all(self._expect(index), start, priors, learned, steps, self.tol * index.total_weight, progress)

    @property
    def _strength(self) -> float:
        """The strength of the priors of pairs, before it is learned."""
        return 1.0 if self.smoothing is None else self.smoothing

    def _keep(
        self, pairs: Pairs, theta: Mapping[str, Array], errors: Mapping[str, Array], priors: Mapping[str, Beta]
    ) -> None:
        """Take parameters over. Those of pairs get one entry more, for pairs that the log does not have."""
        self.pairs_ = pairs
        self.priors_ = {name: replace(priors[name], shift=0.0) for name in self.pair_parameters}
        self.theta_, self.errors_ = {}, {}
        for name, values in theta.items():
            error = errors.get(name, np.zeros(len(values)))
            if name in self.pair_parameters:
                values = np.append(values[: len(pairs)], priors[name].mean)
                error = np.append(error[: len(pairs)], priors[name].deviation)
            self.theta_[name], self.errors_[name] = read_only(values), read_only(error)

    def _mean_examination(self, index: PageIndex) -> Array:
        deepest = min(int(index.position.max()), self.depth)
        shown, seen = np.zeros(deepest), np.zeros(deepest)
        for part in index.parts():
            place, weight = np.minimum(part.position, self.depth) - 1, part.row_weight
            shown += np.bincount(place, weights=weight, minlength=deepest)
            seen += np.bincount(place, weights=weight * self._examined(part, self.theta_), minlength=deepest)
        return np.asarray(np.divide(seen, shown, out=np.full(len(shown), np.nan), where=shown > 0))

    def _fits(self, name: str, size: int) -> bool:
        """Whether a shared parameter may have this many entries."""
        return size >= 1

    def _check(self, log: Any, where: str) -> None:
        check_parameters(type(self).__name__, self.parameters, {n: getattr(self, n) for n in self.parameters})
        if not isinstance(log, ClickLog):
            raise ParameterError.of(where, "log", "a ClickLog, as gainful.read_clicks returns", type(log).__name__)

    def _warn_if_fixed(self, moving_share: float) -> None:
        if self.needs_moves and moving_share < LEAST_MOVING:
            warnings.warn(fixed_order_text(moving_share), DataWarning, stacklevel=3)

    def _check_fitted(self) -> None:
        if not hasattr(self, "theta_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")

    # -- what was learned ----------------------------------------------------------------------------------------------

    @property
    def attractiveness_(self) -> Array:
        self._check_fitted()
        return self.theta_["attractiveness"][:-1]

    @property
    def attractiveness_error_(self) -> Array:
        self._check_fitted()
        return self.errors_["attractiveness"][:-1]

    def attractiveness(self) -> dict[Any, dict[Any, float]]:
        """Query → document → the probability of a click once the document is examined."""
        return self._by_query(self.attractiveness_)

    def relevance(self) -> dict[Any, dict[Any, float]]:
        """Query → document → what judgments are made of: attractiveness, times satisfaction if the model knows it."""
        self._check_fitted()
        return self._by_query(self._relevance()[0][:-1])

    def _relevance(self) -> tuple[Array, Array]:
        """The relevance of each pair and its standard error; the last entry is for unknown pairs."""
        return self.theta_["attractiveness"], self.errors_["attractiveness"]

    def _by_query(self, values: Array) -> dict[Any, dict[Any, float]]:
        found: dict[Any, dict[Any, float]] = {}
        queries = self.pairs_.query_ids[self.pairs_.query].tolist()
        documents = self.pairs_.document_ids[self.pairs_.document].tolist()
        for query, document, value in zip(queries, documents, values.tolist(), strict=True):
            found.setdefault(query, {})[document] = value
        return found

    def propensities(self, log: ClickLog) -> Array:
        """The probability that each row of a log is examined, given the page but not its clicks."""
        self._check_fitted()
        self._check(log, "propensities")
        self._warn_if_fixed(getattr(self, "moving_share_", 1.0))  # simulated users were not fitted
        return self._examined(PageIndex.of_known(log, self.pairs_), self.theta_)

    def click_probabilities(self, log: ClickLog, *, conditional: bool = False) -> Array:
        """The probability of a click on each row of a log; ``conditional``: given the clicks above it."""
        self._check_fitted()
        self._check(log, "click_probabilities")
        return self._probabilities(PageIndex.of_known(log, self.pairs_), conditional)

    def _probabilities(self, index: PageIndex, conditional: bool) -> Array:
        if conditional:
            return self._clicked(index, self.theta_)
        return self._examined(index, self.theta_) * self.theta_["attractiveness"][index.pair]

    def evaluate(self, log: ClickLog) -> ClickEvaluation:
        """Log-likelihood and perplexity of a log, best one that the model was not fitted to."""
        self._check_fitted()
        self._check(log, "evaluate")
        index = PageIndex.of_known(log, self.pairs_)
        known, alone = (_log_chances(self._probabilities(index, c), log.clicked) for c in (True, False))
        by_rank = [_perplexity_by_rank(chances, log.position) for chances in (alone, known)]
        return ClickEvaluation(
            n_pages=log.n_pages,
            log_likelihood=float(known.sum()) / log.n_pages,
            perplexity=float(np.nanmean(by_rank[0])),
            perplexity_by_rank=by_rank[0],
            conditional_perplexity=float(np.nanmean(by_rank[1])),
            conditional_perplexity_by_rank=by_rank[1],
        )

    def judge(self, of: Any = None, grades: int = 5) -> Judgments:
        """Graded judgments with a confidence, of all pairs of the log that was fitted, or of those of ``of``.

        ``of`` is a :class:`ClickLog`, a :class:`RankingData` with document ids, or pairs (query, document). The grades
        0 to G = ``grades`` − 1 stand for a relevance of (2^g − 1) / 2^G, as in the metric ERR; a pair has the one that
        its relevance is nearest to. The confidence is the probability of that grade, given the uncertainty of the
        relevance.
        """
        self._check_fitted()
        query_ids, document_ids, query, document = wanted_pairs(of, self.pairs_)
        place = self.pairs_.places(query_ids, document_ids, query, document)
        relevance, error = self._relevance()
        return grade_pairs(query_ids[query], document_ids[document], relevance[place], error[place], grades)

    # -- notebooks -----------------------------------------------------------------------------------------------------

    def plot(self, ax: Any = None) -> Any:
        """Draw ``examination_``, how often each position is looked at; returns the axes. Needs the extra ``plot``."""
        self._check_fitted()
        places = np.arange(1, len(self.examination_) + 1)
        shown = {self.name: (places.tolist(), self.examination_.tolist())}
        ax = plots.curves(ax, shown, x="position", y="probability of examination", mark="o")
        plots.count_along(ax)
        ax.set_ylim(0.0, 1.05 * max(1.0, float(np.nanmax(self.examination_))))
        return ax

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model as JSON."""
        from gainful.clicks.model_file import write_model  # it knows all models

        self._check_fitted()
        write_model(self, path)


def fixed_order_text(moving_share: float) -> str:
    """What is wrong with a log in which documents stay in their positions."""
    return (
        f"{moving_share:.2%} of the query-document pairs were shown in two or more positions, less than "
        f"{LEAST_MOVING:.0%}; positions cannot be told from documents, so PBM, UBM and DBN give wrong examination "
        "probabilities: shuffle some of the pages shown, or take a log of several rankings"
    )


def _log_chances(probability: Array, clicked: Array) -> Array:
    """log P of what happened, with probabilities kept off 0 and 1."""
    chance = np.where(clicked, probability, 1.0 - probability)
    return np.log(np.maximum(chance, 1e-12))


def _perplexity_by_rank(log_chances: Array, position: Array) -> Array:
    shown = np.bincount(position)[1:]
    total = np.bincount(position, weights=log_chances)[1:]
    mean = np.divide(total, shown, out=np.full(len(shown), np.nan), where=shown > 0)
    return np.asarray(np.exp(-mean))


def examined_rates(index: PageIndex, smoothing: float) -> tuple[Array, Beta]:
    """First estimates of attractiveness: clicks per impression at or above the last click; and the prior."""
    clicks, seen = index.sum_by_pair(lambda part: (part.clicked, part.surely_examined))
    mean = (clicks.sum() + 1.0) / (seen.sum() + 2.0)
    prior = Beta.of_mean(float(mean), smoothing)
    start = (clicks + prior.successes + 0.5) / (seen + smoothing + 1.0)
    return start, prior
