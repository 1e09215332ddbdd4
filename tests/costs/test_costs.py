"""The estimate of what a training costs: its laws hold exactly, its constants fit the rankers."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gainful
from gainful import GainfulError, ParameterError, cli
from gainful.costs import model as costs
from gainful.costs.model import TERMS, Problem, estimate

CAPPED = {"one", "drawn bins", "drawn values", "drawn squares"}  # do not grow with the rows, or not for ever
SIZES = {"rows": 1e6, "features": 136.0}


@pytest.fixture
def two_terms(monkeypatch):
    """A ranker that costs 2 + 3n once and 5nd + 7nq an iteration, of which three quarters are shared by threads."""
    cost = {"setup": {"one": 2.0, "rows": 3.0}, "iteration": {"values": 5.0, "pairs": 7.0}, "bytes": {"rows": 11.0},
            "parallel": 0.75, "counted by": ["max_iter"]}  # fmt: skip
    monkeypatch.setattr(costs, "costs", lambda: {"ranknet": cost, "lambdamart": cost | {"counted by": ["n_trees"]}})
    return cost


def test_it_is_the_sum_of_constants_times_terms(two_terms):
    found = estimate("ranknet", rows=10, features=4, docs_per_query=5, max_iter=6)
    assert found.setup_seconds == 2.0 + 3.0 * 10
    assert found.iteration_seconds == 5.0 * 10 * 4 + 7.0 * 10 * 5
    assert found.iterations == 6
    assert found.seconds == found.setup_seconds + 6 * found.iteration_seconds
    assert (found.bytes, found.data_bytes) == (110.0, 10 * (4 * 4 + 8))


def test_several_cores_follow_amdahl(two_terms):
    one = estimate("ranknet", rows=10, features=4, iterations=6)
    four = estimate("ranknet", rows=10, features=4, iterations=6, cores=4)
    assert four.seconds == pytest.approx((0.25 + 0.75 / 4) * one.seconds, rel=1e-12)
    assert four.bytes == one.bytes
    assert four.note == one.note == ""


def test_threads_of_the_ranker_are_its_cores(two_terms):
    def of(**given):
        return estimate("lambdamart", rows=10, features=4, **given)

    assert of(n_jobs=4) == of(cores=4) == of(cores=8, n_jobs=4) == of(cores=4, n_jobs=-1)
    assert of(n_jobs=4).seconds < of(n_jobs=2).seconds < of().seconds == of(n_jobs=1).seconds


def test_cores_are_not_mentioned_if_two_threads_were_not_measured(two_terms):
    two_terms["parallel"] = None
    one, four = (estimate("ranknet", rows=10, features=4, cores=cores) for cores in (1, 4))
    assert four.seconds == one.seconds
    assert (one.note, four.note) == ("", costs._on_cores(None, 4)[1])
    assert "the gain from more cores was not measured for this ranker" in str(four)


def test_a_query_is_at_most_as_long_as_the_data(two_terms):
    assert estimate("ranknet", rows=10, features=4, docs_per_query=5000) == estimate(
        "ranknet", rows=10, features=4, docs_per_query=10
    )


def test_solvers_that_stop_by_themselves_count_what_was_seen(two_terms):
    two_terms["seen"] = 40
    for asked, count, is_guess in (({}, 40, True), ({"max_iter": 30}, 30, False), ({"iterations": 90}, 90, False)):
        found = estimate("ranknet", rows=10, features=4, **asked)
        assert (found.iterations, found.is_guess) == (count, is_guess)


@given(
    rows=st.floats(1e3, 1e12),
    features=st.floats(1, 1e4),
    docs=st.floats(2, 1e4),
    factor=st.floats(1, 1e3),
    term=st.sampled_from(sorted(set(TERMS) - CAPPED)),
)
def test_terms_are_linear_in_rows(rows, features, docs, factor, term):
    params = {"n_leaves": 31, "hidden": (64, 8), "n_landmarks": 500}
    small, large = (Problem(n, features, docs, 5, params) for n in (rows, factor * rows))
    assert TERMS[term](large) == pytest.approx(factor * TERMS[term](small), rel=1e-9)


def test_terms_by_their_formulas():
    p = Problem(8.0, 3.0, 4.0, 5.0, {"n_leaves": 16, "colsample": 0.5, "hidden": (6, 2), "n_landmarks": 2})
    expected = {
        "values": 8 * 3, "squares": 8 * 9, "sorted": 8 * 2, "sorted values": 8 * 3 * 2, "pairs": 8 * 4, "queries": 2,
        "query values": 6, "split values": 8 * 3 * 0.5 * 4, "split rows": 8 * 4, "layers": 8 * (3 * 6 + 6 * 2 + 2),
        "landmarks": 8 * 2, "mapped": 8 * 2 * (3 + 2),
    }  # fmt: skip
    assert {name: TERMS[name](p) for name in expected} == expected


def test_trees_of_mcrank_are_counted_by_class():
    trees = {name: estimate(name, **SIZES, grades=3).iteration_seconds for name in ("mcrank", "mcrank-ordinal")}
    for name, each in (("mcrank", 3), ("mcrank-ordinal", 2)):
        one = estimate(name, **SIZES, grades=3, max_classes=2).iteration_seconds
        assert trees[name] == pytest.approx(each * one / {"mcrank": 2, "mcrank-ordinal": 1}[name], rel=1e-12)


def test_twice_the_trees_take_twice_as_long():
    one, two = (estimate("lambdamart", **SIZES, n_trees=n) for n in (100, 200))
    assert two.seconds - two.setup_seconds == pytest.approx(2 * (one.seconds - one.setup_seconds), rel=1e-12)
    assert estimate("lambdamart", **SIZES, n_leaves=255).seconds > estimate("lambdamart", **SIZES).seconds


# -- the constants -----------------------------------------------------------------------------------------------------


def test_a_ranker_without_constants_is_named(monkeypatch):
    monkeypatch.setattr(costs, "costs", dict)
    with pytest.raises(GainfulError, match=r"^the cost of ranknet was not measured, .*bench_cost\.py measures it$"):
        estimate("ranknet", **SIZES)


def test_constants_belong_to_rankers():
    assert len(costs.costs()) > 30
    assert set(costs.costs()) <= set(gainful.RANKERS)


@pytest.mark.parametrize("name", costs.costs())
def test_constants_give_sensible_estimates(name):
    cost = costs.costs()[name]
    for part in ("setup", "iteration", "bytes"):
        assert set(cost[part]) <= set(TERMS)
        assert all(constant > 0 for constant in cost[part].values())
    assert cost["setup"] or cost["iteration"]
    assert cost["parallel"] is None or 0.0 <= cost["parallel"] <= 1.0
    assert set(cost["counted by"]) <= set(gainful.RANKERS[name].cls.parameters)
    found = [estimate(name, rows=10.0**k, features=136) for k in (4, 5, 6, 9)]
    for less, more in pairwise(found):
        assert math.isfinite(more.seconds)
        assert less.seconds < more.seconds
        assert less.bytes < more.bytes
    assert estimate(name, rows=1e6, features=300).seconds > found[2].seconds
    four = estimate(name, rows=1e6, features=136, cores=4)
    assert four.seconds < found[2].seconds or four.note or cost["parallel"] == 0.0
    assert bool(four.note) == (cost["parallel"] is None)


@pytest.mark.parametrize("name", costs.costs())
def test_the_time_grows_at_most_linearly_with_the_rows(name):
    one, ten = (estimate(name, rows=n, features=136) for n in (1e8, 1e9))
    assert ten.seconds <= 10 * one.seconds * (1 + 1e-12)


# -- what is asked, and how it is answered -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "lambdmart"}, "did you mean 'lambdamart'"),
        ({"rows": 0}, r"rows of the estimate must be a number in \[1, 1e\+15\], was 0"),
        ({"rows": math.inf}, "rows of the estimate must be"),
        ({"features": 1e200}, r"features of the estimate must be a number in \[1, 1e\+15\], was 1e\+200"),
        ({"cores": "two"}, "cores of the estimate must be"),
        ({"iterations": 0}, "iterations of the estimate must be"),
        ({"n_tree": 5}, "did you mean 'n_trees'"),
        ({"n_trees": -5}, "n_trees of LambdaMART must be"),
    ],
)
def test_mistakes_are_explained(given, said):
    with pytest.raises(ParameterError, match=said):
        estimate(**({"name": "lambdamart"} | SIZES | given))


def test_a_guess_is_marked_as_one():
    """A time of a whole training would be taken for a forecast."""
    text = str(costs.Estimate("rankmm-1", 2, 0.5, 0.9, 5.8e9, 5.5e11, is_guess=True))
    assert text == (
        "rankmm-1: about 0.9 s per iteration after 0.5 s; the number of iterations depends on the data: 2 iterations, "
        "as on an easy set, would take 2.3 s; 5.8 GB besides 550 GB of data"
    )
    assert "the number of iterations depends on the data" in str(estimate("rankmm-1", rows=1e9, features=136))


def test_a_line_says_it():
    text = str(costs.Estimate("ranknet", 30, 2.0, 7.5, 3e9, 5.5e11))
    assert text == "ranknet: about 3.8 minutes (30 iterations of 7.5 s after 2 s), 3 GB besides 550 GB of data"
    once = str(costs.Estimate("regression", 1, 0.0123, 0.0, 4.2e6, 9e3))
    assert once == "regression: about 12 ms (one pass), 4.2 MB besides 9 kB of data"


def test_the_command_line_estimates(capsys):
    command = ["rankers", "lambdamart", "--estimate", "rows=1e8,features=136,cores=2,n_trees=50"]
    assert cli.run(command) == 0
    expected = estimate("lambdamart", rows=1e8, features=136, cores=2, n_trees=50)
    assert capsys.readouterr().out.strip() == str(expected)
    assert cli.run([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["seconds"] == pytest.approx(expected.seconds)
    assert told["iterations"] == 50


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--estimate", "rows=1e6,features=5"], "--estimate needs a ranker"),
        (["ranknet", "--estimate", "rows=1e6"], "--estimate must give features=…"),
        (
            ["ranknet", "--estimate", "rows=many,features=5"],
            "rows of ranknet must be a number in [1, 1e+15], was 'many'",
        ),
        (["ranknet", "--estimate", "row=5,features=5"], "did you mean 'rows'"),
        (["ranknt", "--estimate", "rows=5,features=5"], "did you mean 'ranknet'"),
    ],
)
def test_the_command_line_tells_mistakes(capsys, arguments, said):
    assert cli.run(["rankers", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
