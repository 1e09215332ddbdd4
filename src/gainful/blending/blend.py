"""Blends: rankers made of rankers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gainful.blending.checkpoints import members_state, stored_members, stored_seed
from gainful.blending.folds import (
    FOLDS,
    LARGE,
    Clock,
    FoldFit,
    Job,
    QueryFolds,
    end_folds,
    fit_folds,
    is_large,
    trees_left,
)
from gainful.blending.leaderboard import Leaderboard, Row
from gainful.blending.members import Member, blend_out_of_fold, pack_models, stored_factors, unpack_models
from gainful.blending.weights import RULES, best_member, choose_weights, errors_below, may_count, mean_and_error
from gainful.compute.randomness import seed_from
from gainful.data.dataset import Dataset, RankingData, join_pieces
from gainful.data.limits import refuse_extremes
from gainful.data.rows import Array, is_mapped
from gainful.data.size import DataSize
from gainful.errors import DataError, GainfulError, ParameterError
from gainful.errors.kept import show_kept
from gainful.metrics import Metric, metric
from gainful.parameters.constraints import (
    THREADS,
    Choice,
    Constraint,
    Either,
    Integer,
    ListOf,
    Maybe,
    MetricSpec,
    Real,
    Seed,
    parameter,
    split_outside_brackets,
)
from gainful.persistence.jsonable import plain
from gainful.rankers.base import Ranker
from gainful.rankers.scorers import Scorer, Sum
from gainful.rankers.specs import ranker_from_spec, spec_of, with_metric
from gainful.rankers.summary import validation_quality
from gainful.training.monitor import Monitor

BATCH = 4  # members trained side by side; what is chosen next depends on whole batches, never on the number of cores
FIRST_FOLDS = 2  # trained before a member may be dropped
HOPELESS = 4.0  # paired standard errors below the best on the first folds
REASONS = 3  # named where no member could be trained
WEIGHTS = Either(
    of=(Choice(of=RULES), ListOf(inner=Real(low=0))),
    help="how members count: by a rule, or one number per member",
)


@dataclass(frozen=True)
class Members(Constraint):
    """Rankers, or texts such as "mcrank:n_leaves=8"; on the command line with commas between them."""

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str) or not isinstance(value, Sequence) or not value:
            return False
        return all(isinstance(one, (str, Ranker)) for one in value)

    def expected(self) -> str:
        return 'a list of rankers, or of texts such as "mcrank:n_leaves=8"'

    def parse(self, text: str) -> list[str]:
        return split_outside_brackets(text.strip().removeprefix("[").removesuffix("]").replace('"', ""), ",")


@dataclass(frozen=True)
class Candidate:
    """A ranker that may become a member."""

    spec: str
    ranker: Ranker
    seconds: float = 0.0  # of one fit, where that is known beforehand


@dataclass(repr=False, eq=False)
class BlendedRanker(Ranker):
    """Base of rankers whose score is a weighted sum over models of other rankers."""

    accepts_categories: ClassVar[bool] = True  # as for missing values
    accepts_missing: ClassVar[bool] = True  # each member says whether it does; a fitted blend, whether all do
    learns_clicks: ClassVar[bool] = False
    weighs_documents: ClassVar[bool] = True  # as for missing values
    resumes: ClassVar[bool] = True
    validation_parameter: ClassVar[str] = "metric"
    joins_validation: ClassVar[bool] = True

    _: KW_ONLY
    folds: int | None = parameter(
        FOLDS, Maybe(inner=Integer(low=3), help="query folds; None: train each member once, on all queries")
    )
    weights: Any = parameter("within", WEIGHTS)
    metric: Any = parameter("ndcg@10", MetricSpec(help="what decides: early stopping, weights, leaderboard"))
    n_jobs: int | None = parameter(
        None, Maybe(inner=THREADS, help="fits side by side; None and -1: one per allowed core")
    )
    random_state: Any = parameter(0, Maybe(inner=Seed(), help="seed of the folds"))

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def _batches(
        self, folds: QueryFolds, members: list[Member], monitor: Monitor, clock: Clock
    ) -> Iterator[list[Candidate]]:
        """What to train next, given all members so far; ``monitor.history`` has the blend's value after each."""
        raise TypeError(f"{type(self).__name__} must say which members it has")

    def _candidate_ranker(self, i: int, spec: str) -> Ranker:
        """The ranker of member ``i`` in a checkpoint, untrained; ValueError if the blend has no such member."""
        raise TypeError(f"{type(self).__name__} must say which members it has")

    def _clock(self, monitor: Monitor) -> Clock:
        return Clock()

    drops: ClassVar[bool] = False  # whether members that cannot be trained, or are hopeless, are left out

    def _largest_members(self) -> list[Ranker]:
        """The members among which is the one that needs the most memory."""
        raise TypeError(f"{type(self).__name__} must say which members it has")

    # -- training ------------------------------------------------------------------------------------------------------

    def _training_bytes(self, size: DataSize) -> float:
        """One fit of the largest member, and the copy of its rows: more run side by side only where memory allows."""
        values = size.values + size.valid_values
        shares_rows = self.folds is None or (size.mapped and values > LARGE)
        copied = 0.0 if shares_rows else values * (size.value_bytes + (4 if size.is_sparse else 0))
        return copied + max(one._training_bytes(size) for one in self._largest_members())

    def _validation_metric(self) -> Metric:
        return metric(self.metric)

    def _fit(self, data: Dataset, monitor: Monitor) -> None:
        whole = data.whole
        assert whole is not None
        if monitor.sets is not None and len(monitor.sets.parts) > 1:
            raise ParameterError(f"{type(self).__name__} trains on the queries of its eval_set, so it takes only one")
        valid = None if monitor.valid is None else monitor.valid.whole
        self._seed = self._restore_seed(monitor)
        if self.folds is None:
            folds: QueryFolds = _Once(_in_ratios(_in_memory(whole)), valid)
        else:
            joined = _in_ratios(_in_memory(whole if valid is None else _join(whole, valid)))
            weights = joined.query_weights
            n = joined.n_queries if weights is None else int(np.count_nonzero(weights))
            if n < 3:
                raise DataError(
                    f"{type(self).__name__} trains, validates and tests on different queries, so it needs at least 3"
                    f"{'' if weights is None else ' with a weight above 0'}; there {'is' if n == 1 else 'are'} {n}"
                )
            _refuse_useless(self._validation_metric(), joined)
            folds = QueryFolds(joined, min(self.folds, n), self._seed)
        monitor.valid = None  # its queries are among the training queries now
        members = self._restore_members(monitor, folds)
        clock = self._clock(monitor)
        with monitor:
            self._train(folds, members, clock, monitor)
        scores = self._finish(folds, members, monitor, clock)
        ends = []  # in the order of the rows given
        if self.folds is not None:
            ends, scores = [whole.to_input_order(scores[: whole.n_rows])], scores[whole.n_rows :]
        ends += [] if valid is None else [valid.to_input_order(scores)]
        self.out_of_fold_scores_ = np.concatenate(ends or [scores])

    def _train(self, folds: QueryFolds, members: list[Member], clock: Clock, monitor: Monitor) -> None:
        for batch in self._batches(folds, members, monitor, clock):
            if clock.over:
                break
            for member in self._train_batch(folds, batch, members, clock):
                members.append(member)
                if self._report(member, members, folds, monitor):
                    clock.stop.set()
                    break
            if monitor.checkpoint is not None and not clock.over and monitor.checkpoint.due():
                monitor.checkpoint.save(members_state(members, self._seed, monitor))
        if clock.stop.is_set():
            monitor.interrupted = True

    def _train_batch(
        self, folds: QueryFolds, batch: Sequence[Candidate], members: Sequence[Member], clock: Clock
    ) -> list[Member]:
        """The members of a batch: some folds first, the others for those that are not hopeless."""
        fits: list[list[FoldFit]] = [[] for _ in batch]
        failures: list[str] = ["" for _ in batch]
        first = min(FIRST_FOLDS, folds.trained) if self.drops else folds.trained
        for chosen in (range(first), range(first, folds.trained)):
            # one member after the other: where time ends, most are whole
            jobs = [(i, fold) for i in range(len(batch)) for fold in chosen if not failures[i]]
            expected = [
                np.mean([fit.seconds for fit in its_fits]) if its_fits else candidate.seconds
                for candidate, its_fits in zip(batch, fits, strict=True)
            ]
            todo = [Job(batch[i].ranker, fold, float(expected[i])) for i, fold in jobs]
            results = fit_folds(folds, todo, clock, self.n_jobs)
            for (i, _), result in zip(jobs, results, strict=True):
                if isinstance(result, Exception):
                    if not self.drops:
                        raise _naming(batch[i].spec, result) from result
                    failures[i] = failures[i] or f"{type(result).__name__}: {result}".removeprefix("DataError: ")
                elif result is not None:
                    fits[i].append(result)
            if chosen.start == 0 and self.drops:
                self._drop_hopeless(folds, batch, fits, failures, members)
        self._grow_on(folds, [its_fits for its_fits, failure in zip(fits, failures, strict=True) if not failure], clock)
        made = []
        for candidate, its_fits, failure in zip(batch, fits, failures, strict=True):
            ended = its_fits if failure else self._end_folds(folds, its_fits, clock)
            member = Member.of_fits(candidate.spec, ended, folds, self._validation_metric())
            if failure or ended:
                made.append(member.drop(failure) if failure else member)
        return made

    def _grow_on(self, folds: QueryFolds, growing: Sequence[list[FoldFit]], clock: Clock) -> None:
        """Grow trees as far as all folds together ask for, and time allows."""
        while growing and not clock.over:
            jobs = [(fits, job) for fits in growing for job in trees_left(folds, fits)]
            results = fit_folds(folds, [job for _, job in jobs], clock, self.n_jobs) if jobs else []
            growing = []
            for (fits, job), result in zip(jobs, results, strict=True):
                assert job.before is not None
                if isinstance(result, Exception) and not self.drops:
                    raise _naming(spec_of(job.ranker), result) from result
                grown = result if isinstance(result, FoldFit) else replace(job.before, complete=False)
                fits[fits.index(job.before)] = grown
                if len(grown.curve) > len(job.before.curve) and fits not in growing:
                    growing.append(fits)

    @staticmethod
    def _end_folds(folds: QueryFolds, fits: list[FoldFit], clock: Clock) -> list[FoldFit]:
        try:
            return end_folds(folds, fits)
        except KeyboardInterrupt:  # what has been trained counts
            clock.stop.set()
            return end_folds(folds, fits)

    def _drop_hopeless(
        self,
        folds: QueryFolds,
        batch: Sequence[Candidate],
        fits: Sequence[Sequence[FoldFit]],
        failures: list[str],
        members: Sequence[Member],
    ) -> None:
        measure, weights = self._validation_metric(), folds.data.query_weights
        seen = np.concatenate([folds.tested(fold) for fold in range(FIRST_FOLDS)])
        new = [Member.of_fits("", its_fits, folds, measure).values for its_fits in fits]
        values = np.array([member.values for member in members if not member.dropped] + new)[:, seen]
        if not np.isfinite(values).any():
            return
        share = None if weights is None else weights[seen]
        best = values[best_member(values, share)]
        for i, row in enumerate(values[len(values) - len(batch) :]):
            trained = fits[i] and all(fit.complete for fit in fits[i])  # what the clock cut short says little
            if trained and not failures[i] and errors_below(row, best, share) > HOPELESS:
                failures[i] = "far below the best on the first folds"

    def _report(self, member: Member, members: Sequence[Member], folds: QueryFolds, monitor: Monitor) -> bool:
        """Tell the monitor about a new member; True if training is to end."""
        remaining, value = [each for each in members if not each.dropped], None
        if remaining:
            _, values = self._measure(remaining, folds)
            value = mean_and_error(values, folds.data.query_weights)[0]
        return monitor.step(validation=value, member=member.spec)

    def _measure(self, members: Sequence[Member], folds: QueryFolds) -> tuple[Array, Array]:
        """The out-of-fold scores of the blend of those members that may count, and the metric of each query."""
        if isinstance(self.weights, str):
            enough = may_count(self.weights, np.array([each.kept_values for each in members]), folds.data.query_weights)
            members = [member for member, counts in zip(members, enough, strict=True) if counts]
        return blend_out_of_fold(members, folds, self._weigh, self._validation_metric())

    def _weigh(self, values: Array, query_weights: Array | None) -> Array:
        """The weights of members with these values."""
        if isinstance(self.weights, str):
            return choose_weights(self.weights, values, query_weights)
        given = np.asarray(self.weights, dtype=np.float64)[: len(values)]  # an interrupted training has fewer
        return given / given.sum() if given.sum() > 0.0 else np.full(len(given), 1.0 / len(given))

    def _finish(self, folds: QueryFolds, members: list[Member], monitor: Monitor, clock: Clock) -> Array:
        """Weigh the members and keep the models that count; return the blend's out-of-fold scores."""
        remaining, query_weights = [each for each in members if not each.dropped], folds.data.query_weights
        if not remaining:
            if clock.stop.is_set():
                raise KeyboardInterrupt
            reasons = list({member.dropped: f"{member.spec}: {member.dropped}" for member in members}.values())
            text = "; ".join(reasons[:REASONS]) or "the time was over before the first"
            raise DataError(f"{type(self).__name__} could train no member ({text})")
        weights = self._weigh(np.array([member.kept_values for member in remaining]), query_weights).tolist()
        scores, values = self._measure(remaining, folds)
        rows, shares = [], iter(weights)
        for member in members:
            weight = 0.0 if member.dropped else next(shares)
            note = member.dropped or ("" if member.complete else _how_far(member, folds))
            models = len(member.models) if weight > 0.0 else 0
            rows.append((Row(member.spec, 0.0, 0.0, weight, member.seconds, models, note=note), member.values))
        used = [(member, weight) for member, weight in zip(remaining, weights, strict=True) if weight > 0.0]
        used.sort(key=lambda pair: -mean_and_error(pair[0].values, query_weights)[0])  # as the leaderboard
        self.members_ = [member for member, _ in used]
        self.weights_ = np.array([weight for _, weight in used])
        factors = [factor for member, weight in used for factor in member.factors(weight)]
        self._keep([model for member in self.members_ for model in member.models], factors)
        measured_on_validation = self.folds is None and folds.valid(0) is not None
        used_for = self._chosen_by_validation(remaining) if measured_on_validation else ""
        n_models = len(self._models)
        name = self._validation_metric().name
        self.leaderboard_ = Leaderboard.of_values(name, values, rows, query_weights, n_models, used_for)
        monitor.best_iteration = len(monitor.history)
        for member in self.members_:
            show_kept(f"member {member.spec}", member.warnings, stacklevel=5)  # the caller of fit, behind its decorator
        return scores

    def _chosen_by_validation(self, members: Sequence[Member]) -> str:
        """What the validation queries have chosen where they are also those that measure."""
        qualities = [validation_quality(model) for member in members for model in member.models]
        chosen = ["numbers of iterations"] if any(quality and quality.used_for for quality in qualities) else []
        if len(members) > 1 and isinstance(self.weights, str) and self.weights != "uniform":
            chosen.append("weights")
        return f"choosing {' and '.join(chosen)}" if chosen else ""

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def _restore_seed(self, monitor: Monitor) -> int:
        if monitor.checkpoint is None or monitor.checkpoint.state is None:
            return seed_from(self.random_state)
        with monitor.checkpoint.restoring():
            return stored_seed(monitor.checkpoint.state)

    def _restore_members(self, monitor: Monitor, folds: QueryFolds) -> list[Member]:
        if monitor.checkpoint is None or monitor.checkpoint.state is None:
            return []
        with monitor.checkpoint.restoring():
            monitor.restore(monitor.checkpoint.state["monitor"])
            members = stored_members(monitor.checkpoint.state, folds, self._candidate_ranker)
            if len(monitor.history) != len(members):
                raise ValueError("its history is not one of its members")
            return members

    # -- use -----------------------------------------------------------------------------------------------------------

    def _scorer(self) -> Scorer:
        return Sum.of([model._scorer() for model in self._models], self._factors)

    def _keep(self, models: Sequence[Ranker], factors: Sequence[float]) -> None:
        self._models, self._factors = list(models), list(factors)
        self.__dict__["accepts_missing"] = all(model.accepts_missing for model in models)
        self.__dict__["needs_queries"] = any(model.needs_queries for model in models)

    def _check_values(self, data: Dataset, what: str) -> Dataset:
        refuse_extremes(data, what)
        return data.without_codes()  # members refuse missing values themselves

    def _why_no_contributions(self) -> str | None:
        for model in self._models:
            reason = model._why_no_contributions()
            if reason is not None:
                return f"a member of this blend has no contributions: {reason}"
        return None

    def _facts(self) -> dict[str, Any]:
        return {"models": len(self._models)}

    # -- model files ---------------------------------------------------------------------------------------------------

    def _pack(self) -> dict[str, Any]:
        board = plain(self.leaderboard_.to_dict())
        return {"factors": list(self._factors), "leaderboard": board, **pack_models(self._models)}

    def _unpack(self, state: Mapping[str, Any]) -> None:
        models = unpack_models(state, self.n_features_in_)
        self._keep(models, stored_factors(state, "factors", len(models)))
        self.leaderboard_ = Leaderboard.from_dict(state["leaderboard"])
        self.weights_ = np.array([row.weight for row in self.leaderboard_.members if row.weight > 0.0])


