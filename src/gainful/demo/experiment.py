"""The experiment of ``gainful demo``: BM25 against learned rankings on searches that neither has seen."""

from __future__ import annotations

import platform
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from gainful.comparison.compare import compare
from gainful.comparison.result import Comparison
from gainful.comparison.tables import p_value
from gainful.data.rows import Array
from gainful.data.splits import Split, split
from gainful.demo.baseline import FieldBM25
from gainful.demo.corpus import CANDIDATES, ITSELF, SearchCorpus
from gainful.demo.features import FEATURES
from gainful.demo.page import search_page
from gainful.formats.files import write_text
from gainful.metrics import metric
from gainful.rankers.base import Ranker
from gainful.rankers.registry import ranker

SIZES = (0.5, 0.15, 0.35)
BM25 = "BM25, tuned"
PLAIN = "BM25, plain"  # of all own text as one field, which also chooses the candidates
SHOWN = "listnet"  # the learned ranking of every sentence and of the page: linear, so that a reader can check its sums
RANKERS = {
    "regression": "regression",
    SHOWN: SHOWN,
    "structured-svm-tight": "structured-svm-tight",
    "lambdamart": "lambdamart:n_leaves=7:learning_rate=0.07",  # small trees for few queries
}
HEADLINE = "ndcg@10"
FIRST, TOP3 = metric("p@1", relevant=ITSELF), metric("hit@3", relevant=ITSELF)
MOST_LETTERS = 76  # of an example


@dataclass(frozen=True)
class Ranked:
    """The candidates of one search: documents, the scores of BM25 and of the learned model, and the right answer."""

    text: str
    target: str
    names: list[str]
    features: Array
    bm25: Array
    learned: Array

    def order(self, scores: Array) -> list[str]:
        """The names, best first."""
        return [self.names[i] for i in np.argsort(-scores, kind="stable")]

    def place(self, scores: Array) -> int:
        """The place of the right answer, from 1."""
        return self.order(scores).index(self.target) + 1


@dataclass(frozen=True)
class Experiment:
    """A corpus, its queries divided once, and BM25 for it."""

    corpus: SearchCorpus
    parts: Split
    bm25: FieldBM25
    n_queries: int

    @classmethod
    def prepare(cls, corpus: SearchCorpus, seed: int = 0) -> Experiment:
        data = corpus.data()
        train, valid, test = split(data, SIZES, seed=seed)
        return cls(corpus, Split(train, valid, test), FieldBM25(corpus), data.n_queries)

    def run(self, seconds: float, progress: Callable[[Any], object] | None = None) -> Comparison:
        """Train and test all rankers; ``auto`` gets the seconds, and is left out if they are 0."""
        chosen: dict[str, Any] = {BM25: self.bm25, PLAIN: "feature:bm25_all", **RANKERS}
        if seconds > 0:
            chosen[f"auto, {seconds:g} s"] = f"auto:seconds={seconds:g}"
        return compare(
            chosen, self.parts, metrics=[HEADLINE, FIRST, TOP3], baseline=BM25, explain=True, progress=progress
        )

    @cached_property
    def model(self) -> Ranker:
        """The ranker of the page, trained as in the comparison."""
        return ranker(SHOWN).fit(self.parts.train, eval_set=self.parts.valid)

    # -- examples ------------------------------------------------------------------------------------------------------

    def rank(self, target: str) -> Ranked | None:
        """The search for an object among all documents; None if the candidates lack it."""
        text = self.corpus.queries[target]
        found = self.corpus.candidates(text)
        names = [self.corpus.documents[d].name for d in found]
        if target not in names:
            return None
        X = self.corpus.features(text, found)
        return Ranked(text, target, names, X, self.bm25.score(text, found), self.model.predict(X))

    def examples(self, n_better: int = 2, n_worse: int = 1) -> list[Ranked]:
        """Test searches that read well: some where learning brings the right answer to the top, one where it harms."""
        better: list[Ranked] = []
        worse: list[Ranked] = []
        for one in self._readable():
            before, after = one.place(one.bm25), one.place(one.learned)
            if after == 1 and 3 <= before <= 30 and len(better) < n_better:
                better.append(one)
            elif before <= 3 and after >= before + 2 and len(worse) < n_worse:
                worse.append(one)
            if len(better) == n_better and len(worse) == n_worse:
                break
        return better + worse

    def _readable(self) -> Iterator[Ranked]:
        """Test searches short enough for a line and without code, in an order that depends on their names only."""
        targets = sorted(map(str, self.parts.test.query_ids), key=lambda name: zlib.crc32(name.encode()))
        for target in targets:
            text = self.corpus.queries[target]
            if 30 <= len(text) <= MOST_LETTERS and re.fullmatch(r"[A-Z][a-z ,'-]+\.", text):
                found = self.rank(target)
                if found is not None:
                    yield found

    def reasons(self, one: Ranked, n: int = 2) -> tuple[str, list[tuple[str, float]]]:
        """Why the learned ranking puts the right answer above or below its best rival: (rival, (feature, share) …).

        The rival is what BM25 puts first, or the learned ranking if BM25 puts the answer first. A share is what the
        feature adds to the difference of the two scores.
        """
        leaders = [name for scores in (one.bm25, one.learned) for name in one.order(scores)[:2]]
        rival = next(name for name in leaders if name != one.target)
        a, b = one.names.index(one.target), one.names.index(rival)
        shares = np.asarray(self.model.coef_) * (one.features[a] - one.features[b])
        sign = 1.0 if one.learned[a] > one.learned[b] else -1.0
        largest = islice(np.argsort(-sign * shares, kind="stable"), n)
        return rival, [(list(FEATURES.values())[j], float(shares[j])) for j in largest]

    # -- words and files -----------------------------------------------------------------------------------------------

    def about(self) -> str:
        """What is searched, and how it is judged."""
        n_held_out = f"{len(self.corpus.queries):,}"
        return (
            f"The documents are {len(self.corpus.documents):,} modules, classes, functions and methods of Python "
            f"{platform.python_version()}. One sentence was taken out of each of {n_held_out} of them: it is a search, "
            f"and its object is the right answer. For each search BM25 picks {CANDIDATES} of these {n_held_out} "
            "objects, and every ranking sorts those. Searches whose answer BM25 does not pick are left out: "
            f"{self.n_queries:,} remain, and {self.parts.test.n_queries:,} of them are kept apart for testing."
        )

    def page(self, comparison: Comparison) -> str:
        examples = [one.target for one in self.examples(n_better=4)]
        linear = (
            f"{SHOWN} (NDCG@10 {comparison.mean(SHOWN, HEADLINE):.3f}), a weighted sum of {len(FEATURES)} features, "
            "which a page can compute and explain; the report has the other rankings"
        )
        about = (
            f"{self.about()} NDCG@10 rates the order of the first ten results. This page searches all documents, so "
            "its places can differ from those of the test."
        )
        return search_page(self.bm25, self.model, examples, verdict=verdict(comparison), about=about, ranker=linear)

    def write(self, comparison: Comparison, folder: Path) -> tuple[Path, Path]:
        """Write the search page and the report; return their paths."""
        page = folder / "search.html"
        write_text(page, self.page(comparison))
        return page, comparison.to_report(folder / "report")


