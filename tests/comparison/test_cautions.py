"""What the number of queries cannot support is said in words, in the table and in the JSON."""

from __future__ import annotations

from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from comparison_examples import made_up
from scipy import stats

from gainful.comparison.further import Choices
from gainful.statistics.paired import holm


def test_too_few_queries_for_any_claim():
    found = made_up(["a", "b", "c", "d"], n_queries=6)
    # Six queries: 2 of 2⁶ patterns of signs are the most extreme, times three rankers.
    assert max(t.smallest_p for t in found.paired_tests.values()) >= 3 * 2 / 2**6
    sentence, intervals = found.cautions
    assert sentence.startswith("Too few test queries")
    assert "below 0.094 after Holm's correction over 3 rankers" in sentence
    assert all(found.verdict(label, "ndcg@10") == 0 for label in found.labels)
    assert intervals.startswith("6 test queries are few: with fewer than 20 and skewed values or differences")
    assert sentence in " ".join(found.table().split())
    assert found.to_dict()["cautions"] == [sentence, intervals]


def shown_everywhere(sentence, found) -> bool:
    """In the table, the report, Markdown, LaTeX and the JSON."""
    page = unescape(found.to_html())
    texts = (found.table(), page, found.to_markdown().replace("\\", ""), found.to_latex().replace("\\", ""))
    return all(sentence in " ".join(text.split()) for text in texts) and sentence in found.to_dict()["cautions"]


def test_intervals_from_few_queries_come_with_a_caution():
    found = made_up(["a", "b"], n_queries=19)
    (sentence,) = (line for line in found.cautions if line.startswith("19 test queries are few"))
    assert "a 95 % interval holds the true mean less often than it says, and a test at 0.05 calls" in sentence
    assert shown_everywhere(sentence, found)
    assert any(line.startswith("5 test queries are few") for line in made_up(["a"], n_queries=5).cautions)
    assert any("are few" in line for line in made_up(["a", "b"], n_queries=5, tests=()).cautions)
    assert not any("are few" in line for line in made_up(["a", "b"], n_queries=20).cautions)


def test_skewed_differences_come_with_a_caution():
    """Those of the baseline by default, those of any pair where all pairs are tested."""
    found = made_up(["a", "b", "c"], n_queries=60, noise=3.0)
    a, b, c = (found.runs[label][0].values[found.headline] for label in "abc")
    b[:] = a + 0.01 * np.linspace(-1, 1, 60)
    c[:] = a + np.where(np.arange(60) % 12 == 0, 0.4, -0.03)
    (sentence,) = (line for line in found.cautions if line.startswith("Skewed differences"))
    assert "on one side decide the mean of c against a. A test at 0.05 then calls equal means" in sentence
    assert shown_everywhere(sentence, found)
    pairs = replace(found, choices=Choices(all_pairs=True))
    (sentence,) = (line for line in pairs.cautions if line.startswith("Skewed differences"))
    assert "decide the mean of a against c and b against c" in sentence


def as_zeros_and_ones(found):
    """The same comparison with a headline that is 0 or 1 on every query."""
    for label in found.labels:
        values = found.runs[label][0].values[found.headline]
        values[:] = values > np.median(values)
    return found


def test_zeros_and_ones_need_no_caution_about_intervals():
    found = as_zeros_and_ones(made_up(["a", "b"], n_queries=9))
    assert found.is_binary("ndcg@10")
    assert not any("are few" in line or "Skewed" in line for line in found.cautions)
    values = found.per_query("b", "ndcg@10")
    exact = stats.binomtest(int(values.sum()), 9).proportion_ci(0.95, method="exact")
    assert found.interval("b", "ndcg@10") == (pytest.approx(exact.low), pytest.approx(exact.high))
    test = found.paired_tests["b", "ndcg@10"]
    won, lost = (test.wins + 1) / 11, (test.losses + 1) / 11
    half = stats.t.ppf(0.975, 10) * np.sqrt((won + lost - (won - lost) ** 2) / 10)
    assert test.interval == (pytest.approx(won - lost - half), pytest.approx(won - lost + half))
    assert found.to_dict()["intervals"]["exact"]["ndcg@10"] == ["a", "b"]
    assert "Intervals: Clopper-Pearson" in " ".join(found.table().split())
    assert found.interval("b", "map")[1] <= 1.0


def test_a_perfect_ranker_beside_one_that_is_not_has_no_point_interval():
    found = made_up(["a", "b"], n_queries=30)
    found.runs["b"][0].values[found.headline][:] = 1.0
    low, high = found.interval("b", "ndcg@10")
    assert (low, high) == (pytest.approx(0.025 ** (1 / 30)), 1.0)
    assert not any("no width" in line for line in found.cautions)
    assert "(Clopper-Pearson for b, always 0 or 1)" in " ".join(found.table().split())
    assert "a" not in found.to_dict()["intervals"]["exact"]["ndcg@10"]


