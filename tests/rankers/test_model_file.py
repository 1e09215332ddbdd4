"""Model files: whole or refused, never executed."""

from __future__ import annotations

import json
import re
import zipfile

import numpy as np
import pytest

import gainful
from gainful import FormatError, LambdaMART, RegressionRanker
from gainful.persistence.container import MANIFEST


def from_before_scale(manifest):
    """The manifest as it was written when some rankers had ``standardize`` and certificates were two numbers."""
    del manifest["params"]["scale"]
    if manifest["class"] in ("LinearRanker", "RSRank", "NeuralRanker"):
        manifest["params"]["standardize"] = True
    certificate = manifest["fitted"].pop("certificate", None)
    if certificate is not None:
        manifest["fitted"] |= {"primal": certificate["primal"], "dual": certificate["dual"]}


@pytest.mark.parametrize("name", ["linear", "rankmm-1", "structured-svm", "regression"])
def test_files_from_before_scale_are_refused_plainly(name, tmp_path, parts):
    path = tmp_path / "m.gainful"
    gainful.save(gainful.ranker(name).fit(parts[0]), path)
    rewrite(path, from_before_scale)
    with pytest.raises(
        FormatError, match=r"m\.gainful: this \w+ is from before .* scale \(written by .*; train it again"
    ):
        gainful.load(path)


def test_trees_whose_gradient_scale_was_called_scale(tmp_path, parts):
    def rename(manifest):
        manifest["params"]["scale"] = manifest["params"].pop("gradient_scale")

    path = tmp_path / "m.gainful"
    model = gainful.BoostedRanker(n_trees=2, gradient_scale=3.0, n_jobs=1).fit(parts[0])
    gainful.save(model, path)
    rewrite(path, rename)
    again = gainful.load(path)
    assert again.gradient_scale == 3.0
    assert np.array_equal(again.predict(parts[1]), model.predict(parts[1]))


@pytest.fixture
def model_path(parts, tmp_path):
    path = tmp_path / "m.gainful"
    gainful.save(LambdaMART(n_trees=3, n_jobs=1, engine_params={"max_depth": 3}).fit(parts[0]), path)
    return path


