"""Systems that a comparison does not train: a feature, a file of scores, a run, a model file, a function.

Each takes the place of a ranker in a comparison. It is checked against the data before anything is trained, scores the
test rows, and is never fitted or tuned.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from gainful.data.categories import numbers_of_words, only_ordered, unordered
from gainful.data.columns import place_of_feature, values_of_feature
from gainful.data.dataset import RankingData
from gainful.data.judgments import Run
from gainful.data.rows import Array
from gainful.data.splits import Split
from gainful.errors import DataError, ParameterError, UnknownNameError, brief, plural, shorten
from gainful.foreign.loading import load
from gainful.formats.scores import read_scores
from gainful.formats.trec import read_run
from gainful.rankers.base import Ranker


@dataclass(frozen=True)
class TestedRows:
    """The rows that are tested, before anything is trained: ``whole`` is the data if the comparison divides it.

    ``why_absent`` says why a column of the given table is not a feature; None if it has no such column.
    """

    whole: RankingData | None
    splits: Sequence[Split]
    why_absent: Callable[[str], str | None] = lambda name: None

    def parts(self) -> Iterator[RankingData]:
        """The test rows of each split."""
        return (part.test for part in self.splits)


class Baseline:
    """What a comparison needs of a system that is not one of gainful's rankers."""

    trained_here: ClassVar[bool] = False
    origin_known: ClassVar[bool] = False  # whether it cannot have been fitted to the test queries
    scores_features: ClassVar[bool] = False  # whether it scores any row by its features alone, or by those of its query
    stops_early: bool = False
    interrupted_ = False
    n_iter_ = 0
    history_: Sequence[Mapping[str, Any]] = ()

    def prepare(self, rows: TestedRows) -> None:
        """Check that the system can score the test rows; raises before anything is trained."""

    def remarks(self) -> list[str]:
        """What readers of the result must know."""
        return []

    def fit(self, train: RankingData, eval_set: RankingData | None = None, progress: Any = None) -> Self:
        return self

    def predict(self, data: RankingData) -> Array:
        raise NotImplementedError

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        return {}

    def _check_parameters(self) -> None:
        pass

    def _facts(self) -> dict[str, Any]:
        return {}

    def __sklearn_clone__(self) -> Self:
        return self  # nothing to reset: it is not fitted


class Feature(Baseline):
    """Rank by one feature, highest first; with a minus before its name lowest first. Missing values come last."""

    origin_known = True

    def __init__(self, name: str):
        self.name = name

    def prepare(self, rows: TestedRows) -> None:
        first = next(rows.parts())
        try:
            place, _ = self._find(first)
        except UnknownNameError:
            why = rows.why_absent(self.name) or rows.why_absent(self.name.removeprefix("-"))
            if why is None:
                raise
            raise DataError(f"feature:{self.name} is not in the data: {why}") from None
        values_of_feature(first, place)

    def predict(self, data: RankingData) -> Array:
        place, sign = self._find(data)
        values = sign * values_of_feature(data, place)
        return _rest_last(values, ~np.isnan(values))

    def _find(self, data: RankingData) -> tuple[int, float]:
        """The column, and −1 if low values are good."""
        names = data.feature_names or ()
        falling = self.name.startswith("-") and self.name not in names
        return place_of_feature(data, self.name[1:] if falling else self.name), -1.0 if falling else 1.0


class ScoresFile(Baseline):
    """The scores in a file, one per row, in the order in which the data file has its rows.

    If the comparison divides the data, the file has a score for every row of it; otherwise one for every test row, fold
    after fold.
    """

    def __init__(self, path: str):
        self.path = path

    def prepare(self, rows: TestedRows) -> None:
        parts = [rows.whole] if rows.whole is not None else list(rows.parts())
        scores = read_scores(self.path, sum(part.n_rows for part in parts))
        self._scores = _by_query(parts, scores, self.path)

    def predict(self, data: RankingData) -> Array:
        return np.concatenate([self._scores[query] for query in data.query_ids.tolist()])


