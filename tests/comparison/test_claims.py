"""What the number of queries cannot support is said in words, in the table and in the JSON."""

from __future__ import annotations

import numpy as np
from comparison_examples import made_up


def test_too_few_queries_for_any_claim():
    found = made_up(["a", "b", "c", "d"], n_queries=6)
    # Six queries: 2 of 2⁶ patterns of signs are the most extreme, times three rankers.
    assert max(t.smallest_p for t in found.paired_tests.values()) >= 3 * 2 / 2**6
    (sentence,) = found.cautions
    assert sentence.startswith("Too few test queries")
    assert "below 0.094 after Holm's correction over 3 rankers" in sentence
    assert all(found.verdict(label, "ndcg@10") == 0 for label in found.labels)
    assert sentence in " ".join(found.table().split())
    assert found.to_dict()["cautions"] == [sentence]


def test_an_unmarked_difference_is_undecided_and_says_how_many_queries_it_needs():
    found = made_up(["a", "b"], n_queries=40, gain=0.2, seed=1)
    test = found.paired_tests["b", "ndcg@10"]
    assert abs(test.difference) < test.detectable
    (sentence,) = found.cautions
    assert sentence.startswith("Undecided, not equal: b against a. 40 test queries usually (80% of the time) show")
    assert f"{test.detectable:.3f}" in sentence
    assert f"b's ({test.difference:+.4f}) needs about" in sentence
    assert test.queries_needed > 40


def test_a_marked_difference_needs_no_caution():
    found = made_up(["noise", "signal"], n_queries=60, noise=3.0)
    values = {run.label: run for runs in found.runs.values() for run in runs}
    better = np.clip(values["noise"].values[found.headline] + 0.3, 0, 2)
    values["signal"].values[found.headline][:] = better
    assert found.verdict("signal", "ndcg@10") == 1
    assert found.cautions == ()


def test_rankers_that_are_equal_on_every_query_are_named():
    found = made_up(["a", "b"])
    a, b = (found.runs[label][0].values for label in "ab")
    for m in a:
        b[m][:] = a[m]
    assert found.cautions == ("b and a have the same ndcg@10 on every test query.",)
    assert found.paired_tests["b", "ndcg@10"].interval == (0.0, 0.0)


def test_nothing_is_said_where_nothing_is_compared():
    assert made_up(["a"]).cautions == ()
    assert made_up(["a", "b"], tests=()).cautions == ()
