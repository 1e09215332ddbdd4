"""The tensor form of every loss that has one, against the compiled form."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gainful.compute.query_loop import values_and_gradient
from gainful.data.rows import read_only
from gainful.losses import LOSSES, loss, tensors
from gainful.losses.tensors import FORMS, similar_lengths, tensor_loss

TEXTS = [
    *FORMS,
    "sdcg(k=None, alpha=2)",
    "shf-sdcg(k=3, beta=0.5)",
    "shf-sdcg(target=dcg)",
    "shf-sdcg(k=4, tied=best)",
    "shf-sdcg(k=None)",
    "sdcg(least_spread=0.3)",
    "shf-sdcg(least_spread=0, alpha=2)",
    "ranknet(sigma=2.5)",
    "lambda(k=2, sigma=3)",
    "lambda(k=50)",
    "lambdaloss(mu=0)",
    "xendcg(gamma=1)",
    *(f"lambda(metric={metric})" for metric in ("map@4", "mrr", "hit@3", "err@5(max_grade=5)", "p@3", "rbp(0.7)")),
]
FLOAT64 = torch.zeros(0, dtype=torch.float64)


def ragged(seed, counts, grades=4, spread=2.0, real=False):
    """Scores with ties and grades of queries of these lengths."""
    rng = np.random.default_rng(seed)
    n = int(np.sum(counts))
    scores = np.where(rng.random(n) < 0.3, rng.integers(-1, 2, n), rng.normal(size=n)) * spread
    y = rng.integers(0, grades, n) + (rng.random(n) * 1e-9 if real else 0.0)
    return scores, y.astype(float), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def same(text, scores, y, offsets, rtol=1e-10):
    values, gradient = loss(text).of_queries(scores, y, offsets)
    bound = tensor_loss(loss(text), y, offsets, FLOAT64)
    found, slopes = bound(torch.from_numpy(scores))
    np.testing.assert_allclose(found.numpy(), values, rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(slopes.numpy(), gradient, rtol=rtol, atol=1e-12 * max(1.0, np.abs(gradient).max()))


def test_every_form_is_that_of_a_loss():
    assert set(FORMS) <= set(LOSSES)
    assert {"ranknet", "lambda", "lambdaloss", "weighted-huber", "listnet", "xendcg", "listmle"} <= set(FORMS)


@pytest.mark.parametrize("text", TEXTS)
@settings(max_examples=8)
@given(
    seed=st.integers(0, 10_000),
    counts=st.lists(st.integers(1, 14), min_size=1, max_size=12),
    grades=st.integers(1, 5),
    real=st.booleans(),
)
def test_tensors_give_what_the_compiled_form_gives(text, seed, counts, grades, real):
    same(text, *ragged(seed, counts, grades, real=real))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("counts", [[400, 3, 1, 150, 149, 7], [40] * 30], ids=["ragged", "even"])
def test_long_lists(text, counts, monkeypatch):
    same(text, *ragged(0, counts))
    monkeypatch.setattr(tensors, "FEW_PAIRS", 0)
    monkeypatch.setattr(tensors, "PAIRS_AT_ONCE", 5_000)
    monkeypatch.setattr(tensors, "SLACK", 0)
    same(text, *ragged(1, counts))


@pytest.mark.parametrize("text", [text for text in TEXTS if text != "squared"])
def test_far_scores_stay_finite(text):
    scores, y, offsets = ragged(2, [5, 17, 30], spread=1e5)
    same(text, scores, y, offsets, rtol=1e-9)
    _, slopes = tensor_loss(loss(text), y, offsets, FLOAT64)(torch.from_numpy(scores))
    assert torch.isfinite(slopes).all()


@pytest.mark.parametrize("text", TEXTS)
def test_float32_is_close(text):
    scores, y, offsets = ragged(3, [20, 60, 61, 5])
    values, gradient = loss(text).of_queries(scores.astype(np.float32), y, offsets)
    found, slopes = tensor_loss(loss(text), y, offsets, torch.zeros(0))(torch.from_numpy(scores.astype(np.float32)))
    assert found.dtype == slopes.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), values, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(slopes.numpy(), gradient, rtol=1e-3, atol=1e-5 * max(1.0, np.abs(gradient).max()))


@pytest.mark.parametrize(("iteration", "total"), [(1, 9), (4, 9), (9, 9), (1, 1)])
def test_stages_are_those_of_the_compiled_form(iteration, total):
    scores, y, offsets = ragged(4, [9, 30, 1, 12])
    chosen = loss("reg-shf-sdcg(regression=0.5, grade_step=0.3)")
    fill = chosen.bind(y, offsets).at(iteration, total)
    values, gradient = values_and_gradient(fill, offsets, read_only(scores))
    bound = tensor_loss(chosen, y, offsets, FLOAT64)
    bound.stage(iteration, total)
    found, slopes = bound(torch.from_numpy(scores))
    np.testing.assert_allclose(found.numpy(), values, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(slopes.numpy(), gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in FORMS])
def test_losses_without_a_form_say_so(name):
    assert tensor_loss(loss(name), np.array([1.0, 0.0]), np.array([0, 2]), FLOAT64) is None


@given(counts=st.lists(st.integers(1, 3000), min_size=1, max_size=200))
def test_buckets_hold_every_query_once_with_little_padding(counts):
    counts = np.array(counts)
    groups = list(similar_lengths(counts))
    assert sorted(np.concatenate(groups)) == list(range(len(counts)))
    for group in groups:
        own = counts[group].astype(float)
        waste = (own.max() ** 2 - own**2).sum()
        assert waste <= max(tensors.SLACK, (own**2).sum() / 4)
