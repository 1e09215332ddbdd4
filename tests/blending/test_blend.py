"""Blends: folds, out-of-fold scores, common scale, weights, files."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

import gainful
from gainful import Blend, DataError, GainfulError, ParameterError
from gainful.blending import blend as blend_module
from gainful.blending import folds as folds_module
from gainful.blending.folds import QueryFolds, smooth
from gainful.blending.leaderboard import Leaderboard, Row
from gainful.blending.weights import choose_weights
from gainful.compute.memory import memory_limit
from gainful.data.checks import skip_checks
from gainful.rankers.specs import ranker_from_spec, spec_of
from gainful.training import monitor

SMALL = "n_trees=10:n_leaves=5:min_docs_in_leaf=3:n_jobs=1"
MEMBERS = ["regression", f"lambdamart:{SMALL}", f"mcrank:{SMALL}"]


@pytest.fixture(scope="module")
def blend(parts):
    return Blend(MEMBERS, folds=3, n_jobs=1).fit(parts[0])


def test_fits_side_by_side_have_one_thread_of_blas(parts, monkeypatch):
    seen = []
    original = gainful.RegressionRanker._fit

    def note(self, data, monitor):
        seen.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
        original(self, data, monitor)

    monkeypatch.setattr(gainful.RegressionRanker, "_fit", note)
    with threadpool_limits(2, user_api="blas"):
        Blend(["regression"], folds=3, n_jobs=2).fit(parts[0])
        after = {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
    assert set(seen) == {1}
    assert after == {2}


@pytest.mark.parametrize("n", [3, 4, 7])
def test_every_query_tests_one_model_and_validates_another(parts, n):
    data, folds = parts[0], QueryFolds(parts[0], n, seed=1)
    for part in (folds.tested, folds.validated):
        assert sorted(np.concatenate([part(k) for k in range(n)])) == list(range(data.n_queries))
    for k in range(n):
        three = [folds.train(k), folds.valid(k), folds.test(k)]
        assert sorted(np.concatenate([part.query_ids for part in three])) == sorted(data.query_ids)
        assert np.array_equal(folds.validated(k), folds.tested((k + 1) % n))
        assert np.array_equal(data.X[folds.rows(k)], three[2].X)


def test_folds_of_a_large_mapped_file_share_its_rows(parts, tmp_path, monkeypatch):
    monkeypatch.setattr(folds_module, "LARGE", 100)
    gainful.write(parts[0], tmp_path / "data.gnf")
    mapped = gainful.read(tmp_path / "data.gnf")
    folds = QueryFolds(mapped, 4, seed=0)
    assert folds.mapped
    for k in range(4):
        blocks, others = list(folds.train(k).blocks()), [folds.valid(k), folds.test(k)]
        assert all(np.shares_memory(block.X, mapped.X) for block in [*blocks, *others])
        left_out = np.concatenate([folds.tested(k), folds.validated(k)])
        in_memory = parts[0][np.setdiff1d(np.arange(mapped.n_queries), left_out)]
        assert np.array_equal(np.concatenate([block.X for block in blocks]), in_memory.X)
        assert np.array_equal(np.concatenate([block.y for block in blocks]), in_memory.y)
        assert np.array_equal(folds.test(k).X, parts[0][folds.tested(k)].X)
    model = gainful.ranker("auto", trials=2, folds=3, n_jobs=1).fit(mapped)
    assert np.isfinite(model.predict(mapped)).all()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_small_mapped_file_gives_the_model_of_its_rows(parts, tmp_path, form):
    train = parts[0].replace(X=form(parts[0].X))
    gainful.write(train, tmp_path / "data.gnf")
    one, other = (Blend(MEMBERS[:2], folds=3, n_jobs=1).fit(data) for data in (train, tmp_path / "data.gnf"))
    assert np.allclose(one.predict(parts[2]), other.predict(parts[2]))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_than_three_queries_are_refused(parts, n):
    weights = (np.arange(parts[0].n_queries) < n).astype(float)
    there = "there is 1" if n == 1 else f"there are {n}"
    if n:
        with pytest.raises(DataError, match=f"on different queries, so it needs at least 3; {there}$"):
            Blend(["regression"]).fit(parts[0][:n])
        with pytest.raises(DataError, match=f"so it needs at least 3 with a weight above 0; {there}$"):
            Blend(["regression"]).fit(parts[0].replace(query_weights=weights))
    with pytest.raises(ParameterError, match=r"folds of Blend must be .*integer ≥ 3"):
        Blend(["regression"], folds=n).fit(parts[0])


def test_as_many_folds_as_there_are_queries(parts):
    few = Blend(["regression", f"lambdamart:{SMALL}"], n_jobs=1).fit(parts[0][:4])
    assert {len(member.models) for member in few.members_} == {4}
    assert np.isfinite(few.out_of_fold_scores_).all()
    weights = (np.arange(parts[0].n_queries) < 3).astype(float)
    members = ["regression", "regression:alpha=9"]
    weighed = Blend(members, n_jobs=1).fit(parts[0][:30].replace(query_weights=weights[:30]))
    assert {len(member.models) for member in weighed.members_} == {3}  # those without weight do not count
    assert np.isfinite(weighed.out_of_fold_scores_).all()


def _ended_alone(spec, folds, k):
    """The model of a fold trained by itself, with all of its trees, and where its validation queries would end it."""
    model = ranker_from_spec(spec)
    model._keeps_all_trees = True
    with skip_checks():
        model.fit(folds.train(k), eval_set=folds.valid(k))
    curve = np.array([row["validation"] for row in model.history_])
    own = int(np.argmax(smooth(curve))) + 1 if np.isfinite(curve).all() else len(curve)
    model._end_with(own, cut=False)
    return model, curve, own


def test_out_of_fold_scores_are_of_models_that_did_not_see_the_query(parts, blend):
    folds = QueryFolds(parts[0], 3, seed=0)
    for spec in ("regression", f"lambdamart:{SMALL}"):
        member = next(one for one in blend.members_ if one.spec == spec)
        for k in range(3):
            valid, test = folds.valid(k), folds.test(k)
            again = ranker_from_spec(spec).fit(folds.train(k))
            if spec != "regression":
                again, *_ = _ended_alone(spec, folds, k)
            scores = again.predict(test)
            centred = np.concatenate([scores[a:b] - scores[a:b].mean() for a, b in pairwise(test.offsets)])
            assert member.scores[folds.rows(k)] == pytest.approx(centred / centred.std())
            ndcg = gainful.metric("ndcg@10")
            assert np.array_equal(member.values[folds.tested(k)], ndcg.per_query(scores, test))
            validated = ndcg.per_query(again.predict(valid), valid)
            assert np.array_equal(member.validation_values[folds.validated(k)], validated)
            shipped = member.models[k].predict(test)
            centred = np.concatenate([shipped[a:b] - shipped[a:b].mean() for a, b in pairwise(test.offsets)])
            assert member.spreads[k] == pytest.approx(centred.std())
            assert np.array_equal(member.kept_values[folds.tested(k)], ndcg.per_query(shipped, test))


def _noise(seed, n_queries=60):
    data = gainful.make_artificial(n_queries, n_docs=12, n_features=6, seed=seed)
    return data.replace(y=np.random.default_rng(seed).permutation(data.y))  # every fold alone stops elsewhere


CHOOSERS = ["lambdamart:n_trees=25:n_leaves=4:early_stopping=25", "lambdamart:n_trees=9:early_stopping=9:init=listnet"]
CHOOSERS += ["boosted:loss=xendcg:n_trees=40:n_leaves=4:early_stopping=3:init=listnet", "mcrank:n_trees=20:n_leaves=4"]
CHOOSERS += ["listnet", "lambdarank", "adarank-ndcg", "rsrank", "coordinate-ascent:n_restarts=2", "ranksvm:C=[0.01,1]"]
NETS = ["ranknet-net:hidden=[4]:epochs=3:device=cpu"]


@pytest.mark.parametrize("members", [CHOOSERS, NETS], ids=["without nets", "nets"])
def test_the_grades_of_a_fold_have_no_part_in_what_is_measured_on_it(members):
    if members is NETS:
        pytest.importorskip("torch")
    data = _noise(3)
    folds, k = QueryFolds(data, 3, seed=0), 2
    rows, grades = folds.rows(k), data.y.copy()
    grades[rows] = grades.max() - grades[rows]
    before, after = (
        Blend(["regression", *members], folds=3, n_jobs=1, weights="shrunk").fit(data.replace(y=y))
        for y in (data.y, grades)
    )
    assert np.array_equal(before.out_of_fold_scores_[rows], after.out_of_fold_scores_[rows])
    assert not np.array_equal(before.out_of_fold_scores_, after.out_of_fold_scores_)
    changed = {member.spec: member.scores[rows] for member in after.members_}
    both = [member for member in before.members_ if member.spec in changed]
    assert len(both) > len(members) // 2
    for member in both:
        assert np.array_equal(member.scores[rows], changed[member.spec])


def test_trees_are_measured_where_their_own_queries_end_them_and_kept_where_all_do():
    data = _noise(3)
    y = data.y.copy()
    for q in QueryFolds(data, 4, seed=0).tested(0):  # a fold without a value has no say
        y[data.offsets[q] : data.offsets[q + 1]] = 0
    data = data.replace(y=y)
    spec = "lambdamart:n_trees=60:n_leaves=4:min_docs_in_leaf=3:eval_metric=ndcg@10(empty=skip):early_stopping=60"
    member = Blend([spec], folds=4, n_jobs=1, metric="ndcg@10").fit(data).members_[0]
    folds, measure = QueryFolds(data, 4, seed=0), gainful.metric("ndcg@10")
    alone, curves, ends = zip(*(_ended_alone(spec, folds, k) for k in range(4)), strict=True)
    best = np.argmax(smooth(curves[0] + curves[1] + curves[2])) + 1  # the last is validated on the first fold
    assert {model.best_iteration_ for model in member.models} == {best}
    assert {*ends} > {60}
    assert best not in ends
    for k, model in enumerate(member.models):
        assert model.booster_.current_iteration() == model.training_["validation"]["iteration"] == best
        own = measure.per_query(alone[k].predict(folds.test(k)), folds.test(k))
        assert np.array_equal(member.values[folds.tested(k)], own)


@pytest.mark.parametrize("name", ["lambdamart", "mcrank", "gbrank", "boosted:loss=xendcg:init=listnet"])
def test_trees_grow_until_the_curve_of_all_folds_is_out_of_patience(name):
    data = gainful.make_artificial(60, n_docs=12, n_features=6, seed=3)
    spec = f"{name}:n_trees=40:n_leaves=4:min_docs_in_leaf=3:early_stopping=4:learning_rate=0.1"
    folds = QueryFolds(data, 3, seed=0)
    started = [_ended_alone(spec, folds, k)[1] for k in range(3)]
    member = Blend([spec], folds=3, n_jobs=1).fit(data).members_[0]
    curves = [np.array([row["validation"] for row in model.history_]) for model in member.models]
    n = min(map(len, curves))
    peak = int(np.argmax(smooth(np.mean([curve[:n] for curve in curves], axis=0)))) + 1
    assert n >= min(40, peak + 4)
    assert n > min(map(len, started))  # alone, one of them ends early
    for model, curve, before in zip(member.models, curves, started, strict=True):
        assert [getattr(model, name) for name in ("n_trees", "early_stopping", "warm_start")] == [40, 4, False]
        assert not model.interrupted_
        assert np.array_equal(curve[: len(before)], before)


def test_a_fold_is_scored_with_the_weights_of_its_validation_queries(parts):
    members = [*MEMBERS, "listnet"]
    blend = Blend(members, folds=3, n_jobs=1, weights="shrunk").fit(parts[0])
    assert {member.spec for member in blend.members_} == {*members}
    folds = QueryFolds(parts[0], 3, seed=0)
    for k in range(3):
        weights = choose_weights(
            "shrunk", np.array([one.validation_values[folds.validated(k)] for one in blend.members_])
        )
        assert not np.allclose(weights, blend.weights_)
        scores = sum(w * one.scores[folds.rows(k)] for w, one in zip(weights, blend.members_, strict=True))
        assert blend.out_of_fold_scores_[folds.rows(k)] == pytest.approx(scores)
    of_kept_models = np.array([one.kept_values for one in blend.members_])
    assert np.array_equal(blend.weights_, choose_weights("shrunk", of_kept_models))


def test_ctrl_c_at_the_end_of_a_batch_keeps_what_was_trained(parts, monkeypatch):
    original, calls = blend_module.end_folds, []

    def interrupted(*given):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return original(*given)

    monkeypatch.setattr(blend_module, "end_folds", interrupted)
    with pytest.warns(gainful.InterruptedFitWarning):
        fitted = Blend(MEMBERS, folds=3, n_jobs=1).fit(parts[0])
    assert fitted.interrupted_
    assert len(fitted.members_) >= 1


def test_rankers_of_ones_own_stop_by_the_blends_metric():
    class Mine(gainful.LambdaMART):
        pass

    chosen = blend_module.candidate_of(Mine(n_trees=3), gainful.metric("err@5"))
    assert chosen.spec == "Mine"
    assert gainful.metric(chosen.ranker.eval_metric).name == "err@5"


def test_the_metric_of_a_first_ranker_is_not_that_of_the_trees():
    chosen = blend_module.candidate_of("lambdamart:init=[listnet:eval_metric=map]", gainful.metric("err@5")).ranker
    assert gainful.metric(chosen.eval_metric).name == "err@5"


def test_the_score_is_the_weighted_mean_on_the_common_scale(parts, blend):
    test = parts[2]
    expected = np.zeros(test.n_rows)
    for member, weight in zip(blend.members_, blend.weights_, strict=True):
        models = zip(member.models, member.spreads, strict=True)
        expected += weight * np.mean([model.predict(test) / spread for model, spread in models], axis=0)
    assert blend.predict(test) == pytest.approx(expected)


def test_the_leaderboard_says_what_the_members_reached(parts, blend):
    board = blend.leaderboard_
    train = parts[0]
    ndcg = gainful.metric("ndcg@10")
    assert board.blend.mean == pytest.approx(ndcg(blend.out_of_fold_scores_, train))
    for member in blend.members_:
        row = next(row for row in board.members if row.name == member.spec)
        assert row.mean == pytest.approx(member.values.mean())
        assert row.difference == pytest.approx(board.blend.mean - row.mean)
    assert [row.mean for row in board.members] == sorted((row.mean for row in board.members), reverse=True)
    assert sum(row.weight for row in board.members) == pytest.approx(1.0)
    text = str(board)
    assert "regression" in text
    assert "blend of" in board.sentence
    assert board._repr_html_().count("<tr>") == 1 + len(board)
    assert board.rows()[0]["low"] < board.blend.mean < board.rows()[0]["high"]


def test_blends_ship_like_any_ranker(parts, blend, tmp_path):
    test = parts[2]
    gainful.save(blend, tmp_path / "blend.gainful")
    again = gainful.load(tmp_path / "blend.gainful")
    assert np.array_equal(again.predict(test), blend.predict(test))
    assert str(again.leaderboard_) == str(blend.leaderboard_)
    assert again.weights_ == pytest.approx(blend.weights_)
    assert np.allclose(again.contributions(test).sum(axis=1), blend.predict(test))


def test_validation_queries_join_the_training_queries(parts):
    train, valid, _ = parts
    model = Blend(MEMBERS[:2], folds=3, n_jobs=1).fit(train, eval_set=valid)
    assert len(model.out_of_fold_scores_) == train.n_rows + valid.n_rows


def test_once_trains_each_member_on_all_queries(parts):
    train, valid, test = parts
    model = Blend(MEMBERS[:2], folds=None, n_jobs=1).fit(train, eval_set=valid)
    for member in model.members_:
        (one,) = member.models
        alone = ranker_from_spec(member.spec).fit(train, eval_set=valid)
        assert np.array_equal(alone.predict(test), one.predict(test))
        assert member.values == pytest.approx(gainful.metric("ndcg@10").per_query(one.predict(valid), valid))


def test_once_without_validation_queries_weighs_all_alike(parts):
    model = Blend(MEMBERS[:2], folds=None, n_jobs=1).fit(parts[0])
    assert model.weights_ == pytest.approx([0.5, 0.5])
    assert "there is no query left out" in model.leaderboard_.sentence
    assert model.leaderboard_.used_for == ""
    assert np.isfinite(model.predict(parts[2])).all()


def test_a_constant_member_adds_nothing(parts):
    constant = "tree-regression:min_docs_in_leaf=100000:n_trees=5"
    model = Blend([constant, "regression"], folds=3, n_jobs=1, weights="uniform").fit(parts[0])
    alone = Blend(["regression"], folds=3, n_jobs=1).fit(parts[0])
    assert np.allclose(model.predict(parts[2]), 0.5 * alone.predict(parts[2]))


def test_out_of_fold_scores_follow_the_rows(parts, rng):
    train = parts[0]
    order = rng.permutation(train.n_rows)
    model = Blend(["regression"], folds=3, n_jobs=1).fit(train.X[order], train.y[order], qid=train.qid[order])
    assert np.corrcoef(model.out_of_fold_scores_, model.predict(train.X[order]))[0, 1] > 0.6


def test_weights_keep_their_order_in_a_file(parts, tmp_path):
    model = Blend(MEMBERS, folds=3, n_jobs=1, weights=[1, 2, 5]).fit(parts[0])
    gainful.save(model, tmp_path / "blend.gainful")
    assert gainful.load(tmp_path / "blend.gainful").weights_ == pytest.approx(model.weights_)
    used = {one.spec: weight for one, weight in zip(model.members_, model.weights_, strict=True)}
    assert used == pytest.approx(dict(zip(MEMBERS, [0.125, 0.25, 0.625], strict=True)))


def test_callbacks_hear_of_the_blend_alone(parts, monkeypatch):
    heard = []
    monkeypatch.setattr(monitor, "AFTER_FIT", [heard.append])
    model = Blend(MEMBERS[:2], folds=3, n_jobs=1).fit(parts[0])
    assert heard == [model]


def test_given_weights_are_taken(parts):
    model = Blend(MEMBERS[:2], folds=3, weights=[3, 1], n_jobs=1).fit(parts[0])
    used = {one.spec: weight for one, weight in zip(model.members_, model.weights_, strict=True)}
    assert used == pytest.approx({MEMBERS[0]: 0.75, MEMBERS[1]: 0.25})
    with pytest.raises(ParameterError, match="one number for each of the 2 members, had 1"):
        Blend(MEMBERS[:2], weights=[1]).fit(parts[0])


def test_the_metric_stops_members_early(parts):
    model = Blend([f"lambdamart:{SMALL}", f"lambdamart:eval_metric=mrr:{SMALL}"], folds=3, metric="map", n_jobs=1)
    model.fit(parts[0])
    metrics = {one.spec: str(one.models[0]._validation_metric()) for one in model.members_}
    assert {text.partition("(")[0] for text in metrics.values()} <= {"map", "mrr"}
    assert model.leaderboard_.metric == "map"


def test_members_may_be_estimators(parts):
    members = [gainful.ranker("regression", alpha=3.0), gainful.LambdaMART(n_trees=5, min_docs_in_leaf=3)]
    model = Blend(members, folds=3, n_jobs=1).fit(parts[0])
    assert model._file_params()["members"] == ["regression:alpha=3.0", "lambdamart:min_docs_in_leaf=3:n_trees=5"]


@pytest.mark.parametrize("name", [name for name, entry in gainful.RANKERS.items() if entry.kind != "blend"])
def test_a_spec_names_its_ranker(name):
    assert spec_of(gainful.ranker(name)).partition(":")[0] == name or spec_of(gainful.ranker(name)) in gainful.RANKERS
    spec = "boosted:loss=xendcg:n_trees=3"
    assert spec_of(ranker_from_spec(spec)) == spec


def test_a_member_that_cannot_train_is_named(parts):
    X = parts[0].X.copy()
    X[0, 0] = np.nan
    with pytest.raises(DataError, match=r"member regression: .*missing values"):
        Blend(["regression"], folds=3, n_jobs=1).fit(X, parts[0].y, qid=parts[0].qid)


def test_missing_values_at_prediction_are_refused_where_a_member_refuses(parts, blend):
    X = parts[2].X.copy()
    X[0, 0] = np.nan
    assert not blend.accepts_missing
    with pytest.raises(DataError, match=r"X has missing values"):
        blend.predict(X)
    again = Blend([f"lambdamart:{SMALL}"], folds=3, n_jobs=1)
    again.fit(parts[0]).set_params(members=["regression"]).fit(parts[0])
    with_gaps = parts[0].X.copy()
    with_gaps[::9, 0] = np.nan
    again.set_params(members=[f"lambdamart:{SMALL}"]).fit(with_gaps, parts[0].y, qid=parts[0].qid)
    assert np.isfinite(again.predict(X)).all()


def test_mistakes_are_refused(parts):
    with pytest.raises(ParameterError, match="no ranker 'lambdamat'; did you mean 'lambdamart'"):
        Blend(["lambdamat"]).fit(parts[0])
    with pytest.raises(ParameterError, match="members of Blend must be a list of rankers"):
        Blend("regression").fit(parts[0])
    with pytest.raises(ParameterError, match="cannot be a blend itself"):
        Blend(["auto:trials=2"]).fit(parts[0])


def test_a_damaged_blend_is_refused(parts, blend):
    state = blend._pack()
    for name, value in {"factors": [1.0], "models": [], "leaderboard": {"rows": [{"name": 3}]}}.items():
        other = gainful.Blend(MEMBERS)
        other.n_features_in_ = parts[0].n_features
        with pytest.raises((ValueError, TypeError, KeyError, GainfulError)):
            other._unpack(state | {name: value})


def test_a_blend_holds_no_blends_and_at_least_one_model(parts, blend, tmp_path):
    state = blend._pack()
    descriptions = [{**state["models"][0], "class": "Blend", "params": {}}, *state["models"][1:]]
    for models, what in ((descriptions, "a blend itself"), ([], "not a list of models")):
        other = gainful.Blend(MEMBERS)
        other.n_features_in_ = parts[0].n_features
        with pytest.raises(ValueError, match=what):
            other._unpack(state | {"models": models})


def drop_a_model(state):
    state["members"][0]["models"] -= 1


def swap_models(state):
    """The first model of one member is that of the other."""
    new = {"m0": "m3", "m3": "m0"}
    held = {name: state.pop(name) for name in list(state) if name.partition("_")[0] in new}
    state |= {name.replace(name[:2], new[name[:2]], 1): value for name, value in held.items()}
    models = state["models"]
    models[0], models[3] = models[3], models[0]


DAMAGES = {
    "seed is not a seed": lambda state: state.update(seed="0"),
    "seed is not a seed ": lambda state: state.update(seed=-1),
    "seed": lambda state: state.pop("seed"),
    "members is not a list": lambda state: state.update(members=[]),
    "another number of models": drop_a_model,
    "impossible number of models": lambda state: state["members"][0].update(models=10**9),
    "impossible number of models ": lambda state: state["members"][0].update(dropped="why"),
    "scores is not a table": lambda state: state.update(scores=state["scores"][:, :-1]),
    "values is not a table": lambda state: state.update(values=state["values"].astype(np.float32)),
    "validation_values is not a table": lambda state: state.update(validation_values=state["scores"]),
    "scores holds an infinite": lambda state: state.update(scores=state["scores"] + np.inf),
    "impossible time": lambda state: state["members"][1].update(seconds=float("nan")),
    "impossible time ": lambda state: state["members"][1].update(complete=1),
    "spreads is not": lambda state: state["members"][0].update(spreads=[1.0]),
    "member 1 is not one of this": lambda state: state["members"][0].update(spec="listnet"),
    "not of its member": swap_models,
    "its history": lambda state: state["monitor"].update(history=[], best_iteration=0),
    "its seconds": lambda state: state["monitor"].update(seconds=float("nan")),
    "ranker class": lambda state: state["models"][0].update({"class": "Stranger"}),
    "blend itself": lambda state: state["models"][0].update({"class": "Auto"}),
}


@pytest.fixture(scope="module")
def checkpoint(parts, tmp_path_factory):
    path = tmp_path_factory.mktemp("blend") / "c"
    kept = gainful.Checkpoint(path, every=0, keep=True)
    Blend(["regression", f"tree-regression:{SMALL}"], folds=3, n_jobs=1).fit(parts[0], checkpoint=kept)
    return path.read_bytes()


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_checkpoint_is_refused_in_one_line(parts, checkpoint, tmp_path, monkeypatch, what):
    path = tmp_path / "c"
    path.write_bytes(checkpoint)
    original = gainful.Checkpoint.open

    def open_damaged(self, training):
        original(self, training)
        self.state = copy.deepcopy(self.state)
        DAMAGES[what](self.state)

    monkeypatch.setattr(gainful.Checkpoint, "open", open_damaged)
    with pytest.raises(gainful.FormatError, match=rf"c: the checkpoint is damaged \(.*{what.strip()}.*\)") as error:
        Blend(["regression", f"tree-regression:{SMALL}"], folds=3, n_jobs=1).fit(parts[0], checkpoint=path)
    assert len(str(error.value).splitlines()) == 1


def test_a_killed_training_resumes_with_the_same_result(parts, tmp_path, monkeypatch):
    train, _, test = parts
    members = [*MEMBERS, f"gbrank:{SMALL}", f"tree-regression:{SMALL}"]
    whole = Blend(members, folds=3, n_jobs=1).fit(train)
    seen = []

    def die(event):
        seen.append(event.iteration)
        if event.iteration == 5:
            raise RuntimeError("killed")

    path = tmp_path / "blend.checkpoint"
    with pytest.raises(RuntimeError, match="killed"):
        Blend(members, folds=3, n_jobs=1).fit(train, checkpoint=path, checkpoint_every=0, progress=die)
    assert path.exists()
    trained = []
    original = gainful.LambdaMART.fit
    monkeypatch.setattr(gainful.LambdaMART, "fit", lambda *a, **k: trained.append(1) or original(*a, **k))
    again = Blend(members, folds=3, n_jobs=1).fit(train, checkpoint=path, checkpoint_every=0)
    assert not trained  # lambdamart is in the first batch, which the checkpoint holds
    assert np.array_equal(again.predict(test), whole.predict(test))
    assert not path.exists()


def test_fits_run_side_by_side_as_far_as_the_limit_allows(parts, monkeypatch):
    monkeypatch.setattr(folds_module, "threads_worth", lambda wanted, work: 8)
    one = 2 * 12 * parts[0].n_rows * parts[0].n_features
    for limit, workers in ((3 * one, 3), (1, 1), ("off", 8)):
        with memory_limit(limit):
            assert folds_module.worker_count(parts[0], None, 20) == (workers, 1)


def test_validation_data_may_be_stored_otherwise(parts):
    train, valid, test = parts
    csr = sparse.csr_array(valid.X)
    members = ["regression", "listnet"]
    dense = Blend(members, folds=3).fit(train, eval_set=valid)
    mixed = Blend(members, folds=3).fit(train, eval_set=(csr, valid.y, valid.qid))
    np.testing.assert_allclose(mixed.predict(test), dense.predict(test), rtol=1e-9)
    other = Blend(members, folds=3).fit(sparse.csr_array(train.X), train.y, qid=train.qid, eval_set=valid)
    assert np.isfinite(other.predict(test)).all()


def test_numbers_beyond_the_limits_are_refused_at_the_gate(parts):
    X = parts[0].X.copy()
    X[0, 0] = 1e200
    with pytest.raises(DataError, match=r"feature 1 .* is 1e\+200"):
        Blend(["regression"], folds=3).fit(X, parts[0].y, qid=parts[0].qid)


def test_a_blend_of_one_member_is_not_compared_with_itself(parts):
    alone = Blend(["regression"], folds=3, n_jobs=1).fit(parts[0]).leaderboard_.sentence
    assert "the best single ranker, regression" in alone
    assert "difference" not in alone


def test_the_sentence_holds_where_no_member_scored_all_queries():
    first, second = np.array([0.5, 0.7, np.nan, np.nan]), np.array([np.nan, np.nan, 0.6, 0.8])
    rows = [(Row(name, 0.0, 0.0, 0.5, 1.0, 1), values) for name, values in (("a", first), ("b", second))]
    board = Leaderboard.of_values("map", np.array([0.5, 0.7, 0.6, 0.8]), rows, None, 2, "")
    assert board.sentence == "The blend of 2 models reaches map 0.6500 ± 0.0645 on 4 queries left out."
