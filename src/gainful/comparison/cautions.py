"""Sentences on what the number of test queries can and cannot support."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from gainful.statistics.paired import FEW, N_FLIPS, POWER, ROUNDING, few_differing, least_p, skewed

if TYPE_CHECKING:
    from gainful.comparison.result import Comparison, PairedTest

TRIALS_PER_PARAMETER = 5  # fewer, and the seed of the search counts (benchmarks/experiment_search_seeds.py)
NAMED = 3  # rankers that a sentence names; the rest are counted
WILCOXON_ALONE = (
    "Marks follow Wilcoxon's test alone, which assumes that differences are symmetric about their median: where they "
    "are skewed, it may mark a ranker whose mean is equal, the more often the more queries. The randomisation test "
    "compares means."
)


def cautions(comparison: Comparison) -> list[str]:
    """Warnings about the tests and the intervals of the headline metric."""
    heading = comparison.headings[comparison.headline]
    return [
        *_about_tests(comparison, heading),
        *_about_errors(comparison, heading),
        *_about_searches(comparison),
        *_about_points(comparison, heading),
    ]


# -- tests -------------------------------------------------------------------------------------------------------------


def _about_tests(comparison: Comparison, heading: str) -> list[str]:
    """None if every difference is marked or nothing is tested."""
    tests = [t for (_, measure), t in comparison.paired_tests.items() if measure == heading]
    if not tests or comparison.marking_test is None:
        return []
    undefined = [t for t in tests if t.n_queries == 0]
    tests = [t for t in tests if t.n_queries > 0]
    hopeless = [t for t in tests if t.wins + t.losses > 0 and t.smallest_p > comparison.alpha]
    same = [t for t in tests if t.wins + t.losses == 0]
    lines = []
    if undefined:
        lines.append(f"{heading} is undefined on every test query, so there is nothing to compare on it.")
    if same:
        names = _names([t.ranker for t in same])
        lines.append(f"{names} and {comparison.baseline} have the same {heading} on every test query.")
    flips = [t for t in hopeless if _held_by_flips(comparison, t)]
    few = [t for t in hopeless if t not in flips]
    lines += [_too_few_queries(comparison, few, len(tests))] if few else []
    lines += [_too_few_flips(comparison, flips, len(tests))] if flips else []
    # If no result could be significant, the size of detectable differences no longer matters.
    left = [t for t in tests if t not in hopeless and t not in same]
    lines += _undecided_differences(comparison, heading, left)
    if comparison.marking_test == "wilcoxon":
        lines.append(WILCOXON_ALONE)
    return lines


def _held_by_flips(comparison: Comparison, t: PairedTest) -> bool:
    """Whether the number of sign flips, rather than of queries, limits the p-value."""
    return comparison.marking_test == "randomization" and least_p("wilcoxon", t.wins + t.losses) < 1 / (N_FLIPS + 1)


def _too_few_flips(comparison: Comparison, tests: Sequence[PairedTest], n_rankers: int) -> str:
    best = min(t.smallest_p for t in tests)
    return (
        f"Too few sign flips: the randomisation test draws {N_FLIPS:,}, so no p-value of "
        f"{_names([t.ranker for t in tests])} can be below {best:.2g}{_correction(n_rankers)} and no difference can be "
        f"called significant at {comparison.alpha:g}. Choose a larger alpha, or the t test alone."
    )


def _correction(n_rankers: int) -> str:
    return f" after Holm's correction over {n_rankers} rankers" if n_rankers > 1 else ""


def _too_few_queries(comparison: Comparison, tests: Sequence[PairedTest], n_rankers: int) -> str:
    best = min(t.smallest_p for t in tests)
    differ = max(t.wins + t.losses for t in tests)
    queries = max(t.n_queries for t in tests)
    over = _correction(n_rankers)
    return (
        f"Too few test queries: {_names([t.ranker for t in tests])} and {comparison.baseline} differ on {differ} "
        f"of {queries}, so no p-value can be below {best:.2g}{over} and no difference can be called significant at "
        f"{comparison.alpha:g}. Test on more queries."
    )


def _undecided_differences(comparison: Comparison, heading: str, tests: Sequence[PairedTest]) -> list[str]:
    """Differences without a mark, smaller than this many queries usually detect."""
    open_ = [
        t for t in tests if comparison.verdict(t.ranker, t.measure) == 0 and abs(t.difference) < t.detectable
    ]  # fmt: skip
    if not open_:
        return []
    least, most = min(t.detectable for t in open_), max(t.detectable for t in open_)
    size = f"{least:.3f}" if f"{least:.3f}" == f"{most:.3f}" else f"{least:.3f} to {most:.3f}"
    sentence = (
        f"Undecided, not equal: {_names([t.ranker for t in open_])} against {comparison.baseline}. "
        f"With {open_[0].n_queries:,} test queries, a difference in {heading} must be about {size} to be found in "
        f"{100 * POWER:g} % of cases; {'this one is' if len(open_) == 1 else 'these are'} smaller. Four times as many "
        "queries find half the difference."
    )
    return [sentence]


# -- errors of tests and intervals -------------------------------------------------------------------------------------


def _about_errors(comparison: Comparison, heading: str) -> list[str]:
    """Whether few or skewed differences mislead tests and intervals; those of 0/1 metrics hold for any number."""
    if comparison.is_binary(heading):
        return []
    n = max(int((~np.isnan(comparison.per_query(label, heading))).sum()) for label in comparison.labels)
    if n < 2:  # there are no intervals
        return []
    percent = f"{100 * comparison.level:.6g} %"
    if n < FEW:
        return [
            f"{n} test queries are few: with fewer than {FEW} and skewed values or differences, a {percent} interval "
            f"holds the true mean less often than it says, and a test at {comparison.alpha:g} calls equal means "
            "different up to three times as often."
        ]
    others = [label for label in comparison.labels if label != comparison.baseline]
    pairs = [(label, comparison.baseline) for label in others]
    if comparison.choices.all_pairs:
        pairs = list(combinations(comparison.labels, 2))
    if not pairs or not comparison.tests:
        return []
    d = comparison.weighted_differences(pairs, heading)
    differ = ((d != 0) & ~np.isnan(d)).sum(axis=0)
    names = np.array([f"{first} against {second}" for first, second in pairs])
    few = few_differing(d) & (differ > 0)
    uneven = skewed(d) & ~few
    lines = []
    if few.any():
        lines.append(
            f"Tests and intervals of {_names(names[few].tolist())} may err more often than they say: only "
            f"{differ[few].max()} of the test queries differ, fewer than {FEW}."
        )
    if uneven.any():
        lines.append(
            f"Skewed differences: a few large ones on one side decide the mean of {_names(names[uneven].tolist())}. A "
            f"test at {comparison.alpha:g} then calls equal means different up to twice as often as it says. Look at "
            "these queries, or test on more."
        )
    return lines


def _about_points(comparison: Comparison, heading: str) -> list[str]:
    """Intervals of equal values: the bootstrap finds no spread, which does not mean that there is none."""
    means = [(label, heading) for label in comparison.labels if _is_point(comparison.interval(label, heading))]
    differences = [key for key, test in comparison.paired_tests.items() if _is_point(test.interval)]
    found = (("means", means), (f"differences from {comparison.baseline}", differences))
    return [
        f"Intervals of {what} have no width for {_names(list(dict.fromkeys(label for label, _ in keys)))} "
        f"({', '.join(dict.fromkeys(measure for _, measure in keys))}): the test queries show no variation there, but "
        "others may."
        for what, keys in found
        if keys
    ]


def _is_point(interval: tuple[float, float]) -> bool:
    return interval[1] - interval[0] <= ROUNDING


def _about_searches(comparison: Comparison) -> list[str]:
    """Rankers whose parameters were chosen in few trials, if they are compared."""
    if len(comparison.labels) < 2:
        return []
    found = {}
    for label, runs in comparison.runs.items():
        tuned = [(len(run.trials), len(run.trials[0]["params"])) for run in runs if run.trials]
        if any(0 < trials < TRIALS_PER_PARAMETER * parameters for trials, parameters in tuned):
            found[label] = min(tuned, key=lambda one: one[0] / max(one[1], 1))
    if not found:
        return []
    spent = [f"{label} ({trials} of {parameters} parameters)" for label, (trials, parameters) in found.items()]
    return [
        f"Few trials: {_names(spent)}. With fewer than {TRIALS_PER_PARAMETER} trials per parameter, others may choose "
        "other parameters, and marks may come and go with them. Give more trials."
    ]


# -- words -------------------------------------------------------------------------------------------------------------


def _names(labels: Sequence[str]) -> str:
    shown = list(labels[:NAMED])
    if len(labels) > NAMED:
        shown.append(f"{len(labels) - NAMED} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
