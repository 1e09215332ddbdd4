"""Matrices as bodies: answered as JSON with the same numbers, and refused in one line."""

from __future__ import annotations

import io

import numpy as np
import pytest
from serve_examples import NAMES, client_of, train_data

import gainful

HEADERS = {"content-type": "application/x-npy"}


@pytest.fixture(scope="module")
def data():
    return train_data()


@pytest.fixture(scope="module")
def client(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("npy") / "model.gainful"
    gainful.save(gainful.RegressionRanker().fit(data), path)
    with client_of(path, max_rows=50) as client:
        yield client


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.mark.parametrize("dtype", ["float64", "float32", ">f4", "int16", "uint8"])
def test_a_matrix_is_answered_as_its_numbers_in_json(client, data, dtype):
    X = (100 * data.X[:20]).astype(dtype)
    rows = X.astype(np.float64).tolist()
    expected = client.post("/score", json={"rows": rows})
    assert expected.status_code == 200
    for matrix in (X, np.asfortranarray(X)):
        assert client.post("/score", content=npy(matrix), headers=HEADERS).content == expected.content
    ranked = client.post("/rank", json={"documents": [{"features": row} for row in rows]})
    assert client.post("/rank", content=npy(X), headers=HEADERS).content == ranked.content


GOOD = npy(np.ones((3, 4)))


@pytest.mark.parametrize(
    ("body", "status", "line"),
    [
        (b"", 400, "the body is not a .npy file"),
        (GOOD[:-1], 400, "the .npy file has 223 bytes, but its header says 224"),
        (GOOD + b"\0", 400, "the .npy file has 225 bytes"),
        (GOOD[:20], 422, "must have a matrix of numbers"),
        (GOOD.replace(b"(3, 4)", b"(9, 4)"), 400, "its header says 416"),
        (npy(np.ones(4)), 422, "must have a matrix of numbers"),
        (npy(np.ones((3, 4), dtype=complex)), 422, "must have a matrix of numbers"),
        (npy(np.array([[{}]]), allow_pickle=True), 422, "must have a matrix of numbers"),
        (npy(np.ones((3, 5))), 422, "the matrix has 5 columns, but RegressionRanker was trained with 4 features"),
        (npy(np.ones((51, 4))), 413, "the request has 51 documents, 50 are allowed"),
        (npy(np.array([[1, 2, 3, np.nan]])), 422, f"feature {NAMES[3]!r} of rows[0] is missing"),
        (npy(np.array([[1, 2, 3, 1e200]])), 422, f"feature {NAMES[3]!r} of rows[0] is 1e+200"),
        (npy(np.array([[1, 2, 3, np.inf]])), 422, "is infinite"),
    ],
)  # fmt: skip
def test_other_matrices_are_refused(client, body, status, line):
    answer = client.post("/score", content=body, headers=HEADERS)
    assert answer.status_code == status, answer.text
    assert line in answer.json()["error"]


def test_pairs_come_as_json(client):
    answer = client.post("/pair", content=GOOD, headers=HEADERS)
    assert answer.status_code == 415
    assert "matrix" not in answer.text
