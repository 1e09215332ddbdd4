"""``init`` of tree rankers: the trees start from the scores of another ranker."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from gainful.errors import DataError, InterruptedFitWarning, ParameterError, UnknownNameError
from gainful.rankers.scorers import Linear, Sum, Trees
from gainful.rankers.specs import ranker_from_spec, spec_of
from gainful.training.shared_setup import SharedSetup

SMALL = {"n_trees": 15, "n_leaves": 5, "min_docs_in_leaf": 3, "n_jobs": 1}
RANKERS = [
    ("lambdamart", {"init": "listnet"}),
    ("boosted", {"loss": "xendcg", "init": "listnet"}),
    ("tree-regression", {"init": "regression"}),
    ("gbrank", {"init": "ranksvm", "update": "gradient"}),
    ("shf-sdcg", {"init": "[lambdarank:max_iter=20]"}),
    ("lambdamart", {"init": "[tree-regression:n_trees=3:n_leaves=4]"}),
]


@pytest.fixture(scope="module")
def parts():
    data = gainful.make_artificial(50, n_docs=12, n_features=6, seed=11)
    return gainful.split(data, (0.6, 0.2, 0.2))


@pytest.fixture(scope="module")
def model(parts):
    return gainful.ranker("lambdamart", init="listnet", **SMALL).fit(parts[0], eval_set=parts[1])


@pytest.mark.parametrize(("name", "settings"), RANKERS)
def test_the_model_is_that_of_initial_scores_given_by_hand(parts, name, settings):
    train, valid, test = parts
    fitted = gainful.ranker(name, **SMALL, **settings).fit(train, eval_set=valid)
    first = ranker_from_spec(settings["init"].strip("[]")).fit(train, eval_set=valid)
    plain = gainful.ranker(name, **SMALL, **{key: value for key, value in settings.items() if key != "init"})
    plain.fit(train, init_score=first.predict(train), eval_set=valid, eval_init_score=first.predict(valid))
    assert np.array_equal(fitted.init_.predict(test), first.predict(test))
    assert fitted.predict(test) == pytest.approx(first.predict(test) + plain.predict(test), abs=1e-12)
    assert [row["validation"] for row in fitted.history_] == [row["validation"] for row in plain.history_]


@pytest.mark.parametrize(("name", "settings"), RANKERS)
def test_contributions_add_up_and_files_keep_the_model(parts, tmp_path, name, settings):
    train, _, test = parts
    fitted = gainful.ranker(name, **SMALL, **settings).fit(train)
    scores = fitted.predict(test)
    assert fitted.contributions(test.X).sum(axis=1) == pytest.approx(scores)
    gainful.save(fitted, tmp_path / "model.gainful")
    again = gainful.load(tmp_path / "model.gainful")
    assert np.array_equal(again.predict(test), scores)
    assert spec_of(again) == spec_of(fitted)


def test_linear_models_of_all_parts_are_one(parts, model):
    other = gainful.ranker("regression").fit(parts[0])
    joint = Sum.of([model._scorer(), other._scorer()], [2.0, 3.0])
    assert [type(part) for part in joint.parts] == [Trees, Linear]
    assert joint.scores(parts[2].X) == pytest.approx(2.0 * model.predict(parts[2]) + 3.0 * other.predict(parts[2]))


def test_specs_keep_settings_in_brackets():
    one = gainful.LambdaMART(init=gainful.ranker("ranksvm", C=3.0))
    assert spec_of(one) == "lambdamart:init=[ranksvm:C=3.0]"
    assert spec_of(ranker_from_spec(spec_of(one))) == spec_of(one)
    with pytest.raises(ParameterError, match="init of LambdaMART must be a ranker, or a text"):
        gainful.LambdaMART(init=3).fit(np.eye(2), [0, 1], qid=[1, 1])


@pytest.mark.parametrize(
    ("name", "init", "error", "message"),
    [
        ("lambdamart", "listnets", UnknownNameError, "listnet"),
        ("lambdamart", "[listnet:n_trees=3]", UnknownNameError, "n_trees"),
        ("lambdamart", "auto", ParameterError, "cannot be Auto, which is a blend"),
        ("lambdamart", "list-net", ParameterError, "scores the documents of a query together"),
        ("mcrank", "listnet", ParameterError, "McRank with mode='classification' cannot start from another ranker"),
    ],
)
def test_what_trees_cannot_start_from_is_refused(parts, name, init, error, message):
    with pytest.raises(error, match=message):
        gainful.ranker(name, init=init, **SMALL).fit(parts[0])


def test_missing_values_are_refused_as_by_the_first_ranker(parts, model, tmp_path):
    X = parts[0].X.copy()
    X[0, 0] = np.nan
    with pytest.raises(DataError, match=r"init=listnet: X has missing values .* or leave out init"):
        gainful.ranker("lambdamart", init="listnet", **SMALL).fit(parts[0].replace(X=X))
    gainful.save(model, tmp_path / "model.gainful")
    for one in (model, gainful.load(tmp_path / "model.gainful")):
        with pytest.raises(DataError, match="missing values"):
            one.predict(X)
    trees = gainful.ranker("lambdamart", init="[tree-regression:n_trees=2]", **SMALL).fit(parts[0].replace(X=X))
    assert np.isfinite(trees.predict(X)).all()


def test_clicks_are_refused(parts):
    train = parts[0]
    clicks = (train.y > 0).astype(float)
    position = np.concatenate([np.arange(1, n + 1) for n in train.counts])
    with pytest.raises(DataError, match="with init cannot learn from clicks"):
        gainful.ranker("lambdamart", init="listnet", **SMALL).fit(train.X, clicks, qid=train.qid, position=position)


def test_a_warm_start_keeps_the_first_model(parts):
    train = parts[0]
    one = gainful.ranker("lambdamart", init="listnet", warm_start=True, **(SMALL | {"n_trees": 5})).fit(train)
    first = one.init_
    one.set_params(n_trees=10).fit(train)
    assert one.init_ is first
    whole = gainful.ranker("lambdamart", init="listnet", **(SMALL | {"n_trees": 10})).fit(train)
    assert one.predict(train) == pytest.approx(whole.predict(train))


def test_settings_changed_after_training_do_not_change_the_model(parts):
    test = parts[2]
    fitted = gainful.ranker("lambdamart", init="listnet", **SMALL).fit(parts[0])
    scores = fitted.predict(test)
    assert np.array_equal(fitted.set_params(init=None).predict(test), scores)
    plain = gainful.ranker("lambdamart", **SMALL).fit(parts[0])
    scores = plain.predict(test)
    assert np.array_equal(plain.set_params(init="listnet").predict(test), scores)


@pytest.mark.parametrize(("before", "after"), [("listnet", "ranksvm"), ("listnet", None), (None, "listnet")])
def test_a_warm_start_from_another_first_ranker_is_refused(parts, before, after):
    one = gainful.ranker("lambdamart", init=before, warm_start=True, **SMALL).fit(parts[0])
    one.set_params(init=after, n_trees=20)
    with pytest.raises(ParameterError, match=f"the trees to continue started from init={before}; keep that"):
        one.fit(parts[0])


def test_another_first_ranker_may_take_what_the_one_before_refused(parts):
    X = parts[0].X.copy()
    X[0, 0] = np.nan
    one = gainful.ranker("lambdamart", init="listnet", **SMALL).fit(parts[0])
    one.set_params(init="[tree-regression:n_trees=2:n_jobs=1]").fit(parts[0].replace(X=X))
    assert np.isfinite(one.predict(X)).all()


def test_brackets_belong_to_the_whole_text():
    nested = "tree-regression:n_trees=3:init=[regression:scale=none]"
    assert spec_of(gainful.LambdaMART(init=nested)) == f"lambdamart:init=[{nested}]"
    assert spec_of(ranker_from_spec(f"lambdamart:init=[{nested}]")) == f"lambdamart:init=[{nested}]"
    with pytest.raises(UnknownNameError, match=r"\[listnet"):
        gainful.LambdaMART(init="[listnet").fit(np.eye(2), [0, 1], qid=[1, 1])


def test_features_of_text_go_on_after_a_file(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"brand": list("abcd") * 15, "price": np.random.default_rng(0).random(60)})
    y, qid = np.arange(60) % 3, np.repeat(np.arange(6), 10)
    one = gainful.ranker("lambdamart", init="[tree-regression:n_trees=2:min_docs_in_leaf=2:n_jobs=1]", **SMALL)
    gainful.save(one.fit(frame, y, qid=qid), tmp_path / "model.gainful")
    again = gainful.load(tmp_path / "model.gainful")
    assert np.array_equal(again.predict(frame), one.predict(frame))
    again.set_params(warm_start=True, n_trees=25).fit(frame, y, qid=qid)
    assert again.n_iter_ == 25


def test_a_checkpoint_needs_a_first_ranker_with_a_seed(parts, tmp_path):
    one = gainful.ranker("lambdamart", init="[tree-regression:random_state=none:n_trees=2]", **SMALL)
    with pytest.raises(ParameterError, match="init of LambdaMART needs a random_state"):
        one.fit(parts[0], checkpoint=tmp_path / "checkpoint")


def test_warnings_of_the_first_ranker_are_heard():
    rng = np.random.default_rng(3)
    X, y, qid = rng.standard_normal((900, 4)), rng.integers(0, 3, 900), np.repeat(np.arange(30), 30)
    with pytest.warns(gainful.DataWarning, match="w = 0"):
        gainful.ranker("lambdamart", init="structured-svm", **SMALL).fit(X, y, qid=qid)


def test_a_fit_without_init_forgets_the_first_model(parts, model):
    again = gainful.ranker("lambdamart", init="listnet", **SMALL).fit(parts[0])
    again.set_params(init=None).fit(parts[0])
    assert not hasattr(again, "init_")
    assert again.accepts_missing
    assert np.array_equal(
        again.predict(parts[2]), gainful.ranker("lambdamart", **SMALL).fit(parts[0]).predict(parts[2])
    )


def test_trainings_that_share_their_set_up_share_the_first_model(parts):
    setup, models = SharedSetup(), []
    for _ in range(2):
        with setup.use():
            models.append(gainful.ranker("lambdamart", init="listnet", **SMALL).fit(parts[0], eval_set=parts[1]))
    with setup.use():
        other = gainful.ranker("lambdamart", init="listnet", **SMALL).fit(parts[0], eval_set=parts[2])
    assert models[0].init_ is models[1].init_
    assert other.init_ is not models[0].init_


def measure_of(grade):
    """A measure of the document ranked first; all have one name, as functions made in a loop do."""

    def of_the_first(scores, grades):
        return float(grades[np.argmax(scores)] == grade)

    return gainful.metric(of_the_first)


@pytest.mark.parametrize("differs", ["rows", "metric"])
def test_a_first_model_is_shared_for_the_same_rows_and_metric_alone(parts, differs):
    train, valid, _ = parts
    others = {"rows": valid.replace(X=valid.X[::-1].copy()), "metric": valid}[differs]
    measures = [measure_of(2), measure_of(1)] if differs == "metric" else [measure_of(2)] * 2
    setup, first = SharedSetup(), []
    for part, measure in zip((valid, others), measures, strict=True):
        with setup.use():
            made = gainful.ranker("lambdamart", init="listnet", eval_metric=measure, **SMALL)
            first.append(made.fit(train, eval_set=part).init_)
    assert first[0] is not first[1]


def test_a_checkpoint_resumes_to_the_same_model(parts, tmp_path, model):
    file = tmp_path / "checkpoint"

    def stop(progress):
        return progress.iteration == 7

    one = gainful.ranker("lambdamart", init="listnet", **SMALL)
    with pytest.warns(InterruptedFitWarning):
        one.fit(parts[0], eval_set=parts[1], checkpoint=file, checkpoint_every=0.0, progress=stop)
    one.fit(parts[0], eval_set=parts[1], checkpoint=file)
    assert np.array_equal(one.predict(parts[2]), model.predict(parts[2]))


def test_a_damaged_first_model_is_refused(model):
    state = model._pack()
    fresh = gainful.ranker("lambdamart", init="listnet")
    fresh.n_features_in_, fresh.categories_ = model.n_features_in_, None
    with pytest.raises(ValueError, match="another number of features"):
        fresh._unpack(state | {"init": state["init"] | {"n_features": 3}})
