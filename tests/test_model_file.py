"""Model files: whole or refused, never executed."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

import gainful
from gainful import FormatError, LambdaMART, RegressionRanker
from gainful.model_file import MANIFEST


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


def test_files_that_are_no_models_are_refused(tmp_path):
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
        (lambda m: m["params"].update(evil=1), "damaged"),
        (lambda m: m["sha256"].update({"booster.txt": "0" * 64}), "does not match its checksum"),
        (lambda m: m["sha256"].update({"absent.npy": "0" * 64}), "absent.npy is missing"),
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
