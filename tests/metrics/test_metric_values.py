"""Every metric against its definition, written out over all orders of the documents."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gainful.data.dataset import RankingData
from gainful.metrics import metric

SPECS = (
    "ndcg",
    "ndcg@1",
    "ndcg@3",
    "dcg",
    "dcg@2",
    "p@1",
    "p@3",
    "p@9",
    "map",
    "map@2",
    "map@4",
    "mrr",
    "mrr@2",
    "wta",
)
SPECS += ("err", "err@2", "nerr", "nerr@3", "rbp", "rbp(0.35)", "rbp(0)", "rbp@2", "mean-ndcg")

GAIN_TABLE, DISCOUNT_TABLE = (0.0, 0.5, 4.0, 2.0, 9.0), (1.0, 0.75, 0.75, 0.1)
OPTIONS = {
    "gain": ("exp2", "linear", GAIN_TABLE),
    "discount": ("log2", "letor", DISCOUNT_TABLE),
    "empty": (0, 1, "skip"),
    "relevant": (1, 2),
    "short": ("use", "zero"),
    "max_grade": (4, 5.5),
    "unjudged": ("zero", "skip"),
    "worth": ("binary", "scaled"),
}
DIVISORS = {"p": ("k", "min", "relevant"), "map": ("min", "all")}


# -- the definitions ---------------------------------------------------------------------------------------------------


def gain_of(m, grade):
    if m.gain == "exp2":
        return 2**grade - 1
    return grade if m.gain == "linear" else m.gain[int(grade)]


def discount_of(m, rank):
    if m.discount == "log2":
        return 1 / math.log2(1 + rank)
    if m.discount == "letor":
        return 1 if rank <= 2 else 1 / math.log2(rank)
    return m.discount[rank - 1] if rank <= len(m.discount) else 0


def dcg(m, grades):
    cut = len(grades) if m.k is None else m.k
    return sum(gain_of(m, g) * discount_of(m, r) for r, g in enumerate(grades[:cut], 1))


def value_in_order(m, grades):
    """The metric of documents in exactly this order, at least one of them relevant."""
    cut = len(grades) if m.k is None else min(m.k, len(grades))
    if m.kind == "dcg":
        return dcg(m, grades)
    if m.kind == "ndcg":
        return dcg(m, grades) / max(dcg(m, other) for other in set(permutations(grades)))
    if m.kind == "mean-ndcg":
        cuts = [metric(f"ndcg@{k}", gain=m.gain, discount=m.discount) for k in range(1, len(grades) + 1)]
        return sum(value_in_order(ndcg, grades) for ndcg in cuts) / len(cuts)
    if m.kind == "nerr":
        err = metric(f"err@{m.k or len(grades)}", max_grade=m.max_grade)
        return value_in_order(err, grades) / max(value_in_order(err, other) for other in set(permutations(grades)))
    if m.kind == "err":
        total, reading = 0.0, 1.0
        for rank, grade in enumerate(grades[:cut], 1):
            stop = (2**grade - 1) / 2**m.max_grade
            total, reading = total + reading * stop / rank, reading * (1 - stop)
        return total
    hits = [grade >= m.relevant for grade in grades]
    if m.kind == "p":
        return sum(hits[:cut]) / {"k": m.k, "min": cut, "relevant": min(m.k, sum(hits))}[m.divisor]
    if m.kind == "wta":
        return float(hits[0])
    if m.kind == "rbp":
        worth = hits if m.worth == "binary" else [grade / max(1, *grades) for grade in grades]
        return (1 - m.p) * sum(one * m.p**i for i, one in enumerate(worth[:cut]))
    if m.kind == "mrr":
        return 1 / (hits.index(True) + 1) if True in hits[:cut] else 0.0
    precisions = sum(sum(hits[: i + 1]) / (i + 1) for i in range(cut) if hits[i])
    relevant = sum(hits)
    return precisions / (relevant if m.k is None or m.divisor == "all" else min(relevant, m.k))


def key_of(m, grade):
    return gain_of(m, grade) if m.gain is not None else grade


def value_by_definition(m, scores, grades):
    graded = m.relevant is None or m.worth == "scaled"
    gains = [key_of(m, g) if graded else g >= m.relevant for g in grades]
    if not any(gains):
        return math.nan if m.empty == "skip" else m.empty
    if m.short == "zero" and len(grades) < m.k:
        return 0.0
    blocks = [[g for s, g in zip(scores, grades, strict=True) if s == level] for level in sorted(set(scores))[::-1]]
    if m.ties == "worst":
        blocks = [sorted(block, key=lambda g: key_of(m, g)) for block in blocks]
    if m.ties != "average":
        return value_in_order(m, [g for block in blocks for g in block])
    orders = product(*(permutations(block) for block in blocks))
    values = [value_in_order(m, [g for block in order for g in block]) for order in orders]
    return sum(values) / len(values)


# -- against them ------------------------------------------------------------------------------------------------------


def metrics_of(spec, ties):
    """Metrics of this spec and ties with every other convention drawn."""
    m = metric(spec)
    names = [name for name in m.conventions if name not in ("p", "ties")]
    options = OPTIONS | {"divisor": DIVISORS.get(m.kind)}
    drawn = st.fixed_dictionaries({name: st.sampled_from(options[name]) for name in names})
    return drawn.map(lambda chosen: metric(spec, ties=ties, **chosen))


ONE_QUERY = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from([-math.inf, -1.0, 0.0, -0.0, 0.5, 2.0, math.inf]), min_size=n, max_size=n),
        st.lists(st.integers(0, 4), min_size=n, max_size=n),
    )
)


@pytest.mark.parametrize("ties", ["average", "input", "worst"])
@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_equals_its_definition(spec, ties, data):
    m = data.draw(metrics_of(spec, ties))
    queries = data.draw(st.lists(ONE_QUERY, min_size=1, max_size=3))
    scores = np.concatenate([s for s, _ in queries])
    grades = np.concatenate([g for _, g in queries])
    qid = np.repeat(np.arange(len(queries)), [len(s) for s, _ in queries])
    expected = [value_by_definition(m, s, g) for s, g in queries]
    np.testing.assert_allclose(m.per_query(scores, grades, qid=qid), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("ties", ["average", "input", "worst"])
@pytest.mark.parametrize("spec", ["ndcg@40", "dcg@33", "map@35", "mrr@40", "err@40", "p@50", "rbp"])
def test_deep_cut_offs_agree_with_a_plain_loop(spec, ties):
    """Ranks past the depth of insertion take the other way of sorting."""
    rng = np.random.default_rng(5)
    m = metric(spec, ties=ties)
    sizes = [1, 31, 32, 33, 60, 61, 200]
    for size in sizes:
        grades = rng.integers(0, 5, size).astype(float)
        grades[0] = 1.0
        scores = rng.permutation(size).astype(float) if ties == "average" else rng.integers(0, 9, size).astype(float)
        order = np.lexsort((grades if ties == "worst" else np.arange(size), -scores))
        best = dcg(m, np.sort(grades)[::-1].tolist()) if m.kind == "ndcg" else 1.0
        plain = metric(m.name.replace("ndcg", "dcg")) if m.kind == "ndcg" else m
        expected = value_in_order(plain, grades[order].tolist()) / best
        assert m(scores, grades, qid=np.zeros(size)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("ties", ["average", "input", "worst"])
@pytest.mark.parametrize("kind", ["ndcg", "dcg", "map", "mrr", "err", "p"])
def test_both_ways_of_sorting_agree_on_heavy_ties(kind, ties):
    """32 documents are inserted at k = 32; with 40 irrelevant ones below them they are merged at k = 40."""
    rng = np.random.default_rng(11)
    scores, grades = rng.integers(0, 4, 32).astype(float), rng.integers(0, 5, 32).astype(float)
    short = metric(f"{kind}@32", ties=ties).per_query(scores, grades, qid=np.zeros(32))[0]
    padded = np.concatenate([scores, np.full(40, -1.0)]), np.concatenate([grades, np.zeros(40)])
    wide = metric(f"{kind}@40", ties=ties).per_query(*padded, qid=np.zeros(72))[0]
    scale = 40 / 32 if kind == "p" else 1.0
    assert wide * scale == pytest.approx(short, rel=1e-12)


# -- properties --------------------------------------------------------------------------------------------------------

ALL = [metric(spec, ties=ties) for spec in SPECS for ties in ("average", "worst")]


def random_rows(seed, n_queries=12):
    rng = np.random.default_rng(seed)
    qid = np.repeat(rng.permutation(n_queries), rng.integers(1, 50, n_queries))
    scores = np.round(rng.normal(size=len(qid)), 1)
    return scores, rng.integers(0, 5, len(qid)) * rng.integers(0, 2, len(qid)), qid


@pytest.mark.parametrize("m", ALL, ids=str)
def test_order_of_rows_does_not_matter(m):
    scores, y, qid = random_rows(1)
    shuffle = np.random.default_rng(2).permutation(len(y))
    before = dict(zip(dict.fromkeys(qid.tolist()), m.per_query(scores, y, qid=qid), strict=True))
    queries = dict.fromkeys(qid[shuffle].tolist())
    after = dict(zip(queries, m.per_query(scores[shuffle], y[shuffle], qid=qid[shuffle]), strict=True))
    assert after == pytest.approx(before, rel=1e-13)
    assert m(scores, y, qid=qid) == pytest.approx(m(scores[shuffle], y[shuffle], qid=qid[shuffle]), rel=1e-13)


@pytest.mark.parametrize("m", ALL, ids=str)
def test_only_the_order_of_scores_matters(m):
    scores, y, qid = random_rows(3)
    np.testing.assert_array_equal(m.per_query(scores, y, qid=qid), m.per_query(np.exp(3 * scores) - 7, y, qid=qid))


@pytest.mark.parametrize("m", ALL, ids=str)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_lies_between_0_and_1(m, seed):
    scores, y, qid = random_rows(seed, 4)
    values = m.per_query(scores, y, qid=qid)
    assert (values >= 0).all()
    assert m.kind == "dcg" or (values <= 1).all()


@pytest.mark.parametrize("spec", ["ndcg", "ndcg@1", "ndcg@10", "map", "map@5", "mrr", "wta"])
@pytest.mark.parametrize("ties", ["average", "input", "worst"])
def test_perfect_ranking_scores_1(spec, ties):
    _, y, qid = random_rows(4)
    values = metric(spec, ties=ties, empty="skip").per_query(y, y, qid=qid)
    assert np.isnan(values).any() == any(y[qid == q].max() == 0 for q in set(qid))
    np.testing.assert_allclose(values[~np.isnan(values)], 1.0, rtol=1e-15)


@settings(max_examples=40, deadline=None)
@given(grades=st.lists(st.floats(0, 900), min_size=1, max_size=20), k=st.integers(1, 12))
def test_grades_may_be_real_and_large(grades, k):
    scores, qid = np.arange(len(grades)), np.zeros(len(grades))
    for gain in ("exp2", "linear"):
        value = metric(f"ndcg@{k}", gain=gain)(scores, grades, qid=qid)
        assert 0 <= value <= 1


def test_huge_grades_do_not_overflow_ndcg():
    grades = np.array([5000.0, 4999.0, 4000.0, 0.0])
    scores = np.array([1.0, 2.0, 3.0, 4.0])
    best = 1 + 0.5 / math.log2(3)
    expected = (0.5 / 2 + 1 / math.log2(5)) / best
    assert metric("ndcg")(scores, grades, qid=np.zeros(4)) == pytest.approx(expected, rel=1e-12)
    assert metric("ndcg@10")(scores[:2], [1000, 999], qid=[0, 0]) == pytest.approx((0.5 + 1 / math.log2(3)) / best)


@pytest.mark.parametrize("spec", ["ndcg", "ndcg@10", "p@10", "map", "mrr", "wta", "rbp", "err@10", "err"])
def test_long_tied_list_is_not_quadratic(spec):
    n = 100_000
    y = np.arange(n) % 5
    value = metric(spec)(np.zeros(n), y, qid=np.zeros(n, dtype=int))
    expected = {"p@10": 0.8, "wta": 0.8, "rbp": 0.8}
    assert value == pytest.approx(expected[spec], rel=1e-9) if spec in expected else 0 < value < 1


def test_err_of_long_tied_lists():
    """Against the full recurrence, and against equal grades, where order does not matter."""
    grades = np.random.default_rng(1).integers(0, 5, 300) * np.arange(300).clip(0, 3) / 3
    stops = (2**grades - 1) / 16
    means = np.zeros(301)
    means[0] = 1.0
    j = np.arange(1, 301)
    for n, stop in enumerate(stops, 1):
        means[1:] = np.where(j <= n, ((n - j) * means[1:] + j * (1 - stop) * means[:-1]) / n, 0.0)
    expected = ((means[:-1] - means[1:]) / j).sum()
    assert metric("err")(np.zeros(300), grades, qid=np.zeros(300)) == pytest.approx(expected, rel=1e-13)
    for grade in (1e-9, 0.5, 4):
        stop = (2.0**grade - 1) / 16
        expected = (stop * (1 - stop) ** (j - 1) / j).sum()
        tied = metric("err")(np.zeros(300), np.full(300, grade), qid=np.zeros(300))
        assert tied == pytest.approx(expected, rel=1e-12 if grade > 0.1 else 1e-6)


def test_a_rank_past_any_list_means_the_whole_list():
    scores, y, qid = random_rows(6)
    for kind in ("ndcg", "dcg", "map", "mrr", "err"):
        whole, beyond = metric(kind), metric(f"{kind}@{10**30}")
        np.testing.assert_array_equal(whole.per_query(scores, y, qid=qid), beyond.per_query(scores, y, qid=qid))
    assert metric(f"p@{10**30}", divisor="min")(scores, y, qid=qid) > metric(f"p@{10**30}")(scores, y, qid=qid) > 0


# -- queries, weights and rows -----------------------------------------------------------------------------------------

SCORES, GRADES, QID = (
    np.array([3.0, 2, 1, 2, 1, 5]),
    np.array([0, 1, 2, 0, 0, 1]),
    np.array(["b", "b", "b", "a", "a", "c"]),
)


def test_queries_come_in_order_of_first_appearance():
    assert metric("mrr").per_query(SCORES, GRADES, qid=QID).tolist() == [0.5, 0.0, 1.0]
    mixed = [5, 0, 3, 1, 4, 2]
    assert metric("mrr").per_query(SCORES[mixed], GRADES[mixed], qid=QID[mixed]).tolist() == [1.0, 0.5, 0.0]


def test_mean_leaves_out_skipped_queries_and_follows_weights():
    m, skip = metric("mrr"), metric("mrr", empty="skip")
    assert m(SCORES, GRADES, qid=QID) == pytest.approx(1.5 / 3)
    assert skip(SCORES, GRADES, qid=QID) == pytest.approx(1.5 / 2)
    assert m(SCORES, GRADES, qid=QID, query_weights=[2, 1, 5]) == pytest.approx((2 * 0.5 + 5) / 8)
    assert skip(SCORES, GRADES, qid=QID, query_weights=[2, 1, 5]) == pytest.approx((2 * 0.5 + 5) / 7)
    assert math.isnan(skip(SCORES, np.zeros(6), qid=QID))
    assert math.isnan(skip(SCORES, GRADES, qid=QID, query_weights=[0, 1, 0]))


def test_ranking_data_brings_queries_and_weights():
    weights = np.array([2.0, 2, 2, 1, 1, 5])
    data = RankingData.from_rows(np.zeros((6, 1)), GRADES, QID, sample_weight=weights)
    m = metric("mrr")
    assert m(SCORES, data) == m(SCORES, GRADES, qid=QID, query_weights=[2, 1, 5])
    assert m(SCORES, data, query_weights=[1, 1, 1]) == m(SCORES, GRADES, qid=QID)
    assert m.per_query(SCORES, data).tolist() == m.per_query(SCORES, GRADES, qid=QID).tolist()
    assert m.evaluate(SCORES, data.y, data.offsets).tolist() == m.per_query(SCORES, data).tolist()


def test_arguments_stay_as_they_were():
    arrays = SCORES.copy(), GRADES.copy(), QID.copy()
    for spec in SPECS:
        metric(spec, ties="worst")(SCORES, GRADES, qid=QID)
    for now, before in zip((SCORES, GRADES, QID), arrays, strict=True):
        assert (now == before).all()
        assert now.flags.writeable


def test_several_threads_give_the_same_values(monkeypatch):
    from gainful.compute import query_loop
    from gainful.metrics import kernels

    scores, y, qid = random_rows(8, 300)
    whole = [m.per_query(scores, y, qid=qid) for m in ALL]
    monkeypatch.setattr(kernels, "ROWS_PER_THREAD", 100)
    monkeypatch.setattr(query_loop, "thread_count", lambda: 7)
    for m, expected in zip(ALL, whole, strict=True):
        np.testing.assert_array_equal(m.per_query(scores, y, qid=qid), expected)


def test_one_signature_however_the_arrays_come():
    from gainful.metrics import kernels

    data = RankingData.from_rows(np.zeros((6, 1)), GRADES, QID)
    metric("ndcg@2")(SCORES, data)
    metric("ndcg")(SCORES.astype(np.float32), GRADES.tolist(), qid=QID)
    metric("p@2")(SCORES[::-1], GRADES[::-1], qid=QID[::-1])
    assert len(kernels.discounted_gain.signatures) == 1


def test_documents_with_equal_scores_stand_by_descending_id():
    m = metric("mrr", ties="docid")
    assert m([1, 1, 1], [1, 0, 0], qid=[0, 0, 0], doc_ids=["a", "c", "b"]) == pytest.approx(1 / 3)
    assert m([1, 1, 2], [1, 0, 0], qid=[0, 0, 0], doc_ids=["d", "c", "b"]) == pytest.approx(1 / 2)
    assert m([1, 1, 1], [1, 0, 0], qid=[0, 0, 0], doc_ids=[10, 9, 11]) == pytest.approx(1 / 3)  # as text
    assert m([1, 1, 1], [0, 1, 0], qid=[0, 0, 0]) == pytest.approx(1 / 2)  # without ids: the order of the rows
    assert m([1, 1 + 1e-9], [0, 1], qid=[0, 0], doc_ids=["b", "a"]) == pytest.approx(1 / 2)  # single precision
    data = RankingData.from_rows(np.zeros((3, 1)), [1, 0, 0], [7, 7, 7], doc_ids=["a", "c", "b"])
    assert m([1, 1, 1], data) == pytest.approx(1 / 3)


def test_many_python_threads_may_evaluate_at_once():
    rng = np.random.default_rng(0)
    scores, y, qid = rng.normal(size=90_000), rng.integers(0, 5, 90_000), np.arange(90_000) // 90
    m = metric("ndcg@10")
    expected = m(scores, y, qid=qid)
    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(lambda _: m(scores, y, qid=qid), range(24))) == {expected}
