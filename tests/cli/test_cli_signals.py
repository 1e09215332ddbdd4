"""A stopped command says so, exits with the code of the signal, and leaves no files behind."""

from __future__ import annotations

import json
import signal

import pytest
from stopped_command import SEND, stopped_in_iteration

import gainful
from gainful.cli import run

SCRIPT = """
import os, signal, sys
from gainful.cli import run
from gainful.formats.binary.reader import Writer
inner = Writer.append
def append(self, *given, **how):
    inner(self, *given, **how)
    os.kill(os.getpid(), int(sys.argv[1]))
Writer.append = append
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.parametrize("more", [["new.gnf"], ["shards", "--shard-rows", "20"], ["new.parquet"]])
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_conversion(more, how, code, tmp_path, prepared):
    gainful.write(gainful.make_artificial(9, n_docs=5, n_features=3), tmp_path / "d.txt")
    words = [str(int(how)), "data", "convert", "d.txt", *more]
    done = prepared.run(SCRIPT, words, tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stderr.splitlines()[-1] == "gainful: interrupted"
    assert [path.name for path in tmp_path.iterdir()] == ["d.txt"]


def test_handlers_are_left_as_they_were():
    assert run(["--version"]) == 0
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    def own(*_):
        pass

    signal.signal(signal.SIGTERM, own)
    try:
        assert run(["--version"]) == 0
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


# -- long commands -----------------------------------------------------------------------------------------------------

# The process signals itself in the fifth iteration of a training, and perhaps again while it saves:
# IGNORED SIGNAL AGAIN WORDS…
TRAINING = """
import os, signal, sys
ignored, how, again = (int(word) for word in sys.argv[1:4])
signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
from gainful.cli import main
import gainful.training.checkpoint as checkpoint, gainful.training.monitor as monitor
step, write, seen = monitor.Monitor.step, checkpoint.write_container, []
def step_and_signal(self, **told):
    stop = step(self, **told)
    seen.append(1)
    if len(seen) == 5:
        os.kill(os.getpid(), how) if ignored and how == signal.SIGINT else send(how)
    return stop
def signal_and_write(*given):
    if again and len(seen) >= 5:
        os.kill(os.getpid(), how)
    write(*given)
monitor.Monitor.step, checkpoint.write_container = step_and_signal, signal_and_write
main(sys.argv[4:])
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "d.txt"
    gainful.write(gainful.make_artificial(30, n_docs=10, n_features=4), path)
    return path


@pytest.fixture
def signalled(prepared, tmp_path):
    """Runs a command that gets a signal."""

    def run_and_signal(words, how, *, ignored=False, again=False):
        flags = [int(flag) for flag in (ignored, how, again)]
        return prepared.run(SEND + TRAINING, [*flags, *words], tmp_path)

    return run_and_signal


def train(data):
    sets = ["--set", "n_trees=12", "--set", "n_leaves=4", "--set", "min_docs_in_leaf=2", "--set", "n_jobs=1"]
    return ["train", "lambdamart", data, "-o", "m", "--checkpoint", "c", "--checkpoint-every", "1e6", *sets, "--json"]


def test_an_ignored_ctrl_c_stays_ignored(data, tmp_path, signalled):
    """In the background of a shell without job control, Ctrl-C is meant for another command."""
    done = signalled(train(data), signal.SIGINT, ignored=True)
    assert (done.returncode, json.loads(done.stdout)["iterations"]) == (0, 12), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_stopped_training_keeps_its_model_and_checkpoint(data, tmp_path, signalled, how, code):
    done = signalled(train(data), how, ignored=how is signal.SIGTERM)
    assert (done.returncode, json.loads(done.stdout)["iterations"]) == (code, 5), done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"m", "c"}
    assert "interrupted after iteration" in done.stderr
    assert "note: the same command resumes from c" in done.stderr
    assert gainful.load(tmp_path / "m").n_iter_ == 5


def test_ctrl_c_twice_ends_at_once_and_leaves_nothing_half_written(data, tmp_path, signalled):
    done = signalled(train(data), signal.SIGINT, again=True)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "gainful: interrupted"
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("words", [["tune", "lambdamart", "--trials", "3"], ["compare", "--rankers", "lambdamart"]])
def test_a_stopped_search_or_comparison_says_so(data, tmp_path, signalled, words, how, code):
    name, *more = words
    done = signalled([name, *more[:-2], data, *more[-2:], "--store", "store"], how)
    assert done.returncode == code, done.stderr
    assert done.stderr.splitlines()[-1] == "gainful: interrupted"
    assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"store"}


def test_ctrl_c_in_the_final_training_of_a_search_keeps_the_model(data, tmp_path, prepared):
    words = ["tune", "lambdamart", data, "--set", "n_trees=20", "--set", "early_stopping=20", "--trials", 1]
    done = stopped_in_iteration(prepared, 25, signal.SIGINT, [*words, "-o", tmp_path / "m.gainful"])
    assert done.returncode == 130, done.stderr
    assert "interrupted after iteration" in done.stderr
    assert "as given" in done.stdout
    assert gainful.load(tmp_path / "m.gainful").interrupted_