def test_intervals_without_width_come_with_a_caution():
    found = made_up(["a", "b"], n_queries=30)
    for m in found.metrics[:2]:
        found.runs["b"][0].values[m][:] = found.runs["a"][0].values[m] + 0.1
    (sentence,) = (line for line in found.cautions if "no width" in line)
    assert sentence.startswith("Intervals of differences from a have no width for b (ndcg@10, ndcg@1): the test")
    assert shown_everywhere(sentence, found)
    found = made_up(["a", "b"], n_queries=30)
    found.runs["b"][0].values[found.headline][:] = 0.3
    (sentence,) = (line for line in found.cautions if "no width" in line)
    assert sentence.startswith("Intervals of means have no width for b (ndcg@10)")


def test_wilcoxon_alone_states_what_it_assumes():
    found = made_up(["a", "b"], n_queries=40, tests=("wilcoxon",))
    (sentence,) = (line for line in found.cautions if "Wilcoxon" in line)
    assert "assumes that differences are symmetric" in sentence
    assert shown_everywhere(sentence, found)
    assert not any("symmetric" in line for line in made_up(["a", "b"], n_queries=40).cautions)


def shifted(labels, wins, n_queries, **settings):
    """Rankers that differ from the first on the first ``wins[label]`` queries, always for the better."""
    found = made_up(labels, n_queries=n_queries, **settings)
    base = found.runs[labels[0]][0].values[found.headline]
    base[:] = np.linspace(0.1, 0.2, n_queries)
    for label in labels[1:]:
        found.runs[label][0].values[found.headline][:] = base + (np.arange(n_queries) < wins[label]) * (0.3 + base)
    return found


def test_a_marked_ranker_is_never_called_hopeless():
    """Six queries that differ suffice after two others were found different: Holm's last step multiplies by one."""
    found = shifted(["a", "b", "c", "d"], {"b": 30, "c": 30, "d": 6}, 30)
    test = found.paired_tests["d", "ndcg@10"]
    assert 3 * 2.0 ** (1 - 6) > 0.05  # the first step would not do
    assert test.smallest_p <= test.p_holm["randomization"] <= 0.05
    assert all(found.verdict(label, "ndcg@10") == 1 for label in "bcd")
    (sentence,) = found.cautions
    assert sentence.startswith("Tests and intervals of d against a may err more often than they say: only 6 of the")


def test_the_t_test_has_no_smallest_p():
    assert not any("Too few" in line for line in made_up(["a", "b"], n_queries=4, tests=("t",)).cautions)
    assert any("Too few" in line for line in made_up(["a", "b"], n_queries=4, tests=("wilcoxon",)).cautions)


def test_flips_that_bound_the_p_value_are_not_blamed_on_the_queries():
    labels = [f"r{i}" for i in range(12)]
    found = shifted(labels, dict.fromkeys(labels, 100), 100, alpha=0.001)
    (sentence,) = found.cautions
    assert sentence.startswith("Too few sign flips: the randomisation test draws 10,000, so no p-value of r1, r2, r3")
    assert "below 0.0011 after Holm's correction over 11 rankers" in sentence
    assert "queries" not in sentence


def test_an_unmarked_difference_is_undecided_and_says_what_these_queries_find():
    found = made_up(["a", "b"], n_queries=40, gain=0.2, seed=1)
    test = found.paired_tests["b", "ndcg@10"]
    assert abs(test.difference) < test.detectable
    (sentence,) = found.cautions
    assert sentence.startswith(
        "Undecided, not equal: b against a. With 40 test queries, a difference in ndcg@10 must be about"
    )
    assert f"{test.detectable:.3f}" in sentence
    assert sentence.endswith("this one is smaller. Four times as many queries find half the difference.")
    assert f"{test.difference:+.4f}" not in sentence  # how many queries it needs hangs on the difference itself


def test_a_marked_difference_needs_no_caution():
    found = made_up(["noise", "signal"], n_queries=60, noise=3.0)
    values = {run.label: run for runs in found.runs.values() for run in runs}
    values["signal"].values[found.headline][:] = values["noise"].values[found.headline] + np.linspace(0.05, 0.15, 60)
    assert found.verdict("signal", "ndcg@10") == 1
    assert found.cautions == ()


def test_rankers_that_are_equal_on_every_query_are_named():
    found = made_up(["a", "b"])
    a, b = (found.runs[label][0].values for label in "ab")
    for m in a:
        b[m][:] = a[m]
    same, width = found.cautions
    assert same == "b and a have the same ndcg@10 on every test query."
    assert width.startswith("Intervals of differences from a have no width for b (ndcg@10, ndcg@1, map, sum of")
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
