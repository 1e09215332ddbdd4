"""Off-policy estimates: unbiased by enumeration, exact by hand, and with intervals that hold."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

import gainful
from gainful.errors import DataError, DataWarning, ParameterError

QUIET = {"least_effective": 0, "interval": "normal"}

pytestmark = pytest.mark.filterwarnings("ignore:a few large weighted rewards decide")


def value_of(*args, **more):
    return gainful.estimate_value(*args, **(QUIET | more)).value


def probabilities(draw_from, n):
    drawn = np.array(draw_from[:n]) + 0.1
    return drawn / drawn.sum()


parts = st.lists(st.floats(0, 1), min_size=3, max_size=3)


# -- single slots ------------------------------------------------------------------------------------------------------


def test_by_hand():
    reward, policy, propensity = [1, 0, 1, 0], [0.8, 0.2, 0.4, 0.1], [0.5, 0.5, 0.1, 0.5]
    weights = [1.6, 0.4, 4.0, 0.2]
    assert value_of(reward, policy, "ips", propensity=propensity) == pytest.approx(5.6 / 4)
    assert value_of(reward, policy, "snips", propensity=propensity) == pytest.approx(5.6 / 6.2)
    assert value_of(reward, policy, "clipped", clip=2.0, propensity=propensity) == pytest.approx(3.6 / 4)
    found = gainful.estimate_value(reward, policy, "ips", propensity=propensity, **QUIET)
    values = np.array([1.6, 0, 4, 0])
    assert found.error == pytest.approx(values.std(ddof=1) / 2)
    assert found.high - found.value == pytest.approx(1.959964 * found.error, rel=1e-6)
    assert found.effective == pytest.approx(np.sum(weights) ** 2 / np.sum(np.square(weights)))
    assert found.mean_weight == pytest.approx(np.mean(weights))
    assert found.low == 0.0  # clicks are not negative


def test_doubly_robust_by_hand():
    every = np.array([[0.8, 0.2], [0.8, 0.2]])
    predicted = np.array([[0.5, 0.25], [0.5, 0.25]])
    found = value_of([1, 0], every, "dr", propensity=[0.5, 0.5], action=[0, 1], reward_model=predicted)
    expected = 0.8 * 0.5 + 0.2 * 0.25
    assert found == pytest.approx(expected + (1.6 * 0.5 + 0.4 * -0.25) / 2)


@settings(max_examples=30, deadline=None)
@given(parts, parts, parts, parts)
def test_unbiased_by_enumeration(logged, target, rewards, model):
    """The mean over all logs of two impressions, each as often as it is drawn, is the true value."""
    shown, wanted = probabilities(logged, 3), probabilities(target, 3)
    truth = float(wanted @ rewards)
    every = np.tile(wanted, (2, 1))
    mean = {"ips": 0.0, "dr": 0.0}
    for actions in itertools.product(range(3), repeat=2):
        action = np.array(actions)
        for method in mean:
            found = value_of(
                np.array(rewards)[action],
                every,
                method,
                propensity=shown[action],
                action=action,
                reward_model=np.tile(model, (2, 1)),
            )
            mean[method] += shown[action].prod() * found
    assert mean["ips"] == pytest.approx(truth, abs=1e-12)
    assert mean["dr"] == pytest.approx(truth, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 5), min_size=4, max_size=30), st.integers(0, 1000))
def test_snips_stays_among_the_rewards_and_shifts_with_them(rewards, seed):
    rng = np.random.default_rng(seed)
    n = len(rewards)
    policy, propensity = rng.uniform(0.05, 1, n), rng.uniform(0.05, 1, n)
    found = value_of(rewards, policy, "snips", propensity=propensity)
    assert min(rewards) - 1e-9 <= found <= max(rewards) + 1e-9
    moved = value_of(np.array(rewards) + 3.0, policy, "snips", propensity=propensity)
    assert moved == pytest.approx(found + 3.0)


def test_the_logged_policy_has_its_mean_reward():
    rng = np.random.default_rng(1)
    reward, propensity = rng.random(50), rng.uniform(0.1, 1, 50)
    for method in ("ips", "snips", "clipped"):
        found = gainful.estimate_value(reward, propensity, method, propensity=propensity, **QUIET)
        assert found.value == pytest.approx(reward.mean())
        assert found.error == pytest.approx(reward.std(ddof=1) / math.sqrt(50))
        assert found.effective == pytest.approx(50)


def test_error_of_snips_is_that_of_repeated_logs():
    rng = np.random.default_rng(2)
    shown, wanted, rate = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.5, 0.3])
    found = []
    for _ in range(400):
        action = rng.choice(3, size=300, p=shown)
        reward = (rng.random(300) < rate[action]).astype(float)
        one = gainful.estimate_value(reward, wanted[action], "snips", propensity=shown[action], **QUIET)
        found.append((one.value, one.error))
    values, errors = np.array(found).T
    assert values.mean() == pytest.approx(wanted @ rate, abs=0.006)
    assert errors.mean() == pytest.approx(values.std(), rel=0.12)


def test_a_good_reward_model_shortens_the_interval():
    rng = np.random.default_rng(3)
    action = rng.integers(4, size=2000)
    reward = np.array([1.0, 2.0, 3.0, 4.0])[action] + 0.01 * rng.normal(size=2000)
    every = np.tile([0.1, 0.1, 0.1, 0.7], (2000, 1))
    how = {"propensity": np.full(2000, 0.25), "action": action, **QUIET}
    plain = gainful.estimate_value(reward, every, "ips", **how)
    for model in ("mean", LinearRegression()):
        robust = gainful.estimate_value(reward, every, "dr", reward_model=model, **how)
        assert robust.value == pytest.approx(3.4, abs=4 * robust.error + 1e-3)
        assert robust.error < 0.2 * plain.error


def test_a_regressor_uses_the_context():
    rng = np.random.default_rng(4)
    context = rng.normal(size=(1000, 1))
    action = rng.integers(2, size=1000)
    reward = 5 * context[:, 0] + action
    every = np.tile([0.5, 0.5], (1000, 1))
    how = {"propensity": np.full(1000, 0.5), "action": action, "reward_model": LinearRegression(), **QUIET}
    blind = gainful.estimate_value(reward, every, "dr", **how)
    seeing = gainful.estimate_value(reward, every, "dr", context=context, **how)
    # The rewards vary with the context whatever the model knows; what it explains no longer varies by weight.
    assert seeing.value == pytest.approx(5 * context.mean() + 0.5, abs=1e-9)
    assert abs(blind.value - seeing.value) > 1e-6


def test_bootstrap_intervals_hold_where_rewards_are_rare():
    rng = np.random.default_rng(5)
    shown, wanted, rate = np.array([0.9, 0.1]), np.array([0.3, 0.7]), np.array([0.02, 0.05])
    truth, hits = wanted @ rate, 0
    for trial in range(120):
        action = rng.choice(2, size=600, p=shown)
        reward = (rng.random(600) < rate[action]).astype(float)
        found = gainful.estimate_value(
            reward, wanted[action], propensity=shown[action], resamples=200, least_effective=0, seed=trial
        )
        hits += found.low <= truth <= found.high
    assert hits >= 0.9 * 120


def test_bootstrap_repeats_with_its_seed():
    rng = np.random.default_rng(6)
    reward, policy = rng.random(200), rng.uniform(0.2, 0.8, 200)
    one, same, other = (
        gainful.estimate_value(reward, policy, propensity=np.full(200, 0.5), resamples=100, seed=seed)
        for seed in (1, 1, 2)
    )
    assert one == same
    assert (one.low, one.high) != (other.low, other.high)


def test_warns_when_the_log_is_effectively_small():
    with pytest.warns(DataWarning, match="effective size of 1"):
        gainful.estimate_value([1.0] * 50, [1.0] + [0.001] * 49, propensity=[0.01] + [0.5] * 49, interval="normal")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gainful.estimate_value([1.0] * 150, [0.5] * 150, propensity=[0.5] * 150, interval="normal")


def test_warns_when_hardly_anything_was_earned():
    reward = [1.0] * 9 + [0.0] * 191
    with pytest.warns(DataWarning, match="9 of 200 pages have a reward that counts for this policy, fewer than 10"):
        gainful.estimate_value(reward, [0.5] * 200, propensity=[0.5] * 200, interval="normal")


def test_warns_of_a_normal_interval_where_few_rewards_decide():
    """It is too short where clicks are rare; the bootstrap is not, and a long log is normal enough."""
    rng = np.random.default_rng(0)
    for n, interval, warned in ((1000, "normal", True), (1000, "bootstrap", False), (20_000, "normal", False)):
        policy = np.where(rng.random(n) < 0.1, 0.9, 0.1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DataWarning)
            gainful.estimate_value(rng.random(n) < 0.05, policy, propensity=np.full(n, 0.2), interval=interval)
        assert [str(one.message).endswith('interval="bootstrap" is not') for one in caught] == [True] * warned


# -- rankings ----------------------------------------------------------------------------------------------------------


def all_pages(n_documents, length):
    return np.array(list(itertools.permutations(range(n_documents), length)))


def conditional(strength, pages):
    """Plackett and Luce: the probability of each document, given those above."""
    found = np.empty(pages.shape)
    for i, page in enumerate(pages):
        left = strength.sum()
        for k, document in enumerate(page):
            found[i, k] = strength[document] / left
            left -= strength[document]
    return found


@pytest.mark.parametrize("assumption", ["cascade", "list"])
def test_rankings_are_unbiased_if_the_assumption_holds(assumption):
    """All pages, each as often as it is drawn: a log in which every page stands once per 1/1000 of its probability."""
    pages = all_pages(4, 3)
    shown, wanted = conditional(np.array([1.0, 2, 3, 4]), pages), conditional(np.array([4.0, 1, 2, 1]), pages)
    above = np.array([0.1, 0.4, 0.7, 0.9])
    reward = np.empty(pages.shape)
    for i, page in enumerate(pages):
        for k, document in enumerate(page):
            reward[i, k] = above[document] * np.prod(1 - above[page[:k]])  # a user who stops at the first click
            if assumption == "list":
                reward[i, k] += (page[-1] == 0) * 0.3
    truth = float(wanted.prod(axis=1) @ reward.sum(axis=1))
    each = [
        value_of(reward[i : i + 1], wanted[i : i + 1], "ips", propensity=shown[i : i + 1], assumption=assumption)
        for i in range(len(pages))
    ]
    assert float(shown.prod(axis=1) @ each) == pytest.approx(truth)
    wrong = [
        value_of(reward[i : i + 1], wanted[i : i + 1], "ips", propensity=shown[i : i + 1], assumption="independent")
        for i in range(len(pages))
    ]
    assert abs(float(shown.prod(axis=1) @ wrong) - truth) > 0.01


def every_document(strength, pages):
    """Plackett and Luce: the probability of every document in each place, given those above."""
    found = np.tile(strength, (*pages.shape, 1))
    for k in range(1, pages.shape[1]):
        for above in range(k):
            found[np.arange(len(pages)), k, pages[:, above]] = 0.0
    return found / found.sum(axis=2, keepdims=True)


def users_who_stop(pages, chance):
    """The expected clicks of users who stop at the first one."""
    wanted = chance[pages]
    return wanted * np.cumprod(np.column_stack([np.ones(len(pages)), 1 - wanted[:, :-1]]), axis=1)


@pytest.mark.parametrize("seed", [0, 1])
def test_doubly_robust_cascade_is_unbiased_whatever_the_model(seed):
    pages, rng = all_pages(4, 3), np.random.default_rng(seed)
    shown, every = conditional(np.array([1.0, 2, 3, 4]), pages), every_document(np.array([4.0, 1, 2, 1]), pages)
    wanted = np.take_along_axis(every, pages[:, :, None], axis=2)[:, :, 0]
    assert wanted == pytest.approx(conditional(np.array([4.0, 1, 2, 1]), pages))
    reward = users_who_stop(pages, np.array([0.1, 0.4, 0.7, 0.9]))
    truth = float(wanted.prod(axis=1) @ reward.sum(axis=1))
    model = rng.normal(size=(4, 4, 3, 4))  # a prediction depends on the documents above, here on the last one
    mean = 0.0
    for i, page in enumerate(pages):
        above = np.array([0, page[0], page[1]])
        predicted = model[above, 0, np.arange(3)]
        how = {"propensity": shown[i : i + 1], "action": page[None], "assumption": "cascade"}
        mean += shown[i].prod() * value_of(reward[i : i + 1], every[i : i + 1], "dr", reward_model=predicted, **how)
    assert mean == pytest.approx(truth)


def test_doubly_robust_cascade_by_hand():
    every = np.array([[[0.5, 0.5], [0.0, 1.0]]])
    predicted = np.array([[0.8, 0.4], [0.0, 0.3]])
    how = {"propensity": np.array([[0.25, 0.5]]), "action": np.array([[0, 1]]), "assumption": "cascade"}
    found = value_of(np.array([[1.0, 0.0]]), every, "dr", reward_model=predicted, **how)
    # Weights 2 and 4: 2 (1 − 0.8) + 0.6, and 4 (0 − 0.3) + 2 · 0.3.
    assert found == pytest.approx(0.4 + 0.6 - 1.2 + 0.6)


def test_doubly_robust_cascade_varies_less_than_weights_alone():
    data = gainful.make_artificial(3, n_docs=6, seed=1)
    rng = np.random.default_rng(2)
    old = rng.normal(size=data.n_rows)
    new = old + 0.5 * data.y
    log = gainful.simulate_clicks(data, "cascade", ranker=old, sessions=1200, length=3, temperature=1.0, seed=3)
    shown = gainful.ranking_probabilities(log, data, old)
    every = gainful.ranking_probabilities(log, data, new, every=True)
    assert every.sum(axis=1) == pytest.approx(np.ones(log.n_rows))
    assert every[np.arange(log.n_rows), log.document] == pytest.approx(gainful.ranking_probabilities(log, data, new))
    how = {"assumption": "cascade", "propensity": shown, **QUIET}
    plain, robust = (gainful.estimate_value(log, every, method, **how) for method in ("ips", "dr"))
    assert robust.error < 0.8 * plain.error
    assert robust.value == pytest.approx(plain.value, abs=3 * plain.error)
    truth = gainful.simulate_clicks(data, "cascade", ranker=new, sessions=20_000, length=3, temperature=1.0, seed=4)
    assert robust.value == pytest.approx(truth.n_clicks / truth.n_pages, abs=4 * robust.error)
    again = gainful.estimate_value(log, every, "dr", reward_model=LinearRegression(), folds=2, **how)
    assert again.error < plain.error


def test_independent_slots_are_unbiased():
    """Each slot draws its own document; rewards depend on the document and the slot."""
    shown, wanted = np.array([[0.6, 0.4], [0.3, 0.7]]), np.array([[0.1, 0.9], [0.5, 0.5]])
    rate = np.array([[0.2, 0.6], [0.1, 0.3]])
    truth = float((wanted * rate).sum())
    mean = 0.0
    for page in itertools.product(range(2), repeat=2):
        rows = np.arange(2), np.array(page)
        found = value_of(rate[rows][None], wanted[rows][None], "ips", propensity=shown[rows][None])
        mean += shown[rows].prod() * found
    assert mean == pytest.approx(truth)


def test_cascade_by_hand():
    reward = np.array([[1.0, 0.0], [0.0, 1.0]])
    policy, propensity = np.array([[0.5, 1.0], [0.5, 0.5]]), np.array([[0.25, 0.5], [0.5, 0.25]])
    how = {"propensity": propensity, "assumption": "cascade"}
    # Ratios 2, 2 and 1, 2; products 2, 4 and 1, 2.
    assert value_of(reward, policy, "ips", **how) == pytest.approx((2 + 2) / 2)
    assert value_of(reward, policy, "snips", **how) == pytest.approx(2 / 3 + 2 / 6)
    how["assumption"] = "list"
    assert value_of(reward, policy, "snips", **how) == pytest.approx(4 / 6 + 2 / 6)
    assert gainful.estimate_value(reward, policy, "ips", **how, **QUIET).effective == pytest.approx(36 / 20)


def small_log(**more):
    columns = {
        "session": [1, 1, 2, 2, 3],
        "query": ["q"] * 5,
        "position": [1, 2, 1, 2, 1],
        "document": ["a", "b", "b", "a", "c"],
        "clicked": [1, 0, 0, 1, 1],
        "propensity": [0.5, 0.5, 0.25, 0.5, 0.25],
    }
    return gainful.ClickLog.from_rows(**(columns | more))


def test_a_click_log_with_pages_of_several_lengths():
    log = small_log()
    policy = {"a": 0.5, "b": 0.25, "c": 0.25}
    # Weights 1, 0.5; 1, 1; 1.
    assert value_of(log, policy, "ips") == pytest.approx(3 / 3)
    assert value_of(log, policy, "snips") == pytest.approx(1 * (2 / 3) + (2 / 3) * (1 / 1.5))
    assert value_of(log, lambda log: np.ones(log.n_rows) * log.propensity, "snips") == pytest.approx(1.0)
    assert value_of(log, policy, "ips", reward=[2.0, 0, 0, 2, 2]) == pytest.approx(2.0)
    assert value_of(log, policy, "dr", reward_model=np.zeros((5, 3))) == pytest.approx(1.0)


def test_pages_of_a_session_are_one_unit():
    reward, policy, propensity = [1, 1, 0, 0], [0.5] * 4, [0.5] * 4
    columns = {"query": list("abcd"), "position": [1] * 4, "document": list("wxyz"), "clicked": reward}
    columns["propensity"] = propensity
    together = gainful.ClickLog.from_rows(session=[1, 1, 2, 2], **columns)
    apart = gainful.ClickLog.from_rows(session=[1, 2, 3, 4], **columns)
    both, each = (gainful.estimate_value(log, policy, "ips", **QUIET) for log in (together, apart))
    assert both.value == each.value == 0.5
    assert both.error == pytest.approx(0.5)  # two sessions, of means 1 and 0
    assert each.error == pytest.approx(math.sqrt(1 / 12))


# -- mistakes ----------------------------------------------------------------------------------------------------------


def test_mistakes_are_one_clear_line():
    log = small_log()
    with pytest.raises(ParameterError, match="method of estimate_value must be 'ips' or"):
        gainful.estimate_value(log, {}, "magic")
    with pytest.raises(DataError, match="has no propensity, the probability"):
        gainful.estimate_value(small_log(propensity=None), {"a": 1.0})
    with pytest.raises(DataError, match="must lie between 0 and 1"):
        gainful.estimate_value(log, [2.0] * 5)
    with pytest.raises(DataError, match="shows nothing that the log shows in slot 2"):
        gainful.estimate_value(log, {"c": 1.0})
    with pytest.raises(ParameterError, match="needs the probability of every document"):
        gainful.estimate_value(log, [0.5] * 5, "dr")
    with pytest.raises(ParameterError, match="independent or cascade for method='dr'"):
        gainful.estimate_value(log, {"a": 1.0}, "dr", assumption="list")
    with pytest.raises(DataError, match=r"policy has the shape \(3,\), the rewards have \(2,\)"):
        gainful.estimate_value([1, 0], [0.1, 0.1, 0.1], propensity=[0.5, 0.5])
    with pytest.raises(DataError, match="propensity of row 1 must be a probability above 0"):
        gainful.estimate_value([1, 0], [0.1, 0.1], propensity=[0.5, 0.0])
    with pytest.raises(DataError, match=r"the rewards must be an array of numbers, was 'log.csv'"):
        gainful.estimate_value("log.csv", [0.1], propensity=[0.5])
    with pytest.raises(ParameterError, match="needs a click log, which knows its documents"):
        gainful.estimate_value([1, 0], {"a": 0.1}, propensity=[0.5, 0.5])
    with pytest.raises(ParameterError, match="needs propensity"):
        gainful.estimate_value([1, 0], [0.1, 0.1])


# -- rankers as policies -----------------------------------------------------------------------------------------------


def test_probabilities_of_pages_add_up_and_agree_with_plackett_and_luce():
    data = gainful.make_artificial(1, n_docs=4, seed=1)
    scores = np.array([0.3, -1.0, 2.0, 0.5])
    pages = all_pages(4, 3)
    log = gainful.ClickLog.from_rows(
        session=np.repeat(np.arange(len(pages)), 3),
        query=np.repeat(data.query_ids, pages.size),
        position=np.tile([1, 2, 3], len(pages)),
        document=pages.ravel() if data.doc_ids is None else data.doc_ids[pages.ravel()],
        clicked=np.zeros(pages.size),
    )
    found = gainful.ranking_probabilities(log, data, scores, temperature=0.5).reshape(pages.shape)
    assert found == pytest.approx(conditional(np.exp(scores / 0.5), pages))
    assert found.prod(axis=1).sum() == pytest.approx(1.0)
    certain = gainful.ranking_probabilities(log, data, scores, temperature=0.0).reshape(pages.shape)
    assert pages[certain.prod(axis=1) == 1.0].tolist() == [[2, 3, 0]]


def test_a_ranker_is_valued_from_the_log_of_another():
    """Clicks of simulated users on shuffled pages of one ranker give the clicks per page of another."""
    data = gainful.make_artificial(10, n_docs=6, seed=2)
    rng = np.random.default_rng(1)
    old, new = rng.normal(size=data.n_rows), data.y + 0.3 * rng.normal(size=data.n_rows)
    how = {"length": 3, "temperature": 1.0}
    shown = gainful.simulate_clicks(data, "cascade", ranker=old, sessions=20_000, seed=3, **how)
    truth = gainful.simulate_clicks(data, "cascade", ranker=new, sessions=20_000, seed=4, **how)
    found = gainful.estimate_value(
        shown,
        gainful.ranking_probabilities(shown, data, new),
        assumption="cascade",
        propensity=gainful.ranking_probabilities(shown, data, old),
        interval="normal",
    )
    clicks = truth.n_clicks / truth.n_pages
    assert found.value == pytest.approx(clicks, abs=4 * found.error)
    assert abs(shown.n_clicks / shown.n_pages - clicks) > 8 * found.error


def test_a_document_outside_the_data_is_named():
    data = gainful.make_artificial(2, n_docs=4, seed=1)
    log = gainful.ClickLog.from_rows(
        session=[1], query=[data.query_ids[0]], position=[1], document=["nowhere"], clicked=[0]
    )
    with pytest.raises(DataError, match=r"document nowhere of query .* is in the log and not in the data"):
        gainful.ranking_probabilities(log, data)


def test_propensities_of_another_kind_warn():
    """Probabilities of being examined, where those of being shown are needed."""
    rng = np.random.default_rng(1)
    shown = rng.integers(4, size=(500, 2))
    new = np.array([0.4, 0.3, 0.2, 0.1])[shown]
    clicked = rng.random((500, 2)) < 0.3
    with pytest.warns(DataWarning, match="the mean weight is 0.3.*, and should be close to 1"):
        gainful.estimate_value(clicked, new, "ips", propensity=np.tile([1.0, 0.6], (500, 1)), interval="normal")
    found = gainful.estimate_value(clicked, new, "ips", propensity=np.full((500, 2), 0.25), interval="normal")
    assert found.mean_weight == pytest.approx(1.0, abs=0.1)


# -- what is no policy, and what is no number --------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=4, max_size=4))
def test_probabilities_that_add_up_to_more_than_1_are_refused(rows):
    """In any row of a table; as a dictionary they are those of every row."""
    total = max(map(sum, rows))
    reward, propensity, action = [1, 0, 1, 0], [0.5] * 4, [0, 1, 2, 0]

    def value():
        return gainful.estimate_value(
            reward, rows, "ips", propensity=propensity, action=action, least_effective=0, resamples=100
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if total > 1.001:
            with pytest.raises(DataError, match=rf"add up to {total:.6g} in row \d"):
                value()
        elif total <= 1.0:
            assert value().value >= 0.0


def test_a_table_of_what_is_wanted_is_no_policy():
    log = gainful.simulate_clicks(gainful.make_artificial(3, n_docs=5, seed=1), "pbm", sessions=50, length=3)
    with pytest.raises(DataError, match="a ranker is a policy by ranking_probabilities"):
        gainful.estimate_value(log, np.ones((log.n_rows, len(log.document_ids))), propensity=np.full(log.n_rows, 0.5))
    with pytest.raises(DataError, match="add up to 15"):
        gainful.estimate_value(log, dict.fromkeys(log.document_ids.tolist(), 1.0), propensity=np.full(log.n_rows, 0.5))


@pytest.mark.parametrize("method", ["ips", "clipped", "snips"])
@pytest.mark.parametrize("interval", ["normal", "bootstrap"])
@pytest.mark.parametrize("wrong", [{"propensity": 1e-320}, {"propensity": 1e-200}, {"reward": 1e300}])
def test_overflow_is_said(method, interval, wrong):
    reward, propensity = np.ones(20), np.full(20, 0.5)
    reward[3], propensity[3] = wrong.get("reward", 1.0), wrong.get("propensity", 0.5)
    with pytest.raises(DataError, match="the estimate overflows: row 3 has the weight"):
        gainful.estimate_value(reward, np.full(20, 0.5), method, propensity=propensity, interval=interval)


@pytest.mark.parametrize("masked", ["reward", "policy", "propensity", "action"])
def test_masked_entries_are_refused(masked):
    mask = np.ma.masked_array
    given = {"reward": [1.0, 0.0, 1.0], "policy": [[0.5, 0.5]] * 3, "propensity": [0.5] * 3, "action": [0, 1, 0]}
    hidden = np.zeros(np.shape(given[masked]), dtype=bool)
    hidden[1] = True
    given[masked] = mask(given[masked], mask=hidden)
    with pytest.raises(DataError, match="of row 1 is masked"):
        gainful.estimate_value(given["reward"], given["policy"], propensity=given["propensity"], action=given["action"])
