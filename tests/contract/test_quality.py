"""A figure about quality is of queries on which nothing was chosen, or the words beside it say what they chose."""

from __future__ import annotations

import inspect
import json
import re

import numpy as np
import pytest

import gainful
from gainful.cli import run as run_command
from gainful.cli.distill import distill as distill_command

TREES = "lambdamart:n_trees=12:n_leaves=4:min_docs_in_leaf=3:n_jobs=1"
MEMBERS = ["regression", TREES]
SAYS = "also used for"


@pytest.fixture(scope="module")
def noise():
    data = gainful.make_artificial(60, n_docs=10, n_features=5, seed=3)
    return data.replace(y=np.random.default_rng(3).permutation(data.y))


@pytest.fixture(scope="module")
def noisy_parts(noise):
    return gainful.split(noise, (0.5, 0.25, 0.25))


def _tuned(train, valid, _):
    return gainful.tune(TREES, train, valid=valid, trials=3)


def _tuned_over_folds(train, *_):
    return gainful.tune("ranksvm", train, folds=3, trials=2)


def _blend(train, valid, _):
    return gainful.Blend(MEMBERS, folds=3, n_jobs=1).fit(train, eval_set=valid).leaderboard_


def _blend_once(train, valid, _):
    return gainful.Blend(MEMBERS, folds=None, n_jobs=1).fit(train, eval_set=valid).leaderboard_


def _auto(train, *_):
    return gainful.ranker("auto", trials=3, folds=3, n_jobs=1).fit(train).leaderboard_


def _model(train, valid, _):
    return gainful.ranker(TREES.partition(":")[0], n_trees=12, n_jobs=1).fit(train, eval_set=valid)


def _certified(train, valid, _):
    return gainful.ranker("ranksvm").fit(train, eval_set=valid)


def _distilled(train, *_, **given):
    return gainful.distill(gainful.Blend(MEMBERS, folds=3, n_jobs=1).fit(train), train, TREES, **given)


def _distilled_and_stopped(train, valid, _):
    return _distilled(train, valid=valid)


def _distilled_and_tested(train, _, test):
    return _distilled(train, test=test)


CHOSEN = {_tuned: "choosing among 3 trials", _tuned_over_folds: "choosing among 2 trials",
          _blend_once: "choosing numbers of iterations and weights", _model: "choosing the iteration",
          _distilled: "training the student", _distilled_and_stopped: "stopping the student"}  # fmt: skip
CLEAN = [_blend, _auto, _certified, _distilled_and_tested]


@pytest.mark.parametrize("make", [*CHOSEN, *CLEAN], ids=lambda make: make.__name__.strip("_"))
def test_words_say_what_the_queries_of_a_figure_chose(make, noisy_parts):
    shown = make(*noisy_parts)
    words = [str(shown)] if not isinstance(shown, gainful.Ranker) else []
    if hasattr(shown, "_repr_html_"):
        words.append(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", shown._repr_html_())))
    assert words
    for text in words:
        assert re.search(r"\d\.\d{3}", text)
        if make in CHOSEN:
            assert f"{SAYS} {CHOSEN[make]}" in " ".join(text.split())
            assert "expect less on others" in " ".join(text.split())
        else:
            assert SAYS not in text


def test_the_best_of_several_is_called_so(noisy_parts):
    board = gainful.Blend(MEMBERS, folds=3, n_jobs=1).fit(noisy_parts[0]).leaderboard_
    assert f"{board.members[0].mean:.4f} (chosen on them from 2: expect less on others)" in board.sentence


@pytest.mark.parametrize(
    ("settings", "chooses"),
    [("lambdamart n_trees=12", True), ("ranksvm C=[0.1,1]", True), ("ranksvm C=1", False)],
)
def test_train_says_what_its_validation_queries_chose(settings, chooses, noisy_parts, tmp_path, capsys):
    for part, name in zip(noisy_parts, ("train", "valid", "test"), strict=True):
        gainful.write(part, tmp_path / f"{name}.gnf")
    files = [str(tmp_path / name) for name in ("train.gnf", "valid.gnf", "out.gainful")]
    ranker, setting = settings.split()
    command = ["train", ranker, "--set", setting, files[0], "--valid", files[1], "-o", files[2], "--json"]
    assert run_command(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert (SAYS in told["validated"]) is chooses


def test_distill_says_so_on_the_command_line(noisy_parts, tmp_path, capsys):
    train, _, test = noisy_parts
    gainful.write(train, tmp_path / "train.gnf")
    gainful.write(test, tmp_path / "test.gnf")
    gainful.save(gainful.ranker("regression").fit(train), tmp_path / "teacher.gainful")
    command = ["distill", str(tmp_path / "teacher.gainful"), str(tmp_path / "train.gnf"), "--into", TREES, "--json"]
    for more, says in (([], True), (["--test", str(tmp_path / "test.gnf")], False)):
        assert run_command([*command, "-o", str(tmp_path / "small.gainful"), *more]) == 0
        assert (SAYS in json.loads(capsys.readouterr().out)["measured"]) is says
        stored = gainful.load(tmp_path / "small.gainful").metrics_
        assert all(("on data given for training" in name) is says for name in stored)


def test_the_command_distils_as_the_function_does():
    ours, theirs = (inspect.signature(one).parameters for one in (gainful.distill, distill_command))
    assert [ours[name].default for name in ("into", "grades")] == [theirs[name].default for name in ("into", "grades")]
