"""``gainful train --checkpoint``: after a kill or an interrupt, the same command resumes and gives the same model."""

from __future__ import annotations

import signal

import pytest
from stopped_command import stopped_in_iteration

import gainful
from gainful.cli import run
from gainful.errors import FormatError
from gainful.persistence.container import write_container


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


@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_the_same_command_goes_on(data, tmp_path, capsys, prepared, how):
    how = getattr(signal, how)
    model, checkpoint = tmp_path / "m.gainful", tmp_path / "run.ckpt"
    words = command(data, model, "--checkpoint", checkpoint, "--checkpoint-every", "0")
    err = stopped_in_iteration(prepared, 9, how, words).stderr
    assert checkpoint.exists()
    if how is signal.SIGINT:  # writes the best model so far and says how to resume
        assert f"the same command resumes from {checkpoint}" in err
        assert gainful.load(model).n_iter_ < 100
    assert run(words) == 0
    assert f"resuming from {checkpoint}" in capsys.readouterr().err
    assert not checkpoint.exists()
    whole = tmp_path / "whole.gainful"
    assert run(command(data, whole)) == 0
    assert trees(model) == trees(whole)


def test_mistakes_are_reported_before_training(data, tmp_path, capsys):
    for words, told in (
        (["train", "rankboost", data, "-o", tmp_path / "m", "--checkpoint", tmp_path / "c"], "not write checkpoints"),
        (command(data, tmp_path / "m", "--checkpoint", tmp_path / "c", "--checkpoint-every", "-1"), "checkpoint_every"),
        (command(data, tmp_path / "m", "--checkpoint", data), "checkpoint"),
    ):
        assert run([str(word) for word in words]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert told in lines[-1]
        assert lines[-1].startswith("gainful: ")
    assert data.exists()


def test_one_file_is_not_given_twice(data, tmp_path, capsys):
    here, link, model = tmp_path / "m", tmp_path / "link", tmp_path / "old.gainful"
    link.symlink_to(here)
    (tmp_path / "valid.txt").write_bytes(data.read_bytes())
    assert run(command(data, model, "--set", "n_trees=2")) == 0
    before = {path: path.read_bytes() for path in (data, tmp_path / "valid.txt", model)}
    for words, told in (
        (command(data, here, "--checkpoint", here), "--checkpoint and --output are the same file"),
        (command(data, here, "--checkpoint", link), "--checkpoint and --output are the same file"),
        (command(data, here, "--checkpoint", data), "--checkpoint and DATA are the same file"),
        (
            command(data, here, "--valid", tmp_path / "valid.txt", "--checkpoint", tmp_path / "valid.txt"),
            "--checkpoint and --valid",
        ),
        (command(data, here, "--from", model, "--checkpoint", model), "--checkpoint and --from are the same file"),
        (command(data, data), "--output and DATA are the same file"),
    ):
        assert run(words) == 2
        assert told in capsys.readouterr().err.splitlines()[-1]
    assert before == {path: path.read_bytes() for path in before}
    assert run(command(data, model, "--from", model, "--set", "n_trees=4")) == 0  # a model may take its own place


def linear(data, tmp_path, *more):
    words = ["train", "ranksvm", data, "-o", tmp_path / "m.gainful", "--set", "tol=1e-9", "--set", "C=100000"]
    return [str(word) for word in (*words, "--checkpoint", tmp_path / "run.ckpt", *more)]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_linear_rankers_write_their_checkpoint_when_stopped(data, tmp_path, prepared, how):
    """Long before one is due."""
    words = linear(data, tmp_path, "--checkpoint-every", "1e6")
    done = stopped_in_iteration(prepared, 9, how, words)
    assert done.returncode == (0 if how is signal.SIGINT else 143), done.stderr
    assert (tmp_path / "run.ckpt").exists()
    assert "the same command resumes from" in done.stderr
    assert gainful.load(tmp_path / "m.gainful").n_iter_ == 9


def test_resuming_is_offered_only_if_it_is_possible(data, tmp_path, capsys, monkeypatch):
    def fail(*_):
        raise FormatError("cannot be written: no space", path=tmp_path / "run.ckpt")

    monkeypatch.setattr("gainful.training.checkpoint.write_container", fail)
    stops = property(lambda event: event.iteration == 4 and interrupt())
    monkeypatch.setattr("gainful.training.monitor.Progress.note", stops)

    def interrupt():
        raise KeyboardInterrupt

    assert run(linear(data, tmp_path, "--checkpoint-every", "0")) == 0
    lines = capsys.readouterr().err.splitlines()
    assert "resumes from" not in "".join(lines)
    told = [i for i, line in enumerate(lines) if "checkpoint is not up to date" in line]
    assert len(told) == 1  # though it was tried with every answer of the data
    assert told[0] < next(i for i, line in enumerate(lines) if "interrupted after iteration" in line)


def test_a_checkpoint_that_fails_is_reported_during_training(data, tmp_path, capsys, monkeypatch):
    calls, heard = [], []

    def fail(*arguments):
        calls.append(1)
        if len(calls) < 3:
            raise FormatError("cannot be written: no space", path=tmp_path / "run.ckpt")
        if len(calls) == 3:
            heard.append(capsys.readouterr().err)
        write_container(*arguments)

    monkeypatch.setattr("gainful.training.checkpoint.write_container", fail)
    assert run(linear(data, tmp_path, "--checkpoint-every", "0")) == 0
    assert heard[0].count("note: the checkpoint is not up to date") == 1
    assert "not up to date" not in capsys.readouterr().err