class RunFile(Baseline):
    """A TREC run, joined with the rows by query and document id; documents that it lacks come last."""

    def __init__(self, path: str):
        self.path = path

    def prepare(self, rows: TestedRows) -> None:
        self._run = read_run(self.path)
        joined = total = self._absent = 0
        for part in rows.parts():
            known = self._join(part)[1]
            joined, total = joined + int(known.sum()), total + part.n_rows
            self._absent += sum(str(query) not in self._run for query in part.query_ids.tolist())
        if joined == 0:
            raise DataError(_nothing_joined(self.path, self._run, next(rows.parts())))
        self._joined, self._total = joined, total

    def remarks(self) -> list[str]:
        there = f"{self._joined:,} of {plural(self._total, 'test document')}"
        rest = "" if self._joined == self._total else "; the others come last"
        lines = [f"{self.path} has {there}{rest}."]
        if self._absent:
            queries = plural(self._absent, "test query", "test queries")
            lines.append(f"{self.path} lacks {queries}: all documents are tied there, which counts as chance does.")
        return lines

    def predict(self, data: RankingData) -> Array:
        return _rest_last(*self._join(data))

    def _join(self, data: RankingData) -> tuple[Array, Array]:
        """The score of each row, and whether the run has it."""
        if data.doc_ids is None:
            raise DataError(
                f"{self.path} is a run, which is joined by document ids, but the data has none; LETOR text has them in "
                "comments (# doc1), a table in a column such as doc_id. A file with one score per row is scores:FILE"
            )
        scores = np.full(data.n_rows, np.nan)
        for query, start, end in zip(data.query_ids.tolist(), data.offsets[:-1], data.offsets[1:], strict=True):
            if str(query) in self._run:
                listed = self._run[str(query)]
                scores[start:end] = [listed.get(str(one), np.nan) for one in data.doc_ids[start:end].tolist()]
        return scores, ~np.isnan(scores)


class ModelFile(Baseline):
    """A model from a file, of gainful or another maker, as it is."""

    scores_features = True

    def __init__(self, path: str):
        self.path = path

    def prepare(self, rows: TestedRows) -> None:
        self._model = load(self.path)
        first = next(rows.parts())
        try:
            self._model._check_columns(first.n_features, first.feature_names)
        except DataError as error:
            raise DataError(f"{self.path} does not fit the data: {error}") from None

    def predict(self, data: RankingData) -> Array:
        return data.add_init_scores(self._model.predict(data))


@dataclass
class Fixed(Baseline):
    """Something in memory that scores rows: a function, a fitted model that cannot be trained here, an array."""

    score: Callable[[RankingData], Any]

    def predict(self, data: RankingData) -> Array:
        return checked_scores(self.score(data), data)


# From a comparison's text to the system: "feature:bm25"
KINDS: dict[str, tuple[Callable[[str], Baseline], str]] = {
    "feature": (Feature, "the name or number of a feature, as in feature:bm25"),
    "scores": (ScoresFile, "a file with one score per row, as in scores:today.txt"),
    "run": (RunFile, "a TREC run, as in run:today.run"),
    "model": (ModelFile, "a model file, as in model:today.gainful"),
}


def baseline_from_text(text: str) -> Baseline | None:
    """The system that a text such as ``"feature:bm25"`` or the path of a model names; None if it names none."""
    kind, colon, rest = text.partition(":")
    if colon and kind in KINDS:
        make, expected = KINDS[kind]
        if not rest:
            raise ParameterError(f"{text!r} needs {expected}")
        return make(rest)
    return ModelFile(text) if os.path.isfile(text) else None


def baseline_from_function(function: Callable[..., Any]) -> Baseline:
    """A function of X, or of the data set if its first parameter is called ``data``."""
    try:
        first = next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):  # compiled functions may have no signature
        first = ""
    ranker = getattr(function, "__self__", None)
    if isinstance(ranker, Ranker):  # model.predict, which reads categories by their words
        return Fixed(lambda data: data.add_init_scores(function(data)))
    return Fixed(function if first == "data" else lambda data: function(numbers_of(data)))


