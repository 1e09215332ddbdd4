"""The page where one types a query: one HTML file with the corpus, BM25's weights and the learned model inside."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from gainful.demo.baseline import FieldBM25
from gainful.demo.corpus import CANDIDATES, PARENT_SENTENCES, SearchCorpus
from gainful.demo.features import BEGINNING, FEATURES, KINDS, SEARCHED, SHARED_FIELDS, SHORTEST_PART, USUAL_WEIGHTS
from gainful.demo.index import K1, B
from gainful.demo.text import STOP_WORDS
from gainful.rankers.base import Ranker


def search_page(
    bm25: FieldBM25, model: Ranker, examples: Sequence[str], *, verdict: str, about: str, ranker: str
) -> str:
    """The page as HTML. ``model`` is a fitted linear ranker; ``examples`` are ids of queries to offer."""
    corpus = bm25.corpus
    content = {
        "settings": _settings(),
        "features": list(FEATURES),
        "words": FEATURES,
        "bm25": {"weights": bm25.weights, "k1": bm25.k1, "b": bm25.b},
        "model": {"weights": np.asarray(model.coef_).tolist(), "intercept": float(model.intercept_)},
        "examples": [[corpus.queries[name], name] for name in examples],
        "documents": _documents(corpus),
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return Template(_asset("search.html")).substitute(
        verdict=escape(verdict),
        about=escape(about),
        model=escape(ranker),
        version=platform.python_version(),
        licence=escape(f"{sys.copyright}\n\n{_asset('psf-licence.txt')}"),
        corpus=text.replace("<", "\\u003c"),  # so that no text can close its script element
        engine=_asset("engine.js"),
        script=_asset("search.js"),
        style=_asset("search.css"),
    )


def _settings() -> dict[str, Any]:
    return {
        "stop_words": sorted(STOP_WORDS),
        "k1": K1,
        "b": B,
        "candidates": CANDIDATES,
        "parent_sentences": PARENT_SENTENCES,
        "beginning": BEGINNING,
        "shortest_part": SHORTEST_PART,
        "searched": SEARCHED,
        "shared": SHARED_FIELDS,
        "usual_weights": {field: USUAL_WEIGHTS.get(field, 1.0) for field in SEARCHED},
        "kinds": KINDS,
    }


def _documents(corpus: SearchCorpus) -> list[list[Any]]:
    found = []
    for document in corpus.documents:
        source = document.source
        parameters = None if source.parameters is None else list(source.parameters)
        what = [source.name, source.kind, source.module, source.parent, parameters, source.members, source.code]
        found.append([*what, document.sentences, document.held_out, *corpus.count_uses(source)])
    return found


def _asset(name: str) -> str:
    return (resources.files("gainful.demo") / "assets" / name).read_text(encoding="utf-8")