@dataclass(repr=False, eq=False)
class Blend(BlendedRanker):
    """A weighted sum of the scores of several rankers.

    Every member is trained once per fold: a model lacks its fold, which tests it, and the next one, which validates it.
    Its score is the mean over these models (bagging by query), on a common scale: each model's scores are divided by
    their standard deviation within queries. The weights are decided by the out-of-fold scores; those of the figure for
    a fold, by the validation queries there. Queries of ``eval_set`` are added to the training queries.

    With ``folds=None`` every member is trained once on all queries, and ``eval_set`` stops it early and decides the
    weights; without ``eval_set`` all weights are equal.

    Parameters
    ----------
    members : rankers, or texts such as "mcrank:n_leaves=8"
    folds : number of query folds, at least 3, or None
    weights : "within" (equal weights for members at most two paired standard errors below the best, none for others),
        "shrunk" (∝ exp(−t), t the paired standard errors below the best; 0 beyond four), "uniform", or one number per
        member
    metric : what early stopping, weights and the leaderboard go by
    n_jobs : fits that run side by side; None and -1 for one per core that this process may use
    random_state : seed of the folds

    Attributes
    ----------
    members_ : the members that count, with their models, out-of-fold scores and metric values per query; not in a model
        file
    weights_ : their weights
    leaderboard_ : all members with their out-of-fold metric, weight and time, and the blend
    out_of_fold_scores_ : the blend's, one per training row, then those of ``eval_set``; with ``folds=None`` of the
        rows of ``eval_set`` alone. Not in a model file
    """

    members: Any = parameter(
        ("regression", "listnet", "mcrank", "lambdamart"), Members(help="the rankers to blend: names, specs, rankers")
    )

    def _batches(
        self, folds: QueryFolds, members: list[Member], monitor: Monitor, clock: Clock
    ) -> Iterator[list[Candidate]]:
        todo = [candidate_of(one, self._validation_metric()) for one in self.members]
        for start in range(len(members), len(todo), BATCH):
            yield todo[start : start + BATCH]

    def _largest_members(self) -> list[Ranker]:
        return [candidate_of(one, None).ranker for one in self.members]

    def _candidate_ranker(self, i: int, spec: str) -> Ranker:
        known = [candidate_of(one, None) for one in self.members[i : i + 1]]
        if not known or known[0].spec != spec:
            raise ValueError(f"member {i + 1} is not one of this blend")
        return known[0].ranker

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for one in self.members:
            candidate_of(one, self._validation_metric())
        if not isinstance(self.weights, str) and len(self.weights) != len(self.members):
            raise ParameterError(
                f"weights of Blend must have one number for each of the {len(self.members)} members, had "
                f"{len(self.weights)}"
            )
        if not isinstance(self.weights, str) and not any(self.weights):
            raise ParameterError("weights of Blend must not all be 0: no member would count")

    def _file_params(self) -> dict[str, Any]:
        return super()._file_params() | {"members": [candidate_of(one, None).spec for one in self.members]}


