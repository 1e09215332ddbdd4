"""Categories: features whose values are words.

A column of X holds the number of each row's word, from 0, and NaN where it is missing; ``categories`` of a data set or
a model has the words of each such column. A word that a model has not seen in training is missing. Categories that are
numbers have them as words; where a model and its data differ in that, the one form is turned into the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gainful.errors import DataError, shorten

Array = npt.NDArray[Any]
Categories = tuple[tuple[str, ...] | None, ...]  # the words of each feature; None for a feature of numbers


class Ordered(tuple[str, ...]):
    """The words of an ordered category, which rankers take as a number: its place in this order."""


def word_of(value: Any) -> str:
    """The word of a category; the same for 2 and 2.0, as missing values turn one into the other."""
    return str(int(value)) if isinstance(value, (float, np.floating)) and value.is_integer() else str(value)


def numbers_of_words(words: Sequence[str]) -> list[float] | None:
    """The words as numbers, if all are."""
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def encode_words(words: Iterable[Any], rows: Array) -> tuple[tuple[str, ...], Array]:
    """The words in use, sorted, and the number of each row's word.

    ``rows`` has the place of each row's word in ``words``; a word that is None, and a place of -1, is missing.
    """
    texts = [None if word is None else str(word) for word in words]
    used = np.zeros(len(texts) + 1, dtype=bool)
    used[rows] = True
    kept = tuple(sorted({text for text, is_used in zip(texts, used, strict=False) if is_used and text is not None}))
    place = {text: code for code, text in enumerate(kept)}
    codes = np.array([np.nan if text is None else place.get(text, np.nan) for text in [*texts, None]])
    return kept, codes[rows]


def recode(X: Any, mine: Categories | None, trained: Categories | None, what: str, names: Sequence[str] | None) -> Any:
    """X with the numbers of its own words replaced by those of the ``trained`` ones; a copy unless they are equal.

    Without categories of its own, X holds the numbers of the trained words already.
    """
    if mine is None or mine == trained:
        return X
    recoded = None
    for j, words in enumerate(mine):
        known = None if trained is None else trained[j]
        if words == known:
            continue
        if words is None and isinstance(X, np.ndarray) and np.isnan(X[:, j]).all():
            continue  # all missing, which is neither text nor numbers
        numbers = numbers_of_words(words or known or ()) if words is None or known is None else []
        if numbers is None:
            name = names[j] if names is not None else j + 1
            held, wanted = ("numbers", "text") if words is None else ("text", "numbers")
            raise DataError(f"feature {name!r} of {what} holds {held}, but held {wanted} in training; give {wanted}")
        column: Any
        if words is None:
            places = {number: code for code, number in enumerate(numbers)}
            column = [places.get(value, np.nan) for value in X[:, j].tolist()]
        else:
            place = {word: code for code, word in enumerate(known or ())}
            codes = np.array([*(numbers or [place.get(word, np.nan) for word in words]), np.nan])
            column = codes[np.where(np.isnan(X[:, j]), len(words), X[:, j]).astype(np.int64)]
        recoded = np.array(X) if recoded is None else recoded
        recoded[:, j] = column
    return X if recoded is None else recoded


def join_categories(parts: Sequence[Categories | None]) -> Categories | None:
    """The words of all parts, by feature."""
    given = [part for part in parts if part is not None]
    if not given:
        return None
    if given == [given[0]] * len(parts):
        return given[0]
    columns = list(zip(*given, strict=True))
    if any(isinstance(words, Ordered) for column in columns for words in column):
        raise DataError("the parts have different ordered categories; give all of them the same")
    return tuple(
        None if all(words is None for words in column) else tuple(sorted({w for words in column for w in words or ()}))
        for column in columns
    )


def check_categories(categories: Any, n_features: int) -> Categories | None:
    """The categories of a model file, which may be damaged."""
    if categories is None:
        return None
    if not isinstance(categories, list) or len(categories) != n_features:
        raise ValueError("categories are not one entry per feature")
    for words in categories:
        if words is None:
            continue
        listed: Any = words.get("ordered") if isinstance(words, dict) else words
        are_words = isinstance(listed, list) and all(isinstance(word, str) for word in listed)
        if not are_words or len(set(listed)) < len(listed):
            raise ValueError(f"the categories of a feature are not different words: {shorten(words)}")
    found: Categories = tuple(
        None if words is None else Ordered(words["ordered"]) if isinstance(words, dict) else tuple(words)
        for words in categories
    )
    return None if all(words is None for words in found) else found


def stored_categories(categories: Categories | None) -> list[Any] | None:
    """The categories as a model file has them, for :func:`check_categories`."""
    if categories is None:
        return None
    return [{"ordered": list(words)} if isinstance(words, Ordered) else words for words in categories]


def unordered(categories: Categories | None) -> list[int]:
    """The features that hold categories without an order."""
    return [j for j in named_by_words(categories) if not isinstance((categories or ())[j], Ordered)]


def only_ordered(categories: Categories | None) -> Categories | None:
    """The categories that count as numbers anyway."""
    rest = tuple(words if isinstance(words, Ordered) else None for words in categories or ())
    return rest if any(rest) else None


def named_by_words(categories: Categories | None) -> list[int]:
    """The features that hold categories."""
    return [j for j, words in enumerate(categories or ()) if words is not None]


def words_of_codes(codes: Array, words: tuple[str, ...]) -> list[str | None]:
    """The word of each number; None where it is missing."""
    known = [*words, None]
    return [known[place] for place in np.where(np.isnan(codes), len(words), codes).astype(np.int64).tolist()]


def encode_features(features: Any, categories: Categories, names: Sequence[str], what: str) -> Any:
    """The features of one document, in order or by name, with words replaced by their numbers.

    A word that training did not have becomes None. Anything of another form is returned unchanged.
    """
    words_of = {name: words for name, words in zip(names, categories, strict=True) if words is not None}
    if isinstance(features, Mapping):
        given = [(str(name), value) for name, value in features.items()]
    elif isinstance(features, Sequence) and not isinstance(features, str) and len(features) == len(names):
        given = list(zip(names, features, strict=True))
    else:
        return features
    values = [
        encode_word(value, words_of[name], f"feature {name!r} of {what}") if name in words_of else value
        for name, value in given
    ]
    return dict(zip(features, values, strict=True)) if isinstance(features, Mapping) else values


def encode_word(value: Any, words: tuple[str, ...], what: str) -> Any:
    """The number of a word; None if it is missing or was not there in training."""
    if value is None or value != value:
        return None
    if not isinstance(value, (str, bool)) and numbers_of_words(words) is not None:
        value = word_of(value)
    if not isinstance(value, str):
        raise DataError(f"{what} must be text, as in training, was {shorten(value)}")
    return words.index(value) if value in words else None
