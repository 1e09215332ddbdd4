"""``gainful train --checkpoint``: killed or interrupted, the same command goes on and ends with the same model."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

import gainful
from gainful.cli import run


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "train.txt"
    gainful.write(gainful.make_artificial(60, n_docs=20, n_features=8, seed=2), path)
    return path


def command(data, model, *more):
    settings = ["n_trees=100", "n_leaves=8", "min_docs_in_leaf=5", "subsample=0.7", "colsample=0.7", "n_jobs=1"]
    sets = [part for setting in settings for part in ("--set", setting)]
    return ["train", "lambdamart", str(data), "-o", str(model), *sets, *map(str, more)]


def trees(path) -> str:
    text = gainful.load(path).booster_.model_to_string()
    return text[text.index("Tree=0") : text.index("end of trees")]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_same_command_goes_on(data, tmp_path, capsys, how):
    model, checkpoint = tmp_path / "m.gainful", tmp_path / "run.ckpt"
    words = command(data, model, "--checkpoint", checkpoint, "--checkpoint-every", "0")
    child = subprocess.Popen([sys.executable, "-m", "gainful", *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    until = time.monotonic() + 120
    while not checkpoint.exists():
        assert child.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    child.send_signal(how)
    _, err = child.communicate(timeout=60)
    assert checkpoint.exists()
    if how is signal.SIGINT:  # the best model so far is written, and the way on is told
        assert f"the same command goes on from {checkpoint}" in err.decode()
        assert gainful.load(model).n_iter_ < 100
    assert run(words) == 0
    assert f"going on from {checkpoint}" in capsys.readouterr().err
    assert not checkpoint.exists()
    whole = tmp_path / "whole.gainful"
    assert run(command(data, whole)) == 0
    assert trees(model) == trees(whole)


def test_mistakes_are_told_before_training(data, tmp_path, capsys):
    for words, told in (
        (["train", "rankboost", data, "-o", tmp_path / "m", "--checkpoint", tmp_path / "c"], "writes no checkpoints"),
        (command(data, tmp_path / "m", "--checkpoint", tmp_path / "c", "--checkpoint-every", "-1"), "checkpoint_every"),
        (command(data, tmp_path / "m", "--checkpoint", data), "checkpoint"),
    ):
        assert run([str(word) for word in words]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert told in lines[-1]
        assert lines[-1].startswith("gainful: ")
    assert data.exists()
