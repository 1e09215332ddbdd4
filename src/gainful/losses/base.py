"""``Loss``: a ranking loss as a value.

A loss maps the scores and grades of one query to a value and to its gradient by score. It sees neither features
nor other queries: :mod:`gainful.compute.query_loop` handles the loop over queries, threads and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from gainful.compute import query_loop
from gainful.compute.query_loop import Fill, NewtonFill
from gainful.data.dataset import RankingData
from gainful.data.grades import by_grade, count_pairs
from gainful.data.rows import Array, check_grades, check_row_weights, read_only, relative_weights
from gainful.errors import DataError, ParameterError, UnknownNameError
from gainful.losses.click_lists import ClickFill, ClickLists, NoLists
from gainful.losses.gains import exponential_gain, perfect_sums
from gainful.losses.noise import with_noise
from gainful.losses.preferences import PairFill, bind_preferences
from gainful.parameters.constraints import Constraint

Bind = Callable[..., Fill]  # (params, y, offsets), weights of the documents and curved=True if the loss takes them
Weigh = Callable[[Array, int, int], tuple[Array, ...]]
RunFrozen = Callable[[Array, int, int, tuple[Any, ...], Any, Array, Any], None]


@dataclass(frozen=True)
class Parameter:
    """The constraint on a parameter of a loss, and its default."""

    constraint: Constraint
    default: Any


@dataclass(frozen=True)
class LossEntry:
    """A named loss: its properties, and how to bind it to the grades of a training set.

    ``convex`` and ``smooth`` (a continuous gradient) refer to the scores. ``frozen``: the loss has weights that depend
    on the current ranking. The gradient treats them as constants, so it is not the derivative of the value;
    its fill has ``bind_frozen`` (:class:`FrozenFill`). All losses are ≥ 0. ``bind(params, y, offsets)`` returns the
    *fill* that :mod:`gainful.compute.query_loop` drives. ``frozen_by`` names a parameter that makes a loss frozen
    unless it is None.

    ``newton``: ``bind`` takes ``curved=True`` for a fill of gradient and curvature (the diagonal of the Hessian), which
    models need that take Newton steps.
    ``flat``: the gradient nearly vanishes where all scores are equal, so models should start elsewhere.
    ``staged``: the loss changes from one iteration to the next, and ``bind`` returns a :class:`StagedFill`.

    ``weighs_documents``: ``bind`` takes a fourth argument, one weight per row, of mean 1 in each query.
    A document of weight 2 counts as two copies, one of weight 0 as none; ranks count every document once.

    ``preferences``: the cost of a pair in :mod:`gainful.losses.preference_kernels`, for a loss that can also be the
    mean over pairs that the data gives instead of grades.

    ``affine``: the gradient is an affine function of the grades, so that unbiased estimates of grades give unbiased
    gradients. Other losses learn from clicks by :mod:`gainful.losses.click_lists`.
    """

    name: str
    summary: str
    bind: Bind
    convex: bool = False
    smooth: bool = False
    frozen: bool = False
    frozen_by: str = ""
    staged: bool = False
    flat: bool = False
    weighs_documents: bool = False
    preferences: str | None = None
    affine: bool = False
    newton: bool = False
    parameters: Mapping[str, Parameter] = field(default_factory=dict, hash=False)
    settle: Callable[[dict[str, Any]], dict[str, Any]] | None = None  # brings given parameters into their usual form
    paper: str = ""
    threads: int | None = None  # 1 if it must not be called from several threads at once


# Most losses: convex and smooth, with a curvature and weights of documents.
convex_loss = partial(LossEntry, convex=True, smooth=True, newton=True, weighs_documents=True)


class StagedFill(Protocol):
    """The fill of a loss that changes during training; calling it directly uses the last stage."""

    def __call__(self, scores: Array, first: int, last: int, values: Array, gradient: Array) -> None: ...

    def at(self, iteration: int, total: int) -> Fill:
        """The fill for iteration 1 … ``total``."""


class ShiftedFill:
    """A fill on scores that are added to ``init``, one number per row."""

    def __init__(self, fill: Any, init: Array, offsets: Array):
        self.fill, self.init, self.offsets = fill, init, offsets

    def __call__(self, scores: Array, first: int, last: int, values: Array, gradient: Array) -> None:
        here = self.init[int(self.offsets[first]) : int(self.offsets[last])]
        self.fill(read_only(scores + here), first, last, values, gradient)

    def at(self, iteration: int, total: int) -> ShiftedFill:
        """The fill of a staged loss at iteration 1 … ``total``."""
        return ShiftedFill(self.fill.at(iteration, total), self.init, self.offsets)


@dataclass(frozen=True)
class Loss:
    """A loss with its parameters: immutable, hashable, prints as typed. Build it with :func:`gainful.loss`."""

    entry: LossEntry
    values: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def params(self) -> dict[str, Any]:
        """All parameters, including those left at their defaults."""
        return {name: one.default for name, one in self.entry.parameters.items()} | dict(self.values)

    @property
    def convex(self) -> bool:
        return self.entry.convex

    @property
    def smooth(self) -> bool:
        return self.entry.smooth and not self.frozen

    @property
    def frozen(self) -> bool:
        return self.entry.frozen or self.params.get(self.entry.frozen_by) is not None

    @property
    def scheduled(self) -> bool:
        """Whether it follows a schedule, so that its early iterations minimise something else than the last ones."""
        return self.entry.staged

    @property
    def staged(self) -> bool:
        """Whether its values change from one iteration to the next, by a schedule or because each has its own noise."""
        return self.scheduled or bool(self.params.get("noise"))

    @property
    def weighs_documents(self) -> bool:
        return self.entry.weighs_documents

    @property
    def accepts_pairs(self) -> bool:
        """Whether it can be computed on preferences instead of grades."""
        return self.entry.preferences is not None

    def __str__(self) -> str:
        usual = {name: one.default for name, one in self.entry.parameters.items()}
        changed = [f"{name}={_short_text(value)}" for name, value in self.params.items() if value != usual[name]]
        return f"{self.name}({', '.join(changed)})" if changed else self.name

    def __repr__(self) -> str:
        return f"loss({str(self)!r})"

    def __call__(self, scores: Any, grades: Any, weights: Any = None) -> tuple[float, Array]:
        """The value of one query and its gradient by score, (n,). Of ``weights`` of documents only the ratios count.

        >>> import gainful
        >>> value, gradient = gainful.loss("pairwise-hinge")([0.0, 0.5], [1, 0])
        >>> value, gradient.tolist()
        (1.5, [-1.0, 1.0])
        """
        values, gradient = self.of_queries(scores, grades, np.array([0, len(grades)]), weights)
        return float(values[0]), gradient

    def of_queries(self, scores: Any, y: Any, offsets: Any, weights: Any = None) -> tuple[Array, Array]:
        """The value of each query and its gradient by score, for grouped rows: (n_queries,), (n_rows,).

        ``weights`` has one weight per row; only ratios within a query count.
        """
        y, offsets = check_grades(y), np.ascontiguousarray(offsets, dtype=np.int64)
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        if scores.shape != y.shape:
            raise DataError(f"got {len(y)} grades, but scores of shape {scores.shape}")
        if weights is not None:
            weights = relative_weights(check_row_weights(weights, len(y), what="weights"), offsets)
        fill = self.bind(y, offsets, weights)
        return query_loop.values_and_gradient(fill, offsets, read_only(scores), self.entry.threads)

    def bind(self, y: Array, offsets: Array, weights: Array | None = None, *, curved: bool = False) -> Fill:
        """This loss on a training set; computes once everything that does not depend on the scores.

        ``weights``: of the documents, of mean 1 in each query. ``curved``: see :meth:`bind_newton`.
        """
        more: tuple[Array, ...] = ()
        if weights is not None:
            if not self.weighs_documents:
                raise ParameterError(f"the loss {self} does not define what weights of single documents mean")
            more = (read_only(np.ascontiguousarray(weights, dtype=np.float64)),)
        how = {"curved": True} if curved else {}
        fill = self.entry.bind(self.params, read_only(y), read_only(offsets), *more, **how)
        return with_noise(fill, self.params, y, offsets, curved)  # type: ignore[no-any-return]

    def bind_newton(self, y: Array, offsets: Array, weights: Array | None = None) -> NewtonFill | None:
        """Gradient and curvature on a training set, if the loss defines a curvature."""
        return self.bind(y, offsets, weights, curved=True) if self.entry.newton else None

    def bind_to(self, data: RankingData) -> Fill:
        """This loss on ``data``, with the weights of its documents; scores are added to ``data.init_scores``."""
        fill = self.bind_judgments(data)
        return fill if data.init_scores is None else ShiftedFill(fill, data.init_scores, data.offsets)

    def bind_judgments(self, data: RankingData, *, curved: bool = False) -> Fill:
        """This loss on the grades, preferences or clicks of ``data``, for complete scores."""
        if data.pairs is not None:
            return self._bind_preferences(data, curved)
        if data.click_weights is not None:
            lists = ClickLists(data)
            bound: Any = self.bind(*lists.judgments, curved=curved) if len(lists.clicked) else NoLists()
            return ClickFill(bound, lists, data.offsets, curved=curved)
        y = np.ascontiguousarray(data.y, dtype=np.float64)
        return self.bind(y, data.offsets, data.relative_weights, curved=curved)

    def bind_newton_judgments(self, data: RankingData) -> NewtonFill | None:
        """The same with gradient and curvature, if the loss defines a curvature."""
        return self.bind_judgments(data, curved=True) if self.entry.newton else None

    def _bind_preferences(self, data: RankingData, curved: bool) -> PairFill:
        if self.entry.preferences is None:
            raise ParameterError(f"the loss {self} needs grades, but the data has preferences")
        if self.params.get("noise"):
            raise ParameterError(
                f"the loss {self} needs grades for its noise, but the data has preferences; set noise=0"
            )
        return bind_preferences(self.entry.preferences, self.params, data, curved)


def with_parameters(entry: LossEntry, given: Mapping[str, Any]) -> Loss:
    """The loss with these parameters, checked."""
    for name, value in given.items():
        if name not in entry.parameters:
            raise UnknownNameError.among("parameter", name, entry.parameters, owner=f"the loss {entry.name}")
        constraint = entry.parameters[name].constraint
        if not constraint.accepts(value):
            raise ParameterError.of(entry.name, name, constraint.expected(), value)
    given = given if entry.settle is None else entry.settle(dict(given))
    # an explicit default equals an omitted one: two losses that print alike are equal
    return Loss(
        entry,
        tuple(
            (name, given[name]) for name, one in entry.parameters.items() if given.get(name, one.default) != one.default
        ),
    )


def _short_text(value: Any) -> str:
    """The shortest text that reads back as the same number."""
    if not isinstance(value, float | np.floating):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


# -- rows by grade -----------------------------------------------------------------------------------------------------


class ByGrade:
    """The rows of each query by decreasing grade, the layout that the kernels of this package use.

    Block b of query q, one of ``blocks[q]:blocks[q + 1]``, holds the positions ``starts[b]:starts[b + 1]``; position p
    is row ``rows[p]``.
    """

    def __init__(self, y: Array, offsets: Array):
        order, blocks, starts = by_grade(y, offsets)
        self.y, self.offsets, self.order = y, offsets, order
        self.rows = np.repeat(offsets[:-1], np.diff(offsets)) + order
        self.blocks, self.starts = read_only(blocks), read_only(starts)

    def take(self, values: Array) -> Array:
        """One value per row, in order of position."""
        return read_only(values[self.rows])

    def take_optional(self, values: Array | None) -> Array | None:
        return None if values is None else self.take(values)

    def pairs(self, weights: Array | None = None) -> Array:
        """The number of pairs of each query, by the ``weights`` of the rows if given."""
        return count_pairs(self.offsets, self.blocks, self.starts, self.take_optional(weights))

    def gains(self, k: int | None = None) -> Array:
        """(2^g − 1)/N_q by position, with N_q the ideal DCG@k; 0 if the query has no gain, or one below 1e-308."""
        values = exponential_gain(self.y, self.offsets)
        longest = int(np.diff(self.offsets).max())
        depth = longest if k is None else min(longest, k)
        best = perfect_sums(values, self.order, self.offsets, 1.0 / np.log2(np.arange(2.0, depth + 2.0)))
        scale = np.divide(1.0, best, out=np.zeros_like(best), where=best >= np.finfo(np.float64).tiny)
        return self.take(values * np.repeat(scale, np.diff(self.offsets)))

    def fill(self, kernel: Callable[..., None], *arguments: Any, curved: bool = False) -> Fill:
        """Drive a kernel by position.

        ``kernel(scores, offsets, blocks, starts, *arguments, first, last, values, slopes, bends)`` fills values and
        slopes, and ``bends`` is None; if ``curved``, it fills slopes and bends, and ``values`` is None.
        """

        def fill(scores: Array, first: int, last: int, values: Array, gradient: Array) -> None:
            lo = int(self.offsets[first])
            here = self.rows[lo : int(self.offsets[last])] - lo
            slopes, shape = np.zeros(len(here)), (self.offsets, self.blocks, self.starts)
            if not curved:
                kernel(scores[here], *shape, *arguments, first, last, values, slopes, None)
                gradient[here] = slopes
                return
            bends = np.zeros(len(here))
            kernel(scores[here], *shape, *arguments, first, last, None, slopes, bends)
            values[here], gradient[here] = slopes, bends  # gradient and curvature stand in their places

        return fill


class FrozenFill:
    """The fill of a frozen loss; calling it directly computes the weights at the scores passed.

    ``weigh(t, first, last)`` computes what depends on the current ranking, as arrays by position or ``by_query``;
    ``run(t, first, last, weights, values, slopes, bends)`` is the loss with these held fixed, as in
    :meth:`ByGrade.fill`. ``t`` are scores by position.
    """

    def __init__(self, rows: ByGrade, weigh: Weigh, run: RunFrozen, *, curved: bool = False, by_query: bool = False):
        def moving(t: Array, *arguments: Any) -> None:
            *_, first, last, values, g, h = arguments
            run(t, first, last, weigh(t, first, last), values, g, h)

        self._rows, self._weigh, self._run, self._by_query = rows, weigh, run, by_query
        self._moving = rows.fill(moving, curved=curved)

    def __call__(self, scores: Array, first: int, last: int, values: Array, gradient: Array) -> None:
        self._moving(scores, first, last, values, gradient)

    def bind_frozen(self, scores: Array, threads: int | None = None) -> Fill:
        """The loss with the weights at these scores: an ordinary function, whose gradient is its derivative."""
        ends, t = self._rows.offsets, self._rows.take(scores)
        parts = query_loop.run_in_threads(ends, threads, lambda a, b: self._weigh(t[int(ends[a]) : int(ends[b])], a, b))
        weights = [np.concatenate(part) for part in zip(*parts, strict=True)]

        def frozen(t: Array, *arguments: Any) -> None:
            *_, first, last, values, g, h = arguments
            here = slice(first, last) if self._by_query else slice(int(ends[first]), int(ends[last]))
            self._run(t, first, last, tuple(own[here] for own in weights), values, g, h)

        return self._rows.fill(frozen)


RANGE = 600.0  # of exponents: exp(±RANGE/2), their products and quotients neither overflow nor vanish


def centre(t: Array, ends: Array, sigma: float) -> tuple[Array, Array]:
    """σ(t − midrange of its query), and for each query whether that exceeds RANGE.

    ``ends`` are the offsets of these queries; ``t`` begins at the first of them.
    """
    begins = ends[:-1] - ends[0]
    low, high = np.minimum.reduceat(t, begins), np.maximum.reduceat(t, begins)
    with np.errstate(invalid="ignore", over="ignore"):
        z = t - np.repeat(0.5 * (low + high), np.diff(ends))
        z *= sigma
        return z, ~(sigma * (high - low) <= RANGE)


def exponentials(t: Array, ends: Array, sigma: float) -> tuple[Array, Array]:
    """exp of :func:`centre`, so that a pair needs one division, and the queries whose scores are too far apart for it.

    The queries count from the first one; their exponentials are meaningless.
    """
    z, far = centre(t, ends, sigma)
    with np.errstate(over="ignore"):
        return np.exp(z, out=z), np.flatnonzero(far)