def verdict(comparison: Comparison) -> str:
    """The result for somebody who knows neither the rankers nor the statistics: one sentence, then the figures.

    It is about the ranking fixed beforehand: the best of several on the test searches would be too good.
    """
    test, sign = comparison.paired_tests[SHOWN, HEADLINE], comparison.verdict(SHOWN, HEADLINE)
    first = {label: 100 * comparison.mean(label, FIRST) for label in (SHOWN, BM25)}
    means = {label: comparison.mean(label, HEADLINE) for label in (SHOWN, BM25)}
    low, high = test.interval
    p = test.p_holm[comparison.marking_test or ""]
    luck = "can be luck" if sign == 0 else "is hardly luck"
    figures = (
        f"NDCG@10, the quality of the first ten results from 0 to 1, is {means[SHOWN]:.3f} instead of "
        f"{means[BM25]:.3f}. That difference, {test.difference:+.3f} (95 % interval {low:+.3f} to {high:+.3f}), {luck} "
        f"(p {_p_text(p)}). "
        f"Measured on {test.n_queries:,} test searches that no ranking was trained on."
    )
    if sign == 0:
        return f"The learned ranking ({SHOWN}) does not differ from tuned BM25 beyond chance. {figures}"
    return (
        f"The learned ranking ({SHOWN}) {'beats' if sign > 0 else 'loses to'} tuned BM25: it puts the right answer "
        f"first in {first[SHOWN]:.0f} of 100 searches instead of {first[BM25]:.0f}. {figures}"
    )


def tally(comparison: Comparison) -> str:
    """How often the ranking of the page is better than BM25, worse and the same."""
    test = comparison.paired_tests[SHOWN, HEADLINE]
    return (
        f"By NDCG@10, {SHOWN} is better than tuned BM25 in {test.wins:,} test searches, worse in {test.losses:,} and "
        f"the same in {test.ties:,}."
    )


def _p_text(p: float) -> str:
    text = p_value(p)
    return text if text.startswith("<") else f"= {text}"
