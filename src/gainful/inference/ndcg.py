"""Loss-augmented ranking for NDCG: the stages of :mod:`gainful.inference.ndcg_kernels`, for a run of queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.inference.problem import COUNTS, NO_WAY, PATHS, SQUARE, RankingProblem
from gainful.rows import Array

WAYS = {"paths": PATHS, "counts": COUNTS, "square": SQUARE}
MOST_CHORDS = 40


def fill_violations(
    problem: RankingProblem,
    scores: Array,
    first: int,
    last: int,
    tight: bool,
    prices: Array | None,
    xi: Array,
    c: Array,
    method: str = "automatic",
) -> None:
    """ξ of the queries first…last − 1 into ``xi``, the gradient by score of their rows into ``c``.

    ``scores`` and ``c`` hold the rows of these queries only. ``method`` is for tests: ``"paths"``, ``"counts"`` and
    ``"square"`` (where all documents are placed) give the same values.
    """
    run = Run.of(problem, scores, first, last, method)
    run.rank(run.way, run.top, run.gains, prices)
    losses, margins = run.sums(c)
    values = losses + margins - (run.best(c) if tight else run.target(c))
    xi[first:last] = np.where(run.way > 0, np.maximum(values, 0.0), run.without_ranking)


def fill_rankings(problem: RankingProblem, scores: Array, first: int, last: int, ranks: Array) -> None:
    """The rank of each row in its loss-augmented ranking into ``ranks``: 1…depth, 0 below."""
    run = Run.of(problem, scores, first, last)
    run.rank(run.way, run.top, run.gains)
    ranks[:] = 0
    for q in np.flatnonzero(run.way):
        head = run.grade_starts(int(q))
        lo = int(run.lows[q])
        for r, g in enumerate(run.slots[q, : run.lengths[q]]):
            ranks[lo + run.rows[head[g]]] = r + 1
            head[g] += 1


def fill_slack_violations(problem: RankingProblem, scores: Array, first: int, last: int, xi: Array, c: Array) -> None:
    """As :func:`fill_violations`, for rescaled slacks.

    The largest product Δ·margin is searched for from the best corner of the hull of all (Δ, margin), and from three
    plain rankings: perfect, lowest grades first, and by score. A corner can be a local maximum: where w satisfies most
    constraints, the largest product lies one move from a perfect ranking.
    """
    run = Run.of(problem, scores, first, last)
    of_target = run.target(None)
    best, product = run.climb(_best_corners(run, of_target), of_target)
    for start in run.plain_rankings():
        slots, other = run.climb(start, of_target)
        best[other > product] = slots[other > product]
        product = np.maximum(product, other)
    found = np.where(product > 0.0, run.way, NO_WAY)
    run.slots = best
    losses, margins = run.sums(c, found)
    losses = np.maximum(losses, 0.0)
    c -= np.where(np.repeat(found > 0, run.counts), run.target_weights, 0.0)
    c *= np.repeat(losses, run.counts)
    values = losses * (1.0 + margins - of_target)
    xi[first:last] = np.where(found > 0, values, run.without_ranking)


def _best_corners(run: Run, of_target: Array) -> Array:
    """The grades of the ranking with the largest product among the corners of the hull of all (Δ, margin).

    The product is largest near where a line of slope −margin/Δ touches the hull. Two corners enclose it, at first the
    rankings with the largest margin and the largest loss; the corner farthest above their chord replaces one of them.
    """
    n, counts = len(run.way), run.counts
    n_grades = np.diff(run.blocks[run.first : run.last + 1])
    size = np.maximum(np.maximum.reduceat(np.abs(run.top), run.lows), 1e-300)
    best, corners = np.full(n, -np.inf), np.zeros_like(run.slots)
    low_loss, low_margin, high_loss, high_margin = np.zeros((4, n))
    on_loss, on_margin, going = np.zeros(n), np.ones(n), run.way > 0
    unused = np.empty(len(run.top))
    for step in range(MOST_CHORDS):
        if step == 1:
            on_loss, on_margin = np.ones(n), 1e-9 / size
        elif step > 1:
            going &= (high_loss > low_loss) & (low_margin > high_margin)
            on_loss, on_margin = low_margin - high_margin, high_loss - low_loss
        if not going.any():
            break
        way = np.where(going, run.way, NO_WAY)
        run.rank(way, run.top * np.repeat(on_margin, counts), run.gains * np.repeat(on_loss, n_grades))
        losses, margins = run.sums(unused, way)
        loss, margin = np.maximum(losses, 0.0), 1.0 + margins - of_target
        better = going & (loss * margin > best)
        best[better], corners[better] = (loss * margin)[better], run.slots[better]
        if step == 0:
            low_loss, low_margin = loss, margin
        elif step == 1:
            high_loss, high_margin = loss, margin
        else:
            above = on_loss * (loss - low_loss) + on_margin * (margin - low_margin)
            going &= above > 1e-12 * (on_loss + on_margin * np.abs(margin))
            low = going & (margin * on_margin > loss * on_loss)
            high = going & ~low
            low_loss[low], low_margin[low] = loss[low], margin[low]
            high_loss[high], high_margin[high] = loss[high], margin[high]
    return corners


@dataclass
class Run:
    """A run of queries on its way through the stages: candidates, a sequence of grades, sums.

    The layout of the arrays is that of :mod:`gainful.inference.ndcg_kernels`; ``slots`` is (n_queries, depth).
    """

    problem: RankingProblem
    scores: Array
    first: int
    last: int
    way: Array  # how to rank each query, 0 where it is not active or has a score that is not finite
    states: int
    centres: Array
    rows: Array
    top: Array
    ends: Array
    slots: Array
    head: Array
    reals: Array
    ints: Array

    @classmethod
    def of(cls, problem: RankingProblem, scores: Array, first: int, last: int, method: str = "automatic") -> Run:
        """The candidates of each query."""
        kernels, n, depth = _kernels(), last - first, problem.depth
        ways, states = problem.ways
        if method != "automatic":
            ways, states = problem.ways_by(WAYS[method])
        longest = int(np.diff(problem.offsets[first : last + 1]).max())
        most = int(np.diff(problem.blocks[first : last + 1]).max())
        m = min(depth, longest)
        run = cls(
            problem, scores, first, last, ways[first:last], int(states[first:last].max()), np.empty(n),
            np.empty(len(scores), np.int32), np.empty(len(scores)),
            np.empty(int(problem.blocks[last] - problem.blocks[first]), np.int64), np.empty((n, depth), np.int64),
            np.empty(most, np.int64), np.empty((5, m)), np.empty((7, max(m, most)), np.int64),
        )  # fmt: skip
        run.centres = np.add.reduceat(scores, run.lows) / run.counts
        about = (problem.order, problem.blocks, problem.starts, problem.position_weights)
        into = (run.centres, run.rows, run.top, run.ends)
        if m <= kernels.INSERTION_DEPTH:
            kernels.top_candidates(scores, first, last, problem.offsets, *about, *into)
        else:
            spare = np.empty((2, longest), np.int32)
            kernels.sorted_candidates(scores, first, last, problem.offsets, *about, *into, spare[0], spare[1])
        run.way = np.where(np.isnan(run.centres), NO_WAY, run.way)
        return run

    def rank(self, way: Array, top: Array, gains: Array, prices: Array | None = None) -> None:
        """The best sequence of grades of each query into ``slots``, for these scores and gains of the candidates."""
        kernels, p = _kernels(), self.problem
        about = (self.first, self.last, p.offsets, p.blocks, _locked(gains), p.position_weights, p.discounts, way, top)
        found = (self.ends, self.slots)
        if (way == PATHS).any():
            kernels.rank_by_paths(*about, *found, self.reals, self.ints)
        if (way == COUNTS).any():
            kernels.rank_by_counts(*about, *found, np.empty(self.states))
        if (way == SQUARE).any():
            start, base = (np.zeros(len(top)), p.offsets[self.first]) if prices is None else (prices, 0)
            kernels.rank_square(*about, *found, start, base, self.reals, self.ints)

    def sums(self, c: Array, way: Array | None = None) -> tuple[Array, Array]:
        """Δ(y) and Ψ(y)·s of the ranking in ``slots``; the weights of its rows into ``c``."""
        p, way = self.problem, self.way if way is None else way
        losses, margins = np.empty((2, len(way)))
        _kernels().ranking_sums(
            self.first, self.last, p.offsets, p.blocks, _locked(self.gains), p.position_weights, p.discounts, way,
            self.rows, self.top, self.ends, self.slots, self.head, losses, margins, c,
        )  # fmt: skip
        return losses, margins

    def target(self, c: Array | None) -> Array:
        """Ψ(target)·s of each query; the target's weights are taken off ``c``."""
        with np.errstate(invalid="ignore"):
            centred = self.scores - np.repeat(self.centres, self.counts)
        centred *= self.target_weights
        if c is not None:
            c -= self.target_weights  # 0 where a query is not active
            if not np.isfinite(self.centres).all():
                c[np.repeat(self.way == NO_WAY, self.counts)] = 0.0
        return np.asarray(np.add.reduceat(centred, self.lows))

    def best(self, c: Array) -> Array:
        """max_y Ψ(y)·s of each query; the weights of the ranking by score are taken off ``c``."""
        p, sums = self.problem, np.zeros(len(self.way))
        _kernels().best_sums(
            self.first, self.last, p.offsets, p.blocks, p.position_weights, self.way, self.rows, self.top, self.ends,
            self.head, sums, c,
        )  # fmt: skip
        return sums

    def climb(self, slots: Array, of_target: Array) -> tuple[Array, Array]:
        """The ranking and product that moves from ``slots`` lead to."""
        p, products = self.problem, np.zeros(len(self.way))
        _kernels().climb(
            self.first, self.last, p.offsets, p.blocks, _locked(self.gains), p.position_weights, p.discounts, self.way,
            self.top, self.ends, slots, of_target, np.empty(slots.shape[1], np.int64), self.head, products,
        )  # fmt: skip
        return slots, products

    def plain_rankings(self) -> list[Array]:
        """The grades of three rankings: perfect, lowest grades first, by score."""
        perfect, lowest, by_score = (np.zeros_like(self.slots) for _ in range(3))
        for q in np.flatnonzero(self.way):
            lo, m, starts = int(self.lows[q]), int(self.lengths[q]), self.grade_starts(int(q))
            grade = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
            best_first = np.lexsort((self.rows[starts[0] : starts[-1]], -self.top[starts[0] : starts[-1]]))
            assert starts[0] == lo
            perfect[q, :m], lowest[q, :m], by_score[q, :m] = grade[:m], grade[::-1][:m], grade[best_first][:m]
        return [perfect, lowest, by_score]

    # -- shape ---------------------------------------------------------------------------------------------------------

    @property
    def offsets(self) -> Array:
        return self.problem.offsets

    @property
    def blocks(self) -> Array:
        return self.problem.blocks

    @property
    def gains(self) -> Array:
        """The gain of each grade of these queries."""
        return self.problem.gains[int(self.blocks[self.first]) : int(self.blocks[self.last])]

    @property
    def target_weights(self) -> Array:
        return self.problem.target[int(self.offsets[self.first]) : int(self.offsets[self.last])]

    @property
    def without_ranking(self) -> Array:
        """What ξ is where no ranking was sought: NaN for scores that are not finite, 0 for a query without a loss."""
        odd = np.isnan(self.centres) & self.problem.active[self.first : self.last]
        return np.where(odd, np.nan, 0.0)

    @property
    def lows(self) -> Array:
        """The first row of each query, counted from the first of all."""
        return self.offsets[self.first : self.last] - self.offsets[self.first]

    @property
    def counts(self) -> Array:
        """How many rows each query has."""
        return np.diff(self.offsets[self.first : self.last + 1])

    @property
    def lengths(self) -> Array:
        """How many slots each query has."""
        return np.minimum(self.counts, self.problem.depth)

    def grade_starts(self, q: int) -> Array:
        """Where the candidates of each grade of a query begin, and where the last ones end."""
        a, b = (int(self.blocks[self.first + q + i] - self.blocks[self.first]) for i in (0, 1))
        return self.lows[q] + np.concatenate([[0], self.ends[a:b]])


def _locked(array: Array) -> Array:
    """Read-only, as the kernels take what they do not write: the compiler tells the two apart."""
    view = array.view()
    view.flags.writeable = False
    return view


def _kernels() -> Any:
    """The compiled module, loaded on use."""
    from gainful.inference import ndcg_kernels

    return ndcg_kernels
