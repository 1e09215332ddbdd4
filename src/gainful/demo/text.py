"""From text to sentences and terms, by rules small enough to be repeated in the page's own script."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

_COMMON = (
    "a about above after all also am an and any are as at be because been before being below between both but by can "
    "cannot could did do does doing down during each either else few for from further given had has have having he her "
    "here hers him his how however i if in into is it its itself just like may me might more most must my no nor not "
    "now of off on once one only or other our out over own s same see self should since so some such t than that the "
    "their them then there these they this those through to too under until up upon us use used uses using very was we "
    "were what when where whether which while who whom whose why will with within without would you your"
)
STOP_WORDS = frozenset(_COMMON.split())
_CAMEL = re.compile(r"([a-z0-9])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[A-Za-z0-9]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)\s+(?=[A-Z`'\"(*<])")
_SIGNATURE = re.compile(
    r"^[A-Za-z_][\w.]*\((?:[^()]|\([^()]*\))*\)"  # name(…), with at most one bracket inside
    r"(?:\s*->\s*[^\n:]*?(?=[.:]\s|\n|$))?\s*(?:[.:-]+\s)?"  # -> what it returns
)


def terms(text: str) -> list[str]:
    """The stemmed words of a text in their order, names split at capitals and underscores, stop words left out."""
    words = _WORD.findall(_CAMEL.sub(r"\1\2 ", text))
    return [stem(word) for word in map(str.lower, words) if len(word) > 1 and word not in STOP_WORDS]


@cache
def stem(word: str) -> str:
    """The word without plural s, -ing, -ed and final e."""
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word.endswith("s") and word[-2] not in "sui":
        word = word[:-1]
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 2 and word.endswith(ending) and re.search("[aeiouy]", word[: -len(ending)]):
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def sentences(doc: str) -> list[str]:
    """The sentences of a docstring in their order, without signature, examples and code."""
    found = []
    for paragraph in paragraphs(_SIGNATURE.sub("", doc)):
        found += [one.strip() for one in _SENTENCE_END.split(paragraph) if terms(one)]
    return found


def paragraphs(doc: str) -> Iterable[str]:
    """Blocks of prose: lines between empty ones, joined; those with a prompt, a rule or a deep indent are left out."""
    for block in re.split(r"\n\s*\n", doc):
        lines = block.split("\n")
        if any(line.lstrip().startswith((">>>", "...")) for line in lines):
            continue
        kept = [line.strip() for line in lines if not re.fullmatch(r"\s*[-=~*+^#|_]{3,}.*", line)]
        if kept:
            yield re.sub(r"\s+", " ", " ".join(kept)).strip()