class _Once(QueryFolds):
    """All queries for training; those of the validation data, if any, validate and test."""

    def __init__(self, data: RankingData, valid: RankingData | None):
        self._all, self._valid = data, valid
        super().__init__(data if valid is None else valid, 1, 0)

    def train(self, fold: int) -> Dataset:
        return self._all

    def valid(self, fold: int) -> RankingData | None:
        return self._valid

    def test(self, fold: int) -> RankingData:
        return self.data


def candidate_of(member: Any, measure: Metric | None) -> Candidate:
    """A member as a ranker that stops early by the blend's metric, unless it names another."""
    ranker = ranker_from_spec(member) if isinstance(member, str) else member
    spec = member if isinstance(member, str) else spec_of(member)
    if isinstance(ranker, BlendedRanker):
        raise ParameterError(f"a member of a blend cannot be a blend itself, as {spec!r} is; name its members instead")
    ranker._check_parameters()
    if measure is not None:
        ranker = with_metric(ranker, spec, measure.as_parameter())
    return Candidate(spec, ranker)


def _how_far(member: Member, folds: QueryFolds) -> str:
    done = len(member.models)
    return f"ended after {done} of {folds.trained} folds" if done < folds.trained else "ended before its last iteration"


def _refuse_useless(measure: Metric, data: RankingData) -> None:
    """Raise where the metric has no value, before hours are spent on it; a function that fails does so here."""
    if not np.isfinite(measure.per_query(data.y, data)).any():
        raise DataError(f"{measure.name} is not a finite number for any training query, so it cannot choose members")


def _naming(spec: str, error: Exception) -> Exception:
    """The error with the member it came from, if it is one of ours."""
    return type(error)(f"member {spec}: {error}") if isinstance(error, GainfulError) else error


def _join(data: RankingData, valid: RankingData) -> RankingData:
    joined = join_pieces([part.replace(doc_ids=None) for part in (data, valid)])
    return joined.replace(query_ids=np.arange(joined.n_queries))


def _in_memory(data: RankingData) -> RankingData:
    """Small mapped files are copied, so that the model is that of the same rows in any other file."""
    if not is_mapped(data.X) or is_large(data):
        return data
    return data.replace(X=data.X.copy() if data.is_sparse else np.array(data.X))


def _in_ratios(data: RankingData) -> RankingData:
    """Only ratios of query weights count, while some members add a penalty to a weighted sum."""
    weights = data.query_weights
    return data if weights is None else data.replace(query_weights=weights / weights.mean())
