"""Loss-augmented ranking for NDCG: the stages of :mod:`~gainful.losses.structured.ndcg_kernels`, by runs of queries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.rows import Array, read_only
from gainful.losses.structured.problem import COUNTS, NO_WAY, PATHS, SQUARE, RankingProblem

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
    """Write ξ of the queries first…last − 1 to ``xi``, and the gradient by score of their rows to ``c``.

    ``scores`` and ``c`` hold the rows of these queries only. ``method`` is for tests: ``"paths"``, ``"counts"`` and
    ``"square"`` (if all documents are placed) give the same values.
    """
    run = Run(problem, scores, first, last, method)
    run.rank(run.way, run.top, run.part.gains, prices)
    values, margins = run.sums(c, run.part.no_target if tight else run.part.target)
    values += margins
    if tight:
        values -= run.best(c)
    run.fill(xi, np.maximum(values, 0.0, out=values))


def fill_rankings(problem: RankingProblem, scores: Array, first: int, last: int, ranks: Array) -> None:
    """Write the rank of each row in its loss-augmented ranking to ``ranks``: 1…depth, 0 below."""
    run = Run(problem, scores, first, last)
    run.rank(run.way, run.top, run.part.gains)
    ranks[:] = 0
    for q in np.flatnonzero(run.way):
        head = run.grade_starts(int(q))
        lo = int(run.part.lows[q])
        for r, g in enumerate(run.slots[q, : min(int(run.part.counts[q]), problem.depth)]):
            ranks[lo + run.rows[head[g]]] = r + 1
            head[g] += 1


def fill_slack_violations(problem: RankingProblem, scores: Array, first: int, last: int, xi: Array, c: Array) -> None:
    """As :func:`fill_violations`, for rescaled slacks.

    A local search for the largest product Δ·margin starts from the best corner of the hull of all (Δ, margin), and from
    three plain rankings: perfect, lowest grades first, and by score. A corner can be a local maximum: if w satisfies
    most constraints, the largest product is one move away from a perfect ranking.
    """
    run = Run(problem, scores, first, last)
    of_target = run.of_target()
    best, product = run.climb(_best_corners(run), of_target)
    for start in run.plain_rankings():
        slots, other = run.climb(start, of_target)
        best[other > product] = slots[other > product]
        product = np.maximum(product, other)
    run.slots = best
    losses, margins = run.sums(c, run.part.target, np.where(product > 0.0, run.way, NO_WAY))
    losses = np.maximum(losses, 0.0)
    c *= np.repeat(losses, run.part.counts)
    run.fill(xi, losses * (1.0 + margins))


def _best_corners(run: Run) -> Array:
    """The grades of the ranking with the largest product among the corners of the hull of all (Δ, margin).

    The product is largest near where a line of slope −margin/Δ touches the hull. Two corners bracket it, at first the
    rankings with the largest margin and the largest loss; the corner farthest above their chord replaces one of them.
    """
    n, counts = len(run.way), run.part.counts
    n_grades = np.diff(run.problem.blocks[run.part.first : run.part.last + 1])
    size = np.maximum(np.maximum.reduceat(np.abs(run.top), run.part.lows), 1e-300)
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
        run.rank(way, run.top * np.repeat(on_margin, counts), read_only(run.part.gains * np.repeat(on_loss, n_grades)))
        losses, margins = run.sums(unused, run.part.target, way)
        loss, margin = np.maximum(losses, 0.0), 1.0 + margins
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


@dataclass(frozen=True)
class Part:
    """What does not depend on the scores of a run of queries; kept with the problem because every pass needs it."""

    first: int
    last: int
    counts: Array  # rows of each query
    lows: Array  # the first row of each query, counted from the first of all
    ways: Array  # the way to rank each query
    kinds: frozenset[int]  # the ways in use
    states: int
    slots: int  # of the longest query
    longest: int
    most_grades: int
    gains: Array  # of each grade of each query
    target: Array
    no_target: Array
    guess: Array  # the candidates of the last call

    @classmethod
    def of(cls, problem: RankingProblem, first: int, last: int, method: str) -> Part:
        key = (first, last, method)
        if key not in problem.parts:
            offsets, blocks = problem.offsets[first : last + 1], problem.blocks[first : last + 1]
            ways, states = problem.ways if method == "automatic" else problem.ways_by(WAYS[method])
            target = problem.target[int(offsets[0]) : int(offsets[-1])]
            longest = int(np.diff(offsets).max())
            problem.parts[key] = cls(
                first, last, np.diff(offsets), offsets[:-1] - offsets[0], ways[first:last],
                frozenset(np.unique(ways[first:last]).tolist()), int(states[first:last].max()),
                min(problem.depth, longest), longest, int(np.diff(blocks).max()),
                read_only(problem.gains[int(blocks[0]) : int(blocks[-1])]), target,
                read_only(np.zeros(len(target))), problem.guess[int(offsets[0]) : int(offsets[-1])],
            )  # fmt: skip
        found: Part = problem.parts[key]
        return found


class Run:
    """The state of a run of queries across the stages: candidates, a sequence of grades, sums.

    The arrays are laid out as in :mod:`gainful.losses.structured.ndcg_kernels`. ``way`` is NO_WAY for an
    inactive query and for one with a non-finite score.
    """

    def __init__(self, problem: RankingProblem, scores: Array, first: int, last: int, method: str = "automatic"):
        self.problem, self.scores, self.kernels = problem, scores, _kernels()
        part = self.part = Part.of(problem, first, last, method)
        n, n_rows = last - first, len(scores)
        self.way, self.centres = part.ways.copy(), np.empty(n)
        self.rows, self.top = part.guess.copy(), np.zeros(n_rows)  # 0 where there is no candidate
        self.ends, self.slots = np.empty(len(part.gains), np.int64), np.empty((n, problem.depth), np.int64)
        self.reals = np.empty((5, part.slots + 1))
        self.ints = np.empty((7, max(part.slots, part.most_grades)), np.int64)
        self._find_candidates()

    def _find_candidates(self) -> None:
        kernels, p, part = self.kernels, self.problem, self.part
        about = (self.scores, part.first, part.last, p.offsets, p.order, p.blocks, p.starts, p.position_weights)
        into = (self.way, self.centres, self.rows, self.top, self.ends)
        if part.slots <= kernels.INSERTION_DEPTH:
            kernels.top_candidates(*about, *into, np.empty(part.longest, np.int32))
            part.guess[:] = self.rows
        else:
            spare = np.empty((2, part.longest), np.int32)
            kernels.sorted_candidates(*about, *into, spare[0], spare[1])

    def _about(self, gains: Array) -> tuple[Any, ...]:
        """The leading arguments of the stages after the candidates."""
        p, part = self.problem, self.part
        return part.first, part.last, p.offsets, p.blocks, gains, p.position_weights, p.discounts

    def rank(self, way: Array, top: Array, gains: Array, prices: Array | None = None) -> None:
        """Write each query's best sequence of grades to ``slots``, for these scores and gains of the candidates."""
        kernels, p, kinds = self.kernels, self.problem, self.part.kinds
        args = (*self._about(gains), way, top, self.ends, self.slots)
        if PATHS in kinds:
            kernels.rank_by_paths(*args, self.reals, self.ints)
        if COUNTS in kinds:
            kernels.rank_by_counts(*args, self.reals[0], np.empty(self.part.states, np.bool_))
        if SQUARE in kinds:
            start, base = (np.zeros(len(top)), p.offsets[self.part.first]) if prices is None else (prices, 0)
            kernels.rank_square(*args, start, base, self.reals, self.ints)

    def sums(self, c: Array, target: Array, way: Array | None = None) -> tuple[Array, Array]:
        """Δ(y) and (Ψ(y) − target)·s of the ranking in ``slots``; the gradient of the latter by score goes to ``c``."""
        losses, margins = np.empty(len(self.way)), np.empty(len(self.way))
        self.kernels.ranking_sums(
            *self._about(self.part.gains), self.way if way is None else way, self.rows, self.top, self.ends, self.slots,
            self.ints[0], self.scores, self.centres, target, losses, margins, c,
        )  # fmt: skip
        return losses, margins

    def of_target(self) -> Array:
        """Ψ(target)·s of each query."""
        with np.errstate(invalid="ignore"):
            centred = self.scores - np.repeat(self.centres, self.part.counts)
        return np.asarray(np.add.reduceat(centred * self.part.target, self.part.lows))

    def best(self, c: Array) -> Array:
        """max_y Ψ(y)·s of each query; subtracts the weights of the ranking by score from ``c``."""
        p, sums = self.problem, np.zeros(len(self.way))
        self.kernels.best_sums(
            self.part.first, self.part.last, p.offsets, p.blocks, p.position_weights, self.way, self.rows, self.top,
            self.ends, self.ints[0], sums, c,
        )  # fmt: skip
        return sums

    def climb(self, slots: Array, of_target: Array) -> tuple[Array, Array]:
        """The ranking and product that the moves starting at ``slots`` reach."""
        products = np.zeros(len(self.way))
        self.kernels.climb(
            *self._about(self.part.gains), self.way, self.top, self.ends, slots, of_target,
            np.empty(slots.shape[1], np.int64), self.ints[0], products,
        )  # fmt: skip
        return slots, products

    def plain_rankings(self) -> list[Array]:
        """The grades of three rankings: perfect, lowest grades first, by score."""
        part, depth = self.part, self.problem.depth
        blocks = self.problem.blocks[part.first : part.last + 1]
        n_grades = np.diff(blocks)
        sizes = np.diff(self.ends, prepend=0)  # candidates of each grade of each query
        sizes[blocks[:-1] - blocks[0]] = self.ends[blocks[:-1] - blocks[0]]
        counts = np.add.reduceat(sizes, blocks[:-1] - blocks[0])
        query = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
        grade = np.repeat(np.arange(len(sizes)) - np.repeat(blocks[:-1] - blocks[0], n_grades), sizes)
        at = part.lows[query] + place
        by_score = grade[np.lexsort((self.rows[at], -self.top[at], query))]
        reverse = grade[np.cumsum(counts)[query] - 1 - place]
        kept = place < np.minimum(part.counts, depth)[query]
        rankings = [np.zeros_like(self.slots) for _ in range(3)]
        for ranking, grades in zip(rankings, (grade, reverse, by_score), strict=True):
            ranking[query[kept], place[kept]] = grades[kept]
        return rankings

    def fill(self, xi: Array, values: Array) -> None:
        """Write the values of these queries to ``xi``: NaN if a score is not finite, 0 for a query without a loss."""
        xi[self.part.first : self.part.last] = values
        if not math.isfinite(self.centres.sum()):
            xi[self.part.first : self.part.last][np.isnan(self.centres) & (self.part.ways > NO_WAY)] = np.nan

    def grade_starts(self, q: int) -> Array:
        """Where the candidates of each grade of a query begin, and where the last grade ends."""
        blocks = self.problem.blocks
        a, b = (int(blocks[self.part.first + q + i] - blocks[self.part.first]) for i in (0, 1))
        return np.asarray(self.part.lows[q] + np.concatenate([[0], self.ends[a:b]]))


def _kernels() -> Any:
    """The compiled module, loaded on first use."""
    from gainful.losses.structured import ndcg_kernels

    return ndcg_kernels
