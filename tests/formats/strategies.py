"""Small ranking data of every kind a file has to hold."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from gainful.data.dataset import RankingData

SINGLES = st.floats(width=32, allow_nan=True, allow_infinity=False)
DOUBLES = st.floats(allow_nan=True, allow_infinity=False)
PLAIN = st.characters(codec="utf-8", exclude_characters=" \t\r\n\0#", exclude_categories=["Cs"])
QUERY_TEXTS = st.one_of(st.text(PLAIN, min_size=1, max_size=6), st.integers(-99, 99).map(str))
DOCUMENT_TEXTS = st.one_of(st.just(""), st.text(PLAIN, max_size=6), st.just("two words"), st.just("a#b: c"))
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).map("n".__add__)


@st.composite
def ranking_data(draw: st.DrawFn, *, stored_zeros: bool = True) -> RankingData:
    """Up to five queries, with or without everything that is optional."""
    counts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    n_rows, d = sum(counts), draw(st.integers(1, 4))
    single = draw(st.booleans())
    value = st.one_of(st.just(0.0), SINGLES if single else DOUBLES, st.integers(-5, 300).map(float))
    cells = draw(st.lists(value, min_size=n_rows * d, max_size=n_rows * d))
    X = np.array(cells, dtype=np.float32 if single else np.float64).reshape(n_rows, d)
    if draw(st.booleans()):
        X = sparse.csr_matrix(X)
        if stored_zeros and X.nnz and draw(st.booleans()):
            X.data[0] = 0.0
    whole = st.integers(-(2**63), 2**63 - 1)
    ids = draw(st.lists(draw(st.sampled_from([whole, QUERY_TEXTS])), min_size=len(counts), max_size=len(counts),
                        unique=True))  # fmt: skip
    documents = draw(st.sampled_from([None, whole, DOCUMENT_TEXTS]))
    return RankingData(
        X=X,
        y=np.array(draw(st.lists(st.floats(0, 1e300), min_size=n_rows, max_size=n_rows))),
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        query_ids=np.array(ids),
        doc_ids=None if documents is None else draw(st.lists(documents, min_size=n_rows, max_size=n_rows)),
        feature_names=draw(st.none() | st.lists(NAMES, min_size=d, max_size=d, unique_by=str.lower).map(tuple)),
        query_weights=draw(st.none() | st.lists(st.floats(0.01, 1e6), min_size=len(counts), max_size=len(counts))),
    )