def numbers_of(data: RankingData) -> Any:
    """The features, for what knows nothing of the words behind codes."""
    texts = [j for j in unordered(data.categories) if numbers_of_words((data.categories or ())[j] or ()) is None]
    if texts:
        name = (data.feature_names or ())[texts[0]]
        raise DataError(
            f"feature {name!r} holds text, of which a function or model of X would see only codes; give a function "
            "whose first parameter is called data, to get the whole data set"
        )
    return data.with_categories(only_ordered(data.categories)).X


def checked_scores(scores: Any, data: RankingData) -> Array:
    """One finite score per row, or an error."""
    try:
        found = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"expected one score per row, got {shorten(scores)}") from None
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.shape != (data.n_rows,):
        raise DataError(f"expected one score per row, {data.n_rows}, got an array of shape {found.shape}")
    bad = np.flatnonzero(~np.isfinite(found))
    if len(bad):
        raise DataError(f"the score of row {bad[0]} must be a finite number, was {found[bad[0]]:g}")
    return found


def notes_on(models: Mapping[str, Ranker | Baseline], tuned: bool, validated: bool = False) -> list[str]:
    """Sentences on the systems that are not gainful's rankers; ``validated`` if there are validation queries."""
    others = {label: model for label, model in models.items() if isinstance(model, Baseline)}
    fixed = [label for label, model in others.items() if not model.trained_here]
    unknown = [label for label, model in others.items() if not (model.trained_here or model.origin_known)]
    lines = [line for model in others.values() for line in model.remarks()]
    if fixed:
        lines.append(f"Not trained here: {', '.join(fixed)}.")
    if unknown:
        values = "the values are" if len(unknown) == 1 else "their values are"
        lines.append(
            f"What {', '.join(unknown)} learned from is not known here; if test queries were among it, {values} too "
            "good."
        )
    trained = [label for label, model in others.items() if model.trained_here]
    to_the_end = [label for label in trained if not others[label].stops_early]
    stopped = [
        label for label, model in models.items() if label not in others and model.get_params().get("early_stopping")
    ]
    if validated and to_the_end and stopped:
        lines.append(
            f"Not the same use of the validation queries: {', '.join(stopped)} chose the number of iterations on them, "
            f"{', '.join(to_the_end)} trained to the end of what was set."
        )
    if tuned and trained:
        lines.append(f"Not tuned, used with the parameters given: {', '.join(trained)}.")
    return lines


def _rest_last(scores: Array, known: Array) -> Array:
    """The scores, with all that are not known below every known one."""
    if known.all() or not known.any():
        return np.where(known, scores, 0.0)
    lowest = float(scores[known].min())
    return np.where(known, scores, lowest - max(1.0, abs(lowest)))


def _by_query(parts: Sequence[RankingData], scores: Array, path: str) -> dict[Any, Array]:
    """Query → the scores of its rows, from scores in the order of the files."""
    found: dict[Any, Array] = {}
    start = 0
    for part in parts:
        own = scores[start : start + part.n_rows]
        own = own if part.input_order is None else own[part.input_order]
        start += part.n_rows
        for q, query in enumerate(part.query_ids.tolist()):
            if query in found:
                raise DataError(
                    f"query {brief(query)} is in the test data of two folds, so it is not clear which of its rows "
                    f"the scores of {path} belong to; give query ids that differ"
                )
            found[query] = own[part.offsets[q] : part.offsets[q + 1]]
    return found


def _nothing_joined(path: str, run: Run, data: RankingData) -> str:
    shared = any(str(query) in run for query in data.query_ids.tolist())
    theirs, ours = (run.doc_ids, data.doc_ids) if shared else (run.query_ids, data.query_ids)
    assert ours is not None
    what, first, own = "documents" if shared else "queries", shorten(str(theirs[0])), shorten(str(ours[0]))
    return f"{path} has none of the test {what}; its first is {first}, the first of the data {own}"
