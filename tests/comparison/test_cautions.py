"""What the number of queries cannot support is said in words, in the table and in the JSON."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_examples import made_up

from gainful.comparison.statistics import holm


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


def shifted(labels, wins, n_queries, **settings):
    """Rankers that differ from the first on the first ``wins[label]`` queries, always for the better."""
    found = made_up(labels, n_queries=n_queries, **settings)
    base = found.runs[labels[0]][0].values[found.headline]
    base[:] = 0.2
    for label in labels[1:]:
        found.runs[label][0].values[found.headline][:] = base + (np.arange(n_queries) < wins[label]) * 0.3
    return found


def test_a_marked_ranker_is_never_called_hopeless():
    """Six queries that differ suffice after two others were found different: Holm's last step multiplies by one."""
    found = shifted(["a", "b", "c", "d"], {"b": 30, "c": 30, "d": 6}, 30)
    test = found.paired_tests["d", "ndcg@10"]
    assert 3 * 2.0 ** (1 - 6) > 0.05  # the first step would not do
    assert test.smallest_p <= test.p_holm["randomization"] <= 0.05
    assert all(found.verdict(label, "ndcg@10") == 1 for label in "bcd")
    assert found.cautions == ()


def test_the_t_test_has_no_smallest_p():
    assert not any("Too few" in line for line in made_up(["a", "b"], n_queries=4, tests=("t",)).cautions)
    assert any("Too few" in line for line in made_up(["a", "b"], n_queries=4, tests=("wilcoxon",)).cautions)


def test_flips_that_bound_the_p_value_are_not_blamed_on_the_queries():
    labels = [f"r{i}" for i in range(12)]
    found = shifted(labels, dict.fromkeys(labels, 90), 100, alpha=0.001)
    (sentence,) = found.cautions
    assert sentence.startswith("Too few sign flips: the randomisation test draws 10,000, so no p-value of r1, r2, r3")
    assert "below 0.0011 after Holm's correction over 11 rankers" in sentence
    assert "queries" not in sentence


def test_an_unmarked_difference_is_undecided_and_says_how_many_queries_it_needs():
    found = made_up(["a", "b"], n_queries=40, gain=0.2, seed=1)
    test = found.paired_tests["b", "ndcg@10"]
    assert abs(test.difference) < test.detectable
    (sentence,) = found.cautions
    assert sentence.startswith(
        "Undecided, not equal: b against a. With 40 test queries, differences in ndcg@10 below about"
    )
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


def test_no_caution_without_a_comparison():
    assert made_up(["a"]).cautions == ()
    assert made_up(["a", "b"], tests=()).cautions == ()


@pytest.mark.parametrize("test", ["t", "randomization"])
def test_marks_hold_for_the_whole_table(test):
    """The headline by Holm over the rankers; the others where it is marked, by Holm over rankers and other metrics."""
    found = made_up(["base", "b", "c", "d"], n_queries=50, tests=(test,), seed=8)
    labels, others = found.labels[1:], ("ndcg@1", "map")
    keys = [(label, m) for m in others for label in labels]
    over_all = dict(zip(keys, holm([found.paired_tests[key].p[test] for key in keys]), strict=True))
    withheld = []
    for label in labels:
        headline = found.paired_tests[label, "ndcg@10"]
        marked = headline.p_holm[test] <= 0.05
        assert found.mark(label, "ndcg@10") == (np.sign(headline.difference) if marked else 0)
        for m in others:
            expected = np.sign(found.paired_tests[label, m].difference) if marked and over_all[label, m] <= 0.05 else 0
            assert found.mark(label, m) == expected
            withheld.append(found.verdict(label, m) != 0 and expected == 0)
    told = {(t["ranker"], t["measure"]): t["marked"] for t in found.to_dict()["against_baseline"]}
    assert all(told[key] == (found.mark(*key) != 0) for key in keys)
    assert any(told[key] for key in keys)
    assert any(withheld)  # what each metric by itself would have called significant


def test_without_a_mark_on_the_headline_there_is_none_elsewhere():
    found = made_up(["a", "b"], n_queries=40)
    a, b = (found.runs[label][0].values for label in "ab")
    b[found.headline][:] = a[found.headline]
    other = found.metrics[2]
    b[other][:] = a[other] + 0.2
    assert found.verdict("b", "map") == 1
    assert found.mark("b", "map") == 0