def rewrite(path, change):
    """The same archive with its manifest changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members[MANIFEST])
    change(manifest)
    members[MANIFEST] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_names_and_history_survive(tmp_path, parts):
    train = parts[0]
    names = [f"n{j}" for j in range(train.n_features)]
    model = RegressionRanker(alpha=3).fit(train.replace(feature_names=tuple(names)))
    gainful.save(model, tmp_path / "m.gainful")
    again = gainful.load(tmp_path / "m.gainful")
    assert again.feature_names_in_.tolist() == names
    assert again.history_ == model.history_
    assert again.alpha == 3


def test_same_model_same_bytes(tmp_path, parts):
    for name in ("a", "b"):
        model = RegressionRanker().fit(parts[0])
        model.history_[0]["seconds"] = 0.0
        gainful.save(model, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_failed_save_leaves_the_old_file(tmp_path, parts, monkeypatch):
    path = tmp_path / "m.gainful"
    model = RegressionRanker().fit(parts[0])
    gainful.save(model, path)
    before = path.read_bytes()

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", fail)
    with pytest.raises(FormatError, match=r"m\.gainful: cannot be written: disk full"):
        gainful.save(model, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.gainful"]


def test_files_that_are_not_models_are_refused(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("0.5\n0.1\n")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("hello.txt", "hi")
    for name, message in (
        ("empty", "not a readable gainful model"),
        ("text", "not a readable gainful model"),
        ("other.zip", "no manifest"),
        ("absent", "no such file"),
        (".", "folder"),
    ):
        with pytest.raises(FormatError, match=message):
            gainful.load(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(version=99), "has version 99"),
        (lambda m: m.update(format="x"), "another format"),
        (lambda m: m.update({"class": "os.system"}), "no ranker class 'os.system'"),
        (lambda m: m["params"].update(n_leaves=-3), "damaged"),
        (lambda m: m["params"].update(evil=1), "LambdaMART has no parameter 'evil'"),
        (lambda m: m["sha256"].update({"booster.txt": "0" * 64}), "does not match its checksum"),
        (lambda m: m["sha256"].update({"absent.npy": "0" * 64}), "absent.npy' is missing"),
        (lambda m: m.pop("fitted"), "not a readable|damaged"),
        (lambda m: m.update(n_features="many"), "damaged"),
    ],
)
def test_damaged_manifests_are_refused(model_path, change, message):
    rewrite(model_path, change)
    with pytest.raises(FormatError, match=message):
        gainful.load(model_path)


def test_cut_and_flipped_files_are_refused_or_read_alike(model_path, parts, rng):
    whole = model_path.read_bytes()
    expected = gainful.load(model_path).predict(parts[2])
    for cut in rng.integers(0, len(whole), 60):
        model_path.write_bytes(whole[:cut])
        with pytest.raises(FormatError):
            gainful.load(model_path)
    for place in rng.integers(0, len(whole), 200):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        model_path.write_bytes(bytes(damaged))
        try:
            again = gainful.load(model_path)
        except FormatError:
            continue
        assert np.array_equal(again.predict(parts[2]), expected)  # the flip was in a date or a flag


# -- what a file tells -------------------------------------------------------------------------------------------------


def test_a_file_tells_how_the_model_was_trained_and_what_it_reached(tmp_path, parts):
    train, valid, test = parts
    path = tmp_path / "m.gainful"
    model = LambdaMART(n_trees=6, n_jobs=1, eval_metric="map").fit(train, eval_set=valid)
    gainful.save(model, path, metrics={"test ndcg@10": model.score(test), "undefined": float("nan")})
    info = gainful.model_info(path)
    assert info["gainful"] == gainful.__version__
    assert info["class"] == "LambdaMART"
    assert info["params"]["n_trees"] == 6
    assert info["n_features"] == train.n_features
    assert info["eval_metric"] == str(gainful.metric("map"))
    assert info["metrics"] == {"test ndcg@10": model.score(test), "undefined": None}
    assert info["training"]["rows"] == train.n_rows
    assert not info["training"]["weighted"]
    assert info["training"]["highest_grade"] == train.y.max()
    validation = info["training"]["validation"]
    best = max(row["validation"] for row in model.history_)
    assert validation == {
        "metric": str(gainful.metric("map")), "queries": valid.n_queries, "best": best,
        "iteration": model.best_iteration_,
    }  # fmt: skip
    assert best == pytest.approx(gainful.metric("map")(model.predict(valid), valid))


def test_figures_stay_with_the_model_until_it_is_trained_again(tmp_path, parts):
    path = tmp_path / "m.gainful"
    gainful.save(RegressionRanker().fit(parts[0]), path, metrics={"a": 0.5})
    again = gainful.load(path)
    gainful.save(again, path, metrics={"b": 1})
    assert gainful.model_info(path)["metrics"] == {"a": 0.5, "b": 1.0}
    gainful.save(again.fit(parts[1]), path)
    assert gainful.model_info(path)["metrics"] == {}
    for wrong in ({"a": "high"}, {1: 0.5}, {"a": True}, [0.5]):
        with pytest.raises(gainful.ParameterError, match="metrics of save must be a mapping from names to numbers"):
            gainful.save(again, path, metrics=wrong)


def test_preprocessing_is_described_and_kept(tmp_path, parts):
    pytest.importorskip("torch")
    net = gainful.NeuralRanker(hidden=(3,), epochs=1, device="cpu").fit(parts[0])
    gainful.save(net, tmp_path / "m.gainful")
    assert gainful.model_info(tmp_path / "m.gainful")["preprocessing"] == {"scale": "(x - shift) / scale"}
    assert np.array_equal(gainful.load(tmp_path / "m.gainful").shift_, net.shift_)


# -- versions ----------------------------------------------------------------------------------------------------------


def test_files_of_the_first_release_are_read(model_path, parts):
    expected = gainful.load(model_path).predict(parts[2])

    def first_release(manifest):
        for name in ("gainful", "training", "metrics", "preprocessing"):
            manifest.pop(name)

    rewrite(model_path, first_release)
    assert np.array_equal(gainful.load(model_path).predict(parts[2]), expected)


def test_what_a_later_version_adds_is_passed_over_and_what_it_changes_is_refused(model_path, parts):
    expected = gainful.load(model_path).predict(parts[2])
    rewrite(model_path, lambda m: m.update(colour="blue", gainful="9.1"))
    assert np.array_equal(gainful.load(model_path).predict(parts[2]), expected)
    rewrite(model_path, lambda m: m["params"].update(depth_of_thought=3))
    with pytest.raises(
        FormatError,
        match=r"LambdaMART has no parameter 'depth_of_thought' in this gainful .* \(written by gainful '9\.1'\)",
    ):
        gainful.load(model_path)
    rewrite(model_path, lambda m: m.update(version=2))
    with pytest.raises(FormatError, match=r"has version 2 \(written by gainful '9\.1'\), this gainful .* upgrade it"):
        gainful.load(model_path)


def test_a_ranker_that_could_not_be_loaded_is_not_saved(tmp_path, parts):
    class Mine(RegressionRanker):
        pass

    with pytest.raises(gainful.ParameterError, match=r"Mine is not one of gainful's rankers.*joblib"):
        gainful.save(Mine().fit(parts[0]), tmp_path / "m.gainful")
    broken = RegressionRanker().fit(parts[0])
    broken.coef_ = broken.coef_ * np.nan
    with pytest.raises(gainful.ParameterError, match="cannot be saved, since it could not be loaded again"):
        gainful.save(broken, tmp_path / "m.gainful")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(n_features=0), "n_features is not a number of features"),
        (lambda m: m.update(n_features=10**12), "n_features is not a number of features"),
        (lambda m: m.update(n_features=5), "another number of features"),
        (lambda m: m.update(n_features=2**31 - 1), "n_features is not a number of features"),
        (lambda m: m.update(feature_names=["a"]), "one name per feature"),
        (lambda m: m.update(feature_names="a" * m["n_features"]), "one name per feature"),
        (lambda m: m.update(metrics={"ndcg@10": "0.5"}), "metrics are not numbers"),
        (lambda m: m.update(history=[1]), "history"),
        (lambda m: m.update(training=[]), "training and metrics"),
        (lambda m: m.update(version=True), "it has no version"),
        (lambda m: m.update(eval_metric="ndgc"), "did you mean"),
        (lambda m: m["fitted"].update(best_iteration=99), "best_iteration"),
        (lambda m: m["fitted"].update(booster="tree"), "appears twice"),
        (lambda m: m.update(params=[]), "no parameters"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(model_path, change, message):
    rewrite(model_path, change)
    with pytest.raises(FormatError, match=message):
        gainful.load(model_path)


@pytest.mark.parametrize("value", ["1e999", "-1e999", '"inf"', '"nan"', "Infinity"])
def test_intercepts_that_are_not_finite_are_refused(tmp_path, parts, value):
    gainful.save(RegressionRanker().fit(parts[0]), tmp_path / "m.gainful")
    with zipfile.ZipFile(tmp_path / "m.gainful") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    text, n = re.subn(rb'"intercept": [^,\n}]+', b'"intercept": ' + value.encode(), content["manifest.json"])
    assert n == 1
    with zipfile.ZipFile(tmp_path / "m.gainful", "w") as archive:
        for name, part in (content | {"manifest.json": text}).items():
            archive.writestr(name, part)
    with pytest.raises(FormatError, match=r"not a JSON number|not a finite number"):
        gainful.load(tmp_path / "m.gainful")


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (RegressionRanker(), "coef_"),
        (gainful.RankBoost(n_rounds=3), "weights_"),
        (gainful.KernelStructuredSVM(n_landmarks=5), "dual_coef_"),
        (gainful.NeuralRanker(hidden=(3,), epochs=1, device="cpu"), "shift_"),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit_together_are_refused(tmp_path, parts, model, name):
    if isinstance(model, gainful.NeuralRanker):
        pytest.importorskip("torch")
    model.fit(parts[0])
    setattr(model, name, getattr(model, name)[:-1])
    with pytest.raises(gainful.ParameterError, match=r"does not have the shape that the model needs"):
        gainful.save(model, tmp_path / "m.gainful")
