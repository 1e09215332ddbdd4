"""What surrounds the structured SVM's solvers: paths of C, position weights, Ctrl-C, model files, command line."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import gainful
from gainful import InterruptedFitWarning, ParameterError
from gainful.cli import run
from gainful.linear.risk import LinearRisk
from gainful.linear.structured import QueryColumns
from gainful.rankers import structured_svm
from gainful.rankers.position_weights import LEARNABLE, POWERS
from gainful.rankers.structured_svm import StructuredSVM

PATH = [0.03, 1.0, 30.0, 1000.0]


@pytest.fixture(scope="module")
def small():
    """Training and validation part of 40 queries with 8 documents."""
    return gainful.split(gainful.make_artificial(40, n_docs=8, n_features=5, seed=4), (0.6, 0.4), seed=0)


# -- several values of C -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "of",
    [
        {},
        {"solver": "cutting_plane"},
        {"metric": "map"},
        {"bound": "tight"},
        {"bound": "tight", "tight_method": "cccp"},
    ],
    ids=str,
)
def test_path_keeps_the_best_on_the_validation_data(small, of):
    train, valid = small
    model = StructuredSVM(**of).fit_path(train, C=PATH, eval_set=valid)
    assert [row["C"] for row in model.path_] == PATH
    assert sum(row["iterations"] for row in model.path_) == model.n_iter_ == len(model.history_)
    values = [row["validation"] for row in model.path_]
    best = model.path_[int(np.argmax(values))]
    assert best["C"] == model.C_
    assert model._validation_metric()(model.predict(valid), valid) == best["validation"]
    assert np.linalg.norm(model.coef_ * train.X.std(axis=0)) == pytest.approx(best["norm"], rel=1e-9)
    assert [row["validation"] for row in model.history_ if row["validation"] is not None] == values
    if "bound" in of:
        assert not hasattr(model, "certificate_")
        assert "objective" not in best
    else:
        assert model.certificate_.primal == best["objective"]
        assert all(row["relative_gap"] <= 1e-3 for row in model.path_)


def test_path_equals_separate_fits(small):
    train, valid = small
    for of in ({}, {"solver": "cutting_plane"}):
        model = StructuredSVM(tol=1e-5, **of).fit_path(train, C=PATH, eval_set=valid)
        alone = [StructuredSVM(C=C, tol=1e-5, **of).fit(train, eval_set=valid) for C in PATH]
        for row, single in zip(model.path_, alone, strict=True):
            assert row["objective"] == pytest.approx(single.certificate_.primal, rel=2e-5)
            assert row["norm"] == pytest.approx(single.path_[0]["norm"], abs=0.01 * np.sqrt(row["objective"]))
    for of in ({"bound": "tight"}, {"bound": "tight", "tight_method": "cccp"}):  # both begin at w0 for every C
        model = StructuredSVM(**of).fit_path(train, C=PATH, eval_set=valid)
        alone = StructuredSVM(C=model.C_, **of).fit(train)
        assert np.array_equal(alone.coef_, model.coef_)


def test_warm_starts_save_iterations(parts):
    train, valid, _ = parts
    values = np.geomspace(0.01, 1e5, 8)
    path = StructuredSVM(tol=1e-4).fit_path(train, C=values, eval_set=valid)
    alone = sum(StructuredSVM(C=C, tol=1e-4).fit(train).n_iter_ for C in values)
    assert path.n_iter_ < 0.7 * alone


def test_list_and_fit_path_are_the_same(small):
    train, valid = small
    listed = StructuredSVM(C=PATH).fit(train, eval_set=valid)
    for values in (PATH, tuple(PATH), np.array(PATH)):
        model = StructuredSVM(C=7.0).fit_path(train, C=values, eval_set=valid)
        assert model.C == 7.0
        assert model.C_ == listed.C_
        assert np.array_equal(model.coef_, listed.coef_)


def test_the_first_of_equals_is_kept(small):
    train, valid = small
    model = StructuredSVM(scale=None).fit_path(train, C=[1.0, 1.0, 1.0], eval_set=valid)
    values = [row["validation"] for row in model.path_]
    assert model.path_[int(np.argmax(values))]["norm"] == np.linalg.norm(model.coef_)


@pytest.mark.parametrize("values", [[], [1.0, -1.0], ["a"], [np.nan], None, "large"])
def test_bad_values_of_C_are_refused(small, values):
    train, valid = small
    model = StructuredSVM(C=2.0)
    with pytest.raises(
        ParameterError, match=r"^C of StructuredSVM must be a number > 0, or a list such as \[1, 10\], each .*, was "
    ):
        model.fit_path(train, C=values, eval_set=valid)
    assert model.C == 2.0


def test_several_values_need_validation_data(small):
    with pytest.raises(ParameterError, match="several values of C need eval_set"):
        StructuredSVM().fit_path(small[0], C=PATH)


def test_eval_metric_chooses(small):
    train, valid = small
    model = StructuredSVM(eval_metric="mrr").fit_path(train, C=PATH, eval_set=valid)
    best = max(row["validation"] for row in model.path_)
    assert gainful.metric("mrr")(model.predict(valid), valid) == best


def test_fitting_again_forgets_certificate_and_search(small):
    train, valid = small
    model = StructuredSVM(position_weights="learn").fit(train, eval_set=valid)
    model.set_params(bound="tight", position_weights="sqrt").fit(train)
    assert not hasattr(model, "certificate_")
    assert not hasattr(model, "position_weights_search_")
    assert len(model.path_) == 1


# -- interruption ------------------------------------------------------------------------------------------------------

WAYS = [
    {},
    {"solver": "cutting_plane"},
    {"solver": "subgradient", "scale": None},  # on standardised features it ends at a kink, and warns
    {"bound": "tight"},
    {"bound": "tight", "tight_method": "cccp"},
]


def kept_the_best(model, valid):
    values = [row["validation"] for row in model.path_]
    assert model.interrupted_
    assert model.path_[int(np.argmax(values))]["C"] == model.C_
    return model._validation_metric()(model.predict(valid), valid) == max(values)


@pytest.mark.parametrize("of", WAYS, ids=str)
@pytest.mark.parametrize("how", ["callback", "ctrl-c"])
def test_path_stops_when_the_callback_says_so_and_keeps_the_best(small, of, how):
    train, valid = small
    whole = StructuredSVM(**of).fit_path(train, C=PATH, eval_set=valid)
    first = whole.path_[0]["iterations"]
    for last in {first, first + 1, whole.n_iter_ - 1}:  # at the end of one C, at the beginning of the next, late

        def stop(event, last=last):
            if event.iteration == last and how == "ctrl-c":
                raise KeyboardInterrupt
            return event.iteration == last

        with pytest.warns(InterruptedFitWarning, match=f"interrupted after iteration {last}; the model kept is that"):
            model = StructuredSVM(**of).fit_path(train, C=PATH, eval_set=valid, progress=stop)
        assert model.n_iter_ == last
        assert kept_the_best(model, valid)


@pytest.mark.parametrize("of", WAYS, ids=str)
def test_ctrl_c_before_the_next_C_has_begun_keeps_the_one_before(small, of, monkeypatch):
    train, valid = small
    solve = StructuredSVM._solve
    asked = []

    def press(*_):
        raise KeyboardInterrupt

    def interrupted(self, training, C, monitor):
        asked.append(C)
        if len(asked) == 2:
            monkeypatch.setattr(LinearRisk, "value_and_gradient", press)
            monkeypatch.setattr(QueryColumns, "columns", press)
        solve(self, training, C, monitor)

    monkeypatch.setattr(StructuredSVM, "_solve", interrupted)
    with pytest.warns(InterruptedFitWarning):
        model = StructuredSVM(tol=1e-5, **of).fit_path(train, C=PATH, eval_set=valid)
    assert model.path_[0]["C"] == PATH[0]
    assert kept_the_best(model, valid)


def test_warning_names_the_iteration_that_is_kept(small):
    train, valid = small
    whole = StructuredSVM().fit_path(train, C=PATH, eval_set=valid)
    last = whole.n_iter_ - 1
    with pytest.warns(InterruptedFitWarning) as caught:
        model = StructuredSVM().fit_path(train, C=PATH, eval_set=valid, progress=lambda event: event.iteration == last)
    chosen = [row["C"] for row in model.path_].index(model.C_)
    ends = np.cumsum([row["iterations"] for row in model.path_])
    assert str(caught[0].message).endswith(f"the model kept is that of iteration {ends[chosen]}")


def test_ctrl_c_while_position_weights_are_learned_is_not_swallowed(small, monkeypatch):
    bundle, calls = structured_svm.minimize_bundle, []

    def press(risk, C, *, monitor, **rest):
        calls.append(C)
        step = monitor.step

        def last_step(**values):
            step(**values)
            raise KeyboardInterrupt

        if len(calls) == 2:
            monitor.step = last_step
        return bundle(risk, C, monitor=monitor, **rest)

    monkeypatch.setattr(structured_svm, "minimize_bundle", press)
    with pytest.raises(KeyboardInterrupt):
        StructuredSVM(position_weights="learn").fit(small[0], eval_set=small[1])
    assert len(calls) == 2


# -- position weights --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 4, 30])
@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("linear", lambda r, k: k + 1 - r),
        ("sqrt", lambda r, k: 1 / np.sqrt(r)),
        ("discount", lambda r, k: 1 / np.log2(1 + r)),
        (lambda r: 2.0**-r, lambda r, k: 2.0**-r),
        ([3, 2, 2, 0.5, 0.25, 0], lambda r, k: [3, 2, 2, 0.5, 0.25, 0][r - 1] if r <= 6 else 0),
        (np.array([1.0]), lambda r, k: float(r == 1)),
    ],
    ids=["linear", "sqrt", "discount", "function", "list", "array"],
)
def test_values_of_position_weights(small, spec, value, k):
    model = StructuredSVM(f"ndcg@{k}", position_weights=spec).fit(small[0])
    assert np.allclose(model.position_weights_, [value(r, k) for r in range(1, k + 1)], rtol=1e-15)
    assert model.position_weights_name_ == (spec if isinstance(spec, str) else None)


def test_without_cut_off_weights_reach_the_longest_list(small):
    model = StructuredSVM("ndcg").fit(small[0])
    assert model.position_weights_.tolist() == [8, 7, 6, 5, 4, 3, 2, 1]
    assert StructuredSVM("map").fit(small[0]).position_weights_ is None


@pytest.mark.parametrize(
    "spec",
    [
        [1.0, 2.0],
        [1.0, -1.0],
        [1.0, np.nan],
        [np.inf, 1.0],
        [0.0, 0.0],
        [],
        "steep",
        lambda r: r,
        lambda r: -1.0,
        lambda r: np.nan,
        lambda r: 0.0,
    ],
)
def test_bad_position_weights_are_refused(small, spec):
    with pytest.raises(ParameterError, match=r"^position_weights of StructuredSVM must be .*, was "):
        StructuredSVM("ndcg@5", position_weights=spec).fit(small[0])


@pytest.mark.parametrize("with_validation", [True, False], ids=["eval_set", "held out"])
@pytest.mark.parametrize("of", [{}, {"bound": "tight"}], ids=["convex", "tight"])
def test_learned_position_weights(small, of, with_validation):
    train, valid = small
    eval_set = valid if with_validation else None
    model = StructuredSVM("ndcg@5", position_weights="learn", **of).fit(train, eval_set=eval_set)
    found, name = model.position_weights_search_, model.position_weights_name_
    assert list(found) == list(LEARNABLE)
    assert found[name] == max(found.values())
    r = np.arange(1, 6)
    shapes = {f"linear^{p:g}": (6.0 - r) ** p for p in POWERS} | {"sqrt": r**-0.5, "discount": 1 / np.log2(1 + r)}
    expected = shapes[name] * 5.0 / shapes[name][0]  # all shapes have A(1) = k, so that C means the same for each
    assert np.allclose(model.position_weights_, expected, rtol=1e-14)
    again = StructuredSVM("ndcg@5", position_weights="learn", **of).fit(train, eval_set=eval_set)
    assert np.array_equal(again.coef_, model.coef_)
    same = StructuredSVM("ndcg@5", position_weights=list(expected), **of).fit(train)
    assert np.allclose(same.coef_, model.coef_)
    if with_validation:
        assert gainful.metric("ndcg@5")(model.predict(valid), valid) == pytest.approx(found[name])


def test_learning_and_a_path_together(small):
    train, valid = small
    model = StructuredSVM("ndcg@5", C=[0.1, 10.0], position_weights="learn").fit(train, eval_set=valid)
    assert max(row["validation"] for row in model.path_) == model.position_weights_search_[model.position_weights_name_]
    assert len(model.path_) == 2


# -- model files -------------------------------------------------------------------------------------------------------


def saved(model, folder):
    gainful.save(model, folder / "m.gainful")
    return gainful.load(folder / "m.gainful")


def test_path_and_certificate_survive_saving(small, tmp_path):
    train, valid = small
    model = StructuredSVM(C=PATH).fit(train, eval_set=valid)
    for again in (saved(model, tmp_path), pickle.loads(pickle.dumps(model))):
        assert again.path_ == model.path_
        assert again.certificate_ == model.certificate_
        assert again.C_ == model.C_
        assert list(again.C) == PATH
        assert np.array_equal(again.position_weights_, model.position_weights_)


@pytest.mark.parametrize("name", ["structured-svm-tight", "svmmap", "structured-svm-slack"])
def test_other_forms_survive_saving(small, tmp_path, name):
    model = gainful.ranker(name).fit(small[0])
    again = saved(model, tmp_path)
    assert hasattr(again, "certificate_") == hasattr(model, "certificate_")
    assert np.array_equal(again.predict(small[1]), model.predict(small[1]))
    assert (again.position_weights_ is None) == (name == "svmmap")


def test_functions_are_saved_as_the_weights_they_gave(small, tmp_path):
    model = StructuredSVM("ndcg@4", position_weights=lambda r: 1 / r).fit(small[0])
    again = saved(model, tmp_path)
    assert again.position_weights == [1, 1 / 2, 1 / 3, 1 / 4]
    assert np.array_equal(again.fit(small[0]).coef_, model.coef_)


def test_what_was_learned_survives_saving(small, tmp_path):
    model = StructuredSVM("ndcg@4", position_weights="learn").fit(small[0])
    again = saved(model, tmp_path)
    assert again.position_weights_name_ == model.position_weights_name_
    assert again.position_weights_search_ == model.position_weights_search_


# -- command line ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["structured-svm-tight", "structured-svm", "svmmap"])
def test_train_chooses_C_on_the_validation_file(small, tmp_path, capsys, name):
    train, valid = small
    gainful.write(train, tmp_path / "train.txt")
    gainful.write(valid, tmp_path / "valid.txt")
    arguments = ["train", name, tmp_path / "train.txt", "-o", tmp_path / "m", "--set", "C=[0.1,1,10]"]
    assert run([str(a) for a in [*arguments, "--valid", tmp_path / "valid.txt", "--json"]]) == 0
    facts = json.loads(capsys.readouterr().out)
    model = gainful.load(tmp_path / "m")
    values = [row["validation"] for row in model.path_]
    assert [row["C"] for row in model.path_] == [0.1, 1, 10]
    assert model.path_[int(np.argmax(values))]["C"] == model.C_
    assert facts[f"validation {model._validation_metric().name}"] == pytest.approx(max(values))
    assert run([str(a) for a in arguments]) == 2
    assert "several values of C need eval_set" in capsys.readouterr().err
