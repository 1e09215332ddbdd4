"""Click models against stories that enumerate every course of a page, and their promises."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_models import STORIES, click_chances, em_step, keys_of, log_likelihood, objective, pages_of, theta_of

import gainful
from gainful import ClickLog, DataWarning, ParameterError, click_model
from gainful.clicks.index import PageIndex
from gainful.clicks.registry import CLICK_MODELS
from gainful.compute.estimators import NotFittedError

EM = [name for name, model in CLICK_MODELS.items() if model.iterates]


def random_log(seed=0, n_pages=30, longest=4, n_queries=3, n_documents=6, several=True):
    """Pages of 1 to ``longest`` documents with random clicks, those on low documents and positions likelier."""
    rng = np.random.default_rng(seed)
    rows = []
    for page in range(n_pages):
        size = int(rng.integers(1, longest + 1))
        documents = rng.permutation(n_documents)[:size]
        clicks = rng.random(size) < 0.8 / (1 + documents) ** 0.5 / (1 + np.arange(size)) ** 0.5
        if not several:
            clicks &= np.cumsum(clicks) <= 1
        query = int(rng.integers(n_queries))
        rows += [(page, query, r + 1, int(documents[r]), bool(clicks[r])) for r in range(size)]
    names = ("session", "query", "position", "document", "clicked")
    return ClickLog.from_rows(**dict(zip(names, zip(*rows, strict=True), strict=True)))


def priors_of(model, log):
    """Key → pseudo-counts of the parameters that EM changes."""
    index, _ = PageIndex.by_query(log)
    _, priors = model._start(index)
    found = {}
    for name, prior in priors.items():
        values = model.theta_[name][: index.n_pairs] if name in model.pair_parameters else model.theta_[name]
        for i, key in enumerate(keys_of(model, name, len(values))):
            if prior.fixed is None or not prior.fixed[i]:
                found[key] = (prior.successes, prior.failures)
    return found


@pytest.mark.parametrize("name", STORIES)
def test_likelihood_is_that_of_all_courses(name):
    log = random_log(several=name != "cascade")
    model = click_model(name, max_iter=3).fit(log)
    expected = log_likelihood(STORIES[name], theta_of(model), log) / log.n_pages
    assert model.evaluate(log).log_likelihood == pytest.approx(expected, abs=1e-10)
    assert model.log_likelihood_ == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("name", sorted(set(STORIES) - {"cascade"}))
def test_click_probabilities_add_up_all_courses(name, conditional):
    log = random_log(1, n_pages=12)
    model = click_model(name, max_iter=2).fit(log)
    expected = click_chances(STORIES[name], theta_of(model), log, conditional)
    np.testing.assert_allclose(model.click_probabilities(log, conditional=conditional), expected, atol=1e-12)


def test_the_cascade_ends_at_the_first_click():
    log = ClickLog.from_rows(
        session=[0] * 3 + [1] * 3, query=["q"] * 6, position=[1, 2, 3] * 2, document=list("abcabc"),
        clicked=[0, 1, 1, 0, 0, 0],
    )  # fmt: skip
    model = click_model("cascade", smoothing=0).fit(log)
    np.testing.assert_allclose(model.attractiveness_, [0.0, 0.5, 0.0], atol=1e-8)
    np.testing.assert_allclose(model.click_probabilities(log, conditional=True)[:3], [1e-6, 0.5, 1e-6], atol=1e-8)
    np.testing.assert_allclose(model.propensities(log)[:3], [1.0, 1.0, 0.5], atol=1e-8)


def check_step(name, theta, after, log):
    priors = priors_of(after, log)
    expected, found = em_step(STORIES[name], theta, log, priors), theta_of(after)
    for key in priors:
        assert found[key] == pytest.approx(expected[key], abs=1e-10), key


@pytest.mark.parametrize("name", EM)
@pytest.mark.parametrize("steps", [0, 3])
def test_one_step_of_em_is_that_of_the_story(name, steps):
    log = random_log(2)
    before, after = (click_model(name, smoothing=5.0, max_iter=steps + i, tol=0.0).fit(log) for i in (0, 1))
    check_step(name, theta_of(before), after, log)


@pytest.mark.parametrize("name", sorted(set(STORIES) - set(EM)))
def test_counts_are_those_of_the_story(name):
    log = random_log(2, several=name != "cascade")
    model = click_model(name, smoothing=5.0).fit(log)
    check_step(name, dict.fromkeys(theta_of(model), 0.3), model, log)  # what is counted does not depend on θ


@pytest.mark.parametrize("name", EM)
def test_the_objective_is_likelihood_and_prior(name):
    log = random_log(3)
    model = click_model(name, smoothing=5.0, max_iter=2, tol=0.0).fit(log)
    expected = objective(STORIES[name], theta_of(model), log, priors_of(model, log))
    assert model.history_[-1] == pytest.approx(expected, abs=1e-8)


@pytest.mark.filterwarnings("ignore:.* shown in two or more positions")
@pytest.mark.parametrize("name", EM)
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), smoothing=st.sampled_from([0.0, 0.5, 5.0]), depth=st.sampled_from([1, 2, 100]))
def test_the_objective_never_falls(name, seed, smoothing, depth):
    log = random_log(seed, n_pages=1 + seed % 40, longest=1 + seed % 6)
    model = click_model(name, smoothing=smoothing, depth=depth, max_iter=25, tol=0.0).fit(log)
    slack = 1e-10 * (1.0 + np.abs(model.history_[:-1]))
    assert (np.diff(model.history_) >= -slack).all()
    for values in model.theta_.values():
        assert ((values >= 0) & (values <= 1)).all()


@pytest.mark.parametrize("name", EM)
def test_errors_are_those_of_the_curvature(name):
    """The second difference of the objective by one attractiveness, all else held."""
    log = random_log(4, n_pages=60)
    model = click_model(name, smoothing=5.0, max_iter=500, tol=1e-12).fit(log)
    theta, priors, h = theta_of(model), priors_of(model, log), 1e-4
    for i, key in enumerate(keys_of(model, "attractiveness", len(model.attractiveness_))):
        if not 0.05 < theta[key] < 0.95:
            continue
        here, up, down = (
            objective(STORIES[name], theta | {key: theta[key] + step}, log, priors) for step in (0, h, -h)
        )
        curvature = -(up - 2 * here + down) / h**2
        assert model.attractiveness_error_[i] == pytest.approx(curvature**-0.5, rel=1e-3)


def test_rates_are_counts():
    log = random_log(5, n_pages=200)
    rank = click_model("rank-ctr").fit(log)
    expected = (log.clicks_by_position + 1) / (log.shown_by_position + 2)
    np.testing.assert_allclose(rank.theta_["rate"], expected)
    np.testing.assert_allclose(rank.examination_, expected / expected.max())
    assert click_model("ctr").fit(log).theta_["rate"][0] == pytest.approx((log.n_clicks + 1) / (log.n_rows + 2))


def test_coec_divides_by_expected_clicks():
    log = random_log(6, n_pages=200)
    model = click_model("coec", smoothing=0.0).fit(log)
    rates = model.theta_["rate"]
    rows = [(q, d) for q, d in zip(np.repeat(log.query, log.counts), log.document, strict=True)]
    for i, pair in enumerate(zip(model.pairs_.query, model.pairs_.document, strict=True)):
        mine = [j for j, row in enumerate(rows) if row == pair]
        expected = log.clicked[mine].sum() / rates[log.position[mine] - 1].sum()
        assert model.attractiveness_[i] / rates.max() == pytest.approx(expected)


@pytest.mark.parametrize("name", CLICK_MODELS)
def test_threads_change_nothing(name, monkeypatch):
    monkeypatch.setattr("gainful.clicks.index.BLOCK_ROWS", 16)
    log = random_log(7, n_pages=300)
    found = []
    for n in (1, 3):
        monkeypatch.setattr("gainful.clicks.em.thread_count", lambda n=n: n)
        found.append(click_model(name).fit(log))
    for parameter in found[0].theta_:
        assert (found[0].theta_[parameter] == found[1].theta_[parameter]).all()
        assert (found[0].errors_[parameter] == found[1].errors_[parameter]).all()


@pytest.mark.parametrize("name", CLICK_MODELS)
def test_the_order_of_pages_does_not_matter(name):
    log = random_log(8, n_pages=60)
    turned = log.pages(np.arange(log.n_pages)[::-1])
    one, other = (click_model(name, max_iter=20, tol=0.0).fit(each) for each in (log, turned))
    np.testing.assert_allclose(one.attractiveness_, other.attractiveness_, atol=1e-12)


def test_equal_pages_are_counted_once():
    log = random_log(9, n_pages=20, longest=2, n_documents=2, n_queries=1)
    index, _ = PageIndex.by_query(log)
    distinct = {(tuple(map(tuple, page[1:])), clicks) for page, clicks in pages_of(log)}
    assert index.n_pages == len(distinct) < log.n_pages
    assert index.total_weight == log.n_pages


def test_pages_with_equal_sums_are_told_apart(monkeypatch):
    """If the sums that find equal pages were all the same, nothing would be lost."""
    log = random_log(10, n_pages=50)
    expected = click_model("pbm", max_iter=5, tol=0.0).fit(log).attractiveness_
    monkeypatch.setattr("gainful.clicks.pages._mix", lambda x: np.zeros_like(x))
    found = click_model("pbm", max_iter=5, tol=0.0).fit(log).attractiveness_
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("name", CLICK_MODELS)
def test_unknown_pairs_are_average(name):
    log = random_log(11)
    model = click_model(name).fit(log)
    other = ClickLog.from_rows(session=[0], query=["new"], position=[1], document=["new"], clicked=[1])
    assert model.click_probabilities(other)[0] == pytest.approx(
        model.priors_["attractiveness"].mean * model.propensities(other)[0]
    )
    assert np.isfinite(model.evaluate(other).log_likelihood)


def test_ids_are_compared_as_text():
    log = random_log(12)
    model = click_model("pbm").fit(log)
    texts = log.replace(query_ids=log.query_ids.astype(str), document_ids=log.document_ids.astype(str))
    assert model.evaluate(texts).log_likelihood == model.evaluate(log).log_likelihood


@pytest.mark.parametrize("name", CLICK_MODELS)
def test_deeper_positions_than_were_fitted(name):
    model = click_model(name).fit(random_log(13, longest=2))
    assert np.isfinite(model.evaluate(random_log(14, longest=6)).log_likelihood)


def test_perplexity_of_a_coin_is_two():
    log = ClickLog.from_rows(
        session=np.arange(400) // 2, query=["q"] * 400, position=np.arange(400) % 2 + 1, document=np.arange(400) % 2,
        clicked=np.arange(400) % 4 < 2,
    )  # fmt: skip
    found = click_model("rank-ctr").fit(log).evaluate(log)
    assert found.perplexity == pytest.approx(2.0, abs=1e-3)
    assert found.perplexity_by_rank.shape == (2,)
    assert found.conditional_perplexity == pytest.approx(2.0, abs=1e-3)


def test_smoothing_draws_rare_pairs_to_the_average():
    log = random_log(15, n_pages=200)
    spreads = [click_model("pbm", smoothing=s).fit(log).attractiveness_.std() for s in (0.1, 5.0, 500.0)]
    assert spreads[0] > spreads[1] > spreads[2]


def test_mappings_by_query():
    log = random_log(16)
    model = click_model("dbn").fit(log)
    found = model.attractiveness()
    assert sum(map(len, found.values())) == len(model.pairs_)
    query, document = model.pairs_.query_ids[model.pairs_.query[0]], model.pairs_.document_ids[model.pairs_.document[0]]
    assert found[query][document] == model.attractiveness_[0]
    assert model.relevance()[query][document] == model.attractiveness_[0] * model.satisfaction_[0]
    assert 0 < model.continuation_ < 1


@pytest.mark.parametrize("name", CLICK_MODELS)
def test_a_saved_model_is_the_same(name, tmp_path):
    log = random_log(17)
    model = click_model(name, smoothing=3.0).fit(log)
    model.save(tmp_path / "model.json")
    back = gainful.load_click_model(tmp_path / "model.json")
    assert back == model
    assert type(back) is type(model)
    assert back.evaluate(log).log_likelihood == model.evaluate(log).log_likelihood
    assert [*back.judge()] == [*model.judge()]
    np.testing.assert_array_equal(back.examination_, model.examination_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda held: "nonsense", "is not a click model"),
        (lambda held: json.dumps([1]), "is not a click model of gainful"),
        (lambda held: json.dumps(held | {"version": 9}), "has version 9"),
        (lambda held: json.dumps(held | {"model": "xyz"}), "there is no click model 'xyz'"),
        (lambda held: json.dumps(held | {"settings": {"depth": 0}, "theta": {}}), "is damaged"),
        (lambda held: json.dumps(held | {"query": [9] * len(held["query"])}), "a pair names a query"),
        (lambda held: json.dumps(held | {"query": held["query"][::-1]}), "damaged: the pairs are not in order"),
        (lambda held: json.dumps(held | {"theta": held["theta"] | {"attractiveness": [0.5]}}), "1 entries"),
        (lambda held: json.dumps(held | {"theta": held["theta"] | {"examination": ["x"]}}), "not a number"),
        (lambda held: json.dumps({k: v for k, v in held.items() if k != "history"}), "damaged: 'history'"),
        (lambda held: json.dumps(held | {"theta": {"attractiveness": held["theta"]["attractiveness"]}}), "damaged"),
        (lambda held: json.dumps(held | {"n_iter": 1e999}), "damaged: cannot convert float infinity"),
        (lambda held: json.dumps(held | {"errors": held["errors"] | {"examination": [9.0]}}), "but 1 errors"),
        (lambda held: json.dumps(held | {"theta": held["theta"] | {"examination": [9.0] * 4}}), "be probabilities"),
        (lambda held: json.dumps(held | {"model": "ubm"}), "examination has 4 entries"),
    ],
)
def test_damaged_model_files_are_refused(tmp_path, change, message):
    path = tmp_path / "model.json"
    click_model("pbm").fit(random_log(18)).save(path)
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises(gainful.FormatError, match=message) as caught:
        gainful.load_click_model(path)
    assert str(path) in str(caught.value)


def test_wrong_use_is_refused():
    with pytest.raises(ParameterError, match="there is no click model 'pmb'; did you mean 'pbm'"):
        click_model("pmb")
    with pytest.raises(ParameterError, match="pbm has no parameter 'smooth'; did you mean 'smoothing'"):
        click_model("pbm", smooth=1)
    with pytest.raises(ParameterError, match="smoothing of PBM must be a number ≥ 0, or None, was -1"):
        click_model("pbm", smoothing=-1).fit(random_log())
    with pytest.raises(ParameterError, match="log of fit must be a ClickLog"):
        click_model("pbm").fit([1, 2])
    with pytest.raises(NotFittedError, match="this PBM is not fitted yet"):
        click_model("pbm").judge()


def test_progress_is_reported():
    seen = []
    model = click_model("ubm", max_iter=3, tol=0.0).fit(random_log(), progress=lambda step, value: seen.append(value))
    assert seen == model.history_.tolist()
    assert len(seen) == 4


@pytest.mark.parametrize("name", ["pbm", "ubm", "dbn"])
def test_a_log_in_a_fixed_order_gives_no_propensities(name, tmp_path):
    rows = {
        "session": np.repeat(np.arange(20), 2),
        "query": ["q"] * 40,
        "clicked": [1, 0] * 20,
        "position": [1, 2] * 20,
    }
    fixed = ClickLog.from_rows(**rows, document=["a", "b"] * 20)
    with pytest.warns(DataWarning, match=r"0\.00% of the query-document pairs were shown in two or more positions"):
        model = click_model(name).fit(fixed)
    model.save(tmp_path / "model.json")
    with pytest.warns(DataWarning, match="shown in two or more positions"):
        gainful.load_click_model(tmp_path / "model.json").propensities(fixed)
    moving = ClickLog.from_rows(**rows, document=["a", "b", "b", "a"] * 10)
    model = click_model(name).fit(moving)
    assert model.moving_share_ == 1.0
    model.propensities(moving)


def shuffled_pages(attraction, n_pages, seed):
    """Random pages of ten for users of a PBM who examine position r with probability 1 / r."""
    rng = np.random.default_rng(seed)
    n_queries, n_documents = attraction.shape
    query = rng.integers(n_queries, size=n_pages)
    document = np.argsort(rng.random((n_pages, n_documents)), axis=1)[:, :10]
    clicked = rng.random((n_pages, 10)) < attraction[query[:, None], document] / np.arange(1, 11)
    return ClickLog.from_rows(
        session=np.repeat(np.arange(n_pages), 10), query=np.repeat(query, 10), document=document.ravel(),
        position=np.tile(np.arange(1, 11), n_pages), clicked=clicked.ravel(),
    )  # fmt: skip


@pytest.mark.parametrize(("a", "b"), [(1, 3), (1, 1), (0.5, 8)])
def test_examination_is_that_of_the_users(a, b):
    """Whether most documents are wanted, or next to none: the prior does not pull examination anywhere."""
    log = shuffled_pages(np.random.default_rng(1).beta(a, b, (50, 30)), 60_000, seed=1)
    model = click_model("pbm").fit(log)
    np.testing.assert_allclose(model.examination_, 1 / np.arange(1, 11), atol=0.02)


def test_a_long_step_is_no_other_optimum():
    """Where plain EM needs thousands of steps, the objective ends at its height."""
    log = shuffled_pages(np.random.default_rng(2).beta(0.5, 8, (5, 20)), 1000, seed=2)
    found = click_model("pbm", smoothing=1.0, max_iter=300).fit(log)
    start, priors = found._start(PageIndex.by_query(log)[0])
    theta = {name: np.array(values) for name, values in start.items()}
    expect, heights = found._expect(PageIndex.by_query(log)[0]), []
    for _ in range(1500):
        value, sums = expect(theta)
        heights.append(value + sum(prior.log_density(theta[name]) for name, prior in priors.items()))
        theta = {name: prior.maximise(sums[name], theta[name]) for name, prior in priors.items()}
    assert found.history_[-1] == pytest.approx(heights[-1], abs=0.01)
    assert found.n_iter_ < 200
    assert heights[200] < heights[-1] - 0.01  # plain EM is not there yet


@pytest.mark.parametrize("name", [name for name in CLICK_MODELS if "ctr" not in name and name != "coec"])
@pytest.mark.parametrize("sessions", [1000, 4000])
def test_intervals_and_confidences_mean_what_they_say(name, sessions):
    """Over random users: 95 % intervals hold, and of grades with a confidence of about p, a share of about p is right.

    The priors of a fit are learned from the log; users' wishes have an uneven distribution, unknown to the model.
    """
    hits, confidence, right = [], [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        data = gainful.make_artificial(20, n_docs=10, seed=seed)
        users = gainful.make_click_model(name, data)
        users.theta_ = users.theta_ | {one: rng.beta(1, 3, len(users.pairs_) + 1) for one in users.pair_parameters}
        log = gainful.simulate_clicks(data, users, sessions=sessions, temperature=1e6, seed=seed)
        model = click_model(name).fit(log)
        pairs = users.pairs_
        place = model.pairs_.places(pairs.query_ids, pairs.document_ids, pairs.query, pairs.document)
        for one in model.pair_parameters:
            off = model.theta_[one][place] - users.theta_[one][:-1]
            hits.append(np.abs(off) <= 1.96 * model.errors_[one][place])
        true = graded_by_nearest(users._relevance()[0][:-1])
        judged = model.judge(
            list(zip(pairs.query_ids[pairs.query].tolist(), pairs.document_ids[pairs.document].tolist(), strict=True))
        )
        confidence.append(judged.confidence)
        right.append(judged.grades == true)
    assert 0.925 <= np.mean(hits) <= 0.98
    assert np.mean(confidence) == pytest.approx(np.mean(right), abs=0.06)


def graded_by_nearest(relevance, grades=5):
    levels = (2.0 ** np.arange(grades) - 1) / 2.0 ** (grades - 1)
    return np.abs(relevance[:, None] - levels).argmin(axis=1)


def test_few_impressions_leave_a_weak_prior():
    """Pairs shown once say nothing of how they differ; many impressions of equal pairs say that they do not."""
    rng = np.random.default_rng(3)

    def strength(times, attraction):
        n = len(attraction)
        log = ClickLog.from_rows(
            session=np.arange(n * times), query=np.zeros(n * times), position=np.ones(n * times),
            document=np.repeat(np.arange(n), times), clicked=rng.random(n * times) < np.repeat(attraction, times),
        )  # fmt: skip
        return click_model("document-ctr").fit(log).priors_["attractiveness"].strength

    assert strength(1, rng.beta(3, 7, 2000)) == pytest.approx(1.0, abs=0.2)
    assert strength(200, rng.beta(3, 7, 500)) == pytest.approx(10.0, rel=0.2)
    assert strength(200, np.full(500, 0.3)) > 200


@pytest.mark.filterwarnings("ignore:.* shown in two or more positions")
@pytest.mark.parametrize("name", CLICK_MODELS)
@pytest.mark.parametrize("clicked", [0, 1])
@pytest.mark.parametrize("pages", [1, 300])
def test_a_log_of_one_kind_of_answer_is_fitted(name, clicked, pages):
    """All clicks or none, of many pairs or of few: the priors are learned from nothing much, and all stays finite."""
    log = random_log(19, n_pages=pages)
    model = click_model(name).fit(log.replace(clicked=np.full(log.n_rows, bool(clicked))))
    for values in (*model.theta_.values(), *model.errors_.values()):
        assert np.isfinite(values).all()
    assert np.isfinite(model.judge().confidence).all()
    assert (np.abs(model.attractiveness_ - clicked) < 0.7).all()
