"""The server with a model of another library."""

from __future__ import annotations

import numpy as np
import pytest
from serve_examples import client_of, documents

import gainful


def test_a_model_of_another_library_is_served(tmp_path):
    path = tmp_path / "model.json"
    path.write_text('{"bm25": 2, "clicks": -0.5, "intercept": 1}')
    rows = [[1.0, 2.0], [3.0, 0.0], [0.5, 8.0]]
    with client_of(path) as client:
        about = client.get("/model").json()
        answer = client.post("/rank", json=documents(rows)).json()
    assert (about["ranker"], about["feature_names"]) == ("ImportedLinear", ["bm25", "clicks"])
    assert [one["id"] for one in answer["documents"]] == ["d1", "d0", "d2"]
    expected = gainful.load(path).predict(np.array(rows))
    assert [one["score"] for one in answer["documents"]] == pytest.approx(np.sort(expected)[::-1].tolist())
